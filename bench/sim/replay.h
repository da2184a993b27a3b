/* SPDX-License-Identifier: Apache-2.0
 * replay.h - a recorded run (bench/data/trace.h) played again by the simulator: as it was, to see how well
 * the simulator predicts, or with other cores and policies, to see what they would have done. */
#ifndef MO_BENCH_REPLAY_H
#define MO_BENCH_REPLAY_H
#include "bench/load/serve.h"
#include "bench/data/trace.h"
#include "runtime/sim/sim.h"

/* What is taken from recordings in place of profiles and constants. */
enum {
    MO_REPLAY_SERVICE = 1, /* how long blocks take, tenant by tenant */
    MO_REPLAY_STARTS = 2,  /* what it costs to start them */
    MO_REPLAY_LATE = 16,   /* when queries came in, if later than they were due: of this recording */
    MO_REPLAY_SPEED = 4,   /* how fast the machine was, moment by moment: of this recording */
    MO_REPLAY_STALLS = 8,  /* with the blocks that stalled */
    MO_REPLAY_MEASURED = MO_REPLAY_SERVICE | MO_REPLAY_STARTS,
};

struct mo_bench_simulation;

struct mo_bench_replay_options {
    const char *trace;
    const char *machine;   /* whose costs beside the kernels hold (block_us, query_us, noise, corun); NULL = a
                              block 3 us */
    bool machine_profiles; /* and whose cores and profiles, by the tenants' names */
    int cores;             /* 0 = as recorded */
    const char *policies[MO_BENCH_MAX_POLICIES];
    int n_policies;    /* 0 = as recorded */
    unsigned pieces;   /* of the above; each of the others comes with SERVICE */
    const char *costs; /* SERVICE and STARTS of another recording of these tenants; NULL = of the same */
    int draws;         /* the mean of so many simulations, each with a seed of its own; 0 = 1 */
};

/* Fills *out: {"kind": "replay", "gpus", "cores", "policy", "block_ratio", "stalls", "stall_ms", "late_us",
 * "pressure": {"from", "mean", "most", "bands": [{"up_to", "blocks", "ratio"}]}, "layers", "adapted",
 * "results": [{"kind", "policy", "cores", ...shares, "calm": shares, "bound"}]}; the first result is what was
 * recorded.  bound: of all queries no scheduler has more in time; not of what was recorded.  Shares: {"n",
 * "overall", "worst_tenant", "p95_target", "tenants": [{"name", "n", "within_qos", "p50_ms", "p95_ms",
 * "p95_low_ms", "p95_high_ms", "p99_ms"}]}; p95_target: of latency over target, all queries together; low and
 * high: of the draws.  calm: the same without the queries that were under way when the recording stalled.
 * Bands tell how long recorded blocks took over their profile by the pressure they ended under; adapted
 * layers ran another version than their first.  gpus: 0 of a run on cores; else cores are their units. */
int mo_bench_replay(const struct mo_env *env, const struct mo_bench_replay_options *options, json_t **out,
                    moire_error *err);
void mo_bench_replay_print(const json_t *document);

/* The same as parts for `moire sim`: the simulation that the trace describes, its arrivals and what happened.
 * As a scenario its rates are those recorded, at load 1. */
struct mo_bench_replay;
int mo_bench_replay_open(const struct mo_env *env, const struct mo_bench_replay_options *options,
                         struct mo_bench_replay **out, moire_error *err);
void mo_bench_replay_close(struct mo_bench_replay *replay); /* NULL is fine */
const struct mo_bench_simulation *mo_bench_replay_simulation(const struct mo_bench_replay *replay);
const struct mo_bench_schedule *mo_bench_replay_schedule(const struct mo_bench_replay *replay);
const char *mo_bench_replay_policy(const struct mo_bench_replay *replay); /* as recorded */
/* A player that repeats these arrivals with their recorded times, whatever schedule is asked for. */
struct mo_bench_player mo_bench_replay_recorded(struct mo_bench_replay *replay);
/* Who plays any schedule of these tenants under the first policy of the options.  SPEED belongs to the
 * recorded time and means nothing there. */
struct mo_bench_player mo_bench_replay_player(struct mo_bench_replay *replay);
#endif
