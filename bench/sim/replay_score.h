/* SPDX-License-Identifier: Apache-2.0
 * replay_score.h - scores of a recorded run and of the simulations of it. */
#ifndef MO_BENCH_REPLAY_SCORE_H
#define MO_BENCH_REPLAY_SCORE_H
#include "bench/load/score.h"
#include "bench/data/trace.h"

/* Means over the scores that were added. */
struct mo_replay_shares {
    int scores, n;
    double overall, worst, p95_target;
    struct mo_replay_tenant {
        int n;
        double within, p50_ms, p95_ms, p99_ms, low_ms, high_ms; /* low, high: of p95 */
    } tenant[MO_BENCH_MAX_TENANTS];
};

/* A run's schedule and targets; which queries are left out of "calm": touched[i] for arrival i. */
struct mo_replay_run {
    const struct mo_env *env;
    const struct mo_trace *trace;
    const struct mo_bench_schedule *schedule;
    const int64_t *qos_ns;
    const bool *touched;
    bool any_touched;
};

/* Adds the score of one play of the run, of all queries and of the calm ones. */
int mo_replay_add(const struct mo_replay_run *run, const struct mo_bench_record *records,
                  struct mo_replay_shares *all, struct mo_replay_shares *calm, moire_error *err);
/* NULL: out of memory. */
json_t *mo_replay_shares_json(const struct mo_replay_run *run, const struct mo_replay_shares *shares);
/* touched[i]: query i was under way while a block stalled; true when any was. */
bool mo_replay_touch(const struct mo_trace *trace, bool *touched);
#endif
