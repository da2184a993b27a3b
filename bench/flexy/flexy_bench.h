/* SPDX-License-Identifier: Apache-2.0
 * flexy_bench.h - `moire bench flexy`: the experiments of Flexy's section IV in simulation.
 *
 * Workloads W1, W2, W3 and `bursts` (flexy_load.h) on four devices, an SLA of 200 ms and resets of 1000 ms,
 * each by every policy at every load factor, ten instances a point: figure 5, and with flexy-2 and flexy-3
 * figure 6.  Beyond the paper, with batch tasks that can be cut every 10 ms (assumed; a task is a sequence of
 * kernels): `priority-cut`, what cutting alone brings; `reef`, which kills such a piece at once where a
 * user-facing task waits; `moire`; `moire-classes`, and -parts, where each device has four units and one of
 * the first is kept.  `flexy-1-packed` is flexy-1 as its figures read (flexy.c).
 *
 * A policy and a workload are a piece: its instances are runs on worker processes, and a finished piece is in
 * the document, which a later command may take up.  The same command gives the same results. */
#ifndef MO_FLEXY_BENCH_H
#define MO_FLEXY_BENCH_H
#include <jansson.h>
#include "bench/load/session.h"

enum {
    MO_FLEXY_BENCH_SYSTEMS = 24,
    MO_FLEXY_BENCH_LOADS = 24,
    MO_FLEXY_BENCH_CASES = 4,
    MO_FLEXY_BENCH_SEEDS = 64,
    MO_FLEXY_DEVICES = 4,
};

struct mo_flexy_bench_options {
    const char
        *system[MO_FLEXY_BENCH_SYSTEMS]; /* none: all there are; flexy-K and priority-K for any K, too */
    const char *workload[MO_FLEXY_BENCH_CASES];         /* none: all */
    double load[MO_FLEXY_BENCH_LOADS];                  /* factors f; none: 0.125 to 4 */
    int n_systems, n_workloads, n_loads, n_seeds, jobs; /* instances 1 to n_seeds */
    bool resume;
    const char *output; /* the document as it grows; NULL: in memory only */
};

/* *out: {"kind": "flexy", "experiment", "results": [{"workload", "policy", "f", "utilisation" (0 to 1: busy
 * time of the devices, with work that is thrown away later, over the time from the first job to the last; a
 * device that is reset is idle), "within_sla_pct" (of user-facing tasks), "resets", "batch_slowdown" (mean of
 * answer - submission over own time), "lost_ms" (work thrown away), and for each of them "..._ci" (half of
 * the 95 % interval over instances; null: one instance)}], "summary": flexy_rows.h, "left_out", "complete"};
 * NULL where nothing was begun. MOIRE_EINVAL names an unknown policy or workload, or a K that leaves batch
 * tasks no device; MOIRE_EINTERRUPTED comes with what is done. */
int mo_flexy_bench(struct mo_bench_session *session, const struct mo_flexy_bench_options *options,
                   json_t **out, moire_error *err);
/* A new list with what the results say, a sentence each. */
json_t *mo_flexy_bench_headline(const json_t *document);
void mo_flexy_bench_print(const json_t *document);
/* A self-contained page with plots in the manner of figures 5 and 6. */
int mo_flexy_bench_report(const struct mo_env *env, const json_t *document, const char *path,
                          moire_error *err);
#endif
