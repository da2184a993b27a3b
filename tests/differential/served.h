/* SPDX-License-Identifier: Apache-2.0
 * served.h - a case through the public interface under the worst scheduling there is: two tenants of the
 * model, a policy that ends a block after every layer, queries of the tenants in turns, some of them
 * cancelled.  Every answer must have the bits of a run alone, and none may be missing. */
#ifndef MO_DT_SERVED_H
#define MO_DT_SERVED_H
#include "tests/differential/case.h"

struct dt_served; /* a runtime that cases are loaded into, one after another */
struct dt_served *dt_served_start(const struct mo_env *env, const char *folder, moire_error *err);
void dt_served_stop(struct dt_served *served);
/* What the runtime has done so far: queries, blocks that they were cut into, queries cancelled. */
struct dt_served_counts {
    long long queries, blocks, cancelled;
};
struct dt_served_counts dt_served_counts(const struct dt_served *served);
/* False: an answer is wrong or missing; why says which. */
bool dt_served_try(struct dt_served *served, const struct dt_case *c, char *why, size_t n);
#endif
