/* SPDX-License-Identifier: Apache-2.0
 * cores_power.c - see cores_power.h.
 *
 * A busy core is taken to draw its share of the package's rated power; of idle packages a third of that is a
 * usual order of magnitude, half of which cores share (caches, fabric, memory controller).  No number is of
 * the machine at hand. */
#include "runtime/power/cores_power.h"

static const double rated_w = 270, rated_cores = 40;

struct mo_power_kind mo_power_of_cores(int n) {
    const double active = rated_w / rated_cores * n;
    return (struct mo_power_kind){
        .idle_w = active / 3,
        .active_w = active,
        .shared = 0.5,
        .basis = MO_POWER_ASSUMED,
        .source =
            "6.75 W a busy core, the 270 W of an Intel Xeon Platinum 8380 over its 40 cores, and a third "
            "of that idle; not this machine's numbers"};
}
