/* SPDX-License-Identifier: Apache-2.0
 * plan_view.h - what a planner sees of a scenario on a machine with GPUs.
 *
 * A tenant of the scenario is a tenant of the view; an application is one for every stage, "game/digits", at
 * the stage's share of the application's target and `count` times its rate.  Cores beside the GPUs are
 * planned with them (device_kinds.h) where a model of the scenario has a profile on them. */
#ifndef MO_BENCH_PLAN_VIEW_H
#define MO_BENCH_PLAN_VIEW_H
#include "bench/data/machine.h"

enum { MO_BENCH_PLAN_SHARE = 3 }; /* tenants on one let, as in gpu-let's settings ("Max Model") */

struct mo_bench_plan_view {
    struct mo_plan_view view;
    struct mo_bench_machine machine;
    struct mo_bench_scenario scenario;
    struct mo_plan_kind kinds[MO_PLAN_KINDS];
    int gpu_kind[MO_PLAN_GPUS];
    struct mo_plan_tenant tenants[MO_PLAN_TENANTS];
    double rate[MO_PLAN_TENANTS]; /* at load 1 */
    char names[MO_PLAN_TENANTS][128];
    int of[MO_PLAN_TENANTS];           /* tenant of the scenario */
    struct mo_share_profile **profile; /* [tenant][kind], owned; NULL = it does not run there */
    void *scratch;
    size_t scratch_bytes;
};

/* Reads both files and every profile.  A model without a profile on some kind cannot run there; without any
 * it is an error, which names it.  The paths must outlive *out, which is closed with mo_bench_plan_close. */
int mo_bench_plan_open(const struct mo_env *env, const char *machine, const char *scenario,
                       struct mo_bench_plan_view *out, moire_error *err);
void mo_bench_plan_close(const struct mo_env *env, struct mo_bench_plan_view *plan);
/* All rates as they are at that load. */
void mo_bench_plan_load(struct mo_bench_plan_view *plan, double load);
#endif
