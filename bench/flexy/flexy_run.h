/* SPDX-License-Identifier: Apache-2.0
 * flexy_run.h - one instance of a workload served by one policy in virtual time.
 *
 * A job is a tenant, the paper's virtual accelerator.  Devices are cores of the simulated machine, or several
 * of them each (`units`): a task on n of a device's units takes so many times as long as units / n says.
 * Where `cut_ms` is given, a batch task is a sequence of kernels of at most that long on a whole device, and
 * may be cut between any two; else a task is one block that nothing stops but a reset. */
#ifndef MO_BENCH_FLEXY_RUN_H
#define MO_BENCH_FLEXY_RUN_H
#include "bench/flexy/flexy_load.h"
#include "runtime/sim/sim.h"

struct mo_flexy_system {
    const char *name;
    struct mo_policy policy; /* its options live on */
    int units;               /* of a device */
    double cut_ms;           /* 0 = batch tasks are not cut */
    double reset_ms;         /* 0 = the machine's; else this system's own (REEF: next to nothing) */
};

struct mo_flexy_run_options {
    const struct mo_flexy_workload *workload;
    double f, sla_ms, reset_ms;
    int devices;
    uint64_t seed;
};

struct mo_flexy_ran {
    int64_t user, in_time, batch, resets, decisions;
    double utilisation;    /* busy time over time, from the first arrival of a job to the last */
    double batch_slowdown; /* mean of (answer - submission) / own time on a device */
    double lost_ms;        /* work that resets threw away */
};

int mo_flexy_run(const struct mo_env *env, const struct mo_flexy_system *system,
                 const struct mo_flexy_run_options *options, struct mo_flexy_ran *out, moire_error *err);
#endif
