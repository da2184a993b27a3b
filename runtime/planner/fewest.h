/* SPDX-License-Identifier: Apache-2.0
 * fewest.h - with how few of a machine's GPUs a planner serves everything (gpu-let, section 4.1). */
#ifndef MO_PLANNER_FEWEST_H
#define MO_PLANNER_FEWEST_H
#include "runtime/planner/planner.h"

/* A plan on the first n GPUs of the view, n the least number for which the planner's plan is complete; each
 * number from the bound on is tried, for a planner may have a plan for n and none for n + 1.  Without any,
 * the plan for all GPUs.  *n_gpus: how many it is for.  Errors: those of mo_plan_make(). */
int mo_plan_fewest(const struct mo_planner *planner, const struct mo_plan_view *view, void *scratch,
                   size_t scratch_bytes, struct mo_lets_plan *out, int *n_gpus, moire_error *err);
#endif
