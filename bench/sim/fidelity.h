/* SPDX-License-Identifier: Apache-2.0
 * fidelity.h - `moire fidelity`: how well the simulator predicts live runs on this machine.
 *
 * For each policy one run is recorded first, with a seed of its own.  It gives what blocks take beside others
 * and what it costs to start them; with these the highest load is simulated, of which the compared loads are
 * shares.  (Beyond that load a few per cent of service time decide everything.)  Then the policy is run and
 * recorded at each load, and its arrivals are simulated several times, each time with one more quantity taken
 * as measured instead of from profiles: the error that remains is owed to the other quantities.  No service
 * time and no start is taken from the run that is predicted.  Only the machine's speed over time and its
 * stalls are, because no part of moire makes them.
 *
 * The first compared run is also repeated, with the same arrivals: as far as two live runs differ no
 * prediction can be expected to hold. */
#ifndef MO_BENCH_FIDELITY_H
#define MO_BENCH_FIDELITY_H
#include "bench/load/serve.h"

struct mo_bench_fidelity_options {
    /* policies, loads (none: shares of each policy's limit), seconds, the first seed */
    struct mo_bench_serve_options serve;
    const char *output; /* NULL = not written */
    bool resume;
};

/* Fills *out: {"kind": "fidelity", "scenario", "calibration", "results": [row], "again": {...}}, also when
 * interrupted.  A row: {"policy", "load", "limit", "live": the recorded result of bench/sim/replay.h,
 * "late_us", "block_ratio", "stalls", "stall_ms", "predicted": [{"with", "overall", "points", "worst_points",
 * "p95_target", "worst_p95", "calm": {the same}, "tenants"}]}.  points: share in time predicted less live, in
 * points; p95_target: p95 of latency over target, relative; worst: largest such difference of a tenant with
 * 50 queries or more. */
int mo_bench_fidelity(struct mo_bench_session *session, const struct mo_bench_fidelity_options *options,
                      json_t **out, moire_error *err);
void mo_bench_fidelity_print(const json_t *document);

/* What `guess` says beside `real`, two results of bench/sim/replay.h: see above. */
json_t *mo_bench_fidelity_compare(const json_t *real, const json_t *guess);
#endif
