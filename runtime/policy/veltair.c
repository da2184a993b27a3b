/* SPDX-License-Identifier: Apache-2.0
 * veltair.c - VELTAIR's runtime (Liu et al., ASPLOS 2022, algorithm 3 and sections 4.2 and 4.3) and its
 * scheduling units of fixed size.
 *
 *   layerwise     a layer at a time
 *   fixed6/11     so many layers at a time (its figure 3)
 *   veltair-as    layer blocks (veltair_blocks.h): adaptive scheduling, layers in their fastest versions
 *   veltair-ac    layerwise with adaptive compilation: versions of the layers by the pressure at hand
 *   veltair       both
 *   veltair-time  both; targets are shared among layers by one-core time, not by operations
 *
 * Where versions adapt, so do core counts: blocks are formed of the versions for the pressure at hand, which
 * leaves out the blocks that will end soon (runtime/sched/core_pressure.h).  Active are the queries that have
 * begun.
 *
 * On a conflict (fewer cores free than needed) a block starts on all that are free and grows as more come
 * free, the oldest block first and before new ones; no query holds back those behind it.  Where blocks cannot
 * grow its first layer runs alone, and the rest asks again after it.
 *
 * Where the paper leaves a choice, the better is done.  Which query comes first it does not say: the one with
 * the earliest deadline, those that cannot be in time last, now and then the oldest so that nobody starves.
 * With shares of the whole target every wait would make a query late: shares are of 70 % of it, those that
 * pivots go by, too, and a query that is behind its plan asks for cores enough to catch up, for twice its
 * pace at most. */
#include "runtime/policy/allocation.h"
#include "runtime/policy/veltair_blocks.h"

static const double MOST_HASTE = 0.5; /* of the time that is planned for layers */
enum { OLDEST_EVERY = 40 };           /* blocks from one turn of the oldest query to the next */

struct options {
    int size;      /* layers of a unit; 0 = by pivots */
    bool versions; /* by the pressure at hand */
    bool by_time;
};

struct state {
    struct mo_allocation allocation;
    int starts;
};

/* One dispatch. */
struct serving {
    const struct options *options;
    const struct mo_view *view;
    struct mo_allocation *h;
    double sum; /* of Avg_C over the active queries */
};

/* Observed over profiled time.  What is known of versions under pressure needs no such correction: the
 * residual holds the same slowdown. */
static double slower(const struct serving *v, const struct mo_view_tenant *t) {
    return v->options->versions && t->profile->level ? 1 : t->residual;
}

static struct mo_blocks model_of(const struct serving *v, const struct mo_view_tenant *t) {
    const struct mo_profile *p = t->profile;
    return (struct mo_blocks){
        .profile = p,
        .cores = mo_view_widest(v->view, t),
        .target = t->qos_ns ? mo_blocks_planned((double)t->qos_ns) / slower(v, t)
                            : (double)mo_profile_time(p, 1, 0, p->n_layers),
        .pressure = v->options->versions ? v->view->pressure[MO_PRESSURE_CACHE] : -1,
        .by_time = v->options->by_time || !t->qos_ns,
    };
}

static double active(const struct serving *v) {
    double sum = 0;
    for (int i = 0; i < v->view->n_tenants; i++) {
        const struct mo_view_tenant *t = &v->view->tenants[i];
        if (t->n_running + t->n_paused == 0) continue;
        struct mo_blocks b = model_of(v, t);
        sum += (t->n_running + t->n_paused) * mo_blocks_need(&b, 0, t->profile->n_layers);
    }
    return sum;
}

/* End of the block that begins at the query's next layer; the query is active from now on. */
static int end_of(struct serving *v, const struct mo_view_query *q, const struct mo_blocks *b) {
    int layers = b->profile->n_layers, size = v->options->size;
    if (size) return q->next_layer + size < layers ? q->next_layer + size : layers;
    int average = mo_blocks_need(b, 0, layers);
    if (!q->started) v->sum += average;
    return mo_blocks_pivot(b, q->next_layer, mo_blocks_limit(b->cores, v->sum, average));
}

/* What a query that is behind its plan makes up for: its time to the planned end over what is planned for the
 * layers that are left, from MOST_HASTE to 1.  One that is past its deadline makes up for nothing. */
static double haste(const struct serving *v, const struct mo_view_query *q, const struct mo_blocks *b) {
    const struct mo_view_tenant *t = &v->view->tenants[q->tenant];
    double rest =
        mo_blocks_share(b, q->next_layer, b->profile->n_layers) * mo_blocks_planned((double)t->qos_ns);
    double reserve = (double)t->qos_ns - mo_blocks_planned((double)t->qos_ns);
    if (q->deadline == MO_NEVER || q->deadline <= v->view->now || rest <= 0) return 1;
    double left = (double)(q->deadline - v->view->now) - reserve;
    return left >= rest ? 1 : left > MOST_HASTE * rest ? left / rest : MOST_HASTE;
}

