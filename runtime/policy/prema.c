/* SPDX-License-Identifier: Apache-2.0
 * prema.c - temporal sharing with tokens and preemption (PREMA: Choi and Rhu, HPCA 2020, algorithm 2).
 *
 * One query at a time has the machine.  Each collects tokens: its priority, and again its priority for every
 * solo time that it has waited.  Candidates are those whose tokens reach the largest of the levels 1, 3 and 9
 * that any of them reaches; among them the one with the least left runs next.
 *
 * There a query can be stopped every quarter of a millisecond.  Here it runs a block, bounded in time, on as
 * many cores as help, and then the choice is made anew.  Not in the original: now and then the oldest query
 * has its turn, for with more load than the machine carries the last of those above 9 would starve. */
#include "runtime/policy/allocation.h"

static const double LEVEL_STEP = 3, TOP_LEVEL = 9;

struct state {
    struct mo_allocation allocation;
    int blocks; /* since the oldest query had its turn */
};

enum { OLDEST_EVERY = 12 };

static int wide(const struct mo_view *view, const struct mo_view_tenant *t) {
    return mo_profile_fastest(t->profile, 0, mo_view_widest(view, t));
}

static double tokens(const struct mo_view *view, int query) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    double solo = (double)mo_view_time(t, wide(view, t), 0, t->profile->n_layers);
    double spent = solo - (double)mo_view_left(view, query, wide(view, t));
    double waited = (double)(view->now - q->arrival) - spent;
    return (q->priority > 0 ? q->priority : 1) * (1 + (waited > 0 ? waited / solo : 0));
}

static double most_first(const struct mo_view *view, int query) {
    return -tokens(view, query);
}

static double least_left(const struct mo_view *view, int query) {
    const struct mo_view_tenant *t = &view->tenants[view->queries[query].tenant];
    return (double)mo_view_left(view, query, wide(view, t));
}

static void serve(struct mo_allocation *h, int query) {
    int n = wide(h->view, &h->view->tenants[h->view->queries[query].tenant]);
    mo_allocation_run(h, query, mo_view_block(h->view, query, n), n, n);
    mo_decide_cut(h->out, MO_CUT_BOUND);
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)event;
    struct state *s = state;
    struct mo_allocation *h = &s->allocation;
    if (view->n_idle < view->n_cores) return;
    mo_allocation_open(h, view, out);
    int query = mo_allocation_best(h, most_first);
    if (query < 0) return;
    if (++s->blocks == OLDEST_EVERY) {
        s->blocks = 0;
        serve(h, mo_allocation_best(h, mo_by_arrival));
        return;
    }
    double level = 1;
    for (double most = tokens(view, query); level < TOP_LEVEL && level * LEVEL_STEP <= most;)
        level *= LEVEL_STEP;
    for (int q; (q = mo_allocation_best(h, least_left)) >= 0; mo_allocation_skip(h, q)) {
        if (tokens(view, q) < level) continue;
        serve(h, q);
        return;
    }
}

const struct mo_policy mo_policy_prema = {
    .name = "prema",
    .description = "one query at a time on all cores, chosen by tokens, preempted between blocks (PREMA)",
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
