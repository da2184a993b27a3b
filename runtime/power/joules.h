/* SPDX-License-Identifier: Apache-2.0
 * joules.h - the energy that a machine has taken since it was opened: of its cores by the first meter that
 * opens (rapl, then perf), of its GPUs by theirs (nvml).  Which, and why no other, is one line each.
 *
 * Where nothing measures, nothing is made up: there are no rows, and the caller has the model (power.h).
 *
 * Threads: none.  One caller at a time. */
#ifndef MO_JOULES_H
#define MO_JOULES_H
#include "runtime/power/energy.h"

enum { MO_JOULES_ROWS = 2 * MO_ENERGY_ROWS, MO_JOULES_LINE = 600 };
enum mo_joules_of { MO_JOULES_CORES, MO_JOULES_BOARDS, MO_JOULES_KINDS };

struct mo_joules {
    const struct mo_env *env;
    struct {
        const struct mo_energy_meter *meter; /* NULL = none */
        void *opened;
        char line[MO_JOULES_LINE]; /* "rapl: what it is", or why there is none */
    } by[MO_JOULES_KINDS];
};

/* *out is the caller's.  MOIRE_ENOMEM; that nothing measures is no error. */
int mo_joules_open(const struct mo_energy_config *config, struct mo_joules *out, moire_error *err);
void mo_joules_close(struct mo_joules *joules); /* zeroes are fine */
bool mo_joules_measured(const struct mo_joules *joules, enum mo_joules_of of);
/* "measured by rapl: ...", or "not measured: ..." with what every meter lacks; lives as long as `joules`. */
const char *mo_joules_line(const struct mo_joules *joules, enum mo_joules_of of);
/* Rows of all meters, cores' first: at most MO_JOULES_ROWS; how many. */
int mo_joules_read(struct mo_joules *joules, moire_energy_row *rows);
/* Sum over the rows of a device's kind (NULL: of all) that are in no other. */
double mo_joules_sum(const moire_energy_row *rows, int n, const char *device);
#endif
