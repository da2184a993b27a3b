/* SPDX-License-Identifier: Apache-2.0
 * moire.c - deadline-aware at block boundaries.
 *
 * At every event with an idle core:
 * 1. Candidates: queries that run, are paused, or lead their tenant's queue among those that can still make
 *    it.
 * 2. In order of deadline, the core time due until each deadline must fit the cores until then, less what
 *    tenants with tighter targets are expected to bring in the meantime.  Where it does not fit, the query
 *    that frees most time for least harm is set aside (Moore and Hodgson's rule, weighted): what a miss of
 *    its tenant costs is the objective's (moire_prices.c).
 * 3. All cores are allotted anew to the kept queries (moire_allot.c), those that run included, and the idle
 *    ones go by deadline to those that do not run, each up to its share.  With too few cores idle, it waits
 *    for blocks that end soon where its next layer then ends sooner, or takes what there is for a block that
 *    ends when they do, so that the cores meet.  The more cores, the shorter the blocks, for there are more
 *    lets to allot anew among.  Its layers run in the versions that suit the
 *    neighbours that it will have (moire_pressure.c).
 * 4. What is set aside, infeasible, best-effort or without target runs on what is left, oldest first, while
 *    the kept queries have time to spare, but for a part of the cores that the next query with a target finds
 *    idle, and where its next layer ends within a block's time: on too few cores a single layer would hold
 *    them for long.  A tenant that had less core time than its floor comes before all others, and a small
 *    share always goes to the oldest that waits far beyond its target, so nothing starves.  Infeasible
 *    queries of tenants that allow it are shed.
 *
 * It remembers what tenants may still miss and what they are owed, and nothing of single queries: stability
 * comes from work done, for what has run is cheaper to keep. */
#include <string.h>
#include "runtime/policy/allocation.h"
#include "runtime/policy/moire_parts.h"

enum { PER_TENANT = 12, PER_TENANT_LATE = 4, SHED_AT_ONCE = 16, STARVED_SHARE = 40 };
static const int64_t STARVED_NS = 1000000000;
static const double MARGIN = 0.02;       /* a query must fit with so much of its rest to spare */
static const double FEWEST_MARGIN = 0.1; /* slack that the fewest cores must leave */
static const double POOR = 0.8;          /* with less than this part of its share idle, a query may wait */
static const double FULL = 0.9;          /* share of the cores' time that plans count on: blocks leave gaps */
static const int BRIEF = 16;             /* blocks are shorter by 1 + cores / so many */
static const double EASY = 0.6; /* fraction of their slack beyond which kept queries have none to spare */
/* So many times is it worse to set a query aside that has begun: its activations stay, and its instance. */
static const double BEGUN = 1e6;
static const int ROOM = 4; /* what is set aside leaves one core of so many idle */

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

/* wide: the core count at which the tenant is fastest.  run: the block that runs, or NULL. */
static void add(struct mo_moire_state *s, const struct mo_view *view, int slot, int wide,
                const struct mo_view_run *run) {
    if (s->n == MO_MOIRE_CANDIDATES) return;
    const struct mo_view_query *q = &view->queries[slot];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    int begin = run ? run->end : q->next_layer, layers = t->profile->n_layers, at = s->n++;
    int64_t rest = run && run->predicted_end > view->now ? run->predicted_end - view->now : 0;
    double best = (double)(rest + mo_view_time(t, wide, begin, layers)) * (1 + MARGIN);
    struct mo_moire_candidate *c = &s->list[at];
    *c = (struct mo_moire_candidate){.query = slot,
                                     .tenant = q->tenant,
                                     .running = run != NULL,
                                     .begin = begin,
                                     .wide = wide,
                                     .cores = run ? run->n_cores : 0,
                                     .rest = rest,
                                     .deadline = q->deadline,
                                     .order = q->order,
                                     .started = q->started != 0};
    c->keep = !t->best_effort && q->deadline != MO_NEVER && best <= (double)(q->deadline - view->now);
    double slack = (double)(q->deadline - view->now - rest);
    int fewest_cores =
        c->keep && begin < layers ? mo_moire_fewest(t, begin, slack / (1 + FEWEST_MARGIN), wide) : 1;
    c->left = (double)mo_view_time(t, fewest_cores, begin, layers) * fewest_cores + (double)rest * c->cores;
    insert(s, s->by_deadline, at, at, earlier);
    if (c->keep) return;
    s->account[q->tenant].late += q->started && q->deadline != MO_NEVER;
    set_aside(s, at);
}

