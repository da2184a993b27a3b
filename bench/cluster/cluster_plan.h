/* SPDX-License-Identifier: Apache-2.0
 * cluster_plan.h - a plan in the making, step by step, and as a document. */
#ifndef MO_CLUSTER_PLAN_H
#define MO_CLUSTER_PLAN_H
#include "bench/cluster/cluster.h"

enum { MO_CLUSTER_WARMUP_S = 1 }; /* simulated before what counts */

struct mo_cluster_planning {
    struct mo_bench_session *session;
    const struct mo_env *env;
    struct mo_cluster_nodes nodes;
    struct mo_bench_simulation simulation; /* the machine with as many cores as the largest node */
    const struct mo_policy *policy;
    struct mo_process process;
    uint64_t seed;
    double qps_all, target, seconds;
    double limit; /* of what is used of a machine */
    double qps[MO_BENCH_MAX_TENANTS];
    double *holds; /* [model][kind] */
    struct mo_place_model models[MO_BENCH_MAX_TENANTS];
    struct mo_place_answer placed;
    struct mo_cluster_result *result[MO_ROUTINGS]; /* NULL = not simulated */
    int best;                                      /* routing; -1 = none was simulated */
};

/* The steps.  `planning` begins with its session and env, and all else 0; close it also after an error. */
int mo_cluster_planning_open(struct mo_cluster_planning *planning, const struct mo_cluster_options *options,
                             moire_error *err);
void mo_cluster_planning_close(struct mo_cluster_planning *planning);
/* Fills `qps` from `qps_all`; `holds`; and `placed`, in place of an earlier one. */
int mo_cluster_share_out(struct mo_cluster_planning *planning, moire_error *err);
int mo_cluster_find_rates(struct mo_cluster_planning *planning, moire_error *err);
int mo_cluster_place(struct mo_cluster_planning *planning, moire_error *err);
/* The plan in virtual time; `seconds` and `misses` as in mo_cluster_run. */
int mo_cluster_try(struct mo_cluster_planning *planning, enum mo_routing routing, double seconds,
                   int64_t misses, struct mo_cluster_result *out, moire_error *err);

/* New documents, as cluster.h has them; NULL: out of memory. */
json_t *mo_cluster_plan_json(const struct mo_cluster_planning *planning);
json_t *mo_cluster_summary_json(const struct mo_cluster_planning *planning);
#endif
