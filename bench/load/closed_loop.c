/* SPDX-License-Identifier: Apache-2.0
 * closed_loop.c - see closed_loop.h. */
#include "bench/load/closed_loop.h"

void mo_bench_loops_begin(struct mo_bench_loops *l, const struct mo_bench_schedule *schedule) {
    l->schedule = schedule;
    l->full = 0;
    for (int k = 0; k < schedule->n_closed; k++) {
        l->asked[k] = 0;
        atomic_store(&l->owed[k], schedule->closed[k].outstanding);
    }
}

bool mo_bench_loops_answered(struct mo_bench_loops *l, int index) {
    const struct mo_bench_schedule *s = l->schedule;
    if (index < s->n) return false;
    atomic_fetch_add(&l->owed[(index - s->n) / s->room], 1);
    return true;
}

int mo_bench_loops_next(struct mo_bench_loops *l) {
    const struct mo_bench_schedule *s = l->schedule;
    for (int k = 0; k < s->n_closed; k++) {
        if (atomic_load(&l->owed[k]) < 1) continue;
        atomic_fetch_sub(&l->owed[k], 1);
        if (l->asked[k] < s->room) return s->n + k * s->room + l->asked[k]++;
        l->full++;
    }
    return -1;
}

int mo_bench_loops_asked(const struct mo_bench_loops *l) {
    int n = 0;
    for (int k = 0; k < l->schedule->n_closed; k++)
        n += l->asked[k];
    return n;
}

int mo_bench_loops_check(const struct mo_bench_loops *l, moire_error *err) {
    if (!l->full) return MOIRE_OK;
    return mo_fail(err, MOIRE_ELIMIT,
                   "a closed loop had more than %d answers: its solo time is wrong, measure it again",
                   l->schedule->room);
}
