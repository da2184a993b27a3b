/* SPDX-License-Identifier: Apache-2.0
 * stats.h - counters and histograms of a scheduler, at one place.
 * Written under the engine's lock; read as a copy (mo_device_stats, mo_engine_stats). */
#ifndef MO_STATS_H
#define MO_STATS_H
#include <stdint.h>

/* Log-linear histogram of nanoseconds: 8 buckets an octave, values up to 2^40. */
enum { MO_HIST_SUB = 8, MO_HIST_BUCKETS = 40 * MO_HIST_SUB };

struct mo_histogram {
    int64_t n, sum, max;
    int64_t bucket[MO_HIST_BUCKETS];
};

void mo_histogram_add(struct mo_histogram *h, int64_t value);
/* Upper edge of the bucket that holds quantile q (0..1); 0 when empty. */
int64_t mo_histogram_quantile(const struct mo_histogram *h, double q);

struct mo_sched_stats {
    int64_t accepted, rejected_queue, rejected_limit, rejected_closed;
    int64_t ok, expired, shed, cancelled, failed, unloaded, shutdown;
    int64_t in_time;          /* OK answers within their deadline */
    int64_t blocks, switches; /* blocks dispatched; of these, on another core or size than the query's last */
    int64_t members;          /* queries in dispatched blocks: more than blocks where batches ran */
    int64_t conflicts;        /* blocks that began on fewer cores than the policy wanted for them */
    int64_t conflict_ns;      /* by which they are predicted to take longer for it */
    int64_t late_drops;       /* blocks that came after their latest start and were not run */
    int64_t refused;          /* decisions that broke a rule */
    int64_t reorganised; /* plans of lets that came into force; of these, without room for all tenants: */
    int64_t incomplete;
    int64_t rescues; /* times the core ran something because the policy left all idle */
    int64_t in_system_max;
    struct mo_histogram decision_ns; /* cost of one dispatch: policy, checks and start of its runs */
    struct mo_histogram block_ns;    /* observed block times */
    /* filled by the live engine only */
    int64_t kernel_core_ns; /* sum over blocks of cores x time inside kernels */
    int64_t worker_cpu_ns;  /* CPU time of worker and service threads */
    int64_t wall_ns;        /* since the engine started, or since stats were reset */
};

/* Adds what another scheduler of the same engine has counted; wall_ns is the longer of both. */
void mo_sched_stats_add(struct mo_sched_stats *sum, const struct mo_sched_stats *part);
#endif
