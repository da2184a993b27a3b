/* SPDX-License-Identifier: Apache-2.0
 * machine_pace.h - how fast the machine is now, beside what its profiles say: one number for all tenants.
 *
 * On a shared machine other guests take time from cores, and speeds change by half within seconds.  A
 * tenant's own residual follows that over hundreds of its blocks, and each tenant for itself; the pace
 * follows within milliseconds, from the blocks of all.
 *
 * Blocks that ended make up samples of about one length: time that they took over time that they should
 * have taken, both in core time, so that some milliseconds of a busy machine fill the window whatever its
 * size.  The pace is the mean of the middle half of the last samples: a block that a stall held up is an
 * outlier and moves nothing, and when the machine is fast again the pace is back as soon as it left.
 * Deviations within a band count as none: layers differ from their profiles by as much, and that is for the
 * tenants' residuals.  What was seen long ago is forgotten. */
#ifndef MO_MACHINE_PACE_H
#define MO_MACHINE_PACE_H
#include <stdbool.h>
#include <stdint.h>

enum { MO_PACE_SAMPLES = 16 };

struct mo_pace {
    double sample[MO_PACE_SAMPLES]; /* the last n, in a ring; `at` is the next one's place */
    double rising[MO_PACE_SAMPLES]; /* the same in order */
    int n, at;
    double took, expected; /* core ns of the sample that is being made up */
    double quota;          /* core ns expected that are a sample */
    int64_t last;          /* when the latest block was noted */
    double value;          /* ns that a block takes for each ns that it should: 1 = as fast as profiled */
};

/* For a machine of so many cores: 1, and nothing is known. */
void mo_pace_init(struct mo_pace *pace, int n_cores);
/* A block on `cores` cores took `took` ns for `expected` ns; all positive.  True: the pace has changed. */
bool mo_pace_note(struct mo_pace *pace, int cores, double took, double expected, int64_t now);
/* Forgets what is too old by now.  True: the pace has changed. */
bool mo_pace_forget(struct mo_pace *pace, int64_t now);
#endif
