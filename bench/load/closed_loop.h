/* SPDX-License-Identifier: Apache-2.0
 * closed_loop.h - which query the tenants in closed loops ask next, live and simulated.
 *
 * A loop may ask one query for each answer, and at the start as many as are to be on their way.  A query that
 * is refused or fails is not asked again, so a system that cannot answer gets no endless stream of them. */
#ifndef MO_BENCH_CLOSED_LOOP_H
#define MO_BENCH_CLOSED_LOOP_H
#include <stdatomic.h>
#include "bench/load/arrivals.h"

struct mo_bench_loops {
    const struct mo_bench_schedule *schedule;
    int asked[MO_BENCH_MAX_CLOSED];       /* belongs to who asks */
    atomic_int owed[MO_BENCH_MAX_CLOSED]; /* may be asked now */
    int full;                             /* loops that had no room for what they may ask */
};

/* `schedule` must outlive it. */
void mo_bench_loops_begin(struct mo_bench_loops *loops, const struct mo_bench_schedule *schedule);
/* Query `index` has its answer, which was MOIRE_OK.  From any thread; true when it was a loop's. */
bool mo_bench_loops_answered(struct mo_bench_loops *loops, int index);
/* The query that is to be asked now; -1 = none. */
int mo_bench_loops_next(struct mo_bench_loops *loops);
/* How many were asked. */
int mo_bench_loops_asked(const struct mo_bench_loops *loops);
/* MOIRE_ELIMIT when a loop had no room left: its throughput would be too small. */
int mo_bench_loops_check(const struct mo_bench_loops *loops, moire_error *err);
#endif
