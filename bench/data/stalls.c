/* SPDX-License-Identifier: Apache-2.0
 * stalls.c - drawing the speed of a shared machine; see stalls.h. */
#include "bench/data/stalls.h"

#include <math.h>
#include <stdlib.h>
#include "runtime/base/numbers.h"

static const int64_t STEP_NS = 1000000;
static const double LEAST_RATE = 1e-3; /* of a step in which a core stands still: sums must rise */
static const double MOST_RATE = 1000, MOST_MS = 1e4, MOST_SLOW = 100, MOST_S = 1e4;

/* --- as text -------------------------------------------------------------------------------------------- */
/* A number of (0, most] before `end`, or as far as the text goes; moves on behind it. */
static bool take(const char **at, char end, double most, double *out) {
    char *behind;
    *out = strtod(*at, &behind);
    if (behind == *at || *behind != end || !(*out > 0) || *out > most) return false;
    *at = behind + (end != 0);
    return true;
}

bool mo_bench_stalls_parse(const char *text, struct mo_bench_stalls *out) {
    double rate, least, most;
    const char *at = text;
    if (!take(&at, ':', MOST_RATE, &rate)) return false;
    const char *length = at;
    bool range = take(&at, '-', MOST_MS, &least);
    if (!range) at = length;
    if (!take(&at, 0, MOST_MS, &most) || (range && most < least)) return false;
    out->a_second = rate;
    out->least_ns = (range ? least : most) * 1e6;
    out->most_ns = most * 1e6;
    return true;
}

bool mo_bench_slow_parse(const char *text, struct mo_bench_stalls *out) {
    double factor, fast, slow;
    if (!take(&text, ':', MOST_SLOW, &factor) || factor < 1 || !take(&text, ':', MOST_S, &fast) ||
        !take(&text, 0, MOST_S, &slow))
        return false;
    out->slow = factor;
    out->fast_for_ns = fast * 1e9;
    out->slow_for_ns = slow * 1e9;
    return true;
}

/* --- drawing -------------------------------------------------------------------------------------------- */
static double exponential(uint64_t *state) {
    return -log1p(-mo_draw_unit(state));
}

/* In [from, to) steps of the row do `share` of what they would. */
static void slow_down(double *rate, int n_steps, double from, double to, double share) {
    const double step = (double)STEP_NS;
    for (int i = (int)(from / step); i < n_steps && (double)i * step < to; i++) {
        double begin = fmax(from, (double)i * step), end = fmin(to, (double)(i + 1) * step);
        rate[i] *= 1 - (end - begin) / step * (1 - share);
    }
}

/* Slow times are the same for all cores: their stream is, too. */
static void draw_slow(const struct mo_bench_stalls *s, double *rate, int n_steps, uint64_t seed) {
    uint64_t rng = seed;
    double length = (double)n_steps * (double)STEP_NS;
    double at = s->fast_for_ns * exponential(&rng);
    while (at < length) {
        double until = at + s->slow_for_ns * exponential(&rng);
        slow_down(rate, n_steps, at, until, 1 / s->slow);
        at = until + s->fast_for_ns * exponential(&rng);
    }
}

static void draw_stalls(const struct mo_bench_stalls *s, double *rate, int n_steps, uint64_t seed) {
    uint64_t rng = seed;
    double gap = 1e9 / s->a_second, length = (double)n_steps * (double)STEP_NS;
    double at = gap * exponential(&rng);
    while (at < length) {
        double until = at + s->least_ns + (s->most_ns - s->least_ns) * mo_draw_unit(&rng);
        slow_down(rate, n_steps, at, until, 0);
        at = until + gap * exponential(&rng);
    }
}

int mo_bench_stalls_draw(const struct mo_env *env, const struct mo_bench_stalls *s, int n_cores,
                         int64_t length_ns, uint64_t seed, struct mo_sim_pace *out, moire_error *err) {
    int n = (int)(length_ns / STEP_NS) + 1;
    size_t cells = (size_t)n_cores * ((size_t)n + 1);
    *out = (struct mo_sim_pace){STEP_NS, n, n_cores, mo_alloc(env, cells * sizeof *out->done)};
    if (!out->done) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the speed of %d cores", n_cores);
    for (int c = 0; c < n_cores; c++) {
        double *done = out->done + (size_t)c * ((size_t)n + 1), *rate = done + 1;
        for (int i = 0; i < n; i++)
            rate[i] = 1;
        if (s->slow > 0) draw_slow(s, rate, n, mo_mix(seed));
        if (s->a_second > 0) draw_stalls(s, rate, n, mo_mix(seed + MO_GOLDEN * (uint64_t)(c + 1)));
        done[0] = 0;
        for (int i = 0; i < n; i++)
            done[i + 1] = done[i] + fmax(rate[i], LEAST_RATE) * (double)STEP_NS;
    }
    return MOIRE_OK;
}
