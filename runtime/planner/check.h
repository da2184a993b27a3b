/* SPDX-License-Identifier: Apache-2.0
 * check.h - does a plan hold by the model?  Written apart from the planners' own arithmetic (model.h), so
 * that a mistake there is found here; takes the batches of the plan as the most that any let runs. */
#ifndef MO_PLANNER_CHECK_H
#define MO_PLANNER_CHECK_H
#include "runtime/planner/planner.h"

/* What the model says of one entry of a plan. */
struct mo_plan_latency {
    double slowdown;  /* beside the neighbours, worst over their tenants and over smaller batches */
    int64_t batch_ns; /* time of its batch */
    int64_t cycle_ns; /* time of the batches of everyone on the let */
    int64_t worst_ns; /* of a query: the longer of the duty cycle and cycle_ns, and its batch */
    double served;    /* queries/s that its batches hold */
};
void mo_plan_latency(const struct mo_plan_view *view, const struct mo_lets_plan *plan, int let, int entry,
                     struct mo_plan_latency *out);

/* MOIRE_OK, or MOIRE_EINVAL and what is wrong first: a let that overlaps another or is no allowed size, too
 * many lets, too much memory, a batch that its duty cycle does not hold, a query that misses its target, a
 * plan that says complete and is not.  The GPU, the let and the tenant are named. */
int mo_plan_check(const struct mo_plan_view *view, const struct mo_lets_plan *plan, moire_error *err);

/* Share of the critical queries/s that the plan places on lets which miss a target beside their neighbours,
 * even if batches and duty cycles grow as far as they may: what it costs to plan without interference.  The
 * scratch is that of mo_plan_make(); negative: too small. */
double mo_plan_violations(const struct mo_plan_view *view, const struct mo_lets_plan *plan, void *scratch,
                          size_t scratch_bytes);
#endif
