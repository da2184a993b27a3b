/* SPDX-License-Identifier: Apache-2.0
 * limit.h - what no scheduler exceeds on a schedule of arrivals (runtime/sim/bound.h), from the least that a
 * query of each tenant takes.  Simulations know that from profiles, live runs from the shortest solo times
 * that calibration measured: as a proof it is as good as those. */
#ifndef MO_BENCH_LIMIT_H
#define MO_BENCH_LIMIT_H
#include "bench/load/backlog.h"
#include "runtime/sim/bound.h"

/* Of any run, and of those that keep up (backlog.h). */
struct mo_bench_limits {
    struct mo_bound_shares any, keeping;
};

/* The largest shares of the counted queries, of all and of the worst tenant's, that can be within qos_ns on
 * so many cores; all -1 when a tenant that has queries has no known need, those of runs that keep up when
 * none can.  need and qos_ns are by tenant.  MOIRE_ENOMEM. */
int mo_bench_limit(const struct mo_env *env, const struct mo_bench_schedule *schedule,
                   const struct mo_bench_need *need, int n_tenants, const int64_t *qos_ns, int cores,
                   struct mo_bench_limits *out, moire_error *err);
#endif
