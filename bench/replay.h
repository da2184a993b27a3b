/* SPDX-License-Identifier: Apache-2.0
 * replay.h - a recorded run (bench/trace.h) played again by the simulator: as it was, to see how well the
 * simulator predicts, or with other cores and policies, to see what they would have done. */
#ifndef MO_BENCH_REPLAY_H
#define MO_BENCH_REPLAY_H
#include "bench/latency.h"
#include "bench/trace.h"
#include "runtime/sim/sim.h"

struct mo_bench_replay_options {
    const char *trace;
    const char *machine; /* whose costs beside the kernels hold (block_us, query_us, noise, corun); NULL = a
                            block 3 us */
    int cores;           /* 0 = as recorded */
    const char *policies[MO_BENCH_MAX_SYSTEMS];
    int n_policies;    /* 0 = as recorded */
    bool measured;     /* blocks take and cost what they did in the recording, not what the profiles say */
    const char *costs; /* what they did in another recording of these tenants; NULL = in the same */
};

/* Fills *out: {"kind": "replay", "cores", "policy", "block_ratio", "pressure": {"from", "mean", "most",
 * "bands":
 * [{"up_to", "blocks", "ratio"}]}, "layers", "adapted", "results": [{"policy", "cores", "overall",
 * "tenants": [{"name", "n", "within_qos", "p50_ms", "p95_ms"}]}]}; the first result is what was recorded.
 * Bands tell how long recorded blocks took over their profile by the pressure they ended under; adapted
 * layers ran another version than their first. */
int mo_bench_replay(const struct mo_env *env, const struct mo_bench_replay_options *options, json_t **out,
                    moire_error *err);
void mo_bench_replay_print(const json_t *document);
#endif
