/* SPDX-License-Identifier: Apache-2.0
 * model_loader.c - loads, reloads and unloads models by what lies in the folder; see repository_impl.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/repository/repository_impl.h"

struct first_fault {
    struct ms_repository *r;
    char line[500];
};
static void keep_first(void *user, bool fault, const char *line) {
    struct first_fault *f = user;
    ms_say(f->r, fault ? MOIRE_LOG_ERROR : MOIRE_LOG_INFO, "%s", line);
    if (fault && !*f->line) snprintf(f->line, sizeof f->line, "%s", line);
}

static void remember_failed(struct ms_repository *r, const char *name, const struct ms_scan *scan,
                            const char *why) {
    struct ms_model *m = ms_model_blank(r);
    if (!m) return;
    m->settings.config = json_object();
    if (scan && scan->n) m->found = scan->found[0];
    snprintf(m->found.name, sizeof m->found.name, "%s", name);
    if (!*m->found.version) snprintf(m->found.version, sizeof m->found.version, "1");
    snprintf(m->reason, sizeof m->reason, "%s", why);
    struct ms_model *old = ms_repository_place(r, m);
    if (old) ms_repository_retire(old);
}

static int load_versions(struct ms_repository *r, const char *name, const struct ms_scan *scan,
                         moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; i < scan->n; i++) {
        moire_error why = {0};
        struct ms_model *m = ms_model_make(r, &scan->found[i], &scan->settings, &why);
        if (!m) return ms_fail(err, MOIRE_ENOMEM, "no memory for model '%.100s'", name);
        const bool ready = m->state == MS_READY;
        if (ready)
            ms_say(r, MOIRE_LOG_INFO, "model '%.100s' version %s: ready", name, scan->found[i].version);
        else
            ms_say(r, MOIRE_LOG_ERROR, "model '%.100s' version %s: %s", name, scan->found[i].version,
                   why.message);
        if (!ready) rc = ms_fail(err, why.code, "%s", why.message);
        struct ms_model *old = ms_repository_place(r, m);
        if (old) ms_repository_retire(old);
    }
    return rc;
}

static bool is_ready(struct ms_repository *r, const char *name) {
    struct ms_model *m;
    if (ms_repository_take(r, name, NULL, &m, NULL)) return false;
    const bool ready = ms_model_state(m) == MS_READY;
    ms_repository_give(m);
    return ready;
}

/* Where clients say what is loaded, an ensemble brings the models that it needs. */
static int load_members(struct ms_repository *r, const struct ms_scan *scan, int depth, moire_error *err) {
    const json_t *steps =
        json_object_get(json_object_get(scan->settings.config, "ensemble_scheduling"), "step");
    int rc = MOIRE_OK;
    for (size_t i = 0; i < json_array_size(steps) && !rc; i++) {
        const char *member = json_string_value(json_object_get(json_array_get(steps, i), "model_name"));
        if (member && !is_ready(r, member)) rc = ms_loader_load(r, member, depth + 1, err);
    }
    return rc;
}

int ms_loader_load(struct ms_repository *r, const char *name, int depth, moire_error *err) {
    struct first_fault first = {.r = r};
    struct ms_faults faults = {.say = keep_first, .user = &first};
    struct ms_scan scan;
    int rc = ms_scan_open(&r->options.source, name, &scan, &faults, err);
    if (rc) return rc;
    if (faults.n)
        rc = ms_fail(err, MOIRE_EINVAL, "%s", first.line);
    else if (!scan.n)
        rc = ms_fail(err, MOIRE_ESTALE, "the repository has no model '%.100s'", name);
    if (!rc && r->options.is_explicit && scan.settings.is_ensemble && depth < MS_NESTED)
        rc = load_members(r, &scan, depth, err);
    if (!rc) {
        rc = load_versions(r, name, &scan, err);
        ms_repository_drop(r, name, &scan);
    } else if (rc == MOIRE_EINVAL) {
        remember_failed(r, name, &scan, first.line);
    }
    ms_scan_close(&scan);
    return rc;
}

