/* SPDX-License-Identifier: Apache-2.0
 * fewest.c - see fewest.h. */
#include "runtime/planner/fewest.h"
#include <math.h>
#include "runtime/planner/rate_bound.h"

int mo_plan_fewest(const struct mo_planner *planner, const struct mo_plan_view *view, void *scratch,
                   size_t scratch_bytes, struct mo_lets_plan *out, int *n_gpus, moire_error *err) {
    struct mo_plan_view part = *view;
    struct mo_planner_bound bound;
    int code = mo_plan_check_view(view, err);
    if (code) return code;
    mo_planner_bound(view, &bound);
    part.in_force = NULL; /* one for another number of GPUs is no plan to keep */
    part.n_gpus = (int)fmax(1, fmin(ceil(bound.duty - 1e-5), view->n_gpus));
    code = mo_plan_make(planner, &part, scratch, scratch_bytes, out, err);
    while (!code && !out->complete && part.n_gpus < view->n_gpus) {
        part.n_gpus++;
        code = mo_plan_make(planner, &part, scratch, scratch_bytes, out, err);
    }
    *n_gpus = part.n_gpus;
    return code;
}
