/* SPDX-License-Identifier: Apache-2.0
 * limit.h - what no scheduler exceeds on a schedule of arrivals (runtime/sim/bound.h), from the least that a
 * query of each tenant takes.  Simulations know that from profiles, live runs from the shortest solo times
 * that calibration measured: as a proof it is as good as those. */
#ifndef MO_BENCH_LIMIT_H
#define MO_BENCH_LIMIT_H
#include "bench/load/arrivals.h"
#include "runtime/sim/bound.h"

struct mo_bench_need {
    double core_ns;   /* least core time of a query within its target; 0 = not known */
    int64_t least_ns; /* least time on any number of cores; 0 = not known */
};

/* The largest shares of the counted queries, of all and of the worst tenant's, that can be within qos_ns on
 * so many cores; both -1 when a tenant that has queries has no known need.  need and qos_ns are by tenant.
 * MOIRE_ENOMEM. */
int mo_bench_limit(const struct mo_env *env, const struct mo_bench_schedule *schedule,
                   const struct mo_bench_need *need, const int64_t *qos_ns, int cores,
                   struct mo_bound_shares *out, moire_error *err);
#endif
