/* SPDX-License-Identifier: Apache-2.0
 * measure.h - timing kernels of one layer against each other, alone on one core. */
#ifndef MO_MEASURE_H
#define MO_MEASURE_H
#include "codegen/search/harness.h"

enum { MO_CONTENDERS = 24 };

struct mo_measure {
    int n; /* contender 0 is the reference of the slow-phase rule */
    struct mo_runnable contender[MO_CONTENDERS];
    double min_ns[MO_CONTENDERS]; /* out */
    const _Atomic int *interrupted;
};

/* Interleaved rounds on a pinned thread of its own; minima over the rounds in which the reference kernel
 * was within 5 % of its best.  Contenders far behind after the first round are left out of the others. */
int mo_measure_run(struct mo_harness *h, struct mo_measure *m, moire_error *err);
#endif
