/* SPDX-License-Identifier: Apache-2.0
 * bound.h - a proved upper limit on how many queries any scheduler can answer in time, arrivals known.
 *
 * Relaxation: the m cores become one machine that does m ns of core time a ns, may switch at any moment and
 * works on a query from its arrival to its deadline.  Query j needs at least e_j core time there: the least
 * sum over its layers of cores x time for which the sum of times is within its target (fewer cores are
 * cheaper and take longer).  It is out of reach when the sum of its layers' least times exceeds its target.
 * A fraction of a query counts as that fraction.  Amounts of work that fit form a polymatroid (a set fits
 * when no interval holds more work than the machine), so taking queries by rising e_j, each as far as it
 * still fits, is the exact optimum of the relaxation; no policy, preemptive or not, on any core counts, can
 * answer more.  Valid while no block is faster than the profile says: where times spread around it, the
 * caller takes the fast end for `need`.  The optimum may starve a tenant, so it limits the share of all
 * queries, and thereby the share of the worst tenant, but says nothing of any other one. */
#ifndef MO_BOUND_H
#define MO_BOUND_H
#include "runtime/profile/profile.h"

struct mo_bound_query {
    int64_t arrival, deadline; /* deadline <= arrival: out of reach */
    double need;               /* core time, ns, > 0 */
    double fraction;           /* result: 0..1 */
};

/* Least core time of a model that finishes within `target` ns on at most `cores` cores; layers may change
 * their count while they run.  Computed from below (Lagrange's dual), so it never exceeds the true minimum.
 */
double mo_bound_need(const struct mo_profile *profile, int cores, double target);
/* Least time of a model. */
int64_t mo_bound_least_time(const struct mo_profile *profile, int cores);

/* Queries in order of arrival; fills their fractions.  0 or MOIRE_ENOMEM. */
int mo_bound_solve(const struct mo_env *env, struct mo_bound_query *queries, int n, int cores);

/* From solved queries: the largest share of all, and of the worst tenant's; 1 when n = 0. */
struct mo_bound_shares {
    double overall, every;
};
struct mo_bound_shares mo_bound_shares(const struct mo_bound_query *queries, int n);
#endif
