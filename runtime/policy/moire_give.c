/* SPDX-License-Identifier: Apache-2.0
 * moire_give.c - who starts, grows and shrinks, by the shares of the deal.
 *
 * Shares are met in order of deadline from the idle cores.  What is missing then is asked back from blocks
 * that have more than their share, what is set aside first and later deadlines before earlier ones: their
 * cores come at the end of the layer that they are in, and the dispatch that follows hands them on.  Where
 * blocks keep their cores, shares are met when blocks end. */
#include "runtime/policy/moire_parts.h"

enum { STARVED_SHARE = 40 };
static const int64_t STARVED_NS = 1000000000;
/* Cores join a block when they are at least one in so many of it: fewer are not worth the call. */
static const int WORTH = 16;
/* Blocks are so many times shorter than the core's bound: only at its end a block can make room altogether.
 */
static const int BRIEF = 2;
/* One late query of a tenant may have begun, and one more for so many instances.  With fewer, 64 cores do not
 * get done what is late; with more, it is in the way: the mix of all models at load 0.84 has 91 % in time in
 * place of 89, and two cores at load 1.2 have 79 % in place of 61. */
static const int LATE_PART = 32;

/* What is being given away in one dispatch. */
struct giving {
    const struct mo_view *view;
    struct mo_moire_state *state;
    struct mo_decisions *out;
    struct mo_cores pool;
    bool resizes;
    int idle, missing; /* missing: cores of shares that the pool was too small for */
    double work;       /* core time given, predicted */
};

static bool is_decided(const struct giving *g, int query) {
    for (int i = 0; i < g->out->n; i++)
        if (g->out->list[i].query == query) return true;
    return false;
}

/* Of n cores those that its tenant may still take. */
static int within_bound(const struct giving *g, const struct mo_moire_candidate *c, int n) {
    const struct mo_moire_account *a = &g->state->account[c->tenant];
    if (!a->most || n <= a->room) return n;
    return a->room > 0 ? a->room : 0;
}

/* Instances of the tenant that blocks decided in this dispatch have taken. */
static int taken_instances(const struct giving *g, int tenant) {
    int n = 0;
    for (int i = 0; i < g->out->n; i++) {
        const struct mo_decision *d = &g->out->list[i];
        if (d->kind != MO_RUN) continue;
        const struct mo_view_query *q = &g->view->queries[d->query];
        n += q->tenant == tenant && !q->started;
    }
    return n;
}

/* Whether it may begin, if it has not.  Of what a tenant with a target has set aside one at a time has begun:
 * more would hold the instances that its next queries need, which can be in time.  A tenant that had less
 * than its floor has no such queries; one without a target ends what it has begun first. */
static bool may_begin(const struct giving *g, const struct mo_moire_candidate *c) {
    const struct mo_view_tenant *t = &g->view->tenants[c->tenant];
    const struct mo_moire_account *a = &g->state->account[c->tenant];
    if (within_bound(g, c, 1) < 1) return false;
    if (c->started) return true;
    if (taken_instances(g, c->tenant) >= t->free_instances) return false;
    if (t->best_effort || !t->qos_ns) return !t->n_paused;
    int instances = t->free_instances + t->n_paused + t->n_running;
    return !c->late || a->begun < 1 + instances / LATE_PART || a->owed > 0;
}

/* A block on up to n of the idle cores, of which there are some; nothing where it may not begin. */
static void start(struct giving *g, const struct mo_moire_candidate *c, int n) {
    const struct mo_view *view = g->view;
    const struct mo_view_query *q = &view->queries[c->query];
    const struct mo_view_tenant *t = &view->tenants[c->tenant];
    if (!may_begin(g, c)) return;
    struct mo_moire_account *a = &g->state->account[c->tenant];
    a->begun += c->late && !c->started;
    int wanted = n = within_bound(g, c, n);
    if (n > g->idle) n = g->idle;
    int64_t bound = (int64_t)((double)view->block_ns / BRIEF / t->residual);
    int end = mo_profile_block(t->profile, n, q->next_layer, bound);
    mo_decide_want(g->out, c->query, end, mo_cores_take(&g->pool, n, q->last_core), wanted);
    mo_decide_cut(g->out, MO_CUT_BOUND);
    g->idle -= n;
    g->missing += wanted - n;
    double work = (double)mo_view_time(t, n, q->next_layer, end) * n;
    g->work += work;
    a->owed -= work;
    if (g->state->weighted) a->had += work / mo_view_weight(t);
    a->room -= n;
}

/* The cores that stay in a candidate's block. */
static struct mo_cores cores_of(const struct mo_view *view, const struct mo_moire_candidate *c) {
    const struct mo_view_run *run = &view->runs[view->queries[c->query].run];
    struct mo_cores cores = run->cores;
    mo_cores_subtract(&cores, &run->leaving);
    return cores;
}

/* Idle cores join a block until it has its share. */
static void grow(struct giving *g, struct mo_moire_candidate *c) {
    int lack = within_bound(g, c, c->share - c->cores), n = lack < g->idle ? lack : g->idle;
    if (lack * WORTH < c->cores) return;
    g->missing += lack - n;
    if (!n || n * WORTH < c->cores) return;
    struct mo_cores cores = cores_of(g->view, c);
    struct mo_cores more = mo_cores_take(&g->pool, n, g->view->queries[c->query].last_core);
    mo_cores_join(&cores, &more);
    mo_decide_resize(g->out, c->query, cores, c->share);
    g->idle -= n;
    g->state->account[c->tenant].room -= n;
    c->cores += n;
}

