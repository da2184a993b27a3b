/* SPDX-License-Identifier: Apache-2.0
 * late.c - blocks that have not ended long after they should have.
 *
 * As a rule a core of such a block stands still, or does next to nothing: its host has given it to another
 * guest.  It may as well be that all are slow, because memory is short or neighbours take it; from here the
 * two look alike.
 * Nobody knows for how long; as good a guess as any is that it goes on for as long as it has lasted.  So the
 * block's predicted end moves there, and moves on when that has passed.  Policies see it by `late_since` and
 * view.n_late: they count neither on its cores nor on its query, and those that will be late for it may be
 * told so at once, the query itself too.  Of a team, they may let all cores but the lead go, which
 * wait for the one that stands still.
 *
 * While blocks run they are looked at every few milliseconds: with the decisions that are made anyway, or by
 * the engine's timer where none is. */
#include <stdio.h>
#include "runtime/sched/core_impl.h"

enum { LINE = 200 };
static const int64_t GRACE_NS = 2000000, EVERY_NS = 3000000;

static bool watches(const struct mo_sched *s) {
    return !s->view.gpus && !s->policy->no_watch;
}

static void count_late(struct mo_sched *s) {
    s->view.n_late = 0;
    for (int i = 0; i < s->view.n_running; i++) {
        const struct mo_view_run *r = &s->runs[s->running[i]];
        if (r->late_since) s->view.n_late += r->n_cores;
    }
}

/* It goes on for as long as it has lasted. */
static int64_t guess_end(const struct mo_view_run *r, int64_t now) {
    return now + (now - r->late_since);
}

void mo_sched_late_on(struct mo_sched *s, struct mo_view_run *run, int64_t now) {
    run->predicted_end = guess_end(run, now);
    count_late(s);
}

void mo_sched_watch_from(struct mo_sched *s, int64_t now) {
    if (s->watch_at != MO_NEVER || !watches(s)) return;
    s->watch_at = now + EVERY_NS;
    mo_sched_set_alarm(s);
}

/* Long past its predicted end; for one that is late already, past the guess. */
static bool is_overdue(const struct mo_view_run *r, int64_t now) {
    int64_t span = r->predicted_end - r->start;
    int64_t grace = r->late_since ? 0 : span > GRACE_NS ? span : GRACE_NS;
    return now - r->predicted_end > grace;
}

static void begin_late(struct mo_sched *s, struct mo_view_run *r, int64_t now) {
    char line[LINE];
    r->late_since = r->predicted_end;
    int64_t n = ++s->stats.stalls;
    if (!s->ops->say || n & (n - 1)) return; /* each time that they have doubled: many may come */
    snprintf(
        line, sizeof line,
        "scheduler: a block is %.1f ms late: a core stands still, or what cores share is short (pressure "
        "%.2f, pace %.2f); late so far: %lld",
        (double)(now - r->late_since) * 1e-6, s->view.pressure[MO_PRESSURE_CACHE], s->view.pace,
        (long long)n);
    s->ops->say(s->engine, MOIRE_LOG_WARN, line);
}

bool mo_sched_watch(struct mo_sched *s, int64_t now) {
    bool any = false;
    for (int i = 0; i < s->view.n_running; i++) {
        struct mo_view_run *r = &s->runs[s->running[i]];
        if (!is_overdue(r, now)) continue;
        if (!r->late_since) begin_late(s, r, now);
        r->predicted_end = guess_end(r, now);
        any = true;
    }
    if (any) count_late(s);
    s->watch_at = s->view.n_running ? now + EVERY_NS : MO_NEVER;
    mo_sched_set_alarm(s);
    return s->view.n_late > 0;
}

void mo_sched_late_ended(struct mo_sched *s, const struct mo_view_run *run, int64_t now) {
    s->stats.stall_ns += now - run->late_since;
    count_late(s);
}
