/* SPDX-License-Identifier: Apache-2.0
 * trace_spread.c - block times around their profiles; see trace.h.
 *
 * Parts are equally large in predicted time, not in number: the sum of what is drawn then agrees with the sum
 * that was measured. */
#include "bench/trace.h"

#include <stdlib.h>

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
static int collect(const struct mo_trace *t, int tenant, bool several, struct sample *out) {
    int n = 0;
    for (int i = 0; i < t->n_blocks; i++) {
        const struct mo_trace_block *b = &t->blocks[i];
        if ((tenant >= 0 && b->tenant != tenant) || (b->cores > 1) != several) continue;
        out[n++] = (struct sample){b->observed / b->predicted, b->predicted};
    }
    return n;
}

int mo_trace_spread(const struct mo_trace *t, struct mo_sim_spread **out, moire_error *err) {
    struct mo_sim_spread *spread = mo_region_array(t->region, MO_BENCH_MAX_TENANTS, sizeof *spread);
    struct sample *samples = mo_region_array(t->region, (size_t)t->n_blocks + 1, sizeof *samples);
    if (!spread || !samples) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the spread of block times");
    if (!t->n_blocks) return mo_fail(err, MOIRE_EINVAL, "the recording has no blocks to learn from");
    for (int i = 0; i < MO_BENCH_MAX_TENANTS; i++)
        for (int several = 0; several < 2; several++) {
            int n = collect(t, i, several, samples);
            if (!n) n = collect(t, -1, several, samples);
            if (!n) n = collect(t, -1, !several, samples);
            qsort(samples, (size_t)n, sizeof *samples, by_ratio);
            divide(samples, n, spread[i].ratio[several]);
        }
    *out = spread;
    return MOIRE_OK;
}
