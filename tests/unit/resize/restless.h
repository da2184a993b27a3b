/* SPDX-License-Identifier: Apache-2.0
 * restless.h - a policy that draws everything: which query runs, up to which layer, on how many cores, and at
 * every event which running block gets other cores.  It keeps the core's rules, so nothing of it is refused.
 */
#ifndef RESTLESS_H
#define RESTLESS_H
#include "runtime/sched/policy.h"

extern const struct mo_policy restless; /* seeded alike each time */
#endif
