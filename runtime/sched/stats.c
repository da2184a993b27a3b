/* SPDX-License-Identifier: Apache-2.0
 * stats.c - the log-linear histogram; moire_stats.h has its buckets. */
#include "runtime/sched/stats.h"

enum { SUB = 8 }; /* buckets an octave */

static int bucket_of(int64_t value) {
    if (value < SUB) return value < 0 ? 0 : (int)value;
    int octave = 63 - __builtin_clzll((uint64_t)value); /* >= 3 */
    int sub = (int)(value >> (octave - 3)) & (SUB - 1);
    int at = (octave - 2) * SUB + sub;
    return at < MOIRE_HISTOGRAM_BUCKETS ? at : MOIRE_HISTOGRAM_BUCKETS - 1;
}

static int64_t upper_edge(int bucket) {
    if (bucket < SUB) return bucket;
    int octave = bucket / SUB + 2, sub = bucket % SUB;
    return ((int64_t)(SUB + sub + 1) << (octave - 3)) - 1;
}

void mo_histogram_add(moire_histogram *h, int64_t value) {
    h->count++;
    /* the sum saturates: a mean over absurd values is absurd, but it must not overflow */
    if (__builtin_add_overflow(h->sum_ns, value, &h->sum_ns)) h->sum_ns = INT64_MAX;
    if (value > h->max_ns) h->max_ns = value;
    h->bucket[bucket_of(value)]++;
}

int64_t moire_histogram_bound(int bucket) {
    if (bucket < 0 || bucket >= MOIRE_HISTOGRAM_BUCKETS) return -1;
    return bucket == MOIRE_HISTOGRAM_BUCKETS - 1 ? INT64_MAX : upper_edge(bucket);
}

int64_t moire_histogram_quantile(const moire_histogram *h, double q) {
    if (!h || h->count <= 0) return 0;
    q = q > 0 ? q < 1 ? q : 1 : 0; /* what is no number counts as 0 */
    int64_t want = (int64_t)(q * (double)h->count), seen = 0;
    for (int i = 0; i < MOIRE_HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > want || seen == h->count) {
            int64_t edge = moire_histogram_bound(i);
            return edge < h->max_ns ? edge : h->max_ns;
        }
    }
    return h->max_ns;
}

void mo_histogram_merge(moire_histogram *sum, const moire_histogram *part) {
    sum->count += part->count;
    if (__builtin_add_overflow(sum->sum_ns, part->sum_ns, &sum->sum_ns)) sum->sum_ns = INT64_MAX;
    if (part->max_ns > sum->max_ns) sum->max_ns = part->max_ns;
    for (int i = 0; i < MOIRE_HISTOGRAM_BUCKETS; i++)
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
    sum->resized += part->resized;
    sum->resets += part->resets;
    sum->reset_lost_ns += part->reset_lost_ns;
    sum->late_drops += part->late_drops;
    sum->refused += part->refused;
    sum->reorganised += part->reorganised;
    sum->incomplete += part->incomplete;
    sum->forced_runs += part->forced_runs;
    sum->in_system_max += part->in_system_max;
    sum->stalls += part->stalls;
    sum->stall_ns += part->stall_ns;
    sum->stall_sheds += part->stall_sheds;
    if (part->pace_max > sum->pace_max) sum->pace_max = part->pace_max;
    sum->kernel_core_ns += part->kernel_core_ns;
    sum->worker_cpu_ns += part->worker_cpu_ns;
    mo_histogram_merge(&sum->decision_ns, &part->decision_ns);
    mo_histogram_merge(&sum->block_ns, &part->block_ns);
    if (part->wall_ns > sum->wall_ns) sum->wall_ns = part->wall_ns;
}
