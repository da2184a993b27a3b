/* SPDX-License-Identifier: Apache-2.0
 * rate_bound.h - what no planner can beat: sum over tenants of rate x least share-seconds per query <= GPUs.
 *
 * The least is over kinds, sizes and batches that meet the target if the query did not wait at all, without
 * neighbours; so the inequality is necessary for every plan of disjoint lets, spatial, temporal or mixed,
 * however fast it changes.  It is not sufficient.  A sharper one for plans with duty cycles: `duty`, where
 * the batch meets half the target, for a query may have to wait for a cycle that is no shorter than the
 * batch. */
#ifndef MO_PLANNER_BOUND_H
#define MO_PLANNER_BOUND_H
#include "runtime/planner/planner.h"

struct mo_planner_bound {
    double gpus,
        duty; /* whole GPUs that the critical tenants need at least; INFINITY: one cannot be served */
};
void mo_planner_bound(const struct mo_plan_view *view, struct mo_planner_bound *out);
#endif
