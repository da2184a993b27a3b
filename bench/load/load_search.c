/* SPDX-License-Identifier: Apache-2.0
 * load_search.c - noisy monotone search with memory; see load_search.h. */
#include <string.h>
#include "bench/load/load_search.h"

void mo_bench_search_init(struct mo_bench_search *search, int n,
                          int (*probe)(void *, int, struct mo_bench_search *, moire_error *), void *user) {
    search->n = n < MO_BENCH_MAX_GRID ? n : MO_BENCH_MAX_GRID;
    search->probe = probe;
    search->user = user;
    memset(search->known, -1, sizeof search->known);
}

static int test(struct mo_bench_search *s, enum mo_bench_criterion criterion, int i, int *passed,
                moire_error *err) {
    int code = s->known[criterion][i] < 0 ? s->probe(s->user, i, s, err) : MOIRE_OK;
    *passed = s->known[criterion][i] == 1;
    return code;
}

/* Brackets the answer around `guess` by steps that double: *lo passes (or is -1), *hi fails (or is n). */
static int bracket(struct mo_bench_search *s, enum mo_bench_criterion criterion, int guess, int *lo, int *hi,
                   moire_error *err) {
    int at = guess < 0 ? 0 : guess >= s->n ? s->n - 1 : guess, passed, up = -1, code;
    *lo = -1;
    *hi = s->n;
    for (int step = 1; at >= 0 && at < s->n; step *= 2) {
        if ((code = test(s, criterion, at, &passed, err))) return code;
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

int mo_bench_search_max(struct mo_bench_search *search, enum mo_bench_criterion criterion, int guess,
                        int *best, moire_error *err) {
    int lo, hi, passed, code = bracket(search, criterion, guess, &lo, &hi, err);
    while (!code) {
        while (!code && hi - lo > 1) {
            int mid = lo + (hi - lo) / 2;
            code = test(search, criterion, mid, &passed, err);
            if (passed)
                lo = mid;
            else
                hi = mid;
        }
        if (code || lo + 2 >= search->n) break;
        code = test(search, criterion, lo + 2, &passed, err);
        if (code || !passed) break;
        lo = lo + 2;
        hi = lo + 1;
        if (hi < search->n && !(code = test(search, criterion, hi, &passed, err)) && passed) hi = search->n;
    }
    *best = lo;
    return code;
}
