/* SPDX-License-Identifier: Apache-2.0
 * backlog.h - whether a run kept up with what it was asked: late queries have to be answered, too.
 *
 * A run stops soon after the last query that counts, so a system that puts its heaviest queries off for ever
 * would never be seen to pay for them.  The backlog is what was due before the end and has no answer, each
 * query at the least core time that any system takes for it.  A run begins without one, and keeps up when it
 * ends with no more than the hundredth part of all that was due, and one query besides.  Chance alone leaves
 * less: at the loads that hold, queues are hundreds of times shorter than a run. */
#ifndef MO_BENCH_BACKLOG_H
#define MO_BENCH_BACKLOG_H
#include "bench/load/score.h"

/* The least that a query of a tenant takes. */
struct mo_bench_need {
    double core_ns;   /* core time within its target; 0 = not known */
    double late_ns;   /* core time of an answer, however late; 0 = not known, or it may be refused */
    int64_t least_ns; /* time on any number of cores; 0 = not known */
};

struct mo_bench_backlog {
    int queries;
    double core_ns, limit_ns;
};
struct mo_bench_backlog mo_bench_backlog(const struct mo_bench_schedule *schedule,
                                         const struct mo_bench_record *records,
                                         const struct mo_bench_need *need, int n_tenants,
                                         const int64_t *qos_ns);
static inline bool mo_bench_keeps_up(const struct mo_bench_backlog *b) {
    return b->core_ns <= b->limit_ns;
}

/* Core time, ns: what all queries that are due by the end of the run take at least, and the largest backlog
 * of a run that keeps up. */
double mo_bench_due(const struct mo_bench_schedule *schedule, const struct mo_bench_need *need,
                    const int64_t *qos_ns);
double mo_bench_backlog_limit(const struct mo_bench_schedule *schedule, const struct mo_bench_need *need,
                              int n_tenants, const int64_t *qos_ns);
#endif
