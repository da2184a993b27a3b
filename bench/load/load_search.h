/* SPDX-License-Identifier: Apache-2.0
 * load_search.h - the highest load of a grid at which a noisy, roughly monotone test passes.
 *
 * Two criteria share one memory of probes: a probe answers both.  Grid point i stands for load (i + 1) *
 * step. */
#ifndef MO_BENCH_SEARCH_H
#define MO_BENCH_SEARCH_H
#include "runtime/base/error.h"

enum { MO_BENCH_MAX_GRID = 64 };
enum mo_bench_criterion { MO_BENCH_OVERALL, MO_BENCH_EVERY_TENANT, MO_BENCH_CRITERIA };

struct mo_bench_search {
    int n; /* grid points */
    /* -1 = not probed, 0 = failed, 1 = passed */
    signed char known[MO_BENCH_CRITERIA][MO_BENCH_MAX_GRID];
    /* Measures point i and fills known[*][i]; an error ends the search. */
    int (*probe)(void *user, int i, struct mo_bench_search *search, moire_error *err);
    void *user;
};

void mo_bench_search_init(struct mo_bench_search *search, int n,
                          int (*probe)(void *, int, struct mo_bench_search *, moire_error *), void *user);

/* *best = the highest point found to pass, -1 when none does.  `guess` is where to look first.  The point two
 * above the answer is probed too: when it passes, the failure below it was noise, and the search goes on. */
int mo_bench_search_max(struct mo_bench_search *search, enum mo_bench_criterion criterion, int guess,
                        int *best, moire_error *err);
#endif
