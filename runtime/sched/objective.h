/* SPDX-License-Identifier: Apache-2.0
 * objective.h - what a policy strives for when not every query can be in time. */
#ifndef MO_OBJECTIVE_H
#define MO_OBJECTIVE_H
#include <stdbool.h>

enum mo_objective {
    MO_OBJECTIVE_EVERY,    /* that no tenant has a smaller share in time than it must */
    MO_OBJECTIVE_ALL,      /* as many queries in time as possible, whosever they are */
    MO_OBJECTIVE_WEIGHTED, /* the same, a query counting by its tenant's priority: mo_objective_weight() */
};

/* "every", "all" or "weighted"; NULL is the first.  False: another name. */
bool mo_objective_named(const char *name, enum mo_objective *out);
const char *mo_objective_name(enum mo_objective objective);

/* What a query in time is worth under MO_OBJECTIVE_WEIGHTED: 1 at priority 0, p + 1 at p, 1 / (1 - p) below.
 */
static inline double mo_objective_weight(int priority) {
    return priority >= 0 ? 1.0 + priority : 1.0 / (1.0 - priority);
}
#endif
