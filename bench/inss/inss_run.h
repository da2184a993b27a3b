/* SPDX-License-Identifier: Apache-2.0
 * inss_run.h - one run of `moire bench inss`: a system serves a load on simulated GPUs in virtual time.
 *
 * A system is a planner and a server.  But for moire-gpu all planners get the same plain server: batches
 * begin as soon as their let is idle, no let is lent, no rate is stretched; plans are made every 20 s.  A
 * query that can be in time nowhere any more is dropped, as in the paper. */
#ifndef MO_INSS_RUN_H
#define MO_INSS_RUN_H
#include "bench/data/machine.h"
#include "bench/inss/inss_demand.h"
#include "runtime/policy/gpulet.h"

/* A system as the scheduler has it: its policy, with what notes the decisions around it. */
struct mo_inss_system {
    const char *name;
    struct mo_gpulet_options options;
    struct mo_policy policy; /* options of it are set by the run */
};
/* The policy of that name, else the planner of that name (of mo_planners() or learned) with the plain server.
 * False: there is none. */
bool mo_inss_system_find(const char *name, struct mo_inss_system *out);

/* What all runs share. */
struct mo_inss_bed {
    const struct mo_env *env;
    const struct mo_bench_machine *machine;
    const struct mo_policy_file *learned; /* NULL: no system needs it */
    const struct mo_inss_demand_model *model;
    int n_models;
};

struct mo_inss_run_options {
    int n_tenants;
    double load;      /* mean GPUs that a tenant needs */
    double true_time; /* of the profiles' that batches take in truth: 1.2 = a fifth longer */
    struct mo_process process;
    double warmup_s, seconds; /* before queries count; while they do */
    uint64_t seed, needs;     /* needs: seed of who needs how much; 0: `seed` */
};

enum { MO_INSS_DECISIONS = 512 };
/* Queries that came in the window. */
struct mo_inss_ran {
    int64_t came, in_time, late, dropped; /* dropped: with no answer, refused and unanswered ones too */
    double fragments;                     /* share of used GPUs that is in no let, mean over the run */
    int plans;                            /* that came into force */
    int n_decisions;                      /* of these: */
    double decision_ms[MO_INSS_DECISIONS];
};
/* MOIRE_ENOMEM; MOIRE_EINVAL: the machine cannot be simulated; MOIRE_EFAILED: a decision that no machine
 * could carry out. */
int mo_inss_run(const struct mo_inss_bed *bed, const struct mo_inss_system *system,
                const struct mo_inss_run_options *options, struct mo_inss_ran *out, moire_error *err);
#endif