/* With `all`, the models that an ensemble uses go too.  It is held until they are gone: the names are its. */
int ms_loader_unload(struct ms_repository *r, const char *name, bool all, moire_error *err) {
    struct ms_model *m;
    struct ms_faults quiet = {0};
    struct ms_scan scan;
    if (!ms_repository_take(r, name, NULL, &m, NULL)) {
        ms_repository_drop(r, name, NULL);
        for (int i = 0; all && m->ensemble && i < m->ensemble->n_steps; i++)
            ms_loader_unload(r, m->ensemble->step[i].model, true,
                             NULL); /* what is gone already is no fault */
        ms_repository_give(m);
        return MOIRE_OK;
    }
    const int rc = ms_scan_open(&r->options.source, name, &scan, &quiet, err);
    if (rc) return rc;
    const bool is_there = scan.n > 0;
    ms_scan_close(&scan);
    return is_there ? MOIRE_OK /* it is not loaded: as it should be */
                    : ms_fail(err, MOIRE_ESTALE, "the repository has no model '%.100s'", name);
}

static bool is_current(struct ms_repository *r, const struct ms_found *f) {
    bool same = false;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->n && !same; i++)
        same = !strcmp(r->model[i]->found.name, f->name) && !strcmp(r->model[i]->found.version, f->version) &&
               r->model[i]->found.stamp == f->stamp;
    pthread_mutex_unlock(&r->lock);
    return same;
}

static void drop_vanished(struct ms_repository *r, const struct ms_scan *scan) {
    struct ms_model *all[MS_MODELS];
    char gone[MS_NAME];
    int n;
    for (bool more = true; more;) {
        more = false;
        ms_repository_take_all(r, all, &n);
        for (int i = 0; i < n; i++) {
            bool there = false;
            for (int k = 0; k < scan->n && !there; k++)
                there = !strcmp(scan->found[k].name, all[i]->found.name);
            if (!there && !more) {
                memcpy(gone, all[i]->found.name, sizeof gone);
                more = true;
            }
            ms_repository_give(all[i]);
        }
        if (more) ms_repository_drop(r, gone, NULL);
    }
}

bool ms_loader_stops(struct ms_repository *r) {
    pthread_mutex_lock(&r->lock);
    const bool it_does = r->stops;
    pthread_mutex_unlock(&r->lock);
    return it_does;
}

/* Where clients say what is loaded, a look at the folder loads nothing that they did not. */
static bool is_wanted(struct ms_repository *r, const char *name) {
    struct ms_model *m;
    if (!r->options.is_explicit) return true;
    if (ms_repository_take(r, name, NULL, &m, NULL)) return false;
    ms_repository_give(m);
    return true;
}

/* Behind the models, and behind the ensembles that they use.  One that does not serve is in the table and
 * says so. */
static void refresh_ensembles(struct ms_repository *r, const struct ms_scan *scan) {
    bool tried[MS_MODELS] = {false}, done[MS_MODELS] = {false};
    moire_error err;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < scan->n && !ms_loader_stops(r); i++) {
            const struct ms_found *f = &scan->found[i];
            if (!f->is_ensemble || done[i] || !is_wanted(r, f->name)) continue;
            done[i] = (!tried[i] && is_current(r, f)) || !ms_loader_load(r, f->name, 0, &err);
            tried[i] = true;
            more = more || done[i];
        }
    }
}

void ms_loader_refresh(struct ms_repository *r) {
    struct ms_faults quiet = {0}; /* ms_loader_load() says them */
    struct ms_scan scan;
    moire_error err = {0};
    const int rc = ms_scan_open(&r->options.source, NULL, &scan, &quiet, &err);
    if (rc) ms_say(r, MOIRE_LOG_ERROR, "%s", err.message);
    int64_t failed = rc || (quiet.n && !r->options.is_explicit);
    for (int i = 0; i < (rc ? 0 : scan.n) && !ms_loader_stops(r); i++) {
        const bool seen = i && !strcmp(scan.found[i].name, scan.found[i - 1].name);
        if (seen || scan.found[i].is_ensemble || !is_wanted(r, scan.found[i].name) ||
            is_current(r, &scan.found[i]))
            continue;
        if (ms_loader_load(r, scan.found[i].name, 0, &err)) failed++;
    }
    if (!rc) refresh_ensembles(r, &scan);
    if (quiet.n)
        ms_say(r, MOIRE_LOG_ERROR, "the repository has %d faults; `moire serve --check` lists them", quiet.n);
    pthread_mutex_lock(&r->lock);
    r->failed_loads = failed;
    pthread_mutex_unlock(&r->lock);
    if (rc) return;
    drop_vanished(r, &scan);
    ms_scan_close(&scan);
}
