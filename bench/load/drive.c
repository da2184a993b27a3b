/* SPDX-License-Identifier: Apache-2.0
 * drive.c - plays a schedule against a backend, open loop, and closed loops beside it; see drive.h.
 *
 * The calling thread is the generator: it sleeps until each scheduled moment and issues, whatever the
 * system's state.  A record belongs to the generator until issue() and to the completing thread after it;
 * `over[i]` publishes it (release) and lets the generator count queries that are overdue but not answered; it
 * looks at few, for those it has counted are behind it.
 *
 * Queries of closed loops are issued by the generator too, which an answer to one of them wakes. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include "bench/load/closed_loop.h"
#include "bench/load/drive.h"

struct mo_bench_drive {
    const struct mo_env *env;
    const struct mo_bench_schedule *schedule;
    struct mo_bench_record *records;
    const int64_t *qos_ns;
    atomic_uchar *over; /* OVER, MISSED */
    int64_t t0;
    int first; /* all before it are over or have missed */
    atomic_int misses, missed[MO_BENCH_MAX_TENANTS], done, twice;
    struct mo_bench_loops loops;
    _Atomic uint32_t answered; /* queries of closed loops; the generator sleeps on it */
};

enum { LOOK_EVERY = 32, OVER = 1, MISSED = 2 };
/* under_way_ns: an answer that was in time is known that long after */
static const int64_t lead_ns = 20 * 1000 * 1000, tick_ns = 2 * 1000 * 1000, under_way_ns = 20 * 1000 * 1000;

static bool counts(const struct mo_bench_drive *d, int index) {
    return index < d->schedule->n && mo_bench_counts(d->schedule, d->schedule->items[index].at_ns);
}

static int64_t due(const struct mo_bench_drive *d, int index) {
    const struct mo_bench_arrival *a = &d->schedule->items[index];
    return a->at_ns + d->qos_ns[a->tenant];
}

/* Once a query, whoever sees it first. */
static void miss(struct mo_bench_drive *d, int index) {
    if (!counts(d, index) || atomic_fetch_or(&d->over[index], MISSED) & MISSED) return;
    atomic_fetch_add(&d->misses, 1);
    atomic_fetch_add(&d->missed[d->schedule->items[index].tenant], 1);
}

void mo_bench_done(struct mo_bench_drive *d, int index, int64_t start_ns, int64_t end_ns, int code) {
    struct mo_bench_record *r = &d->records[index];
    if (atomic_load(&d->over[index]) & OVER) {
        atomic_fetch_add(&d->twice, 1);
        return;
    }
    r->start_ns = start_ns > 0 ? start_ns - d->t0 : -1;
    r->end_ns = end_ns - d->t0;
    r->code = code;
    if (code != MOIRE_OK) r->end_ns = -1;
    if (counts(d, index) && (code != MOIRE_OK || r->end_ns > due(d, index))) miss(d, index);
    atomic_fetch_or_explicit(&d->over[index], OVER, memory_order_release);
    atomic_fetch_add(&d->done, 1);
    if (code != MOIRE_OK || !mo_bench_loops_answered(&d->loops, index)) return;
    atomic_fetch_add(&d->answered, 1);
    d->env->sys->futex_wake(d->env->sys->self, &d->answered, 1);
}

/* Counts what is overdue without an answer, and tells whether the goal is out of reach. */
static bool is_lost(struct mo_bench_drive *d, const struct mo_bench_budget *budget, int issued,
                    int64_t now_ns) {
    int missed[MO_BENCH_MAX_TENANTS];
    if (budget->all < 0) return false;
    for (int i = d->first; i < issued; i++)
        if (due(d, i) + under_way_ns < now_ns && !(atomic_load(&d->over[i]) & OVER)) miss(d, i);
    while (d->first < issued && (atomic_load(&d->over[d->first]) || !counts(d, d->first)))
        d->first++;
    for (int i = 0; i < budget->n_tenants; i++)
        missed[i] = atomic_load(&d->missed[i]);
    return mo_bench_spent(budget, atomic_load(&d->misses), missed);
}

/* What the calls below share: one run as the generator sees it. */
struct generator {
    struct mo_bench_drive *drive;
    const struct mo_bench_backend *backend;
    void *self;
};

static void issue(const struct generator *g, int index, int64_t arrival, int64_t now) {
    struct mo_bench_drive *d = g->drive;
    d->records[index].issue_ns = now - d->t0;
    int code = g->backend->issue(g->self, d, index, mo_bench_tenant_of(d->schedule, index), arrival);
    if (code) mo_bench_done(d, index, 0, mo_now(d->env), code);
}

