/* SPDX-License-Identifier: Apache-2.0
 * watt_run.h - one run of `moire bench wattwiser`: a policy serves a pair of models under a load that goes by
 * steps, on simulated GPUs in virtual time, and what they drew. */
#ifndef MO_BENCH_WATT_RUN_H
#define MO_BENCH_WATT_RUN_H
#include "bench/data/machine.h"
#include "bench/data/process.h"

enum { MO_WATT_MODELS = 2, MO_WATT_STEPS = 64, MO_WATT_GPUS = 2 };

/* A model of the paper's Table I. */
struct mo_watt_model {
    const char *name;
    double rate, slo_ms; /* most queries/s on one GPU; target of its 95th percentile */
    const struct mo_share_profile *profile;
};

struct mo_watt_load {
    int n;                                      /* steps */
    double part[MO_WATT_STEPS][MO_WATT_MODELS]; /* of what MO_WATT_GPUS GPUs hold, by `rate` */
};
/* Reads "step,first_pct,second_pct" lines.  MOIRE_EFORMAT names the line. */
int mo_watt_load_read(const struct mo_env *env, const char *path, struct mo_watt_load *out, moire_error *err);

struct mo_watt_run_options {
    const struct mo_env *env;
    const struct mo_bench_machine *machine; /* its GPUs are of one type whose power is known */
    const struct mo_watt_model *model[MO_WATT_MODELS];
    const struct mo_watt_load *load;
    const struct mo_policy *policy;
    double step_s, warmup_s; /* a step takes; before the first, at its load, and not counted */
    uint64_t seed;
};

/* What happened in a step. */
struct mo_watt_step {
    double watts, awake;                 /* means; GPUs that were not parked */
    double p95_over_slo[MO_WATT_MODELS]; /* of the queries that came in it; 0: none did */
    int64_t came[MO_WATT_MODELS], late[MO_WATT_MODELS];
};
struct mo_watt_ran {
    struct mo_watt_step step[MO_WATT_STEPS];
    double p95_over_slo[MO_WATT_MODELS]; /* of all */
    int64_t came, late;                  /* late: or never answered */
    double joules, seconds;              /* while queries counted, and until the last was answered */
    double bound_joules; /* the least that any schedule needs for these queries (watt_bound) */
};
/* MOIRE_ENOMEM; MOIRE_EINVAL: the machine cannot be simulated, or says nothing of power; MOIRE_EFAILED: a
 * decision that no machine could carry out. */
int mo_watt_run(const struct mo_watt_run_options *options, struct mo_watt_ran *out, moire_error *err);

/* Joules that a query of the model costs at least beyond what parked GPUs draw, on whole GPUs: over all
 * batches and clocks that keep the target, an awake GPU's share and what the batch itself draws. */
double mo_watt_least_joules(const struct mo_watt_model *model, const struct mo_power_kind *kind);
#endif
