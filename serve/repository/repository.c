/* SPDX-License-Identifier: Apache-2.0
 * repository.c - the table of models; see repository.h. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/pipeline/pipeline.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/thread.h"
#include "serve/repository/repository_impl.h"

void ms_say(struct ms_repository *r, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ms_say(struct ms_repository *r, int level, const char *format, ...) {
    char line[700];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (r->options.log) r->options.log(r->options.log_user, level, line);
}

/* --- taking and giving --- */
int ms_repository_take(struct ms_repository *r, const char *name, const char *version, struct ms_model **out,
                       moire_error *err) {
    struct ms_model *best = NULL;
    *out = NULL;
    if (version && !ms_version_is_one(version))
        return ms_fail(err, MOIRE_EINVAL, "'%.30s' is no version; versions are whole numbers from 1",
                       version);
    const long long wanted = version ? ms_version_number(version) : 0;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->n; i++) {
        struct ms_model *m = r->model[i];
        if (strcmp(m->found.name, name) != 0) continue;
        if (version && ms_version_number(m->found.version) != wanted) continue;
        if (!best || ms_version_number(m->found.version) > ms_version_number(best->found.version)) best = m;
    }
    if (best) best->users++;
    pthread_mutex_unlock(&r->lock);
    *out = best;
    return best ? MOIRE_OK : ms_fail_no_model(err, name, version);
}

void ms_repository_hold(struct ms_model *m) {
    pthread_mutex_lock(&m->repository->lock);
    m->users++;
    pthread_mutex_unlock(&m->repository->lock);
}

void ms_repository_give(struct ms_model *m) {
    struct ms_repository *r = m->repository;
    pthread_mutex_lock(&r->lock);
    if (!--m->users && r->retired)
        pthread_cond_broadcast(&r->changed); /* the loader sweeps it away, perhaps */
    pthread_mutex_unlock(&r->lock);
}

void ms_repository_take_all(struct ms_repository *r, struct ms_model *out[MS_MODELS], int *n) {
    pthread_mutex_lock(&r->lock);
    *n = r->n;
    for (int i = 0; i < r->n; i++) {
        out[i] = r->model[i];
        out[i]->users++;
    }
    pthread_mutex_unlock(&r->lock);
}

enum ms_state ms_model_state(struct ms_model *m) {
    pthread_mutex_lock(&m->repository->lock);
    const enum ms_state state = m->state;
    pthread_mutex_unlock(&m->repository->lock);
    return state;
}

bool ms_repository_is_ready(struct ms_repository *r) {
    pthread_mutex_lock(&r->lock);
    bool ready = !r->busy && !r->stops && !r->failed_loads && !ms_repository_leaves(r);
    for (int i = 0; i < r->n && ready; i++)
        ready = r->model[i]->state == MS_READY;
    pthread_mutex_unlock(&r->lock);
    return ready;
}

bool ms_repository_is_busy(struct ms_repository *r) {
    pthread_mutex_lock(&r->lock);
    const bool busy = r->busy > 0;
    pthread_mutex_unlock(&r->lock);
    return busy;
}

/* --- the table --- */
void ms_repository_retire(struct ms_model *m) {
    struct ms_repository *r = m->repository;
    pthread_mutex_lock(&r->lock);
    m->retired = r->retired;
    r->retired = m;
    pthread_mutex_unlock(&r->lock);
    while (ms_repository_sweep(r))
        continue;
}

bool ms_repository_sweep(struct ms_repository *r) {
    struct ms_model *free_one = NULL;
    pthread_mutex_lock(&r->lock);
    for (struct ms_model **at = &r->retired; *at && !free_one; at = &(*at)->retired)
        if (!(*at)->users) {
            free_one = *at;
            *at = free_one->retired;
            break;
        }
    pthread_mutex_unlock(&r->lock);
    if (free_one) ms_model_destroy(free_one);
    return free_one != NULL;
}

