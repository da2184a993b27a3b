/* SPDX-License-Identifier: Apache-2.0
 * objective.c - names of objectives; see objective.h. */
#include "runtime/sched/objective.h"

#include <string.h>

static const char *const names[] = {"every", "all", "weighted"};

bool mo_objective_named(const char *name, enum mo_objective *out) {
    *out = MO_OBJECTIVE_EVERY;
    for (int i = 0; name && i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(name, names[i])) {
            *out = (enum mo_objective)i;
            return true;
        }
    return !name;
}

const char *mo_objective_name(enum mo_objective objective) {
    return names[objective];
}
