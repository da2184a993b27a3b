/* SPDX-License-Identifier: Apache-2.0
 * arrivals.h - open-loop arrivals, Poisson or burstier (bench/data/process.h), drawn ahead of the run from a
 * printed seed.
 *
 * Every tenant has its own random stream, so a tenant's arrivals do not depend on who else is there, and the
 * same seed at another load gives the same gaps, stretched.  The schedule is what every system is fed.
 *
 * A tenant in a closed loop has no drawn arrivals: it always has so many queries on their way, and asks the
 * next one when one is answered (bench/load/closed_loop.h). */
#ifndef MO_BENCH_ARRIVALS_H
#define MO_BENCH_ARRIVALS_H
#include <stdbool.h>
#include "bench/data/process.h"
#include "runtime/base/env.h"

struct mo_bench_curve;

struct mo_bench_arrival {
    int64_t at_ns; /* from the start of the run */
    int tenant;
};

enum { MO_BENCH_MAX_CLOSED = 8 };
struct mo_bench_closed {
    int tenant, outstanding; /* queries that are always on their way, from 1 on */
};

struct mo_bench_schedule {
    struct mo_bench_arrival *items; /* in order of time, then tenant */
    int n;
    struct mo_bench_closed closed[MO_BENCH_MAX_CLOSED];
    int n_closed;
    int room;    /* most queries of one closed loop; those of the k-th have indices from n + k room on */
    double load; /* that it was drawn for; 0 = not known */
    int64_t warmup_ns; /* arrivals before this do not count */
    int64_t window_ns; /* arrivals in [warmup, warmup + window) count */
    int64_t total_ns;  /* arrivals go on until here, so that the last ones that count meet the same load */
};

/* Draws arrivals at rates[i] queries a second for each tenant, none where that is 0; where curves (may be
 * NULL) has points for it, at the rate of the curve as a share of its largest.  Free with
 * mo_bench_schedule_free(). */
int mo_bench_schedule_draw(const struct mo_env *env, const struct mo_process *process, uint64_t seed,
                           const double *rates, const struct mo_bench_curve *curves, int n_tenants,
                           int64_t warmup_ns, int64_t window_ns, int64_t total_ns,
                           struct mo_bench_schedule *out, moire_error *err);
int mo_bench_schedule_copy(const struct mo_env *env, const struct mo_bench_schedule *from,
                           struct mo_bench_schedule *out, moire_error *err);
void mo_bench_schedule_free(const struct mo_env *env, struct mo_bench_schedule *schedule);

/* The file that peers read: a comment line, then "time_ns,tenant" lines. */
int mo_bench_schedule_write(const struct mo_bench_schedule *schedule, const char *path, moire_error *err);
int mo_bench_schedule_read(const struct mo_env *env, const char *path, int n_tenants,
                           struct mo_bench_schedule *out, moire_error *err);
/* How many queries a run of it may have, and whose a query is. */
static inline int mo_bench_slots(const struct mo_bench_schedule *s) {
    return s->n + s->n_closed * s->room;
}
static inline int mo_bench_tenant_of(const struct mo_bench_schedule *s, int index) {
    return index < s->n ? s->items[index].tenant : s->closed[(index - s->n) / s->room].tenant;
}
static inline int mo_bench_counts(const struct mo_bench_schedule *s, int64_t at_ns) {
    return at_ns >= s->warmup_ns && at_ns < s->warmup_ns + s->window_ns;
}
#endif
