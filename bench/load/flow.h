/* SPDX-License-Identifier: Apache-2.0
 * flow.h - queries of applications on their way through their stages, in the simulator and live.
 *
 * A query's stages that wait for nothing begin with it, each other one when the last it waits for is
 * answered; what is left of the target is divided anew among the stages to come.  The query ends, once, with
 * its last answer, or with the first that is none: no stage of it begins after that.
 *
 * Every call may be made from any thread.  `done` is called with the flow's lock held and must not call the
 * flow; `submit` without it, so that an engine may answer other queries before it returns. */
#ifndef MO_BENCH_FLOW_H
#define MO_BENCH_FLOW_H
#include "runtime/base/env.h"
#include "runtime/planner/dag.h"

/* An application; everything is borrowed. */
struct mo_bench_flow_app {
    const struct mo_dag *dag; /* NULL: this tenant of the scenario is none */
    const int64_t *split;     /* of its target, by level */
    int64_t target_ns;
    int first; /* the engine's tenant of its first stage; the others follow */
};

struct mo_bench_flow_part; /* a stage of one query */

struct mo_bench_flow_config {
    const struct mo_env *env;
    const struct mo_bench_flow_app *apps; /* by tenant of the scenario */
    int n;                                /* queries of applications, at most */
    int64_t (*now)(void *ctx);
    /* Hands the engine one query; when it takes it (MOIRE_OK), mo_bench_flow_answer() must follow once. */
    int (*submit)(void *ctx, int tenant, int64_t deadline, struct mo_bench_flow_part *part);
    /* Called once for each query begun, with the index it was begun with; start_ns 0: no work was done. */
    void (*done)(void *ctx, int index, int code, int64_t start_ns, int64_t end_ns);
    void *ctx;
};

struct mo_bench_flow;
/* NULL: out of memory. */
struct mo_bench_flow *mo_bench_flow_create(const struct mo_bench_flow_config *config);
void mo_bench_flow_destroy(struct mo_bench_flow *flow); /* NULL is fine */
/* A query of application `source` begins that was due to arrive at `arrival`. */
void mo_bench_flow_begin(struct mo_bench_flow *flow, int source, int index, int64_t arrival);
/* The answer to one of its queries; may be called from where `submit` may not. */
void mo_bench_flow_answer(struct mo_bench_flow *flow, struct mo_bench_flow_part *part, int code,
                          int64_t start_ns, int64_t end_ns);
/* Begins the stages that answers have made ready. */
void mo_bench_flow_go_on(struct mo_bench_flow *flow);
/* From its return on nothing is submitted, and what would have been ends MOIRE_ECANCELLED. */
void mo_bench_flow_stop(struct mo_bench_flow *flow);
#endif
