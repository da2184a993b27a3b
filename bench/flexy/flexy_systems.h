/* SPDX-License-Identifier: Apache-2.0
 * flexy_systems.h - who serves the workloads of `moire bench flexy`: policies with their options and devices.
 */
#ifndef MO_FLEXY_SYSTEMS_H
#define MO_FLEXY_SYSTEMS_H
#include "bench/flexy/flexy_run.h"
#include "runtime/policy/flexy.h"

/* A system, and room for options of its own: it may not move. */
struct mo_flexy_chosen {
    struct mo_flexy_system system;
    struct mo_flexy_options own;
};

/* The names of those that serve by default; NULL-terminated. */
const char *const *mo_flexy_system_names(void);
/* One by name, flexy-K and priority-K for any K.  MOIRE_EINVAL: there is none, or K leaves batch tasks no
 * device. */
int mo_flexy_system_find(const char *name, int devices, struct mo_flexy_chosen *out, moire_error *err);
#endif
