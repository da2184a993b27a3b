/* SPDX-License-Identifier: Apache-2.0
 * inss_demand.h - who asks how often in the experiments of `moire bench inss`.
 *
 * Tenants go through a list of models in turn, as InSS's section 6 serves ten from eight models.  A target is
 * 3.5 times a batch of 8 on a fifth of the GPU, which is what the paper's own targets are.  How much of a GPU
 * a tenant needs in the mean is drawn (0.1 plus an exponential, scaled so that the tenants together need a
 * given part); its rate follows from the least share-seconds that a query can take in time.  Every
 * MO_INSS_DEMAND_STEP_NS the rate becomes another multiple of that mean.
 *
 * Arrivals come from a process of its own for each tenant at rate 1, stretched to the rate of the step, so a
 * tenant's arrivals depend on the seed and on nothing that a system does. */
#ifndef MO_INSS_DEMAND_H
#define MO_INSS_DEMAND_H
#include "bench/data/process.h"
#include "runtime/planner/planner.h"

enum { MO_INSS_DEMAND_STEPS = 64 };
#define MO_INSS_DEMAND_STEP_NS INT64_C(150000000000)
extern const double mo_inss_least_factor, mo_inss_most_factor; /* of the mean rate, in a step */

/* What does not depend on a system. */
struct mo_inss_demand_model {
    const char *name;
    const struct mo_share_profile *profile; /* borrowed */
    int64_t target_ns;
    double cost; /* least share-seconds of a query within the target */
};
/* Target and cost by the profile on GPUs of that kind. */
void mo_inss_demand_look(struct mo_inss_demand_model *model, const struct mo_plan_kind *kind);

struct mo_inss_demand_options {
    const struct mo_inss_demand_model *model;
    int n_models, n_tenants;   /* 1..MO_PLAN_TENANTS */
    double gpus_a_tenant;      /* mean need of a tenant, by its least cost */
    struct mo_process process; /* of each tenant's arrivals */
    int64_t total_ns;          /* they end then */
    uint64_t seed;
    uint64_t needs; /* seed of who needs how much; 0: `seed` */
};

struct mo_inss_demand_tenant {
    const struct mo_inss_demand_model *model;
    double rate;                         /* mean queries/s */
    double factor[MO_INSS_DEMAND_STEPS]; /* of it, in each step */
    struct mo_process_state process;
    double at_ns; /* of the next arrival; INFINITY: none comes */
};

struct mo_inss_demand {
    int n;
    int64_t total_ns;
    struct mo_inss_demand_tenant tenant[MO_PLAN_TENANTS];
};
/* Draws each tenant's mean rate (queries/s) into rate[n_tenants]; tenant i has model i % n_models. */
void mo_inss_demand_rates(const struct mo_inss_demand_options *options, double *rate);
/* Draws tenants, steps and first arrivals. */
void mo_inss_demand_begin(struct mo_inss_demand *demand, const struct mo_inss_demand_options *options);
/* The tenant whose query comes next, and when (ns); -1: none any more. */
int mo_inss_demand_next(struct mo_inss_demand *demand, int64_t *at_ns);
#endif
