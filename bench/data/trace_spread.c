/* SPDX-License-Identifier: Apache-2.0
 * trace_spread.c - block times around their profiles; see trace.h.
 *
 * Parts are equally large in predicted time, not in number: the sum of what is drawn then agrees with the sum
 * that was measured. */
#include "bench/data/trace.h"

#include <stdlib.h>

enum { FEW = 8 };

struct sample {
    float ratio, weight;
};

static int by_ratio(const void *pa, const void *pb) {
    float a = ((const struct sample *)pa)->ratio, b = ((const struct sample *)pb)->ratio;
    return (a > b) - (a < b);
}

/* Mean ratio of each of the equal parts of n > 0 sorted samples. */
static void divide(const struct sample *s, int n, double out[MO_SIM_PARTS]) {
    double all = 0;
    int i = 0;
    for (int k = 0; k < n; k++)
        all += s[k].weight;
    double part = all / MO_SIM_PARTS, left = n ? s[0].weight : 0;
    for (int k = 0; k < MO_SIM_PARTS; k++) {
        double sum = 0, need = part;
        while (i < n && left <= need) {
            sum += left * s[i].ratio;
            need -= left;
            left = ++i < n ? s[i].weight : 0;
        }
        if (i < n) {
            sum += need * s[i].ratio;
            left -= need;
        } else {
            sum += need * s[n - 1].ratio; /* what rounding leaves */
        }
        out[k] = sum / part;
    }
}

/* tenant -1: all. */
static int collect(const struct mo_trace *t, const struct mo_sim_pace *pace, int tenant, bool several,
                   struct sample *out) {
    int n = 0;
    int64_t origin = t->queries[0].comes;
    for (int i = 0; i < t->n_blocks; i++) {
        const struct mo_trace_block *b = &t->blocks[i];
        if ((tenant >= 0 && b->tenant != tenant) || (b->cores > 1) != several) continue;
        float took = b->observed;
        int64_t begin = b->end - (int64_t)took - origin;
        if (pace && begin >= 0) took = (float)mo_sim_pace_work(pace, b->lead, begin, b->end - origin);
        out[n++] = (struct sample){took / b->predicted, b->predicted};
    }
    return n;
}

static int collect_starts(const struct mo_trace *t, int tenant, bool first, int asleep, struct sample *out) {
    int n = 0;
    for (int i = 0; i < t->n_starts; i++) {
        const struct mo_trace_start *s = &t->starts[i];
        if ((tenant >= 0 && s->tenant != tenant) || s->first != first || (asleep >= 0 && s->asleep != asleep))
            continue;
        out[n++] = (struct sample){(float)s->wait_ns, 1};
    }
    return n;
}

/* The starts of a tenant; where it has few, those of all. */
static void starts(const struct mo_trace *t, int tenant, struct sample *samples, struct mo_sim_spread *out) {
    for (int first = 0; first < 2; first++)
        for (int asleep = 0; asleep < 2; asleep++) {
            int n = collect_starts(t, tenant, first, asleep, samples);
            if (n < FEW) n = collect_starts(t, -1, first, asleep, samples);
            if (n < FEW) n = collect_starts(t, -1, first, -1, samples);
            qsort(samples, (size_t)n, sizeof *samples, by_ratio);
            if (n) divide(samples, n, out->start[first][asleep]);
        }
}

int mo_trace_spread(const struct mo_trace *t, const struct mo_sim_pace *pace, struct mo_sim_spread **out,
                    moire_error *err) {
    int most = t->n_blocks > t->n_starts ? t->n_blocks : t->n_starts;
    struct mo_sim_spread *spread = mo_region_array(t->region, MO_BENCH_MAX_TENANTS, sizeof *spread);
    struct sample *samples = mo_region_array(t->region, (size_t)most + 1, sizeof *samples);
    if (!spread || !samples) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the spread of block times");
    if (!t->n_blocks) return mo_fail(err, MOIRE_EINVAL, "the recording has no blocks to learn from");
    for (int i = 0; i < MO_BENCH_MAX_TENANTS; i++) {
        for (int several = 0; several < 2; several++) {
            int n = collect(t, pace, i, several, samples);
            if (!n) n = collect(t, pace, -1, several, samples);
            if (!n) n = collect(t, pace, -1, !several, samples);
            qsort(samples, (size_t)n, sizeof *samples, by_ratio);
            divide(samples, n, spread[i].ratio[several]);
        }
        starts(t, i, samples, &spread[i]);
    }
    *out = spread;
    return MOIRE_OK;
}
