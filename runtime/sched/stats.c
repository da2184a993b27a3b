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
