/* SPDX-License-Identifier: Apache-2.0
 * stats.h - counters and histograms of a scheduler, at one place.
 * Written under the engine's lock; read as a copy (mo_device_stats, mo_engine_stats). */
#ifndef MO_STATS_H
#define MO_STATS_H
#include "moire.h"

/* Adds a value in ns. */
void mo_histogram_add(moire_histogram *h, int64_t value);
/* Adds what another histogram has counted. */
void mo_histogram_merge(moire_histogram *sum, const moire_histogram *part);

struct mo_sched_stats {
    int64_t accepted, rejected_queue, rejected_limit, rejected_closed;
    int64_t ok, expired, shed, cancelled, failed, unloaded, shutdown;
    int64_t in_time;          /* OK answers within their deadline */
    int64_t blocks, switches; /* blocks dispatched; of these, on another core or size than the query's last */
    int64_t members;          /* queries in dispatched blocks: more than blocks where batches ran */
    int64_t conflicts;        /* blocks that began on fewer cores than the policy wanted for them */
    int64_t conflict_ns;      /* by which they took longer than predicted on the cores that were wanted */
    int64_t resized;          /* times that a running block was given other cores */
    int64_t resets;           /* blocks that were killed (reset.c), */
    int64_t reset_lost_ns;    /* and what their queries had run until then, which is lost */
    int64_t late_drops;       /* blocks that came after their latest start and were not run */
    int64_t refused;          /* decisions that broke a rule */
    int64_t reorganised; /* plans of lets that came into force; of these, without room for all tenants: */
    int64_t incomplete;
    int64_t forced_runs; /* times the core ran something because the policy left all idle */
    int64_t in_system_max;
    int64_t stalls;              /* blocks that had not ended long after they should have (late.c), */
    int64_t stall_ns;            /* and what they took beyond that */
    int64_t stall_sheds;         /* of shed and expired: by the policy, while a block was late */
    double pace_max;             /* the slowest pace so far (machine_pace.h); 0 = it has never left 1 */
    moire_histogram decision_ns; /* cost of one dispatch: policy, checks and start of its runs */
    moire_histogram block_ns;    /* observed block times */
    /* filled by the live engine only */
    int64_t kernel_core_ns; /* sum over blocks of cores x time inside kernels */
    int64_t worker_cpu_ns;  /* CPU time of worker and service threads */
    int64_t wall_ns;        /* since the engine started, or since stats were reset */
};

/* Adds what another scheduler of the same engine has counted; wall_ns is the longer of both. */
void mo_sched_stats_add(struct mo_sched_stats *sum, const struct mo_sched_stats *part);
#endif
