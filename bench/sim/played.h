/* SPDX-License-Identifier: Apache-2.0
 * played.h - what a simulated run counted. */
#ifndef MO_BENCH_PLAYED_H
#define MO_BENCH_PLAYED_H
#include "runtime/sched/stats.h"

/* Of energy zeros where the machine's power is not known. */
struct mo_bench_played {
    struct mo_sched_stats stats;
    double joules, seconds; /* of the whole run, its warm-up too */
};
#endif
