/* SPDX-License-Identifier: Apache-2.0
 * ensemble_settle.c - ensembles as models of a repository: which of them serve; see ensemble.h.
 *
 * A model that is replaced stays as long as an ensemble holds it, so there is no moment in which an ensemble
 * has no model: it takes the new one here, and queries that run keep the old one. */
#include <stdio.h>
#include <string.h>
#include "serve/repository/repository_impl.h"

struct settling {
    struct ms_model *model; /* the ensemble */
    struct ms_model *member[MS_STEPS];
    char first[sizeof(((struct ms_model *)0)->reason)]; /* fault */
};

static void keep_first(void *user, bool fault, const char *line) {
    struct settling *s = user;
    const size_t prefix = strlen(s->model->found.name) + 2; /* its name stands there anyhow */
    if (fault && !*s->first) snprintf(s->first, sizeof s->first, "%s", line + prefix);
}

static bool find_ports(void *user, const struct ms_step *step, struct ms_ports *out,
                       struct ms_faults *faults) {
    const struct settling *s = user;
    const struct ms_model *m = s->member[step - s->model->ensemble->step];
    (void)faults; /* take_members() has seen to it that there is one */
    *out = (struct ms_ports){m->input, m->output, m->n_inputs, m->n_outputs, m->settings.max_batch};
    return true;
}

/* Takes the models of all steps; false: one is not there, and a fault says so. */
static bool take_members(struct settling *s, struct ms_faults *faults, int *nested) {
    struct ms_ensemble *e = s->model->ensemble;
    const char *name = s->model->found.name;
    *nested = 1;
    for (int i = 0; i < e->n_steps && !faults->n; i++) {
        struct ms_model **m = &s->member[i];
        const char *version = *e->step[i].version ? e->step[i].version : NULL;
        if (ms_repository_take(s->model->repository, e->step[i].model, version, m, NULL))
            ms_fault_say(faults, "%s: model '%.100s'%s%.20s of step %d is not loaded", name, e->step[i].model,
                         version ? " of version " : "", version ? version : "", i);
        else if (ms_model_state(*m) != MS_READY)
            ms_fault_say(faults, "%s: model '%.100s' of step %d is not ready", name, e->step[i].model, i);
        else if ((*m)->ensemble && (*m)->ensemble->nested >= *nested)
            *nested = (*m)->ensemble->nested + 1;
    }
    if (*nested > MS_NESTED) ms_fault_say(faults, "%s: nested deeper than %d ensembles", name, MS_NESTED);
    return !faults->n;
}

/* Exchanges the models of the ensemble for those in s, all NULL where it is not to serve. */
static bool exchange(struct settling *s, bool serves, int nested) {
    struct ms_model *m = s->model;
    struct ms_ensemble *e = m->ensemble;
    const enum ms_state state = serves ? MS_READY : MS_UNAVAILABLE;
    pthread_mutex_lock(&m->repository->lock);
    bool changed = m->state != state;
    for (int i = 0; i < e->n_steps; i++) {
        struct ms_model *old = e->step[i].member;
        changed = changed || old != s->member[i];
        e->step[i].member = s->member[i];
        s->member[i] = old;
    }
    m->state = state;
    e->nested = nested;
    memcpy(m->reason, s->first, sizeof m->reason);
    pthread_mutex_unlock(&m->repository->lock);
    return changed;
}

static void give_members(struct settling *s) {
    for (int i = 0; i < s->model->ensemble->n_steps; i++) {
        if (s->member[i]) ms_repository_give(s->member[i]);
        s->member[i] = NULL;
    }
}

bool ms_ensemble_settle(struct ms_model *m) {
    struct settling s = {.model = m};
    struct ms_faults faults = {.say = keep_first, .user = &s};
    int nested;
    if (take_members(&s, &faults, &nested))
        ms_ensemble_check(m->ensemble, m->found.name, find_ports, &s, &faults);
    if (faults.n) give_members(&s);
    const bool was = ms_model_state(m) == MS_READY, changed = exchange(&s, !faults.n, nested);
    give_members(&s);
    if (was && faults.n)
        ms_say(m->repository, MOIRE_LOG_WARN, "ensemble '%.100s' serves no more: %s", m->found.name, s.first);
    if (!was && !faults.n)
        ms_say(m->repository, MOIRE_LOG_INFO, "ensemble '%.100s' version %s: ready", m->found.name,
               m->found.version);
    return changed;
}

/* Each round settles ensembles whose models are settled; none waits for more rounds than there are. */
void ms_ensembles_settle(struct ms_repository *r) {
    struct ms_model *all[MS_MODELS];
    bool more = true;
    int n = 0;
    for (int round = 0; more && round <= MS_MODELS; round++) {
        more = false;
        ms_repository_take_all(r, all, &n);
        for (int i = 0; i < n; i++) {
            if (all[i]->ensemble && ms_ensemble_settle(all[i])) more = true;
            ms_repository_give(all[i]);
        }
    }
    while (ms_repository_sweep(r))
        continue;
}
