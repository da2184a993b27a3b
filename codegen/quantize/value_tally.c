/* SPDX-License-Identifier: Apache-2.0
 * value_tally.c - see value_tally.h. */
#include "codegen/quantize/value_tally.h"

#include <math.h>
#include <string.h>

enum { HALF = MO_TALLY_BINS / 2, LEVELS = 256, STEPS = 100 };
static const double TAIL = 1e-5;

static const char *const names[MO_RANGE_METHODS] = {"minmax", "percentile", "entropy"};

const char *mo_range_method_name(enum mo_range_method method) {
    return method < MO_RANGE_METHODS ? names[method] : NULL;
}

enum mo_range_method mo_range_method_of(const char *name) {
    int m = 0;
    while (m < MO_RANGE_METHODS && strcmp(names[m], name))
        m++;
    return (enum mo_range_method)m;
}

/* Bins of twice the width. */
static void widen(struct mo_tally *t) {
    for (int i = 0; i < HALF / 2; i++) /* from zero outwards, so that nothing is overwritten that is needed */
        t->bin[HALF + i] = t->bin[HALF + 2 * i] + t->bin[HALF + 2 * i + 1];
    for (int i = 1; i <= HALF / 2; i++)
        t->bin[HALF - i] = t->bin[HALF - 2 * i] + t->bin[HALF - 2 * i + 1];
    memset(t->bin + HALF + HALF / 2, 0, HALF / 2 * sizeof *t->bin);
    memset(t->bin, 0, HALF / 2 * sizeof *t->bin);
    t->width *= 2;
}

void mo_tally_add(struct mo_tally *t, const float *values, int64_t n) {
    float lo = INFINITY, hi = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) continue;
        lo = fminf(lo, values[i]);
        hi = fmaxf(hi, values[i]);
    }
    if (lo <= hi) {
        t->min = t->n ? fminf(t->min, lo) : lo;
        t->max = t->n ? fmaxf(t->max, hi) : hi;
        double most = fmax(fabs((double)lo), fabs((double)hi));
        if (!(t->width > 0)) t->width = most > 0 ? exp2(ceil(log2(most / HALF))) : 0;
        while (t->width > 0 && most >= t->width * (HALF - 1))
            widen(t);
    }
    const double scale = t->width > 0 ? 1 / t->width : 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            t->n_bad++;
            continue;
        }
        t->bin[HALF + (int)floor((double)values[i] * scale)]++;
        t->n++;
    }
}

static void percentile(const struct mo_tally *t, double *lo, double *hi) {
    const int64_t tail = (int64_t)((double)t->n * TAIL);
    int64_t below = 0, above = 0;
    int first = 0, last = MO_TALLY_BINS - 1;
    while (first < MO_TALLY_BINS - 1 && (below += t->bin[first]) <= tail)
        first++;
    while (last > 0 && (above += t->bin[last]) <= tail)
        last--;
    *lo = fmax(*lo, (first - HALF) * t->width);
    *hi = fmin(*hi, (last + 1 - HALF) * t->width);
}

/* What the distribution within bins [first, last] loses by 256 levels, its tails gathered at the ends: the
 * divergence of the distribution from what the levels make of it. */
static double divergence(const struct mo_tally *t, int first, int last) {
    double level[LEVELS] = {0}, outside[2] = {0}, sum = 0;
    int filled[LEVELS] = {0};
    const int n = last - first + 1;
    for (int i = 0; i < MO_TALLY_BINS; i++) {
        if (i < first || i > last) {
            outside[i > last] += (double)t->bin[i];
            continue;
        }
        int k = (int)((int64_t)(i - first) * LEVELS / n);
        level[k] += (double)t->bin[i];
        filled[k] += t->bin[i] > 0;
    }
    for (int i = first; i <= last; i++) {
        int k = (int)((int64_t)(i - first) * LEVELS / n);
        double p = (double)t->bin[i] + (i == first ? outside[0] : 0) + (i == last ? outside[1] : 0);
        if (!(p > 0)) continue;
        double q = filled[k] ? level[k] / filled[k] : 0;
        sum += p * log(p / fmax(q, 1e-3));
    }
    return sum;
}

/* The same share of both sides. */
static void entropy(const struct mo_tally *t, double *lo, double *hi) {
    double best = INFINITY, from = *lo, to = *hi;
    for (int s = STEPS / 5; s <= STEPS; s++) {
        double a = *lo * s / STEPS, b = *hi * s / STEPS;
        int first = HALF + (int)floor(a / t->width), last = HALF + (int)ceil(b / t->width) - 1;
        if (last >= MO_TALLY_BINS) last = MO_TALLY_BINS - 1;
        if (last < HALF && last < first) last = first;
        if (last - first + 1 < LEVELS) continue; /* every level is a bin: nothing to tell apart */
        double d = divergence(t, first, last);
        if (d >= best) continue;
        best = d, from = a, to = b;
    }
    *lo = from, *hi = to;
}

void mo_tally_range(const struct mo_tally *t, enum mo_range_method method, float *lo, float *hi) {
    double a = t->n ? fmin(0, (double)t->min) : 0, b = t->n ? fmax(0, (double)t->max) : 0;
    if (t->width > 0 && method == MO_RANGE_PERCENTILE) percentile(t, &a, &b);
    if (t->width > 0 && method == MO_RANGE_ENTROPY) entropy(t, &a, &b);
    *lo = (float)fmin(a, 0);
    *hi = (float)fmax(b, 0);
}
