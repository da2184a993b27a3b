/* SPDX-License-Identifier: Apache-2.0
 * capacity.h - the fewest cores of a simulated machine that serve a scenario at a given rate. */
#ifndef MO_BENCH_CAPACITY_H
#define MO_BENCH_CAPACITY_H
#include "bench/sim/simulate.h"

struct mo_bench_capacity_options {
    struct mo_bench_simulate_options
        simulate; /* seeds, seconds, process; find_max is the share that must hold */
    const char *policy;
    double qps; /* all tenants together, shared out by their weights */
    bool every; /* of every tenant's queries, not of all */
};

/* Simulates core counts up to the machine's, by bisection: the share in time is taken to grow with the cores.
 * *out: {"kind": "capacity", "cores" (0 = not even all hold it), "probes": [{"cores", "overall",
 * "worst_tenant"}]}, shares being means over the seeds.  Cores on which a run falls behind (backlog.h) do
 * not hold it. */
int mo_bench_capacity(struct mo_bench_session *session, const struct mo_bench_capacity_options *options,
                      json_t **out, moire_error *err);
#endif