struct ms_model *ms_repository_place(struct ms_repository *r, struct ms_model *m) {
    struct ms_model *old = NULL;
    pthread_mutex_lock(&r->lock);
    int i = 0;
    while (i < r->n && (strcmp(r->model[i]->found.name, m->found.name) ||
                        strcmp(r->model[i]->found.version, m->found.version)))
        i++;
    if (i == r->n && r->n < MS_MODELS) {
        r->model[r->n++] = m;
    } else if (i == r->n || (m->state != MS_READY && r->model[i]->state == MS_READY)) {
        if (i < r->n) r->model[i]->found.stamp = m->found.stamp; /* not tried again before it changes */
        old = m;
    } else {
        old = r->model[i];
        free(m->tally);
        m->tally = old->tally; /* counters never go back */
        m->tally->holders++;
        r->model[i] = m;
    }
    pthread_mutex_unlock(&r->lock);
    return old;
}

void ms_repository_drop(struct ms_repository *r, const char *name, const struct ms_scan *keep) {
    struct ms_model *out[MS_MODELS];
    int n = 0, left = 0;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->n; i++) {
        bool kept = strcmp(r->model[i]->found.name, name) != 0;
        for (int k = 0; keep && k < keep->n && !kept; k++)
            kept = !strcmp(keep->found[k].version, r->model[i]->found.version);
        if (kept)
            r->model[left++] = r->model[i];
        else
            out[n++] = r->model[i];
    }
    r->n = left;
    for (int i = 0; i < n; i++)
        out[i]->state = MS_UNLOADING;
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < n; i++) {
        ms_say(r, MOIRE_LOG_INFO, "model '%.100s' version %s: unloaded", out[i]->found.name,
               out[i]->found.version);
        ms_repository_retire(out[i]);
    }
}

/* --- the whole --- */
static int count_cores(moire_runtime *runtime) {
    int cores = 1;
    moire_runtime_stats *s = calloc(1, sizeof *s);
    if (!s) return cores;
    s->size = sizeof *s;
    if (!moire_runtime_get_stats(runtime, s, NULL) && s->cores > 1) cores = s->cores;
    free(s);
    return cores;
}

static void end_background(struct ms_repository *r) {
    pthread_mutex_lock(&r->lock);
    r->ends = r->loader_ended = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->background, NULL);
}

/* The loader last: it needs the others. */
static int start_threads(struct ms_repository *r) {
    int rc = ms_thread_start(&r->background, "moire-prepare", ms_background, r);
    if (rc) return rc;
    rc = ms_thread_start(&r->binder, "moire-shapes", ms_binder, r);
    if (!rc) {
        rc = ms_thread_start(&r->loader, "moire-loader", ms_loader, r);
        if (!rc) return 0;
        end_background(r);
        pthread_join(r->binder, NULL);
    } else {
        end_background(r);
    }
    return rc;
}

int ms_repository_start(const struct ms_repository_options *options, struct ms_repository **out,
                        moire_error *err) {
    struct ms_repository *r = *out = calloc(1, sizeof *r);
    if (!r) return ms_fail(err, MOIRE_ENOMEM, "no memory for the repository");
    r->options = *options;
    r->cores = count_cores(options->runtime);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    if (!options->is_explicit) ms_repository_refresh(r);
    const int rc = start_threads(r);
    if (!rc) return MOIRE_OK;
    free(r->loads.first);
    free(r);
    *out = NULL;
    return ms_fail(err, MOIRE_EIO, "no thread to load models: %s", strerror(rc));
}

void ms_repository_leave(struct ms_repository *r) {
    atomic_store(&r->leaves, true);
}

void ms_repository_quiesce(struct ms_repository *r) {
    pthread_mutex_lock(&r->lock);
    r->stops = true;
    pthread_mutex_unlock(&r->lock);
}

void ms_repository_stop(struct ms_repository *r) {
    pthread_mutex_lock(&r->lock);
    r->stops = r->ends = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->binder, NULL);
    pthread_join(r->loader, NULL);
    pthread_join(r->background, NULL);
    for (int i = 0; i < r->n; i++)
        ms_repository_retire(r->model[i]);
    while (ms_repository_sweep(r))
        continue;
    ms_function_threads_close(r->function_threads);
    ms_gate_close(r->gate);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    free(r);
}
