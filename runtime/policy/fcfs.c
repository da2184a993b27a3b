/* SPDX-License-Identifier: Apache-2.0
 * fcfs.c - first come, first served, model-wise: whole models in order of acceptance, on all cores (fcfs) or
 * on one core each (fcfs-1).  What most servers do; the baseline. */
#include "runtime/sched/policy.h"

/* The query accepted first among those that may run, -1 when there is none.  Within a tenant deadlines come
 * in order of scheduled arrival, so the head of its list is its oldest. */
static int oldest(const struct mo_view *view) {
    int best = -1;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        int head = t->n_paused ? t->paused[0] : t->n_waiting && t->free_instances ? t->waiting[0] : -1;
        if (head >= 0 && (best < 0 || view->queries[head].order < view->queries[best].order)) best = head;
    }
    return best;
}

static void run_whole(const struct mo_view *view, int query, struct mo_cores cores,
                      struct mo_decisions *out) {
    const struct mo_view_tenant *t = &view->tenants[view->queries[query].tenant];
    mo_decide_run(out, query, t->profile->n_layers, cores);
}

static void fcfs_dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                          struct mo_decisions *out) {
    (void)state;
    (void)event;
    int query = view->n_idle == view->n_cores ? oldest(view) : -1;
    if (query >= 0) run_whole(view, query, view->idle, out);
}

/* One start an event is enough: every core that comes free and every arrival is an event of its own, and
 * after a start the view is stale.  A timer at once covers the rare case of several idle cores and several
 * queries. */
static void fcfs_1_dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                            struct mo_decisions *out) {
    (void)state;
    (void)event;
    int query = view->n_idle ? oldest(view) : -1;
    if (query < 0) return;
    struct mo_cores pool = view->idle;
    run_whole(view, query, mo_cores_take(&pool, 1, -1), out);
    if (view->n_idle > 1 && view->n_in_system > 1) mo_decide_timer(out, view->now + 1);
}

const struct mo_policy mo_policy_fcfs = {
    .name = "fcfs",
    .description = "first come first served, whole models, all cores",
    .state_bytes = 64,
    .dispatch = fcfs_dispatch,
};

const struct mo_policy mo_policy_fcfs_1 = {
    .name = "fcfs-1",
    .description = "first come first served, whole models, a core per query",
    .state_bytes = 64,
    .dispatch = fcfs_1_dispatch,
};
