/* SPDX-License-Identifier: Apache-2.0
 * rate_bound.c - see rate_bound.h. */
#include <math.h>
#include "runtime/planner/rate_bound.h"

/* Least share-seconds per query of a tenant over the GPUs that are there. */
static double least_cost(const struct mo_plan_view *view, const struct mo_plan_tenant *t, int64_t limit_ns) {
    double least = INFINITY;
    for (int g = 0; g < view->n_gpus; g++) {
        int k = view->gpu_kind[g];
        const struct mo_plan_kind *kind = &view->kinds[k];
        for (int s = 0; t->profile[k] && s < kind->n_sizes; s++)
            least = fmin(least, mo_share_cost(t->profile[k], mo_share_of_units(kind->sizes[s], kind->units),
                                              limit_ns));
    }
    return least;
}

void mo_planner_bound(const struct mo_plan_view *view, struct mo_planner_bound *out) {
    *out = (struct mo_planner_bound){0};
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_plan_tenant *t = &view->tenants[i];
        if (t->best_effort || !(t->rate > 0)) continue;
        out->gpus += t->rate * least_cost(view, t, t->target_ns);
        out->duty += t->rate * least_cost(view, t, t->target_ns / 2);
    }
}
