/* SPDX-License-Identifier: Apache-2.0
 * planaria.c - spatial sharing by slack: the scheduler of Planaria (Ghodrati et al., MICRO 2020), with cores
 * for its subarrays.
 *
 * Written from memory of its algorithm, whose text was not at hand:
 *
 *   estimate  the fewest cores on which what is left of a query takes no longer than its slack, the time to
 *             its deadline
 *   fit       the estimates of all queries fit the machine: each gets its own, and spare cores are dealt in
 *             proportion to scores, priority / time left
 *   unfit     else cores go by falling scores, priority / (slack x estimate), an estimate each while they
 *             last
 *
 * There cores are dealt anew when a query comes or ends, and a query can be stopped at each tile.  Here they
 * are dealt at every event; a query can be stopped between blocks, which are bounded in time, and within them
 * gain and lose cores where blocks can.  It gives up cores only to queries that get more than they have.
 *
 * Not in the original: queries that cannot be in time come last, now and then the oldest has its turn all the
 * same, so that nobody starves, and of each tenant only the first few that wait are looked at. */
#include "runtime/policy/allocation.h"

#include <stdlib.h>

static const double HEADROOM = 0.9; /* of the slack; the rest is for what comes between blocks */
static const double FIRST = 1e9;    /* a score beyond any other */
enum { WAITING = 8, LIST = 512, OLDEST_EVERY = 40 };

struct dealt {
    int query, begin; /* its first layer that is not done */
    int has;          /* cores that its block keeps; 0: it does not run */
    int estimate, gets;
    double left, slack, score; /* left: ns on the estimate */
    int64_t order;
};

struct state {
    struct mo_cores pool;
    int idle, n, starts;
    struct dealt list[LIST];
};

static void add(struct state *s, const struct mo_view *view, int query) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    const struct mo_view_run *run = q->run >= 0 ? &view->runs[q->run] : NULL;
    struct dealt *c = &s->list[s->n];
    int layers = t->profile->n_layers;
    if (s->n == LIST) return;
    *c = (struct dealt){.query = query, .begin = q->next_layer, .order = q->order};
    if (run) {
        c->begin = mo_view_layer(view, run);
        c->has = run->n_cores - run->n_leaving;
    }
    c->slack = q->deadline == MO_NEVER ? (double)mo_view_time(t, 1, 0, layers)
                                       : HEADROOM * (double)(q->deadline - view->now);
    c->estimate = mo_need(view, t, c->begin, layers, c->slack);
    c->left = (double)mo_view_time(t, c->estimate, c->begin, layers);
    s->n++;
}

static void gather(struct state *s, const struct mo_view *view) {
    s->n = 0;
    for (int i = 0; i < view->n_running; i++) {
        int query = view->runs[view->running[i]].query;
        if (!view->queries[query].decided) add(s, view, query);
    }
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        for (int k = 0; k < t->n_paused; k++)
            add(s, view, t->paused[k]);
        for (int k = 0; k < t->n_waiting && k < t->free_instances && k < WAITING; k++)
            add(s, view, t->waiting[k]);
    }
}

static bool late(const struct dealt *c) {
    return c->left > c->slack;
}

static int oldest(const struct state *s) {
    int best = 0;
    for (int i = 1; i < s->n; i++)
        if (s->list[i].order < s->list[best].order) best = i;
    return best;
}