/* First waiting query of a tenant that can make it on an empty machine; all share one time, and deadlines
 * come in order, so the infeasible ones are in front. */
static int first_feasible(const struct mo_view *view, const struct mo_view_tenant *t, int wide) {
    int64_t whole = mo_view_time(t, wide, 0, t->profile->n_layers);
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

static void gather(struct mo_moire_state *s, const struct mo_view *view) {
    s->n = s->n_aside = 0;
    for (int i = 0; i < view->n_tenants; i++)
        s->account[i].late = 0;
    for (int i = 0; i < view->n_running; i++) {
        const struct mo_view_run *run = &view->runs[view->running[i]];
        const struct mo_profile *p = view->tenants[view->queries[run->query].tenant].profile;
        int wide = run->end < p->n_layers ? mo_profile_fastest(p, run->end, view->n_cores) : run->n_cores;
        add(s, view, run->query, wide, run);
    }
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open || (!t->n_waiting && !t->n_paused)) continue;
        int wide = mo_profile_fastest(t->profile, 0, view->n_cores);
        for (int k = 0, late = 0; k < t->n_paused; k++)
            if (view->queries[t->paused[k]].deadline > view->now || late++ < PER_TENANT_LATE)
                add(s, view, t->paused[k], wide, NULL);
        if (!t->free_instances || !t->n_waiting) continue;
        int first = first_feasible(view, t, wide);
        s->account[i].late += first;
        if (first > 0) add(s, view, t->waiting[0], wide, NULL);
        for (int k = first; k < t->n_waiting && k < first + PER_TENANT; k++)
            add(s, view, t->waiting[k], wide, NULL);
    }
}

/* --- 2. what fits --- */
/* Core time until a deadline, less what tenants with tighter targets will ask for before it. */
static double room_until(const struct mo_moire_state *s, const struct mo_view *view, int64_t deadline) {
    double span = (double)(deadline - view->now), room = span * view->n_cores * FULL;
    bool ahead_of_it = span > (double)view->min_qos_ns && !s->parts->no_reserve;
    for (int i = 0; i < view->n_tenants && ahead_of_it; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        double ahead = span - (double)t->qos_ns;
        if (t->open && t->qos_ns && !t->best_effort && ahead > 0) room -= t->load * ahead;
    }
    return room;
}

static int costliest(const struct mo_moire_state *s, int last) {
    int worst = -1;
    double most = 0;
    for (int k = 0; k <= last; k++) {
        const struct mo_moire_candidate *c = &s->list[s->by_deadline[k]];
        double frees = c->left / s->account[c->tenant].price / (c->started ? BEGUN : 1);
        if (!c->keep || frees <= most) continue;
        most = frees;
        worst = s->by_deadline[k];
    }
    return worst;
}

static void fit(struct mo_moire_state *s, const struct mo_view *view) {
    double load = 0;
    for (int i = 0; i < s->n; i++) {
        const struct mo_moire_candidate *c = &s->list[s->by_deadline[i]];
        if (!c->keep) continue;
        load += c->left;
        double room = room_until(s, view, c->deadline);
        while (load > room) {
            int victim = costliest(s, i);
            if (victim < 0) break;
            load -= s->list[victim].left;
            set_aside(s, victim);
        }
    }
}

/* --- 3. and 4. cores --- */
/* What is being given away in one dispatch. */
struct allocation {
    const struct mo_view *view;
    const struct mo_moire_parts *parts;
    struct mo_moire_account *account; /* by tenant */
    struct mo_decisions *out;
    struct mo_cores pool;
    int idle, n_others, wanted; /* n_others: others that wait for a core; wanted: cores of their shares */
    double fraction;
    double work;   /* core time given, predicted */
    bool on_floor; /* who is served now had less core time than its tenant's floor */
};

/* Idle cores that what is set aside may take. */
static int free_of(const struct allocation *h) {
    int room = h->view->min_qos_ns && !h->parts->no_room ? h->view->n_cores / ROOM : 0;
    return h->on_floor ? h->idle : h->idle - room;
}

