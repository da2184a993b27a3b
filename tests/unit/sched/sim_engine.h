/* SPDX-License-Identifier: Apache-2.0
 * sim_engine.h - the simulated engine under synthetic tenants, Poisson arrivals and random cancels. */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H
#include "runtime/sched/sched.h"
#include "runtime/sim/bound.h"

enum { SIM_MAX_TENANTS = 16, SIM_MAX_ARRIVALS = 16384 };

struct sim_tenant {
    int64_t solo_ns; /* one-core time of the whole model */
    int n_layers;
    double speedup2; /* time on one core / time on two */
    int64_t qos_ns;
    double rate; /* arrivals per second */
    bool best_effort, shed_late;
    int instances, queue;
    int cores;     /* at once at most; 0 = no bound */
    double weight; /* 0 = 1 */
};

/* The arrivals of a run, as the bound wants them, and when their last answer came. */
struct sim_trace {
    int n;
    struct mo_bound_query query[SIM_MAX_ARRIVALS];
    struct mo_bound_tenant tenant[SIM_MAX_TENANTS];
    int64_t end_ns;
};

struct sim_config {
    const struct mo_policy *policy;
    enum mo_objective objective;
    int n_cores, n_tenants;
    struct sim_tenant tenant[SIM_MAX_TENANTS];
    int64_t block_ns;
    int64_t duration_ns, warmup_ns;
    uint64_t seed;
    double noise;       /* relative spread of true block times around the profile */
    double slowdown;    /* true times are this multiple of the profile */
    double corun;       /* further relative slowdown while another let is busy */
    double cancel_rate; /* share of queries that are cancelled at a random moment */
    bool drain;         /* run until empty after the last arrival */
    struct mo_ring *ring;
    struct sim_trace *trace; /* may be NULL */
};

struct sim_tenant_result {
    int n, in_time, ok, rejected;
    double p50_ms, p99_ms;
};

struct sim_result {
    double overall, worst; /* share within QoS: of all queries, of the worst tenant */
    struct sim_tenant_result tenant[SIM_MAX_TENANTS];
    struct mo_sched_stats stats;
    int violations; /* invariants that did not hold (over-commit, answered twice, ...) */
    int unanswered;
    double utilisation;
};

int sim_run(const struct sim_config *config, struct sim_result *out);
/* The six-model mix: one-core times of the network, QoS = `factor` x solo on two cores, rates for `load`. */
void sim_mix(struct sim_config *config, double load, double factor, double speed);
#endif
