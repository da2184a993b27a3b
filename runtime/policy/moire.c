/* SPDX-License-Identifier: Apache-2.0
 * moire.c - deadlines first, cores dealt anew at every event, every tenant served.
 *
 * Whenever cores are idle or queries wait:
 * 1. Who.  Candidates are the queries that run, are paused, or stand first in their tenant's queue among
 * those that can still be in time.  Each has a ladder of plans (runtime/profile/ladder.h): core counts layer
 * by layer, from the cheapest to the fastest.  Where the shared cache holds less than half of the models,
 * plans count with neighbours that fill the memory now and then.  What not even the fastest brings in time,
 * what has no target and what is best-effort is set aside.
 * 2. What fits.  In order of deadline, the core time that the cheapest sufficient plans still take must fit
 *    the cores until each deadline.  Where it does not, the query is set aside that frees most core time for
 *    the price of a miss (Moore and Hodgson's rule).  That price makes the difference between objectives
 *    (moire_prices.c); under `every` what has begun goes last.
 * 3. How much.  All cores are dealt to what is kept, so that everybody ends after the same part of the time
 *    to his deadline (moire_deal.c).
 * 4. From whom to whom.  By deadline, idle cores start what waits and join what runs on less than its share;
 *    what runs on more gives the rest up while others lack cores (moire_give.c).  So nobody waits for the
 *    right number of cores: he begins on what there is, and grows.
 * 5. What is set aside takes what is left, and gives it back likewise.  A tenant that had less core time than
 *    its floor comes before all others, and a small share always goes to the oldest that waits far beyond its
 *    target, so nothing starves.  What cannot be in time is shed where its tenant allows it.
 * 6. Layers run in the versions that suit the neighbours that they will have (moire_pressure.c).
 *
 * It remembers what tenants may still miss and what they are owed, and nothing of single queries: stability
 * comes from work done, for what has run is cheaper to keep. */
#include <string.h>
#include "runtime/policy/allocation.h"
#include "runtime/policy/moire_parts.h"

enum { PER_TENANT = 12, PER_TENANT_LATE = 4, SHED_AT_ONCE = 16 };
/* A query must fit with this part of its rest to spare, and the cheapest plan that counts leaves this part of
 * the slack: blocks end a little later than predicted, and cores come a little late. */
static const double MARGIN = 0.02, SPARE = 0.1;
/* Part of the cores' time that plans count on; the rest is lost to layers that leave cores idle.  With more
 * the light mix is worse, with less the mix of all models. */
static const double FULL = 0.9;
/* Under `every`, so many times is it worse to set a query aside that has begun: its activations stay, and its
 * instance, and its tenant pays for both.  Where only the number of misses counts, what it still needs
 * counts. */
static const double BEGUN = 1e6;

/* --- 1. candidates --- */
static bool earlier(const struct mo_moire_candidate *a, const struct mo_moire_candidate *b) {
    return a->deadline != b->deadline ? a->deadline < b->deadline : a->order < b->order;
}
static bool older(const struct mo_moire_candidate *a, const struct mo_moire_candidate *b) {
    return a->order < b->order;
}

/* Inserts index `at` into a sorted list of n indices. */
static void insert(const struct mo_moire_state *s, short *list, int n, int at,
                   bool (*before)(const struct mo_moire_candidate *, const struct mo_moire_candidate *)) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (before(&s->list[list[mid]], &s->list[at]))
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(&list[lo + 1], &list[lo], (size_t)(n - lo) * sizeof *list);
    list[lo] = (short)at;
}

static void set_aside(struct mo_moire_state *s, int at) {
    s->list[at].keep = false;
    if (!s->list[at].running) insert(s, s->aside, s->n_aside++, at, older);
}

/* After what its tenant has had, and what those before it will have. */
static void take_turn(struct mo_moire_account *a, struct mo_moire_candidate *c, double weight) {
    c->turn = a->had + a->ahead;
    if (!c->running) a->ahead += c->left / weight;
}

