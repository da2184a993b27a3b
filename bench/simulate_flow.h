/* SPDX-License-Identifier: Apache-2.0
 * simulate_flow.h - queries of applications on their way through their stages.
 *
 * A query's stages that wait for nothing begin with it, each other one when the last it waits for is
 * answered; what is left of the target is divided anew among the stages to come.  The query ends with its
 * last answer, or with the first that is none. */
#ifndef MO_BENCH_SIMULATE_FLOW_H
#define MO_BENCH_SIMULATE_FLOW_H
#include "bench/simulate_gpus.h"
#include "runtime/sim/sim.h"

struct mo_bench_flow;
/* For at most n queries of applications; `done` is called once for each, with the index it was begun with.
 * NULL: out of memory. */
struct mo_bench_flow *mo_bench_flow_create(
    const struct mo_env *env, const struct mo_bench_gpu_side *side, const struct mo_bench_scenario *scenario,
    int n, void (*done)(void *ctx, int index, int code, int64_t start_ns, int64_t end_ns), void *ctx);
void mo_bench_flow_destroy(struct mo_bench_flow *flow); /* NULL is fine */
/* A query of the application arrives now. */
void mo_bench_flow_begin(struct mo_bench_flow *flow, struct mo_sim *sim, int source, int index);
/* The answer to one of its queries; `user` is what the simulation was given. */
void mo_bench_flow_answer(struct mo_bench_flow *flow, int tenant, const struct mo_answer *answer);
/* Begins the stages that have become ready: whenever the clock has moved. */
void mo_bench_flow_go_on(struct mo_bench_flow *flow, struct mo_sim *sim);
#endif