/* Highest score first, ties by acceptance. */
static int compare(const void *a, const void *b) {
    const struct dealt *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void score_all(struct state *s, const struct mo_view *view, bool fit) {
    for (int i = 0; i < s->n; i++) {
        struct dealt *c = &s->list[i];
        double priority = view->queries[c->query].priority > 0 ? view->queries[c->query].priority : 1;
        double against = fit ? c->left : c->slack * c->estimate;
        c->score = late(c) ? 0 : against > 1 ? priority / against : priority;
    }
    if (s->n && s->starts >= OLDEST_EVERY) s->list[oldest(s)].score = FIRST;
    qsort(s->list, (size_t)s->n, sizeof *s->list, compare);
}

/* Who gets how many cores. */
static void deal(struct state *s, const struct mo_view *view) {
    int sum = 0, rest = view->n_cores;
    double scores = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->list[i].estimate;
    bool fit = sum <= view->n_cores;
    score_all(s, view, fit);
    for (int i = 0; i < s->n; i++) {
        struct dealt *c = &s->list[i];
        c->gets = c->estimate < rest ? c->estimate : rest;
        rest -= c->gets;
        scores += c->score;
    }
    for (int i = 0, spare = rest; fit && scores > 0 && i < s->n; i++) {
        struct dealt *c = &s->list[i];
        const struct mo_view_tenant *t = &view->tenants[view->queries[c->query].tenant];
        int most = mo_profile_fastest(t->profile, c->begin, mo_view_widest(view, t));
        int gets = c->gets + (int)(spare * c->score / scores);
        if (gets > most) gets = most;
        if (gets > c->gets) c->gets = gets;
    }
}

/* A running block goes on with n cores; those that it gains come from the pool. */
static void resize(struct state *s, const struct mo_view *view, struct mo_decisions *out,
                   const struct dealt *c, int n) {
    int lead = view->queries[c->query].run;
    struct mo_cores stay = view->runs[lead].cores, cores;
    mo_cores_subtract(&stay, &view->runs[lead].leaving);
    cores = mo_cores_take(&stay, n < c->has ? n : c->has, lead);
    if (n > c->has) {
        struct mo_cores join = mo_cores_take(&s->pool, n - c->has, -1);
        mo_cores_join(&cores, &join);
        s->idle -= n - c->has;
    }
    mo_decide_resize(out, c->query, cores, n);
}

/* Running blocks give up what others are short of, the lowest score first; their lead stays. */
static void give_up(struct state *s, const struct mo_view *view, struct mo_decisions *out) {
    int missing = -s->idle;
    for (int i = 0; i < s->n; i++)
        if (s->list[i].gets > s->list[i].has) missing += s->list[i].gets - s->list[i].has;
    for (int i = s->n - 1; i >= 0 && missing > 0; i--) {
        const struct dealt *c = &s->list[i];
        int keep = c->gets > 1 ? c->gets : 1;
        if (keep >= c->has) continue;
        if (c->has - keep > missing) keep = c->has - missing;
        resize(s, view, out, c, keep);
        missing -= c->has - keep;
    }
}

static void start(struct state *s, const struct mo_view *view, struct mo_decisions *out,
                  const struct dealt *c, int n) {
    int core = view->queries[c->query].last_core;
    mo_decide_want(out, c->query, mo_view_block(view, c->query, n), mo_cores_take(&s->pool, n, core),
                   c->gets);
    mo_decide_cut(out, MO_CUT_BOUND);
    s->idle -= n;
    s->starts = s->starts >= OLDEST_EVERY ? 0 : s->starts + 1;
}

/* A change costs a running block something: it grows by a quarter or more, and not shortly before its end. */
static bool may_grow(const struct mo_view *view, const struct dealt *c) {
    const struct mo_view_run *run = &view->runs[view->queries[c->query].run];
    return view->resizes && 4 * (c->gets - c->has) >= c->has && !mo_view_ends_soon(view, run);
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)event;
    struct state *s = state;
    if (!view->n_idle && !view->resizes) return;
    s->pool = view->idle;
    s->idle = view->n_idle;
    gather(s, view);
    deal(s, view);
    if (view->resizes) give_up(s, view, out);
    for (int i = 0; i < s->n && s->idle > 0; i++) {
        const struct dealt *c = &s->list[i];
        int more = c->gets - c->has;
        if (more <= 0 || (c->has && !may_grow(view, c))) continue;
        if (more > s->idle) more = s->idle;
        if (c->has)
            resize(s, view, out, c, c->has + more);
        else
            start(s, view, out, c, more);
    }
}

const struct mo_policy mo_policy_planaria = {
    .name = "planaria",
    .description = "as many cores as each query's slack asks for, dealt anew at every event (Planaria)",
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