/* run: the block that runs, or NULL.  The list has room for all that are looked at. */
static void add(struct mo_moire_state *s, const struct mo_view *view, int slot, int top,
                const struct mo_view_run *run) {
    s->n_others += !run;
    const struct mo_view_query *q = &view->queries[slot];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    int at = s->n++, layer = q->next_layer;
    struct mo_moire_candidate *c = &s->list[at];
    *c = (struct mo_moire_candidate){.query = slot,
                                     .tenant = q->tenant,
                                     .running = run != NULL,
                                     .started = q->started != 0,
                                     .best_effort = t->best_effort || !t->qos_ns,
                                     .residual = t->residual,
                                     .top = top,
                                     .slack = (double)(q->deadline - view->now),
                                     .deadline = q->deadline,
                                     .order = q->order,
                                     .begin = layer};
    if (run) {
        double place = mo_view_place(view, run);
        layer = (int)place;
        c->part = place - layer;
        c->begin = run->end;
        c->cores = run->n_cores - run->n_leaving;
        c->rest = run->predicted_end > view->now ? run->predicted_end - view->now : 0;
    }
    c->plan = mo_ladder_from(t->profile, s->crowded, layer);
    c->keep = !t->best_effort && q->deadline != MO_NEVER && mo_moire_time(c, top) * (1 + MARGIN) <= c->slack;
    if (c->keep) mo_moire_climb(c, c->slack / (1 + SPARE));
    c->left = mo_moire_work(c, c->rung);
    if (s->weighted) take_turn(&s->account[q->tenant], c, mo_view_weight(t));
    insert(s, s->by_deadline, at, at, earlier);
    if (c->keep) return;
    c->late = true;
    s->account[q->tenant].begun += c->started;
    s->account[q->tenant].late += q->started && q->deadline != MO_NEVER;
    set_aside(s, at);
}

static int top_of(const struct mo_moire_state *s, const struct mo_view *view,
                  const struct mo_view_tenant *t) {
    return mo_ladder_top(t->profile, s->crowded, mo_view_widest(view, t));
}

/* Least time that a tenant's layers take from one on. */
static int64_t left_of(const struct mo_moire_state *s, const struct mo_view_tenant *t, int layer, int top) {
    return (int64_t)((double)mo_ladder_from(t->profile, s->crowded, layer)[top].time * t->residual);
}

/* First waiting query of a tenant that can make it on an empty machine; all share one time, and deadlines
 * come in order, so the infeasible ones are in front. */
static int first_feasible(const struct mo_moire_state *s, const struct mo_view *view,
                          const struct mo_view_tenant *t, int top) {
    int64_t whole = left_of(s, t, 0, top);
    int lo = 0, hi = t->n_waiting;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (view->queries[t->waiting[mid]].deadline - view->now < whole)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The k-th that is paused of every tenant; of what is late, the first few. */
static void gather_paused(struct mo_moire_state *s, const struct mo_view *view, int k) {
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (k && s->n_others >= MO_MOIRE_OTHERS) return;
        if (!t->open || k >= t->n_paused) continue;
        if (view->queries[t->paused[k]].deadline > view->now || k < PER_TENANT_LATE)
            add(s, view, t->paused[k], top_of(s, view, t), NULL);
    }
}

/* Of what waits, the oldest that is late, and the k-th that is not. */
static void gather_waiting(struct mo_moire_state *s, const struct mo_view *view, int k) {
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        struct mo_moire_account *a = &s->account[i];
        if (k && s->n_others >= MO_MOIRE_OTHERS) return;
        if (!t->open || !t->free_instances || !t->n_waiting) continue;
        int top = top_of(s, view, t);
        if (!k) {
            a->first = first_feasible(s, view, t, top);
            a->late += a->first;
            if (a->first > 0) add(s, view, t->waiting[0], top, NULL);
        }
        if (a->first + k < t->n_waiting) add(s, view, t->waiting[a->first + k], top, NULL);
    }
}

/* All tenants' first ones come before anybody's second, and are looked at however many there are. */
static void gather(struct mo_moire_state *s, const struct mo_view *view) {
    int paused = 0, waiting = 0;
    s->n = s->n_others = s->n_aside = 0;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        s->account[i].late = s->account[i].begun = 0;
        if (t->n_paused > paused) paused = t->n_paused;
        if (t->n_waiting > waiting) waiting = t->n_waiting;
    }
    for (int i = 0; i < view->n_running; i++) {
        const struct mo_view_run *run = &view->runs[view->running[i]];
        add(s, view, run->query, top_of(s, view, &view->tenants[view->queries[run->query].tenant]), run);
    }
    for (int k = 0; k < paused; k++)
        gather_paused(s, view, k);
    for (int k = 0; k < waiting && k < PER_TENANT; k++)
        gather_waiting(s, view, k);
}

