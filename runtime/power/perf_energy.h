/* SPDX-License-Identifier: Apache-2.0
 * perf_energy.h - energy of CPU packages by the kernel's performance events, where the powercap files are not
 * to be had: the unit `power`, its events energy-pkg and energy-ram (perf_event_open(2);
 * /sys/bus/event_source/devices/power).
 *
 * The kernel widens these counters itself, so they do not begin anew.  They belong to a package, so they are
 * opened on the cpus of the unit's `cpumask`, one a package; that takes root, CAP_PERFMON, or
 * kernel.perf_event_paranoid 0 or less. */
#ifndef MO_PERF_ENERGY_H
#define MO_PERF_ENERGY_H
#include "runtime/power/energy.h"

extern const struct mo_energy_meter mo_energy_perf;
#endif
