/* SPDX-License-Identifier: Apache-2.0
 * greedy.c - queries in some order, cores by some rule, in blocks bounded in time: the textbook baselines.
 *
 *   edf-reject  earliest deadline first, as few cores as make it in time; infeasible ones last, or shed
 *   llf         least laxity first (deadline - now - time still needed), cores and infeasible ones as above
 *   srpt        shortest remaining work first, as many cores as help
 *   equal       all queries that are there share the cores evenly
 *
 * A query that wants more cores than are free starts when half of them are, else it waits, and those behind
 * it too.  Every so often the oldest query is served whatever the order says, so that nobody starves. */
#include "runtime/policy/allocation.h"

static const double HEADROOM = 0.9; /* of the time to the deadline that a plan may use */
static const double LAST = 1e18;

struct state {
    struct mo_allocation allocation;
    int runs;
};

static int in_time(const struct mo_view *view, int query) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    int end = t->profile->n_layers;
    return mo_need(view, t, q->next_layer, end, HEADROOM * mo_budget(view, query, end));
}

static int fastest(const struct mo_view *view, int query) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    return mo_profile_fastest(t->profile, q->next_layer, mo_view_widest(view, t));
}

static int even_share(const struct mo_view *view, int query) {
    int share = view->n_in_system > 0 ? view->n_cores / view->n_in_system : view->n_cores;
    int most = fastest(view, query);
    return share < 1 ? 1 : share < most ? share : most;
}

static double by_laxity(const struct mo_view *view, int query) {
    const struct mo_view_query *q = &view->queries[query];
    double laxity = (double)(q->deadline - view->now - mo_view_left(view, query, fastest(view, query)));
    return laxity < 0 ? LAST + laxity : laxity;
}

static double by_work(const struct mo_view *view, int query) {
    return (double)mo_view_left(view, query, 1);
}

struct rule {
    mo_score *score;
    int (*cores)(const struct mo_view *view, int query);
    bool sheds;
    int oldest_every; /* blocks from one turn of the oldest query to the next */
};

static void run(struct state *s, const struct mo_view *view, struct mo_decisions *out,
                const struct rule *rule) {
    struct mo_allocation *h = &s->allocation;
    mo_allocation_open(h, view, out);
    if (rule->sheds) mo_shed_from_late(view, out);
    while (h->idle > 0) {
        bool oldest = s->runs >= rule->oldest_every;
        int query = mo_allocation_best(h, oldest ? mo_by_arrival : rule->score);
        if (query < 0) return;
        if (rule->sheds && mo_infeasible(view, query) && mo_allocation_shed(h, query)) continue;
        int wanted = rule->cores(view, query), n = wanted < h->idle ? wanted : h->idle;
        if (2 * n < wanted) return;
        mo_allocation_run(h, query, mo_view_block(view, query, n), n, wanted);
        mo_decide_cut(out, MO_CUT_BOUND);
        s->runs = oldest ? 0 : s->runs + 1;
    }
}

static void edf_reject(void *state, const struct mo_view *view, const struct mo_event *event,
                       struct mo_decisions *out) {
    static const struct rule rule = {mo_by_deadline, in_time, true, 40};
    (void)event;
    run(state, view, out, &rule);
}
static void llf(void *state, const struct mo_view *view, const struct mo_event *event,
                struct mo_decisions *out) {
    static const struct rule rule = {by_laxity, in_time, true, 40};
    (void)event;
    run(state, view, out, &rule);
}
static void srpt(void *state, const struct mo_view *view, const struct mo_event *event,
                 struct mo_decisions *out) {
    static const struct rule rule = {by_work, fastest, false, 12};
    (void)event;
    run(state, view, out, &rule);
}
static void equal(void *state, const struct mo_view *view, const struct mo_event *event,
                  struct mo_decisions *out) {
    static const struct rule rule = {mo_by_arrival, even_share, false, 40};
    (void)event;
    run(state, view, out, &rule);
}

const struct mo_policy mo_policy_edf_reject = {
    .name = "edf-reject",
    .description = "earliest deadline first, on the fewest cores that suffice; queries that can no longer "
                   "meet theirs last, or shed",
    .state_bytes = sizeof(struct state),
    .dispatch = edf_reject,
};
const struct mo_policy mo_policy_llf = {
    .name = "llf",
    .description = "least laxity first, on the fewest cores that suffice; queries that can no longer meet "
                   "their deadline last, or shed",
    .state_bytes = sizeof(struct state),
    .dispatch = llf,
};
const struct mo_policy mo_policy_srpt = {
    .name = "srpt",
    .description = "shortest remaining work first, as many cores as help",
    .state_bytes = sizeof(struct state),
    .dispatch = srpt,
};
const struct mo_policy mo_policy_equal = {
    .name = "equal",
    .description = "first come first served, cores shared evenly among all queries",
    .state_bytes = sizeof(struct state),
    .dispatch = equal,
};