/* What is set aside gets a core, and an even part of those that nobody has a share in. */
static int cores_for(const struct allocation *h, const struct mo_moire_candidate *c) {
    if (c->keep) return c->share;
    int over = h->parts->no_share ? 0 : free_of(h) - h->wanted - 1;
    int n = 1 + (over > 0 && h->n_others >= 0 ? over / (h->n_others + 1) : 0);
    return n < c->wide ? n : c->wide;
}

/* Time until the blocks that end first have given back `missing` cores; 0 when they never do. */
static int64_t freed_in(const struct mo_view *view, int missing) {
    int64_t after = INT64_MIN;
    while (missing > 0) {
        int64_t next = INT64_MAX;
        int cores = 0;
        for (int i = 0; i < view->n_running; i++) {
            const struct mo_view_run *r = &view->runs[view->running[i]];
            if (r->predicted_end <= after || r->predicted_end > next) continue;
            cores = (r->predicted_end == next ? cores : 0) + r->n_cores;
            next = r->predicted_end;
        }
        if (next == INT64_MAX) return 0;
        missing -= cores;
        after = next;
    }
    return after > view->now ? after - view->now : 0;
}

/* Instances of the tenant that blocks decided in this dispatch have taken. */
static int taken_instances(const struct allocation *h, int tenant) {
    int n = 0;
    for (int i = 0; i < h->out->n; i++) {
        const struct mo_decision *d = &h->out->list[i];
        if (d->kind != MO_RUN) continue;
        const struct mo_view_query *q = &h->view->queries[d->query];
        n += q->tenant == tenant && !q->started;
    }
    return n;
}

/* From n cores on, the first count on which the query's next layer ends within a block's time, or within
 * twice what it takes on all cores where that is longer; 0: none. */
static int quick(const struct allocation *h, const struct mo_moire_candidate *c, int n) {
    const struct mo_view *view = h->view;
    const struct mo_view_tenant *t = &view->tenants[c->tenant];
    int layer = view->queries[c->query].next_layer, free = free_of(h);
    int64_t most = 2 * mo_view_time(t, view->n_cores, layer, layer + 1);
    if (most < view->block_ns) most = view->block_ns;
    while (!h->parts->no_quick && n <= free && mo_view_time(t, n, layer, layer + 1) > most)
        n++;
    return n <= free ? n : 0;
}

/* Its next layer ends sooner when it begins `gap` later, on n cores instead of those that are idle. */
static bool worth_waiting(const struct allocation *h, const struct mo_moire_candidate *c, int n,
                          int64_t gap) {
    const struct mo_view_tenant *t = &h->view->tenants[c->tenant];
    int layer = h->view->queries[c->query].next_layer;
    return gap + mo_view_time(t, n, layer, layer + 1) < mo_view_time(t, h->idle, layer, layer + 1);
}

/* Gives cores to one query; false: leave what is idle for it, its partners come in a moment. */
static bool serve(struct allocation *h, const struct mo_moire_candidate *c) {
    const struct mo_view *view = h->view;
    const struct mo_view_query *q = &view->queries[c->query];
    const struct mo_view_tenant *t = &view->tenants[c->tenant];
    h->n_others--;
    h->wanted -= c->share;
    if (!q->started && taken_instances(h, c->tenant) >= t->free_instances) return true;
    int n = cores_for(h, c), wanted = n;
    enum mo_cut cut = MO_CUT_BOUND;
    int64_t bound = h->parts->no_brief ? view->block_ns : view->block_ns / (1 + view->n_cores / BRIEF);
    if (n > h->idle) {
        int64_t gap = h->parts->no_meet ? 0 : freed_in(view, n - h->idle);
        if (gap && h->idle < POOR * n && worth_waiting(h, c, n, gap)) return false;
        if (gap && gap < bound) {
            bound = gap;
            cut = MO_CUT_MEET;
        }
        n = h->idle;
    }
    if (!c->keep && !h->on_floor && (n = quick(h, c, n)) == 0) return true;
    int end = mo_profile_block(t->profile, n, q->next_layer, (int64_t)((double)bound / t->residual));
    mo_decide_want(h->out, c->query, end, mo_cores_take(&h->pool, n, q->last_core), wanted);
    mo_decide_cut(h->out, cut);
    h->idle -= n;
    double work = (double)mo_view_time(t, n, q->next_layer, end) * n;
    h->work += work;
    h->account[c->tenant].owed -= work;
    return true;
}

