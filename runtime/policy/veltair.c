/* SPDX-License-Identifier: Apache-2.0
 * veltair.c - scheduling units of VELTAIR (Liu et al., ASPLOS 2022), its section 4.2 and what it compares
 * with.
 *
 *   layerwise   a layer at a time (its port of Planaria's scheduler)
 *   fixed6/11   so many layers at a time (its figure 3)
 *   veltair-as  layer blocks: adaptive scheduling without adaptive compilation (algorithms 2 and 3)
 *   veltair-ac  layerwise with adaptive compilation: versions of the layers by the pressure at hand
 *   veltair     both
 *
 * All serve in order of arrival and give a unit the fewest cores that keep it within its share of the time
 * left; shares go by one-core time, which stands for the paper's operation count.  Taking the time left, not
 * the whole target, lets a query that has waited ask for more; a query without waiting gets the paper's
 * shares.
 *
 * Blocks of veltair-as: Avg_C is what the whole model needs; thres is the cores that the active models leave
 * over, shared in proportion to Avg_C; a layer that alone needs Avg_C + thres or more begins a new block.
 * That is tested without looking for the layer's core count: it needs as many when one core fewer is too
 * slow.
 *
 * On a conflict (fewer cores free than needed) the paper lets a layer start on the free cores and grow.  A
 * let here keeps its size for a block, so the first layer runs alone, when at least half of what it needs is
 * free, and the rest asks again after it. */
#include "runtime/policy/allocation.h"

static const double HEADROOM = 0.9; /* of the time left; the rest is for what comes between blocks */

struct state {
    struct mo_allocation allocation;
};

static int model_cores(const struct mo_view *view, const struct mo_view_tenant *t) {
    int layers = t->profile->n_layers;
    double target =
        t->qos_ns ? HEADROOM * (double)t->qos_ns : (double)mo_profile_time(t->profile, 1, 0, layers);
    return mo_need(view, t, 0, layers, target);
}

/* Sum of Avg_C over the queries in the system. */
static double demand(const struct mo_view *view) {
    double sum = 0;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *t = &view->tenants[i];
        if (t->open && t->n_waiting + t->n_paused) sum += (t->n_waiting + t->n_paused) * model_cores(view, t);
    }
    for (int i = 0; i < view->n_running; i++)
        sum += model_cores(view, &view->tenants[view->queries[view->runs[view->running[i]].query].tenant]);
    return sum;
}

/* End of the block that begins at the query's next layer: where the first pivot after it stands. */
static int first_pivot(const struct mo_view *view, int query, double total) {
    const struct mo_view_query *q = &view->queries[query];
    const struct mo_view_tenant *t = &view->tenants[q->tenant];
    double average = model_cores(view, t), over = (view->n_cores - total) * average / total;
    double limit = average + (over > 0 ? over : 0);
    int fewer = (int)limit - 1, layers = t->profile->n_layers, end = q->next_layer + 1;
    if (fewer >= view->n_cores - 1) return layers;
    double rate = HEADROOM * mo_budget(view, query, layers) /
                  (double)mo_profile_time(t->profile, 1, q->next_layer, layers);
    for (; end < layers; end++) {
        double budget = rate * (double)mo_profile_time(t->profile, 1, end, end + 1);
        if ((double)mo_view_time(t, fewer < 1 ? 1 : fewer, end, end + 1) > budget) break;
    }
    return end;
}

/* size: layers of a unit, 0 = by pivots. */
static void run(struct state *s, const struct mo_view *view, struct mo_decisions *out, int size) {
    struct mo_allocation *h = &s->allocation;
    double total = size ? 0 : demand(view);
    mo_allocation_open(h, view, out);
    for (int query; h->idle > 0 && (query = mo_allocation_best(h, mo_by_arrival)) >= 0;) {
        const struct mo_view_query *q = &view->queries[query];
        const struct mo_view_tenant *t = &view->tenants[q->tenant];
        int layers = t->profile->n_layers,
            end = size ? q->next_layer + size : first_pivot(view, query, total);
        if (end > layers) end = layers;
        int n = mo_need(view, t, q->next_layer, end, HEADROOM * mo_budget(view, query, end));
        int wanted = n;
        enum mo_cut cut = size ? MO_CUT_SIZE : MO_CUT_PIVOT;
        if (n > h->idle) {
            if (2 * h->idle < n) return;
            n = h->idle;
            end = q->next_layer + 1;
            cut = MO_CUT_CONFLICT;
        }
        mo_allocation_run(h, query, end, n, wanted);
        mo_decide_cut(out, cut);
    }
}

static void layerwise(void *state, const struct mo_view *view, const struct mo_event *event,
                      struct mo_decisions *out) {
    (void)event;
    run(state, view, out, 1);
}
static void fixed6(void *state, const struct mo_view *view, const struct mo_event *event,
                   struct mo_decisions *out) {
    (void)event;
    run(state, view, out, 6);
}
static void fixed11(void *state, const struct mo_view *view, const struct mo_event *event,
                    struct mo_decisions *out) {
    (void)event;
    run(state, view, out, 11);
}
static void veltair_as(void *state, const struct mo_view *view, const struct mo_event *event,
                       struct mo_decisions *out) {
    (void)event;
    run(state, view, out, 0);
}

static void veltair_ac(void *state, const struct mo_view *view, const struct mo_event *event,
                       struct mo_decisions *out) {
    layerwise(state, view, event, out);
    mo_decide_pressure(out, view);
}
static void veltair(void *state, const struct mo_view *view, const struct mo_event *event,
                    struct mo_decisions *out) {
    veltair_as(state, view, event, out);
    mo_decide_pressure(out, view);
}

const struct mo_policy mo_policy_layerwise = {
    .name = "layerwise",
    .description = "a layer at a time on the cores that its share of the target needs",
    .state_bytes = sizeof(struct state),
    .dispatch = layerwise,
};
const struct mo_policy mo_policy_fixed6 = {
    .name = "fixed6",
    .description = "six layers at a time on the cores that their share of the target needs",
    .state_bytes = sizeof(struct state),
    .dispatch = fixed6,
};
const struct mo_policy mo_policy_fixed11 = {
    .name = "fixed11",
    .description = "eleven layers at a time on the cores that their share of the target needs",
    .state_bytes = sizeof(struct state),
    .dispatch = fixed11,
};
const struct mo_policy mo_policy_veltair_as = {
    .name = "veltair-as",
    .description = "layer blocks by dynamic threshold (VELTAIR, scheduling only)",
    .state_bytes = sizeof(struct state),
    .dispatch = veltair_as,
};
const struct mo_policy mo_policy_veltair_ac = {
    .name = "veltair-ac",
    .description = "a layer at a time, its version by pressure (VELTAIR, compilation only)",
    .state_bytes = sizeof(struct state),
    .dispatch = veltair_ac,
};
const struct mo_policy mo_policy_veltair = {
    .name = "veltair",
    .description = "layer blocks by dynamic threshold, versions by pressure (VELTAIR whole)",
    .state_bytes = sizeof(struct state),
    .dispatch = veltair,
};
