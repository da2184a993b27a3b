/* SPDX-License-Identifier: Apache-2.0
 * load_search.c - noisy monotone search with memory; see load_search.h. */
#include <string.h>
#include "bench/search/load_search.h"

enum { SIDE = 2 }; /* points on either side of the edge that are known in the end */

void mo_bench_search_init(struct mo_bench_search *search, int n,
                          int (*probe)(void *, int, struct mo_bench_search *, moire_error *), void *user) {
    search->n = n < MO_BENCH_MAX_GRID ? n : MO_BENCH_MAX_GRID;
    search->probe = probe;
    search->user = user;
    memset(search->known, -1, sizeof search->known);
}

static int test(struct mo_bench_search *s, int i, int *passed, moire_error *err) {
    int code = s->known[s->criterion][i] < 0 ? s->probe(s->user, i, s, err) : MOIRE_OK;
    *passed = s->known[s->criterion][i] == 1;
    return code;
}

/* Brackets the answer around `guess` by steps that double: *lo passes (or is -1), *hi fails (or is n). */
static int bracket(struct mo_bench_search *s, int guess, int *lo, int *hi, moire_error *err) {
    int at = guess < 0 ? 0 : guess >= s->n ? s->n - 1 : guess, passed, up = -1, code;
    *lo = -1;
    *hi = s->n;
    for (int step = 1; at >= 0 && at < s->n; step *= 2) {
        if ((code = test(s, at, &passed, err))) return code;
        if (passed)
            *lo = at;
        else
            *hi = at;
        if (up < 0) up = passed;
        if (up != passed) break;
        int next = up ? at + step : at - step;
        if (next < 0 && at > 0) next = 0;
        if (next >= s->n && at < s->n - 1) next = s->n - 1;
        at = next;
    }
    return MOIRE_OK;
}

static int bisect(struct mo_bench_search *s, int lo, int hi, moire_error *err) {
    int passed, code = MOIRE_OK;
    while (!code && hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        code = test(s, mid, &passed, err);
        if (passed)
            lo = mid;
        else
            hi = mid;
    }
    return code;
}

/* The edges that the fewest probes contradict, points that passed or -1; returns how many. */
static int majority(const struct mo_bench_search *s, int tied[MO_BENCH_MAX_GRID + 1]) {
    const signed char *known = s->known[s->criterion];
    int n = 1, wrong = 0, least;
    for (int i = 0; i < s->n; i++)
        wrong += known[i] == 1; /* with the edge below all points */
    least = wrong;
    tied[0] = -1;
    for (int i = 0; i < s->n; i++) {
        if (known[i] < 0) continue;
        wrong += known[i] ? -1 : 1;
        if (!known[i] || wrong > least) continue;
        if (wrong < least) n = 0;
        least = wrong;
        tied[n++] = i;
    }
    return n;
}

int mo_bench_search_max(struct mo_bench_search *search, enum mo_bench_criterion criterion, int guess,
                        int *best, moire_error *err) {
    int tied[MO_BENCH_MAX_GRID + 1], lo, hi, passed, asked = 1;
    search->criterion = criterion;
    int code = bracket(search, guess, &lo, &hi, err);
    if (!code) code = bisect(search, lo, hi, err);
    while (!code && asked) {
        int n = majority(search, tied);
        asked = 0;
        for (int i = tied[0] - SIDE + 1; !code && i <= tied[n - 1] + SIDE; i++) {
            if (i < 0 || i >= search->n || search->known[criterion][i] >= 0) continue;
            code = test(search, i, &passed, err);
            asked = 1;
        }
        *best = tied[(n - 1) / 2];
    }
    return code;
}
