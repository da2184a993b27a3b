/* SPDX-License-Identifier: Apache-2.0
 * cores_power.h - what cores are taken to draw where nothing measures it: a guess, and called so. */
#ifndef MO_CORES_POWER_H
#define MO_CORES_POWER_H
#include "runtime/power/power.h"

/* n cores of a server's processor as one device: MO_POWER_ASSUMED, with the sentence that says by what. */
struct mo_power_kind mo_power_of_cores(int n);
#endif
