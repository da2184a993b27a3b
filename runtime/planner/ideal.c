/* SPDX-License-Identifier: Apache-2.0
 * ideal.c - the best static plan there is in gpu-let's space: every plan is tried, less what exact.h proves
 * needless.  Where there is none, the plan of the greedy shows how far one gets. */
#include "runtime/planner/exact.h"
#include "runtime/planner/priced_fill.h"
#include "runtime/planner/planners.h"

static int plan(const struct mo_plan_view *view, struct mo_plan_scratch *scratch, struct mo_lets_plan *out,
                moire_error *err) {
    struct mo_space space;
    struct mo_placement placement;
    struct mo_exact exact;
    double price[MO_PLAN_TENANTS];
    int code = mo_space_open(&space, view, scratch, true, err);
    if (!code) code = mo_placement_open(&placement, &space, scratch, err);
    if (!code) code = mo_exact_open(&exact, &space, scratch, err);
    if (code) return code;
    mo_greedy_prices(&space, price);
    if (!mo_exact_search(&exact, &placement)) {
        if (exact.cut_short)
            return mo_fail(err, MOIRE_ELIMIT, "ideal: a GPU can be cut and given out in over %d ways",
                           MO_EXACT_TYPES);
        mo_placement_clear(&placement);
        mo_greedy(&placement, price, 0, space.n_critical);
    }
    mo_greedy(&placement, price, space.n_critical, space.n);
    mo_placement_write(&placement, out);
    return MOIRE_OK;
}

const struct mo_planner mo_planner_ideal = {.name = "ideal",
                                            .description =
                                                "every plan of gpu-let's space is tried; small machines only",
                                            .plan = plan};
