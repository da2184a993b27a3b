/* SPDX-License-Identifier: Apache-2.0
 * core_tenant.c - opening and closing tenants of the core. */
#include "runtime/sched/core_impl.h"

void mo_sched_mirror(struct mo_sched *s, int tenant) {
    const struct mo_sched_tenant *t = &s->tenants[tenant];
    struct mo_view_tenant *tenant_view = &s->tenant_views[tenant];
    tenant_view->n_waiting = t->waiting.n;
    tenant_view->n_paused = t->paused.n;
    tenant_view->free_instances = t->n_free;
    if (!t->paused.n && !t->cut_runs) tenant_view->paused_gpu = -1;
}

/* Bound on a block: what the user says, else a tenth of the tightest QoS within [0.1, 1] ms. */
static void choose_bound(struct mo_sched *s) {
    int64_t tightest = 0;
    for (int i = 0; i < s->view.n_tenants; i++) {
        const struct mo_view_tenant *t = &s->tenant_views[i];
        if (t->open && t->qos_ns && (!tightest || t->qos_ns < tightest)) tightest = t->qos_ns;
    }
    s->view.min_qos_ns = tightest;
    int64_t bound = tightest ? tightest / 10 : 1000000;
    bound = bound < 100000 ? 100000 : bound > 1000000 ? 1000000 : bound;
    s->view.block_ns = s->block_config ? s->block_config : bound;
}

static int find_free(const struct mo_sched *s) {
    for (int i = 0; i < s->max_tenants; i++)
        if (!s->tenants[i].used) return i;
    return -1;
}

int mo_sched_tenant_open(struct mo_sched *s, const struct mo_sched_tenant_config *c, int64_t now, int *out,
                         moire_error *err) {
    int at = find_free(s);
    if (at < 0)
        return mo_fail(err, MOIRE_ELIMIT, "limit 'tenants' (%d) reached: unload a model first",
                       s->max_tenants);
    size_t queue = (size_t)c->queue, pool = (size_t)c->instances;
    int *memory = mo_alloc(s->env, (queue + 3 * pool) * sizeof *memory);
    if (!memory) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the queue of a tenant");
    struct mo_sched_tenant *t = &s->tenants[at];
    *t = (struct mo_sched_tenant){
        .used = true, .queue = c->queue, .instances = c->instances, .memory = memory};
    t->observed.slowdown = t->alone.slowdown = t->own = t->usual = 1;
    t->tuned = c->slowdown[0] > 0;
    s->tuned += t->tuned;
    for (int i = 0; i < MO_PRESSURE_LEVELS; i++)
        t->curve[i] = c->slowdown[i];
    /* all that run may come back to those that wait (reset.c) */
    t->waiting = (struct mo_slot_list){.cap = c->queue + c->instances, .slot = memory};
    t->paused = (struct mo_slot_list){.cap = c->instances, .slot = memory + queue + pool};
    t->free_instance = memory + queue + 2 * pool;
    for (t->n_free = 0; t->n_free < c->instances; t->n_free++)
        t->free_instance[t->n_free] = c->instances - 1 - t->n_free;
    s->tenant_views[at] = (struct mo_view_tenant){.open = true,
                                                  .priority = c->priority,
                                                  .best_effort = c->best_effort,
                                                  .shed_late = c->shed_late,
                                                  .qos_ns = c->qos_ns,
                                                  .cores = s->view.gpus ? 0 : c->cores,
                                                  .weight = c->weight,
                                                  .profile = c->profile,
                                                  .share = c->share,
                                                  .declared = c->declared,
                                                  .residual = s->pace.value,
                                                  .attained = 1,
                                                  .paused_gpu = -1,
                                                  .waiting = t->waiting.slot,
                                                  .paused = t->paused.slot};
    s->bounded += s->tenant_views[at].cores > 0;
    if (at >= s->view.n_tenants) s->view.n_tenants = at + 1;
    mo_sched_mirror(s, at);
    choose_bound(s);
    mo_sched_log(s, now, MO_LOG_OPEN, -1, at, c->profile->n_layers, c->queue, c->instances);
    *out = at;
    return MOIRE_OK;
}

void mo_sched_tenant_close(struct mo_sched *s, int tenant, int code, int64_t now) {
    s->tenant_views[tenant].open = false;
    mo_sched_log(s, now, MO_LOG_CLOSE, -1, tenant, 0, 0, 0);
    for (int i = 0; i < s->queries.cap; i++)
        if (mo_query_is_live(&s->queries, i) && s->queries.view[i].tenant == tenant)
            mo_sched_resolve(s, i, code, now);
    choose_bound(s);
    mo_sched_dispatch(s, MO_EVENT_FREED, -1, tenant, now);
}

int mo_sched_tenant_pending(const struct mo_sched *s, int tenant) {
    return s->tenants[tenant].pending;
}

void mo_sched_tenant_free(struct mo_sched *s, int tenant) {
    struct mo_sched_tenant *t = &s->tenants[tenant];
    s->tuned -= t->tuned;
    s->bounded -= s->tenant_views[tenant].cores > 0;
    s->units->forget(s, tenant);
    mo_free(s->env, t->memory);
    *t = (struct mo_sched_tenant){0};
    s->tenant_views[tenant] = (struct mo_view_tenant){.paused_gpu = -1};
    while (s->view.n_tenants > 0 && !s->tenants[s->view.n_tenants - 1].used)
        s->view.n_tenants--;
}
