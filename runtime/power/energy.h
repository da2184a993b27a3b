/* SPDX-License-Identifier: Apache-2.0
 * energy.h - what measures the energy that devices take: one table, a row a kind of counter, each in a file
 * of its own; joules.h chooses among them.
 *
 *   rapl   counters of CPU packages and their memory, /sys/class/powercap (rapl.h)
 *   perf   the same counters through perf_event_open(), event power/energy-pkg/ (perf_energy.h)
 *   nvml   counters of GPU boards, as their driver tells (boards.h)
 *
 * A meter counts everything that runs on its device, other processes too.  Nothing here computes watts from a
 * model: that is power.h.
 *
 * Threads: none.  One caller at a time for everything that was opened. */
#ifndef MO_ENERGY_H
#define MO_ENERGY_H
#include "runtime/base/env.h"

enum { MO_ENERGY_ROWS = 32 }; /* of one meter */

/* Boards with counters of their own.  What the table points to outlives every meter opened on it. */
struct mo_energy_boards {
    void *self;
    int n;
    const char *device; /* "cuda": the boards are cuda:0 and so on */
    /* What a board draws now, and what it has taken since its driver was loaded: W and J, negative where it
     * does not tell.  Returns false, or one of them is negative: why has a line (n bytes). */
    bool (*look)(void *self, int board, double *watts, double *joules, char *why, size_t n);
};

struct mo_energy_config {
    const struct mo_env *env;              /* lives as long as what is opened */
    const char *root;                      /* stands for the folder /; "" = this machine */
    const struct mo_energy_boards *boards; /* NULL = there are none */
};

struct mo_energy_meter {
    const char *name, *about;
    /* Joules count from here on.  MOIRE_EUNSUPPORTED with the file or call that is missing and what would
     * help; MOIRE_ENOMEM. */
    int (*open)(const struct mo_energy_config *config, void **out, moire_error *err);
    /* Fills rows, at most MO_ENERGY_ROWS, with the joules so far; how many.  A counter that cannot be read
     * keeps what it had, is marked `gone`, and costs one line in the log (WARN). */
    int (*read)(void *self, moire_energy_row *rows);
    void (*close)(void *self);
};
#endif