/* Sleeps until `at`; closed loops go on meanwhile.  Returns the time. */
static int64_t sleep_until(const struct generator *g, int64_t at) {
    struct mo_bench_drive *d = g->drive;
    const struct mo_sys *sys = d->env->sys;
    for (;;) {
        const uint32_t seen = atomic_load(&d->answered);
        int64_t now = mo_now(d->env);
        for (int index; now >= d->t0 && (index = mo_bench_loops_next(&d->loops)) >= 0; now = mo_now(d->env))
            issue(g, index, now, now);
        if (now >= at) return now;
        if (d->schedule->n_closed && now >= d->t0)
            sys->futex_wait(sys->self, &d->answered, seen, at);
        else
            sys->sleep_until(sys->self, now < d->t0 && d->t0 < at ? d->t0 : at);
    }
}

/* Issues everything; returns how many arrivals were issued. */
static int generate(const struct generator *g, const struct mo_bench_budget *budget, int64_t *cut_ns) {
    struct mo_bench_drive *d = g->drive;
    const struct mo_bench_schedule *s = d->schedule;
    for (int i = 0; i < s->n; i++) {
        const int64_t at = d->t0 + s->items[i].at_ns, now = sleep_until(g, at);
        if (i % LOOK_EVERY == 0 && is_lost(d, budget, i, now - d->t0)) {
            *cut_ns = now - d->t0;
            return i;
        }
        issue(g, i, at, now);
    }
    return s->n;
}

/* Closed loops last to the end. */
static void settle(const struct generator *g, int issued) {
    struct mo_bench_drive *d = g->drive;
    const struct mo_env *env = d->env;
    int64_t end = d->t0 + d->schedule->total_ns, now;
    if (d->schedule->n_closed) (void)sleep_until(g, end);
    while (atomic_load(&d->done) < issued && (now = mo_now(env)) < end)
        env->sys->sleep_until(env->sys->self, now + tick_ns < end ? now + tick_ns : end);
}

/* The clients of a server do not queue for its cores: where the machine allows, the generator runs ahead of
 * the system under test (any system: the peers' runners do the same), so that arrivals are not issued a
 * scheduler tick late.  Threads that it starts do not inherit this. */
static void step_ahead(bool ahead) {
    struct sched_param param = {.sched_priority = ahead ? 1 : 0};
    (void)sched_setscheduler(0, ahead ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER, &param);
}

static int check_answers(const struct mo_bench_drive *d, const struct mo_bench_backend *backend, int issued,
                         moire_error *err) {
    const int twice = atomic_load(&d->twice), never = issued - atomic_load(&d->done);
    if (twice) return mo_fail(err, MOIRE_EINTERNAL, "%d of %d queries were answered twice", twice, issued);
    if (never && backend->answers_all)
        return mo_fail(err, MOIRE_EINTERNAL, "%d of %d queries were never answered", never, issued);
    return MOIRE_OK;
}

int mo_bench_play(const struct mo_env *env, const struct mo_bench_backend *backend, void *self,
                  const struct mo_bench_schedule *schedule, const int64_t *qos_ns,
                  const struct mo_bench_budget *budget, struct mo_bench_record *records, int64_t *cut_ns,
                  moire_error *err) {
    struct mo_bench_drive d = {.env = env, .schedule = schedule, .records = records, .qos_ns = qos_ns};
    const struct generator g = {&d, backend, self};
    const int slots = mo_bench_slots(schedule);
    d.over = mo_alloc(env, (size_t)slots + 1);
    if (!d.over) return mo_fail(err, MOIRE_ENOMEM, "no memory for %d queries", slots);
    mo_bench_records_clear(records, slots);
    mo_bench_loops_begin(&d.loops, schedule);
    int code = backend->begin ? backend->begin(self, slots) : MOIRE_OK;
    if (code) {
        mo_free(env, (void *)d.over);
        return mo_fail(err, code, "a run of %d queries could not be prepared", slots);
    }
    *cut_ns = INT64_MAX;
    d.t0 = mo_now(env) + lead_ns;
    step_ahead(true);
    int issued = generate(&g, budget, cut_ns);
    if (*cut_ns == INT64_MAX) settle(&g, issued);
    step_ahead(false);
    backend->stop(self);
    code = check_answers(&d, backend, issued + mo_bench_loops_asked(&d.loops), err);
    if (!code) code = mo_bench_loops_check(&d.loops, err);
    mo_free(env, (void *)d.over);
    return code;
}
