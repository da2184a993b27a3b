/* SPDX-License-Identifier: Apache-2.0
 * measure.h - timing kernels of one layer against each other, on one core, alone or under pressure. */
#ifndef MO_MEASURE_H
#define MO_MEASURE_H
#include "codegen/search/harness.h"
#include "codegen/tune/stress.h"

enum { MO_CONTENDERS = 28 };

struct mo_measure {
    int n; /* contender 0 is the reference of the slow-phase rule */
    struct mo_runnable contender[MO_CONTENDERS];
    int64_t bytes[MO_CONTENDERS]; /* of packed weights */
    double min_ns[MO_CONTENDERS]; /* out */
    /* out: the longer of the two halves of the units, as two cores would share them, of contenders that were
     * near the best to the end; 0: not measured */
    double half_ns[MO_CONTENDERS];
    int cores; /* more than two: also */
    /* out: the longest of the parts of the units as so many cores would split them, each part timed alone
     * (some of them, first and last included); 0: not measured */
    double part_ns[MO_CONTENDERS];
    const _Atomic int *interrupted;
    int64_t ends;             /* when it must end; 0 = after enough rounds */
    bool cut;                 /* out: it ended before every contender had run twice; times mean nothing */
    struct mo_stress *stress; /* NULL = alone */
    int level;                /* of the neighbour */
};

/* Interleaved rounds on a pinned thread of its own; minima over the rounds in which the reference kernel
 * was within 5 % of its best.  Contenders behind after the first rounds are left out of the others; the last
 * rounds are for those within 5 %.  Under pressure all stay, the neighbour is at its level all the time, and
 * what it would do to the private cache is done before every 100 us of the kernel's work; only the kernel's
 * own time counts. */
int mo_measure_run(struct mo_harness *h, struct mo_measure *m, moire_error *err);

/* The contender to keep, by its price: its time (min_ns or a multiple, INFINITY: not eligible) and what
 * `byte`, in the same unit, makes of its packed weights.  It is the cheapest, or one within 3 % of it whose
 * longer half is shorter by more than that; -1: none is eligible. */
int mo_measure_pick(const struct mo_measure *m, const double *time, double byte);
#endif
