/* SPDX-License-Identifier: Apache-2.0
 * cluster_sim.h - a cluster in virtual time: one router before many machines, each of them a whole simulated
 * runtime (runtime/sim) with the queues, the policy, the admission and the statistics of the live engine.
 *
 * One clock for all: the next event is the earliest of an arrival and of what happens next on any machine,
 * which a heap knows.  So the router decides with what has been answered by then, and the result depends on
 * nothing but the arguments.  The network takes no time, and there is one router.
 *
 * Every query has a record until its answer; one that is answered twice, or never, is a defect that the run
 * fails with. */
#ifndef MO_CLUSTER_SIM_H
#define MO_CLUSTER_SIM_H
#include "bench/cluster/cluster_nodes.h"
#include "bench/cluster/cluster_routing.h"
#include "bench/sim/simulate.h"

struct mo_cluster_run {
    const struct mo_bench_simulation *simulation; /* machine, models, targets; on cores */
    const struct mo_policy *policy;               /* of every machine */
    const struct mo_cluster_nodes *nodes;
    const struct mo_place_list *placed; /* by model; one without replicas is asked for nothing */
    const double *qps;                  /* by model */
    const double *holds; /* [model][kind of machine]: a rate that it holds; NULL, or 0: what its cores do */
    struct mo_process process; /* of each model's arrivals at the router */
    enum mo_routing routing;
    uint64_t seed;
    double warmup_s, seconds; /* before what counts; that counts */
    int64_t misses;           /* the run ends as lost when more than so many are late or refused; 0 = never */
    /* Called now and then with the simulated share of the run and the events so far; false ends it,
     * MOIRE_EINTERRUPTED.  NULL = nobody asks. */
    bool (*look)(void *ctx, double share, int64_t events);
    void *ctx;
};

/* Latencies, 32 buckets an octave: a quantile is the middle of its bucket, within 1.1 %. */
enum { MO_LATENCY_OCTAVE = 32, MO_LATENCY_BUCKETS = 64 * MO_LATENCY_OCTAVE };
struct mo_cluster_count {
    int64_t asked, answered, in_time; /* of what arrived while it counts; answered: not refused, not shed */
    int32_t bucket[MO_LATENCY_BUCKETS];
};

struct mo_cluster_result {
    struct mo_cluster_count all, model[MO_BENCH_MAX_TENANTS];
    bool lost;       /* it ended early, by `misses`; the counts are of a part */
    int64_t sent;    /* queries of the whole run, each answered once */
    int64_t events;  /* arrivals, and moments at which something happened on a machine */
    int64_t real_ns; /* that simulating them took */
};

int mo_cluster_simulate(const struct mo_cluster_run *run, struct mo_cluster_result *out, moire_error *err);

/* Of an empty count NAN. */
double mo_cluster_attainment(const struct mo_cluster_count *count);
double mo_cluster_quantile_ms(const struct mo_cluster_count *count, double q);
#endif
