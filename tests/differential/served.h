/* SPDX-License-Identifier: Apache-2.0
 * served.h - a case through the public interface under the worst scheduling there is: two tenants of the
 * model, blocks of one layer, queries that overtake each other at every boundary, some of them cancelled. */
#ifndef MO_DT_SERVED_H
#define MO_DT_SERVED_H
#include "tests/differential/case.h"

/* False: an answer has other bits than that of a query alone, or none came; why says which. */
bool dt_served_try(const struct mo_env *env, const char *folder, const struct dt_case *c, char *why,
                   size_t n);
#endif
