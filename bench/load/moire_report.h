/* SPDX-License-Identifier: Apache-2.0
 * moire_report.h - what moire knows about its last run: cost of decisions, work outside kernels, timeline. */
#ifndef MO_BENCH_MOIRE_REPORT_H
#define MO_BENCH_MOIRE_REPORT_H
#include <jansson.h>
#include "bench/load/run_energy.h"
#include "runtime/serve/parts.h"

/* Counters of a scheduler, live or simulated. */
json_t *mo_bench_scheduling_json(const struct mo_sched_stats *stats);
/* Writes {"scheduling": {...}, "kernels": {...}, "activations": {"most_mib", "spills"}, "energy": {...},
 * "timeline": {...}, "choices": {...}} to `path`; the runtime must be drained.  Energy is that between the
 * two looks. The last two need a runtime with events; choices are those since the clock was at `since`. */
int mo_bench_moire_report(moire_runtime *runtime, bool timeline, int64_t since,
                          const struct mo_run_look look[2], const char *path, moire_error *err);
#endif
