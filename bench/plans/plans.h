/* SPDX-License-Identifier: Apache-2.0
 * plans.h - `moire bench plans`: planners of lets side by side, by the model (runtime/planner/check.h).
 *
 * grid: all 1,023 loads of gpu-let (loads.h): how many a planner says it can place, how many of these plans
 * hold, how many that `ideal` places it misses, and what the plans that do not hold violate.
 *
 * rates: gpu-let's three named loads and two applications, each in all hundredths of the planning bound: the
 * highest rate that has a plan that holds, and the highest that is claimed, over `sbp`'s, `ideal`'s, the
 * bound's.
 *
 * scaling: time of a plan for 1 to 64 GPUs and 5 to 100 models at 60 % of the bound; models and rates drawn.
 *
 * Plans are made on worker threads, one load a turn; a plan's time is processor time of its thread.  All but
 * the times are the same for any number of workers. */
#ifndef MO_BENCH_PLANS_H
#define MO_BENCH_PLANS_H
#include <jansson.h>
#include "bench/plans/plan_view.h"

enum { MO_PLANS_MACHINES = 8, MO_PLANS_PLANNERS = 16 };

struct mo_plans_options {
    const char *machine[MO_PLANS_MACHINES]; /* paths */
    const struct mo_planner *planner[MO_PLANS_PLANNERS];
    const char *scenario[8]; /* paths of the loads whose rate is raised */
    int n_machines, n_planners, n_scenarios;
    int every;                                      /* of the grid, every so many-th load: 1 = all */
    double load;                                    /* multiple of the grid's rates */
    int jobs;                                       /* worker threads */
    bool scaling;                                   /* the third part too */
    uint64_t seed;                                  /* of the third part */
    void (*progress)(void *ctx, int done, int all); /* NULL: none; from any worker, one at a time */
    void *ctx;
};

/* {"experiment": {...}, "results": [{"planner", "profile", "scenarios", "placed", "missed_vs_ideal",
 * "rate_vs_ideal", "throughput_vs_sbp", "claimed_vs_sbp", "rate_vs_bound", "violations", "plan_ms_p50",
 * "plan_ms_max", "rates": {scenario: queries/s}}], "scaling": [{"planner", "gpus", "models", "plan_ms_p50",
 * "plan_ms_max", "complete"}]} */
int mo_plans_document(const struct mo_env *env, const struct mo_plans_options *options, json_t **out,
                      moire_error *err);
/* What the comparison says: a list with one sentence a machine. */
json_t *mo_plans_headline(const json_t *document);
void mo_plans_print(const json_t *document);
/* A self-contained page with the tables and the curves of time. */
int mo_plans_report(const struct mo_env *env, const json_t *document, const char *path, moire_error *err);
#endif
