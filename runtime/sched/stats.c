/* SPDX-License-Identifier: Apache-2.0
 * stats.c - the log-linear histogram. */
#include "runtime/sched/stats.h"

static int bucket_of(int64_t value) {
    if (value < MO_HIST_SUB) return value < 0 ? 0 : (int)value;
    int octave = 63 - __builtin_clzll((uint64_t)value); /* >= 3 */
    int sub = (int)(value >> (octave - 3)) & (MO_HIST_SUB - 1);
    int at = (octave - 2) * MO_HIST_SUB + sub;
    return at < MO_HIST_BUCKETS ? at : MO_HIST_BUCKETS - 1;
}

static int64_t upper_edge(int bucket) {
    if (bucket < MO_HIST_SUB) return bucket;
    int octave = bucket / MO_HIST_SUB + 2, sub = bucket % MO_HIST_SUB;
    return ((int64_t)(MO_HIST_SUB + sub + 1) << (octave - 3)) - 1;
}

void mo_histogram_add(struct mo_histogram *h, int64_t value) {
    h->n++;
    /* the sum saturates: a mean over absurd values is absurd, but it must not overflow */
    if (__builtin_add_overflow(h->sum, value, &h->sum)) h->sum = INT64_MAX;
    if (value > h->max) h->max = value;
    h->bucket[bucket_of(value)]++;
}

int64_t mo_histogram_quantile(const struct mo_histogram *h, double q) {
    int64_t want = (int64_t)(q * (double)h->n), seen = 0;
    if (!h->n) return 0;
    for (int i = 0; i < MO_HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > want || seen == h->n) return upper_edge(i) < h->max ? upper_edge(i) : h->max;
    }
    return h->max;
}

static void add_histogram(struct mo_histogram *sum, const struct mo_histogram *part) {
    sum->n += part->n;
    if (__builtin_add_overflow(sum->sum, part->sum, &sum->sum)) sum->sum = INT64_MAX;
    if (part->max > sum->max) sum->max = part->max;
    for (int i = 0; i < MO_HIST_BUCKETS; i++)
        sum->bucket[i] += part->bucket[i];
}

void mo_sched_stats_add(struct mo_sched_stats *sum, const struct mo_sched_stats *part) {
    sum->accepted += part->accepted;
    sum->rejected_queue += part->rejected_queue;
    sum->rejected_limit += part->rejected_limit;
    sum->rejected_closed += part->rejected_closed;
    sum->ok += part->ok;
    sum->expired += part->expired;
    sum->shed += part->shed;
    sum->cancelled += part->cancelled;
    sum->failed += part->failed;
    sum->unloaded += part->unloaded;
    sum->shutdown += part->shutdown;
    sum->in_time += part->in_time;
    sum->blocks += part->blocks;
    sum->switches += part->switches;
    sum->members += part->members;
    sum->conflicts += part->conflicts;
    sum->conflict_ns += part->conflict_ns;
    sum->late_drops += part->late_drops;
    sum->refused += part->refused;
    sum->reorganised += part->reorganised;
    sum->incomplete += part->incomplete;
    sum->rescues += part->rescues;
    sum->in_system_max += part->in_system_max;
    sum->kernel_core_ns += part->kernel_core_ns;
    sum->worker_cpu_ns += part->worker_cpu_ns;
    add_histogram(&sum->decision_ns, &part->decision_ns);
    add_histogram(&sum->block_ns, &part->block_ns);
    if (part->wall_ns > sum->wall_ns) sum->wall_ns = part->wall_ns;
}
