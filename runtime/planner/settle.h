/* SPDX-License-Identifier: Apache-2.0
 * settle.h - puts a plan into the form in which it is served: GPUs of a kind numbered so that the plan in
 * force changes least, lets in order.  Planners number GPUs as they come.  Internal to runtime/planner. */
#ifndef MO_PLANNER_SETTLE_H
#define MO_PLANNER_SETTLE_H
#include "runtime/planner/planner.h"

void mo_plan_settle(const struct mo_plan_view *view, struct mo_lets_plan *plan);
#endif
