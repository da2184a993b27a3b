/* SPDX-License-Identifier: Apache-2.0
 * plan_show.h - a plan of lets as text, as JSON and as a drawing. */
#ifndef MO_BENCH_PLAN_SHOW_H
#define MO_BENCH_PLAN_SHOW_H
#include <stdio.h>
#include "bench/plans/plan_view.h"

/* {"kind": "plan", "planner", "scenario", "machine", "load", "complete", "kept", "cut_short",
 * "side_by_side" (nothing is cut: each let is a place on its GPU), "steps",
 * "bound_gpus" (null: a tenant cannot be served at all), "gpus": [{"type", "units"}],
 * "lets": [{"gpu", "first", "units", "duty_ms",
 *           "tenants": [{"tenant", "batch", "rate", "batch_ms", "worst_ms", "target_ms"}]}],
 * "tenants": [{"name", "rate", "placed", and if that is not all: "why", "nearest_rate"}]}.
 * nearest[i]: see mo_bench_plan_nearest().  NULL: out of memory. */
json_t *mo_bench_plan_json(const struct mo_bench_plan_view *view, const struct mo_lets_plan *plan,
                           const char *planner, double load, const double *nearest);
/* The same as a table: a line for each tenant of each let, then one for each that is not placed whole. */
void mo_bench_plan_print(FILE *out, const json_t *document);
/* A row a GPU: its lets side by side, as wide as they are; in each one duty cycle as a line of batches. */
int mo_bench_plan_svg(const struct mo_env *env, const json_t *document, const char *path, moire_error *err);

/* For every tenant that is not placed whole: the largest rate that the planner places whole while the others
 * keep the smaller of their rate and what the plan places of it.  Found by halving; for the others, their
 * rate. `spare` is a second plan to work with. */
int mo_bench_plan_nearest(struct mo_bench_plan_view *view, const struct mo_planner *planner,
                          const struct mo_lets_plan *plan, struct mo_lets_plan *spare, double *nearest,
                          moire_error *err);
#endif
