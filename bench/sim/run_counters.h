/* SPDX-License-Identifier: Apache-2.0
 * run_counters.h - what the scheduler counted in each run of a policy, for the points of its result.
 *
 *   conflict_rate  blocks that began on fewer cores than the policy wanted, of all
 *   conflict_us    by how much such a block took longer than predicted on the cores it wanted, mean
 *   core_ms        core time of a query inside kernels, mean
 *   watts, joules_query  where the machine's power is known: mean of the run, and a query that was answered
 */
#ifndef MO_BENCH_RUN_COUNTERS_H
#define MO_BENCH_RUN_COUNTERS_H
#include <jansson.h>
#include "runtime/sched/stats.h"

/* What a simulated run counted; of energy zeros where the machine's power is not known. */
struct mo_bench_played {
    struct mo_sched_stats stats;
    double joules, seconds; /* of the whole run, its warm-up too */
};

enum { MO_BENCH_RUNS = 128 }; /* later ones are not kept */

struct mo_bench_run_counters {
    int n;
    struct {
        double load, conflict_rate, conflict_us, core_ms; /* conflict_us: -1 = there was none */
        double watts, joules_query;                       /* 0 = not known */
    } run[MO_BENCH_RUNS];
};

/* A run at a load has ended; of two at the same load the later one counts. */
void mo_bench_run_counters_note(struct mo_bench_run_counters *counters, double load,
                                const struct mo_bench_played *played);
/* Adds the counters to the "loads" of a result that were played to their end. */
void mo_bench_run_counters_add(const struct mo_bench_run_counters *counters, json_t *row);
#endif
