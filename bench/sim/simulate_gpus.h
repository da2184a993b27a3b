/* SPDX-License-Identifier: Apache-2.0
 * simulate_gpus.h - the GPUs of a simulation: who the scheduler's tenants are and what they take.
 *
 * A tenant of the scenario is one tenant of the scheduler; an application is one a stage, each with its part
 * of the target.  Cores beside the GPUs join as one more kind (device_kinds.h). */
#ifndef MO_BENCH_SIMULATE_GPUS_H
#define MO_BENCH_SIMULATE_GPUS_H
#include "bench/data/machine.h"
#include "bench/load/serve.h"

/* A tenant of the scheduler. */
struct mo_bench_gpu_tenant {
    const char *model;
    int source, stage; /* tenant of the scenario, and of an application which stage; else -1 */
    int64_t qos_ns;    /* its part of the target */
    struct mo_share_profile *share[MO_PLAN_KINDS]; /* owned; NULL = it does not run there */
    struct mo_profile *profile;                    /* a layer a segment, batch 1 */
    double declared; /* queries/s that are expected at first; 0 = what the scenario begins with */
};

struct mo_bench_gpu_side {
    const struct mo_env *env;
    struct mo_gpus gpus;
    int n;
    struct mo_bench_gpu_tenant tenant[MO_PLAN_TENANTS];
    int first[MO_BENCH_MAX_TENANTS];                    /* of a tenant of the scenario */
    int64_t split[MO_BENCH_MAX_TENANTS][MO_DAG_STAGES]; /* of an application: its target, by level */
};

/* Fills mix.qos_ns, solo_ms, cores (GPUs), calibration, and *out.  Without rates, load 1 is what keeps every
 * GPU busy at the least share-seconds a query.  Close also after an error. */
int mo_bench_gpu_side_open(const struct mo_env *env, const struct mo_bench_machine *machine,
                           struct mo_bench_mix *mix, struct mo_bench_gpu_side *out, moire_error *err);
/* Of these, targets, times and calibration, of tenants and profiles that are there; load 1 likewise. */
int mo_bench_gpu_side_aim(const struct mo_bench_gpu_side *side, struct mo_bench_mix *mix, moire_error *err);
void mo_bench_gpu_side_close(struct mo_bench_gpu_side *side);

/* Does a simulation of these policies take place on the machine's GPUs?  It does when the machine has no
 * cores, or when the first policy is one for GPUs. */
bool mo_bench_on_gpus(const struct mo_bench_machine *machine, const struct mo_bench_serve_options *options);
#endif
