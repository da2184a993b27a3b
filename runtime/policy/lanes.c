/* SPDX-License-Identifier: Apache-2.0
 * lanes.c - k lanes of t cores, whole models, first come first served: many thin instances beat one fat one
 * (Packrat, ICML 2025).
 *
 * The plan takes the k that carries most load.  For each k it asks an M/D/k queue, with the mean service time
 * of the mix on t = cores / k, how busy it may be while 95 % of every tenant's queries wait no longer than
 * the target leaves: P(wait > x) = busy^(sqrt(2 (k + 1)) - 1) x exp(-2 (1 - busy) k x / service), the
 * square-root approximation of the probability to wait and the tail of constant service.  Shares of the mix
 * are the observed rates, before any arrival in inverse proportion to the targets.
 *
 *   lanes         as planned
 *   lanes-reject  and what cannot be in time on a lane any more is shed, or served when nothing else waits
 *                 (now and then it has its turn all the same, so that nobody starves) */
#include <math.h>
#include "runtime/policy/allocation.h"

static const int64_t PLAN_NS = 1000000000;
static const double MISS = 0.05;
enum { STEPS = 30, OLDEST_EVERY = 12, LATE = 64 };

struct state {
    struct mo_allocation allocation;
    int cores, runs; /* cores of a lane */
};

struct mix {
    double service, slack; /* mean ns on a lane; the least that a target leaves, < 0: one cannot be met */
};

static struct mix mix_on(const struct mo_view *view, int cores) {
    double sum = 0, weight = 0, slack = 1e18;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open) continue;
        double time = (double)mo_view_time(t, cores, 0, t->profile->n_layers);
        double one = (double)mo_view_time(t, 1, 0, t->profile->n_layers);
        double rate = t->load > 0 ? t->load / one : t->qos_ns ? 1e-9 / (double)t->qos_ns : 0;
        sum += rate * time;
        weight += rate;
        if (t->qos_ns && (double)t->qos_ns - time < slack) slack = (double)t->qos_ns - time;
    }
    return (struct mix){weight > 0 ? sum / weight : 1, slack};
}

/* Load, in queries a ns, that k lanes carry with at most MISS late. */
static double carries(const struct mix *m, int k) {
    double lo = 0, hi = 1;
    if (m->slack < 0) return 0;
    for (int i = 0; i < STEPS; i++) {
        double busy = (lo + hi) / 2;
        double late = pow(busy, sqrt(2.0 * (k + 1)) - 1) * exp(-2 * (1 - busy) * k * m->slack / m->service);
        if (late <= MISS)
            lo = busy;
        else
            hi = busy;
    }
    return lo * k / m->service;
}

static void plan(void *state, const struct mo_view *view) {
    struct state *s = state;
    double most = -1;
    for (int k = 1; k <= view->n_cores; k++) {
        int cores = view->n_cores / k;
        if (k > 1 && cores == view->n_cores / (k - 1) && cores > 1) continue; /* leaves cores idle */
        struct mix m = mix_on(view, cores);
        double load = carries(&m, view->n_cores / cores);
        if (load <= most) continue;
        most = load;
        s->cores = cores;
    }
}

static bool late_on_lane(const struct state *s, const struct mo_view *view, int query) {
    return mo_view_left(view, query, s->cores) > view->queries[query].deadline - view->now;
}

static void serve(struct state *s, int query) {
    const struct mo_view *view = s->allocation.view;
    mo_allocation_run(&s->allocation, query, view->tenants[view->queries[query].tenant].profile->n_layers,
                      s->cores, s->cores);
    s->runs++;
}

/* Queries that were passed over, oldest first, on the lanes that nobody else wants. */
static void serve_late(struct state *s, const int *late, int n) {
    struct mo_allocation *h = &s->allocation;
    for (int i = 0; i < n && h->idle >= s->cores; i++) {
        const struct mo_view_query *q = &h->view->queries[late[i]];
        const struct mo_view_tenant *t = &h->view->tenants[q->tenant];
        if (!q->started && h->begun[q->tenant] >= t->free_instances) continue;
        h->begun[q->tenant] += !q->started;
        mo_decide_run(h->out, late[i], t->profile->n_layers, mo_cores_take(&h->pool, s->cores, q->last_core));
        h->idle -= s->cores;
    }
}

static void run(struct state *s, const struct mo_view *view, struct mo_decisions *out, bool rejects) {
    struct mo_allocation *h = &s->allocation;
    int query, n = 0, late[LATE];
    if (!s->cores) plan(s, view);
    mo_allocation_open(h, view, out);
    while (h->idle >= s->cores && (query = mo_allocation_best(h, mo_by_arrival)) >= 0) {
        bool is_late = rejects && late_on_lane(s, view, query);
        if (is_late && mo_allocation_shed(h, query)) continue;
        if (is_late && s->runs % OLDEST_EVERY) {
            if (n < LATE) late[n++] = query;
            mo_allocation_skip(h, query);
        } else {
            serve(s, query);
        }
    }
    serve_late(s, late, n);
}

static void lanes(void *state, const struct mo_view *view, const struct mo_event *event,
                  struct mo_decisions *out) {
    (void)event;
    run(state, view, out, false);
}
static void lanes_reject(void *state, const struct mo_view *view, const struct mo_event *event,
                         struct mo_decisions *out) {
    (void)event;
    run(state, view, out, true);
}

const struct mo_policy mo_policy_lanes = {
    .name = "lanes",
    .description = "equal lanes of cores, as many as carry most load; whole models, first come first served",
    .state_bytes = sizeof(struct state),
    .plan = plan,
    .plan_period_ns = PLAN_NS,
    .dispatch = lanes,
};
const struct mo_policy mo_policy_lanes_reject = {
    .name = "lanes-reject",
    .description = "lanes, and queries that cannot be in time any more are shed or served last",
    .state_bytes = sizeof(struct state),
    .plan = plan,
    .plan_period_ns = PLAN_NS,
    .dispatch = lanes_reject,
};
