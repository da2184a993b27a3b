/* SPDX-License-Identifier: Apache-2.0
 * load_search.h - the highest load of a grid at which a noisy, roughly monotone test passes.
 *
 * A bisection finds a point that passes with the next one failing.  Where the test is noise a bisection stops
 * at the first such pair that it meets, and looking for another only above it would be a search for luck.  So
 * two points on either side of the edge are probed as well, and the answer is the edge that the fewest probes
 * contradict (failures up to it and passes beyond it), which treats both sides alike: a pass and a failure in
 * the wrong order are a majority's to settle.  While edges are contradicted equally often, all between them
 * and around them is probed; of those that stay so it is the middle one, the lower of two.
 *
 * Two criteria share one memory of probes: a probe answers both, or only the one that is searched for.  Grid
 * point i stands for load (i + 1) * step. */
#ifndef MO_BENCH_SEARCH_H
#define MO_BENCH_SEARCH_H
#include "runtime/base/error.h"

enum { MO_BENCH_MAX_GRID = 64 };
enum mo_bench_criterion { MO_BENCH_OVERALL, MO_BENCH_EVERY_TENANT, MO_BENCH_CRITERIA };

struct mo_bench_search {
    int n; /* grid points */
    /* -1 = not probed, 0 = failed, 1 = passed */
    signed char known[MO_BENCH_CRITERIA][MO_BENCH_MAX_GRID];
    enum mo_bench_criterion criterion; /* that is searched for */
    /* Measures point i and fills known[criterion][i], and the other when it can; an error ends the search. */
    int (*probe)(void *user, int i, struct mo_bench_search *search, moire_error *err);
    void *user;
};

void mo_bench_search_init(struct mo_bench_search *search, int n,
                          int (*probe)(void *, int, struct mo_bench_search *, moire_error *), void *user);

/* *best = the edge, a point that passed; -1 when there is none.  `guess` is where to look first. */
int mo_bench_search_max(struct mo_bench_search *search, enum mo_bench_criterion criterion, int guess,
                        int *best, moire_error *err);
#endif
