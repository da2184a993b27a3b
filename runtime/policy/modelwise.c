/* SPDX-License-Identifier: Apache-2.0
 * modelwise.c - whole models, each on a fixed number of cores: the fewest on which it takes 70 % of its
 * target.
 *
 * VELTAIR's model-wise baseline (Liu et al., ASPLOS 2022, section 3.2): first come first served; a query
 * begins when its model's cores are free, and waits otherwise.  The rest of the target is for waiting, and
 * the count follows what was observed of the model's times.  Those behind it may pass until its deadline,
 * which serves more than to let them wait. */
#include "runtime/policy/allocation.h"
#include "runtime/policy/veltair_blocks.h"

struct state {
    struct mo_allocation allocation;
};

/* A model without a target takes one core. */
static int fixed_count(const struct mo_view *view, const struct mo_view_tenant *t) {
    return t->qos_ns ? mo_need(view, t, 0, t->profile->n_layers, mo_blocks_planned((double)t->qos_ns)) : 1;
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    (void)event;
    struct mo_allocation *h = &((struct state *)state)->allocation;
    mo_allocation_open(h, view, out);
    for (int query; h->idle > 0 && (query = mo_allocation_best(h, mo_by_arrival)) >= 0;) {
        const struct mo_view_tenant *t = &view->tenants[view->queries[query].tenant];
        int n = fixed_count(view, t);
        if (n > h->idle && view->now >= view->queries[query].deadline) return;
        if (n > h->idle)
            mo_allocation_skip(h, query);
        else
            mo_allocation_run(h, query, t->profile->n_layers, n, n);
    }
}

const struct mo_policy mo_policy_model_wise = {
    .name = "model-wise",
    .description = "first come first served, whole models, each on the fewest cores that meet its target",
    .state_bytes = sizeof(struct state),
    .dispatch = dispatch,
};