static bool is_decided(const struct mo_decisions *out, int query) {
    for (int i = 0; i < out->n; i++)
        if (out->list[i].query == query) return true;
    return false;
}

/* Whether the oldest that is set aside has waited far beyond its target, and its turn has come. */
static bool is_starved(const struct mo_moire_state *s, const struct mo_view *view) {
    const struct mo_view_query *q = &view->queries[s->list[s->aside[0]].query];
    int64_t limit = view->tenants[q->tenant].qos_ns * 10;
    return s->debt <= 0 && view->now - q->arrival >= (limit > STARVED_NS ? limit : STARVED_NS);
}

/* The oldest of what is set aside of every tenant that had less core time than its floor. */
static void serve_floors(struct mo_moire_state *s, struct allocation *h) {
    h->on_floor = true;
    if (s->n_aside && is_starved(s, h->view)) {
        serve(h, &s->list[s->aside[0]]);
        s->debt = STARVED_SHARE * h->work;
        h->work = 0;
    }
    for (int i = 0; i < s->n_aside && h->idle > 0; i++) {
        const struct mo_moire_candidate *c = &s->list[s->aside[i]];
        if (s->account[c->tenant].owed > 0 && !is_decided(h->out, c->query)) serve(h, c);
    }
    h->on_floor = false;
}

static void shed_infeasible(const struct mo_view *view, struct mo_decisions *out) {
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (!t->open || !t->shed_late || !t->qos_ns) continue;
        int wide = mo_profile_fastest(t->profile, 0, view->n_cores);
        int n = first_feasible(view, t, wide);
        for (int k = 0; k < n && k < SHED_AT_ONCE; k++)
            mo_decide_shed(out, t->waiting[k]);
        for (int k = 0; k < t->n_paused; k++)
            if (mo_view_left(view, t->paused[k], wide) > view->queries[t->paused[k]].deadline - view->now)
                mo_decide_shed(out, t->paused[k]);
    }
}

/* Kept queries by deadline, then what is set aside, oldest first, while those have time to spare. */
static void allocate_cores(struct mo_moire_state *s, struct allocation *h) {
    serve_floors(s, h);
    for (int i = 0; i < s->n && h->idle > 0; i++) {
        const struct mo_moire_candidate *c = &s->list[s->by_deadline[i]];
        if (c->keep && !c->running && !serve(h, c)) return;
    }
    for (int i = 0; i < s->n_aside && h->idle > 0 && (s->fraction <= EASY || s->parts->no_ease); i++) {
        const struct mo_moire_candidate *c = &s->list[s->aside[i]];
        if (!is_decided(h->out, c->query)) serve(h, c);
    }
}

static bool anyone_waits(const struct mo_view *view) {
    for (int i = 0; i < view->n_tenants; i++)
        if (view->tenants[i].n_waiting || view->tenants[i].n_paused) return true;
    return false;
}

static void decide(struct mo_moire_state *s, const struct mo_view *view, struct mo_decisions *out) {
    shed_infeasible(view, out);
    mo_shed_from_late(view, out);
    mo_let_go_late(view, out);
    if (!view->n_idle || !anyone_waits(view)) return;
    gather(s, view);
    mo_moire_prices(s, view);
    if (!s->parts->no_fit) fit(s, view);
    mo_moire_allot(s, view);
    struct allocation h = {.view = view,
                           .parts = s->parts,
                           .account = s->account,
                           .out = out,
                           .pool = view->idle,
                           .idle = view->n_idle};
    for (int i = 0; i < s->n; i++)
        if (!s->list[i].running) {
            h.n_others++;
            h.wanted += s->list[i].share;
        }
    allocate_cores(s, &h);
    s->debt -= h.work;
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
    .description =
        "deadlines at block boundaries: what fits by deadline, cores dealt anew, every tenant served",
    .options = &(const struct mo_moire_parts){0},
    .state_bytes = sizeof(struct mo_moire_state),
    .dispatch = mo_moire_dispatch,
};