/* Leaves a block `to` cores, its lead among them. */
static void shrink(struct giving *g, struct mo_moire_candidate *c, int to) {
    struct mo_cores cores = cores_of(g->view, c);
    int lead = g->view->queries[c->query].run, n = c->cores;
    for (int core = mo_cores_next(&cores, -1); core >= 0 && n > to; core = mo_cores_next(&cores, core)) {
        if (core == lead) continue;
        mo_cores_remove(&cores, core);
        n--;
    }
    mo_decide_resize(g->out, c->query, cores, to);
    g->missing -= c->cores - to;
    c->cores = to;
}

/* Whether the oldest that is set aside has waited far beyond its target, and its turn has come. */
static bool is_starved(const struct giving *g) {
    const struct mo_moire_state *s = g->state;
    const struct mo_view_query *q = &g->view->queries[s->list[s->aside[0]].query];
    int64_t limit = g->view->tenants[q->tenant].qos_ns * 10;
    return s->debt <= 0 && g->view->now - q->arrival >= (limit > STARVED_NS ? limit : STARVED_NS);
}

/* A core for the first of what is set aside that may have one. */
static void start_oldest(struct giving *g) {
    const struct mo_moire_state *s = g->state;
    int k = 0;
    while (k < s->n_aside && !may_begin(g, &s->list[s->aside[k]]))
        k++;
    if (k < s->n_aside) start(g, &s->list[s->aside[k]], 1);
}

/* A core for the oldest of what is set aside of every tenant that had less core time than its floor. */
static void give_floors(struct giving *g) {
    struct mo_moire_state *s = g->state;
    if (s->n_aside && g->idle > 0 && is_starved(g)) {
        start_oldest(g);
        s->debt = STARVED_SHARE * g->work;
        g->work = 0;
    }
    for (int i = 0; i < s->n_aside && g->idle > 0; i++) {
        const struct mo_moire_candidate *c = &s->list[s->aside[i]];
        if (s->account[c->tenant].owed > 0 && !is_decided(g, c->query)) start(g, c, 1);
    }
}

static void give_shares(struct giving *g) {
    struct mo_moire_state *s = g->state;
    for (int i = 0; i < s->n; i++) {
        struct mo_moire_candidate *c = &s->list[s->by_deadline[i]];
        if (!c->keep || !c->share) continue;
        if (c->running && g->resizes && c->share > c->cores && !is_decided(g, c->query))
            grow(g, c);
        else if (!c->running && g->idle > 0)
            start(g, c, c->share);
        else if (!c->running)
            g->missing += within_bound(g, c, c->share);
    }
}

static void take_back(struct giving *g) {
    struct mo_moire_state *s = g->state;
    for (int i = 0; i < g->view->n_running; i++)
        g->missing -= g->view->runs[g->view->running[i]].n_leaving;
    for (int kept = 0; kept < 2; kept++)
        for (int i = s->n - 1; i >= 0 && g->missing > 0; i--) {
            struct mo_moire_candidate *c = &s->list[s->by_deadline[i]];
            if (!c->running || c->keep != kept) continue;
            int least = kept ? c->share : 1, to = c->cores - g->missing;
            if (to < least) to = least;
            if (c->cores > to && !is_decided(g, c->query)) shrink(g, c, to);
        }
}

/* Even parts of what nobody has a share in, oldest first. */
static void give_rest(struct giving *g) {
    struct mo_moire_state *s = g->state;
    for (int i = 0; i < s->n_aside && g->idle > 0; i++) {
        const struct mo_moire_candidate *c = &s->list[s->aside[i]];
        int even = g->idle / (s->n_aside - i), most = c->plan[c->top].cores;
        int n = even < 1 ? 1 : even < most ? even : most;
        if (!is_decided(g, c->query)) start(g, c, n);
    }
}

/* What is left joins the blocks of those that have no share, oldest first. */
static void grow_rest(struct giving *g) {
    struct mo_moire_state *s = g->state;
    for (int i = 0; i < s->n && g->idle > 0; i++) {
        struct mo_moire_candidate *c = &s->list[s->by_deadline[i]];
        if (!c->running || c->keep || is_decided(g, c->query)) continue;
        const int most = c->plan[c->top].cores;
        c->share = c->cores + g->idle < most ? c->cores + g->idle : most;
        if (c->share > c->cores) grow(g, c);
    }
}

void mo_moire_give(struct mo_moire_state *s, const struct mo_view *view, struct mo_decisions *out) {
    struct giving g = {.view = view,
                       .state = s,
                       .out = out,
                       .pool = view->idle,
                       .idle = view->n_idle,
                       .resizes = view->resizes && !s->parts->no_resize};
    give_floors(&g);
    give_shares(&g);
    if (g.resizes && g.missing > 0) take_back(&g);
    give_rest(&g);
    if (g.resizes) grow_rest(&g);
    s->debt -= g.work;
}