/* --- 2. what fits --- */
/* Of one tenant, or of all (-1). */
static int costliest(const struct mo_moire_state *s, int last, int tenant, double begun) {
    int worst = -1;
    double most = 0;
    for (int k = 0; k <= last; k++) {
        const struct mo_moire_candidate *c = &s->list[s->by_deadline[k]];
        double frees = c->left / s->account[c->tenant].price / (c->started ? begun : 1);
        if (!c->keep || frees <= most || (tenant >= 0 && c->tenant != tenant)) continue;
        most = frees;
        worst = s->by_deadline[k];
    }
    return worst;
}

/* What of a tenant's (-1: of all) does not fit so many cores is set aside. */
static void fit_on(struct mo_moire_state *s, const struct mo_view *view, int tenant, int cores) {
    double load = 0, begun = view->objective == MO_OBJECTIVE_EVERY ? BEGUN : 1;
    for (int i = 0; i < s->n; i++) {
        const struct mo_moire_candidate *c = &s->list[s->by_deadline[i]];
        if (!c->keep || (tenant >= 0 && c->tenant != tenant)) continue;
        load += c->left;
        double room = c->slack * cores * FULL;
        while (load > room) {
            int victim = costliest(s, i, tenant, begun);
            if (victim < 0) break;
            load -= s->list[victim].left;
            set_aside(s, victim);
        }
    }
}

static void fit(struct mo_moire_state *s, const struct mo_view *view) {
    for (int i = 0; s->bounded && i < view->n_tenants; i++)
        if (view->tenants[i].open && s->account[i].most) fit_on(s, view, i, s->account[i].most);
    fit_on(s, view, -1, view->n_cores);
}

static void shed_infeasible(const struct mo_moire_state *s, const struct mo_view *view,
                            struct mo_decisions *out) {
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open || !t->shed_late || !t->qos_ns) continue;
        int top = top_of(s, view, t);
        int n = first_feasible(s, view, t, top);
        for (int k = 0; k < n && k < SHED_AT_ONCE; k++)
            mo_decide_shed(out, t->waiting[k]);
        for (int k = 0; k < t->n_paused; k++) {
            const struct mo_view_query *q = &view->queries[t->paused[k]];
            if (left_of(s, t, q->next_layer, top) > q->deadline - view->now)
                mo_decide_shed(out, t->paused[k]);
        }
    }
}

/* Whether the shared cache holds less than half of the models, so that most of what they read comes from
 * memory. */
static bool is_crowded(const struct mo_view *view) {
    double bytes = 0;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_profile *p = view->tenants[i].open ? view->tenants[i].profile : NULL;
        if (p) bytes += (double)mo_profile_bytes(p, 0, p->n_layers);
    }
    return bytes > 2 * view->memory.cache_bytes;
}

static bool anyone_waits(const struct mo_view *view) {
    for (int i = 0; i < view->n_tenants; i++)
        if (view->tenants[i].n_waiting || view->tenants[i].n_paused) return true;
    return false;
}

static void decide(struct mo_moire_state *s, const struct mo_view *view, struct mo_decisions *out) {
    s->crowded = is_crowded(view);
    shed_infeasible(s, view, out);
    mo_shed_from_late(view, out);
    mo_let_go_late(view, out);
    if (!view->n_idle && !anyone_waits(view)) return;
    mo_moire_look(s, view);
    gather(s, view);
    mo_moire_prices(s, view);
    if (!s->parts->no_fit) fit(s, view);
    if (s->weighted) mo_moire_take_turns(s);
    mo_moire_deal(s, view);
    mo_moire_give(s, view, out);
}

void mo_moire_dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                       struct mo_decisions *out) {
    struct mo_moire_state *s = state;
    (void)event;
    s->parts = view->options;
    decide(s, view, out);
    if (s->parts->no_versions) return;
    mo_decide_pressure(out, view);
    if (!s->parts->no_neighbours) mo_moire_predict_pressure(s, view, out);
}

const struct mo_policy mo_policy_moire = {
    .name = "moire",
    .description = "what fits by deadline, cores dealt anew at every event, every tenant served",
    .options = &(const struct mo_moire_parts){0},
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = mo_moire_dispatch,
};
