/* SPDX-License-Identifier: Apache-2.0
 * tally.h - what became of a model's queries: counts by outcome, sums and histograms of times.
 *
 * A model keeps one over all of its shapes and over reloads, so that no counter goes back.  Its owner locks.
 */
#ifndef MS_TALLY_H
#define MS_TALLY_H
#include <stdbool.h>
#include "moire.h"

enum { MS_BOUNDS = 51, MS_CODES = 24, MS_SECONDS = 60, MS_RUN_SIZES = 32 };
/* Upper bounds of the histograms' buckets, seconds, ten a decade from 0.1 ms to 10 s; one more bucket has
 * what is longer. */
extern const double ms_tally_bound[MS_BOUNDS];
/* Share of a model's queries that must be in time for it to be within its target. */
#define MS_GOAL 0.95

struct ms_times {
    int64_t count, sum_ns, bucket[MS_BOUNDS + 1];
};
/* Queries that count for the target, and those of them that met it. */
struct ms_share {
    int64_t due, in_time;
};
/* Runs of so many rows. */
struct ms_runs {
    int64_t rows, count, input_ns, compute_ns;
};
struct ms_tally {
    int holders;             /* models */
    int64_t ended[MS_CODES]; /* by -code; 0: answered */
    struct ms_share share;   /* so far */
    int64_t pending;         /* accepted and not ended */
    struct {
        int64_t second;
        struct ms_share share;
    } lately[MS_SECONDS];                          /* by second modulo their number */
    int64_t fail_ns, input_ns, output_ns, last_ms; /* last_ms: since 1970 */
    struct ms_times request, queue, compute;       /* of answered queries */
    int64_t runs, rows;                            /* that were answered */
    struct ms_runs by_rows[MS_RUN_SIZES];          /* the first so many numbers of rows there were */
};

void ms_times_add(struct ms_times *times, int64_t ns);
/* A query has ended so, at that time of the runtime's clock.  What its client has done wrong or given up is
 * not due: it says nothing of the server. */
void ms_tally_end(struct ms_tally *tally, int code, bool in_time, int64_t now_ns);
/* Of the last minute. */
struct ms_share ms_tally_lately(const struct ms_tally *tally, int64_t now_ns);
/* A run for one query, or for several together, was answered. */
void ms_tally_run(struct ms_tally *tally, int64_t rows, int64_t input_ns, int64_t compute_ns);
/* All that did not end in an answer. */
int64_t ms_tally_failed(const struct ms_tally *tally);
#endif
