/* SPDX-License-Identifier: Apache-2.0
 * look.c - every model and the runtime at one moment; see look.h. */
#include "serve/page/look.h"

#include <stdlib.h>
#include <string.h>
#include "serve/batch/batcher.h"

const char *ms_state_name(enum ms_state state) {
    static const char *const text[] = {"LOADING", "READY", "UNLOADING", "UNAVAILABLE"};
    return text[state];
}

static void add_tenant(struct ms_model_look *l, moire_tenant *tenant, moire_tenant_stats *s) {
    s->size = sizeof *s;
    if (moire_tenant_get_stats(tenant, s, NULL)) return;
    l->tenant[l->n_tenants++] = s->id;
    l->waiting += s->waiting;
    l->running += s->paused + s->blocks;
    l->cores += s->cores;
    l->memory.weights += s->memory.weights - s->shared_weights;
    if (s->shared_weights > l->shared_weights) { /* its tenants share them: the most that one has */
        l->memory.weights += s->shared_weights - l->shared_weights;
        l->shared_weights = s->shared_weights;
    }
    l->memory.plans += s->memory.plans;
    l->memory.inputs += s->memory.inputs;
    l->memory.activations += s->memory.activations;
    l->layers = s->layers;
    l->compiled_layers = s->compiled_layers;
    l->reference_layers = s->reference_layers;
    for (int i = 0; i < MOIRE_VERSIONS; i++)
        l->version_runs[i] += s->version_runs[i];
}

/* Its tenants stay while they are used, and are asked without the lock. */
static void add_tenants(struct ms_model_look *l, struct ms_model *m, moire_tenant_stats *room) {
    struct ms_binding *used[MS_BINDINGS];
    int n = 0;
    pthread_mutex_lock(&m->repository->lock);
    for (struct ms_binding *b = m->bindings; b && n < MS_BINDINGS; b = b->next) {
        b->users++;
        used[n++] = b;
    }
    pthread_mutex_unlock(&m->repository->lock);
    for (int i = 0; i < n; i++)
        add_tenant(l, used[i]->tenant, room);
    pthread_mutex_lock(&m->repository->lock);
    for (int i = 0; i < n; i++)
        used[i]->users--;
    pthread_mutex_unlock(&m->repository->lock);
}

static void look_at(struct ms_model_look *l, struct ms_model *m, int64_t now_ns, const struct ms_stuck *stuck,
                    moire_tenant_stats *room) {
    memcpy(l->name, m->found.name, sizeof l->name);
    memcpy(l->version, m->found.version, sizeof l->version);
    memcpy(l->reason, m->reason, sizeof l->reason);
    ms_stuck_is(stuck, m, l->stuck);
    l->qos_ns = m->settings.qos_ns;
    l->cls = m->settings.cls;
    l->priority = m->settings.priority;
    pthread_mutex_lock(&m->repository->lock);
    l->tally = *m->tally;
    l->state = m->state;
    pthread_mutex_unlock(&m->repository->lock);
    l->lately = ms_tally_lately(&l->tally, now_ns);
    l->below = l->qos_ns && (double)l->lately.in_time < MS_GOAL * (double)l->lately.due;
    l->waiting = ms_batcher_waiting(m->batcher);
    add_tenants(l, m, room);
}

bool ms_look_open(struct ms_repository *r, moire_runtime *runtime, struct ms_look *out) {
    struct ms_model *all[MS_MODELS];
    moire_tenant_stats *room = malloc(sizeof *room);
    struct ms_stuck stuck;
    ms_stuck_look(r, &stuck);
    out->stuck = stuck.all;
    ms_repository_take_all(r, all, &out->n);
    out->now_ns = moire_now(runtime);
    out->model = calloc((size_t)out->n + 1, sizeof *out->model);
    out->runtime = (moire_runtime_stats){.size = sizeof out->runtime};
    const bool ok = room && out->model && !moire_runtime_get_stats(runtime, &out->runtime, NULL);
    for (int i = 0; i < out->n; i++) {
        if (ok) look_at(&out->model[i], all[i], out->now_ns, &stuck, room);
        ms_repository_give(all[i]);
    }
    free(room);
    if (!ok) ms_look_close(out);
    return ok;
}

void ms_look_close(struct ms_look *look) {
    free(look->model);
    *look = (struct ms_look){0};
}
