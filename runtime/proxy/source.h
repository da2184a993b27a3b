/* SPDX-License-Identifier: Apache-2.0
 * source.h - where pressure may come from: one table, a row a source, each in a file of its own.
 *
 *   papi      L3 misses and accesses, instructions and cycles of the cores in use, by libpapi
 *   resctrl   occupancy of the shared cache and memory traffic, by the kernel's /sys/fs/resctrl
 *   slowdown  the scheduler's own: how much slower blocks are than alone (runtime/sched/core_pressure.h)
 *
 * A counting source turns its counters into a few observables over the time since the last sample; a proxy
 * (proxy.h) turns these into pressure.  A row without `open` counts nothing and is always there.
 *
 * Threads: none.  One caller at a time for everything that was opened. */
#ifndef MO_SOURCE_H
#define MO_SOURCE_H
#include "runtime/base/csv.h"

enum { MO_OBSERVABLES = 3, MO_SOURCE_CORES = 1024 };

struct mo_source_config {
    const struct mo_env *env; /* lives as long as what is opened */
    const int *cpu;           /* OS numbers of the cores to watch */
    int n_cpus;
};

struct mo_source {
    const char *name, *about;
    int n; /* observables */
    const char *observable[MO_OBSERVABLES], *unit[MO_OBSERVABLES];
    /* MOIRE_EUNSUPPORTED with why this machine has no such counters, MOIRE_ENOMEM.  The first sample covers
     * the time from here on. */
    int (*open)(const struct mo_source_config *config, void **out, moire_error *err);
    /* Fills value[0 .. n), each finite and not negative.  MOIRE_EIO: the counters are gone for good. */
    int (*sample)(void *self, double *value, moire_error *err);
    void (*close)(void *self);
};

/* In order of preference, NULL at the end; the last one has no `open`. */
const struct mo_source *const *mo_sources(void);
const struct mo_source *mo_source_find(const char *name); /* NULL when there is none */
/* The source that a remark of a file names, n bytes; MOIRE_EFORMAT. */
int mo_source_named(const struct mo_csv *csv, const char *name, size_t n, const struct mo_source **out);
/* MOIRE_EINVAL that lists the names. */
int mo_source_unknown(const char *name, moire_error *err);
/* The first source that opens; one line in the log (INFO) for each that does not. */
const struct mo_source *mo_source_first(const struct mo_source_config *config, void **self);

extern const struct mo_source mo_source_papi, mo_source_resctrl, mo_source_slowdown;
#endif
