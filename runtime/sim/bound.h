/* SPDX-License-Identifier: Apache-2.0
 * bound.h - a proved upper limit on how many queries any scheduler can answer in time, arrivals known.
 *
 * Relaxation: the m cores become one machine that does m ns of core time a ns, may switch at any moment and
 * works on a query from its arrival to its deadline.  A query of tenant i needs at least e_i core time there:
 * the least sum over its layers of cores x time for which the sum of times is within its target (fewer cores
 * are cheaper and take longer).  It is out of reach when the sum of its layers' least times exceeds its
 * target.  A fraction of a query counts as that fraction.
 *
 * Amounts of work that fit form a polymatroid (Edmonds 1970; a set fits when no interval holds more work than
 * the machine), and the amounts of the tenants, summed over their queries, form one again, with the rank
 * f(S): the most work of a set S of tenants that fits.  Working by earliest deadline and dropping at each
 * deadline what is unfinished does f(S), for it is Glover's matching of queries to moments (1967).  So
 *
 *   all:    the largest weighted sum of amounts is the greedy's, by falling weight over e_i, and takes as
 *           many ranks as there are tenants.  How many are in time is the sum with all weights one, rounded
 *           down.
 *   every:  if each tenant has the share v, it has at least ceil(v n_i) of its n_i queries, so for every set
 *           S: sum over S of e_i ceil(v n_i) <= f(S).  The largest v that no set forbids is the limit.
 *           Tried are the single tenants and the prefixes and suffixes by rising e_i: leaving sets out
 *           raises the limit, so it stays one.  (In the mixes of VELTAIR's paper no other set is tighter.)
 *
 * A scheduler may reach that by starving a tenant.  One that has to answer late queries, too, does at least
 * l_i <= e_i for each of those (the least core time without a target).  With D the queries that it has to
 * answer by the end of the run and x_i of tenant i in time, all its work is at least sum over D of l + sum of
 * x_i (e_i - l_i), and that has to fit what the cores do until then.  `spare` is what they do less the first
 * sum; below zero nothing can answer all.  Where the second sum exceeds it, a price p >= 0 on a ns of it
 * gives a limit for each p (Lagrange's dual): the greedy with weights 1 - p (e_i - l_i), plus p x spare.
 *
 * Valid while no block is faster than the profile says: where times spread around it, the caller takes the
 * fast end for needs. */
#ifndef MO_BOUND_H
#define MO_BOUND_H
#include "runtime/profile/profile.h"

enum { MO_BOUND_TENANTS = 64 };

struct mo_bound_query {
    int64_t arrival, deadline; /* deadline <= arrival: out of reach */
    int tenant;
};

struct mo_bound_tenant {
    double need; /* least core time of a query in time, ns, > 0 */
    double late; /* of one that is answered late, ns, 0 to need; 0 = it need not be answered */
};

struct mo_bound_case {
    const struct mo_bound_query *queries; /* that count, in order of arrival */
    int n;
    const struct mo_bound_tenant *tenants;
    int n_tenants, cores;
    double spare; /* core time, ns, that is left when all queries are answered at their least */
};

/* The largest share of all queries, and of the worst tenant's; 1 without queries. */
struct mo_bound_shares {
    double overall, every;
};

/* Least core time of a model that finishes within `target` ns on at most `cores` cores; layers may change
 * their count while they run, and each has the version that is fastest on it.  Computed from below
 * (Lagrange's dual), so it never exceeds the true minimum.  INFINITY as the target: of an answer however
 * late. */
double mo_bound_need(const struct mo_profile *profile, int cores, double target);
/* Least time of a model. */
int64_t mo_bound_least_time(const struct mo_profile *profile, int cores);

/* *any: of schedulers that may leave late queries unanswered; *answering: of those that may not, both shares
 * -1 when not all can be answered.  0 or MOIRE_ENOMEM. */
int mo_bound_solve(const struct mo_env *env, const struct mo_bound_case *of, struct mo_bound_shares *any,
                   struct mo_bound_shares *answering);
#endif
