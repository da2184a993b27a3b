/* SPDX-License-Identifier: Apache-2.0
 * cpufreq.h - the clock of cores as the kernel governs it (Linux, Documentation/admin-guide/pm/cpufreq.rst):
 * what it may be, and a ceiling for as long as something wants one.
 *
 * Many hosts do not show or give their guests this; that costs one line and nothing else. */
#ifndef MO_CPUFREQ_H
#define MO_CPUFREQ_H
#include "runtime/base/env.h"

enum { MO_CPUFREQ_CORES = 1024 }; /* whose ceilings can be set together */

struct mo_cpufreq {
    char governor[32], driver[32]; /* "" = not told */
    int64_t least_khz, most_khz;   /* of the hardware */
    int64_t ceiling_khz;           /* in force: scaling_max_freq */
    bool settable;                 /* this user may set the ceiling */
};

/* root stands for the folder /, "" = this machine.  MOIRE_EUNSUPPORTED: the kernel shows no such files, or
 * they hold no number; the message names the file. */
int mo_cpufreq_look(const struct mo_env *env, const char *root, int cpu, struct mo_cpufreq *out,
                    moire_error *err);

/* Ceilings that were set and are to be put back. */
struct mo_cpufreq_ceilings {
    const struct mo_env *env;
    char root[128];
    int n, cpu[MO_CPUFREQ_CORES];
    int64_t before[MO_CPUFREQ_CORES];
};
/* Lets no core of cpu[0 .. n) run faster than `khz`.  All or none: where one of them forbids it, those before
 * it are put back and MOIRE_EUNSUPPORTED says which file and what to do.  MOIRE_EINVAL: khz is outside of
 * what the hardware has; MOIRE_ELIMIT: more cores than fit. */
int mo_cpufreq_limit(const struct mo_env *env, const char *root, const int *cpu, int n, int64_t khz,
                     struct mo_cpufreq_ceilings *out, moire_error *err);
/* Puts back what was there before; a core where that fails costs one line in the log (WARN).  Zeroes are
 * fine. */
void mo_cpufreq_restore(struct mo_cpufreq_ceilings *ceilings);
#endif
