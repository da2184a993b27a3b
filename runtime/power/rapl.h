/* SPDX-License-Identifier: Apache-2.0
 * rapl.h - the kernel's powercap files of CPU packages: Intel's RAPL, which AMD's processors have too.
 *
 * A zone is a folder /sys/class/powercap/intel-rapl:P (a package, or `psys`, the whole board) or
 * intel-rapl:P:S in it (core, uncore, dram); energy_uj counts microjoules and begins anew at
 * max_energy_range_uj (Linux, Documentation/power/powercap/powercap.rst).  Since Linux 5.10 only root may
 * read it. */
#ifndef MO_RAPL_H
#define MO_RAPL_H
#include "runtime/power/energy.h"

extern const struct mo_energy_meter mo_energy_rapl;

/* Microjoules from one look at a counter to the next; the counter begins anew after `range`, at most once
 * between the two.  *known false, and 0: it went back, and range (0: not known) does not explain it. */
uint64_t mo_rapl_step(uint64_t before, uint64_t now, uint64_t range, bool *known);
/* The number of a file of /sys: decimal digits and a line's end.  0, or -errno: -EINVAL for anything else. */
int mo_power_number(const struct mo_env *env, const char *path, uint64_t *out);
#endif
