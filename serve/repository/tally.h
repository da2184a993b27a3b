/* SPDX-License-Identifier: Apache-2.0
 * tally.h - what became of a model's queries: counts by outcome, sums and histograms of times.
 *
 * A model keeps one over all of its shapes and over reloads, so that no counter goes back.  Its owner locks.
 */
#ifndef MS_TALLY_H
#define MS_TALLY_H
#include "moire.h"

enum { MS_BOUNDS = 15, MS_CODES = 24 };
/* Upper bounds of the histograms' buckets, seconds; one more bucket has what is longer. */
extern const double ms_tally_bound[MS_BOUNDS];

struct ms_times {
    int64_t count, sum_ns, bucket[MS_BOUNDS + 1];
};
struct ms_tally {
    int holders;             /* models */
    int64_t ended[MS_CODES]; /* by -code; 0: answered */
    int64_t in_time;
    int64_t pending;                               /* accepted and not ended */
    int64_t fail_ns, input_ns, output_ns, last_ms; /* last_ms: since 1970 */
    struct ms_times request, queue, compute;       /* of answered queries */
};

void ms_times_add(struct ms_times *times, int64_t ns);
/* All that did not end in an answer. */
int64_t ms_tally_failed(const struct ms_tally *tally);
#endif
