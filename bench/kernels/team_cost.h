/* SPDX-License-Identifier: Apache-2.0
 * team_cost.h - what it takes two cores to share work, as the runtime's teams do: the shortest times of many,
 * for whatever else the machine does only adds to them. */
#ifndef MO_BENCH_TEAM_COST_H
#define MO_BENCH_TEAM_COST_H
#include <jansson.h>
#include "runtime/base/env.h"

struct mo_team_cost {
    double step_us;  /* a step that both share and that holds no work: from its begin to that of the next */
    double join_us;  /* from asking a core that spins into a running block to its first piece */
    double leave_us; /* from asking it out, while it runs pieces of 1 us, until it is out */
};
/* MOIRE_EINVAL: fewer than two cores may be used here. */
int mo_team_cost_measure(const struct mo_env *env, struct mo_team_cost *out, moire_error *err);
/* A new object. */
json_t *mo_team_cost_json(const struct mo_team_cost *cost);
#endif