/* Cores for layers [next_layer, end). */
static int cores_of(const struct serving *v, const struct mo_view_query *q, struct mo_blocks b, int end) {
    b.target *= haste(v, q, &b);
    return mo_blocks_need(&b, q->next_layer, end);
}

static void start(struct serving *v, int query) {
    const struct mo_view_query *q = &v->view->queries[query];
    struct mo_blocks b = model_of(v, &v->view->tenants[q->tenant]);
    int end = end_of(v, q, &b), n = cores_of(v, q, b, end), wanted = n;
    enum mo_cut cut = v->options->size ? MO_CUT_SIZE : MO_CUT_PIVOT;
    if (n > v->h->idle) {
        n = v->h->idle;
        if (!v->view->resizes) {
            end = q->next_layer + 1;
            cut = MO_CUT_CONFLICT;
        }
    }
    mo_allocation_run(v->h, query, end, n, wanted);
    mo_decide_cut(v->h->out, cut);
}

/* Of the blocks that have begun after `after` the first that is short of cores and would gain by more; NULL:
 * none. */
static const struct mo_view_run *next_short(const struct mo_view *view, const struct mo_view_run *after) {
    const struct mo_view_run *best = NULL;
    for (int i = 0; i < view->n_running; i++) {
        const struct mo_view_run *r = &view->runs[view->running[i]];
        if (r->wanted <= r->n_cores - r->n_leaving || (best && r->start >= best->start)) continue;
        if (after && (r->start < after->start || (r->start == after->start && r <= after))) continue;
        if (!mo_view_ends_soon(view, r) && !view->queries[r->query].decided) best = r;
    }
    return best;
}

/* A change costs a running block something: it grows by a quarter or more. */
static void grow(struct serving *v) {
    const struct mo_view_run *r = NULL;
    while (v->h->idle > 0 && (r = next_short(v->view, r))) {
        int more = r->wanted - (r->n_cores - r->n_leaving);
        if (more > v->h->idle) more = v->h->idle;
        if (4 * more < r->n_cores - r->n_leaving) continue;
        struct mo_cores cores = r->cores, join = mo_cores_take(&v->h->pool, more, -1);
        mo_cores_subtract(&cores, &r->leaving);
        mo_cores_join(&cores, &join);
        v->h->idle -= more;
        mo_decide_resize(v->h->out, r->query, cores, r->wanted);
    }
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)event;
    struct state *s = state;
    struct serving v = {.options = view->options, .view = view, .h = &s->allocation};
    mo_allocation_open(v.h, view, out);
    if (view->resizes) grow(&v);
    if (v.h->idle > 0 && !v.options->size) v.sum = active(&v);
    while (v.h->idle > 0) {
        bool oldest = s->starts >= OLDEST_EVERY;
        int query = mo_allocation_best(v.h, oldest ? mo_by_arrival : mo_by_deadline);
        if (query < 0) break;
        start(&v, query);
        s->starts = oldest ? 0 : s->starts + 1;
    }
    if (v.options->versions) mo_decide_pressure(out, view);
}

const struct mo_policy mo_policy_layerwise = {
    .name = "layerwise",
    .description = "a layer at a time on the cores that its share of the target needs",
    .options = &(const struct options){.size = 1},
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
const struct mo_policy mo_policy_fixed6 = {
    .name = "fixed6",
    .description = "six layers at a time on the cores that their share of the target needs",
    .options = &(const struct options){.size = 6},
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
const struct mo_policy mo_policy_fixed11 = {
    .name = "fixed11",
    .description = "eleven layers at a time on the cores that their share of the target needs",
    .options = &(const struct options){.size = 11},
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
const struct mo_policy mo_policy_veltair_as = {
    .name = "veltair-as",
    .description = "layer blocks by dynamic threshold (VELTAIR, scheduling only)",
    .options = &(const struct options){.size = 0},
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
const struct mo_policy mo_policy_veltair_ac = {
    .name = "veltair-ac",
    .description = "a layer at a time, its version by pressure (VELTAIR, compilation only)",
    .options = &(const struct options){.size = 1, .versions = true},
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
const struct mo_policy mo_policy_veltair = {
    .name = "veltair",
    .description = "layer blocks by dynamic threshold, versions by pressure (VELTAIR whole)",
    .options = &(const struct options){.versions = true},
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
const struct mo_policy mo_policy_veltair_time = {
    .name = "veltair-time",
    .description = "veltair with targets shared among layers by one-core time, not by operations",
    .options = &(const struct options){.versions = true, .by_time = true},
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
