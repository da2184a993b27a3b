/* SPDX-License-Identifier: Apache-2.0
 * by_load.h - policies at the same loads: what the figures of VELTAIR's paper show by queries a second.
 *
 * Its figure 3 has the share in time and the latency, 5a the conflict rate, 14a the core time over that of
 * layer-wise scheduling.  They compare policies only where all have the same load: at its own highest load
 * each would have another one. */
#ifndef MO_BENCH_BY_LOAD_H
#define MO_BENCH_BY_LOAD_H
#include "bench/sim/simulate.h"

/* The result of a policy and a seed; NULL = not simulated. */
const json_t *mo_bench_result(const json_t *simulation, const char *policy, const json_t *seed);
/* Of a point of one of the simulation's results: mean latency over the shortest solo time on any number of
 * cores, over the queries that have a latency; NAN when none has, or the result answers nothing (a bound). */
double mo_bench_over_solo(const json_t *simulation, const json_t *result, const json_t *point);
/* Mean over seeds of the highest load of all queries that a policy held; 0 = not simulated, or none. */
double mo_bench_held(const json_t *simulation, const char *policy);

/* From a simulation of loads: [{"load", "qps", "rows": [{"policy", "in_time", "latency_over_solo",
 * "conflict_rate", "conflict_us", "core_use_gap"}]}] by rising load, each value {"mean", "ci95"} over seeds
 * or null.  The gap is core time of a query over that of layerwise at the same load and seed, less 1. */
json_t *mo_bench_by_load_rows(const json_t *simulation);

/* Such a list as text and as a part of a page. */
void mo_bench_by_load_print(const json_t *list);
void mo_bench_by_load_page(FILE *out, const json_t *list);
/* The same of the document of `moire sim`: prints nothing for a search, or without a policy's counters. */
void mo_bench_by_load_print_of(const json_t *simulation);
void mo_bench_by_load_section(FILE *out, const json_t *simulation);
#endif
