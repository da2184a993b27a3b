/* SPDX-License-Identifier: Apache-2.0
 * core_clock.h - the clock of a runtime's cores, as its policy wants it: a thread that sets ceilings
 * (cpufreq.h), because the kernel takes milliseconds for it and the scheduler has microseconds.
 *
 * Ceilings are of the machine, not of the process: they are put back when this closes, and stay where they
 * are when the process is killed. */
#ifndef MO_CORE_CLOCK_H
#define MO_CORE_CLOCK_H
#include "runtime/power/cpufreq.h"
#include "runtime/power/power.h"

struct mo_core_clock;
/* For these OS CPUs; root as in cpufreq.h.  MOIRE_EUNSUPPORTED: no clock is to be seen, or this user may not
 * set it; the message says which and what to do. */
int mo_core_clock_open(const struct mo_env *env, const char *root, const int *cpu, int n,
                       struct mo_core_clock **out, moire_error *err);
void mo_core_clock_close(struct mo_core_clock *clock); /* NULL is fine; puts ceilings back */
/* Adds the clocks that a policy may choose from to a kind: speeds as parts of the highest clock, and what
 * they draw above idle by the cube of that, for voltage falls with the clock.  An assumption. */
void mo_core_clock_describe(const struct mo_core_clock *clock, struct mo_power_kind *kind);
/* The clock that is wanted from now on, a part of the highest.  Any thread, at any time, never waits.  The
 * first failure costs one line in the log (WARN), and clocks stay as they are from then on. */
void mo_core_clock_want(void *clock, double speed);
#endif
