/* SPDX-License-Identifier: Apache-2.0
 * cluster.h - `moire capacity --nodes`: a scenario at a rate on many machines.  What each machine holds
 * (cluster_rates.h), which models go where (replicas.h), and how that serves under one routing or all
 * (cluster_sim.h). */
#ifndef MO_CLUSTER_H
#define MO_CLUSTER_H
#include "bench/cluster/cluster_sim.h"
#include "bench/sim/capacity.h"

struct mo_cluster_options {
    struct mo_bench_capacity_options capacity; /* find_max is the share that must be in time */
    const char *nodes;                         /* file of machines */
    bool routed[MO_ROUTINGS];                  /* to be simulated, one at least */
    const int64_t *scale;                      /* n_scale numbers of machines: mo_bench_scale_out() */
    int n_scale;
};

/* *out is the plan:
 *
 *   {"plan": 1, "qps", "routing",
 *    "models": [{"name", "file", "qos_ms", "qps", "replicas", "attainment"}],
 *    "nodes": [{"name", "address", "port", "cores", "memory_mb", "models": [{"name", "qps"}]}],
 *    "simulated": [{"routing", "attainment", "p50_ms", "p99_ms", "events_per_s",
 *                   "models": [{"name", "attainment", "p50_ms", "p99_ms"}]}]}
 *
 * "routing" is that with the most queries in time, of equals the last of enum mo_routing, and "attainment" of
 * a model is its share there; qos_ms is null without a target.  *summary, for people: {"target", "fill",
 * "fewest", "seconds", "queries", "events", "real_s", "holds": [{"name", "memory_mb", "kinds": [{"cores",
 * "qps"}]}]}.
 *
 * MOIRE_EFAILED: not everything has a place, and there is no plan; or the routing does not hold the target in
 * the simulation, and the plan is there to look at.  MOIRE_EINVAL: the scenario has what is not planned. */
int mo_bench_cluster(struct mo_bench_session *session, const struct mo_cluster_options *options, json_t **out,
                     json_t **summary, moire_error *err);
/* How the rate grows with the machines, all like those of the file, which are of one kind: the highest at
 * which the target holds, by bisection over plans that may be as full as they need to be.  Probes have
 * equally many queries, so that of few machines lasts longer.  *out: {"kind": "scale", "scenario", "target",
 * "seconds", "rows": [{"machines", "routing", "qps", "efficiency"}]}; efficiency: qps over the machines times
 * the qps of one under that routing, null where one was not asked for. */
int mo_bench_scale_out(struct mo_bench_session *session, const struct mo_cluster_options *options,
                       json_t **out, moire_error *err);
void mo_scale_out_print(const json_t *document);
/* As text on standard output. */
void mo_cluster_print(const json_t *plan, const json_t *summary);
#endif
