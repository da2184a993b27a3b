/* SPDX-License-Identifier: Apache-2.0
 * tally.c - counts and histograms of a model's queries; see tally.h. */
#include "serve/repository/tally.h"

const double ms_tally_bound[MS_BOUNDS] = {0.0005, 0.001, 0.002, 0.004, 0.006, 0.01, 0.015, 0.025,
                                          0.05,   0.1,   0.2,   0.5,   1,     2,    5};

void ms_times_add(struct ms_times *times, int64_t ns) {
    int i = 0;
    if (ns < 0) ns = 0;
    while (i < MS_BOUNDS && (double)ns > ms_tally_bound[i] * 1e9)
        i++;
    times->bucket[i]++;
    times->count++;
    times->sum_ns += ns;
}

int64_t ms_tally_failed(const struct ms_tally *tally) {
    int64_t n = 0;
    for (int i = 1; i < MS_CODES; i++)
        n += tally->ended[i];
    return n;
}
