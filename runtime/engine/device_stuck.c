/* SPDX-License-Identifier: Apache-2.0
 * device_stuck.c - blocks and callbacks that do not come back.
 *
 * A block is stuck when it is overdue by STUCK_NS, and by STUCK_TIMES what it was predicted to take: a kernel
 * does not end, its worker was stopped by a debugger or a fault, or another tenant's callback keeps that.  A
 * callback is stuck when it has not returned for STUCK_NS.  Nothing is done about either, for no thread can
 * be taken out of a kernel.  But whoever asks whether the tenant is ready is told, and the log has a line
 * when it begins and one when it ends.
 *
 * Nothing is kept up to date for it.  Who looks (mo_device_stuck(), and the service thread, which the
 * scheduler wakes every few milliseconds while blocks run on cores) walks over the blocks and callbacks under
 * way. */
#include <stdio.h>
#include "runtime/engine/device_impl.h"

/* The lock is held but in what device.h has. */
static const int64_t STUCK_NS = 500000000, STUCK_TIMES = 10;

/* By how long it is overdue; 0: it is not stuck. */
static int64_t block_overdue(const struct mo_view_run *run, int64_t now) {
    const int64_t due = run->late_since ? run->late_since : run->predicted_end, late = now - due;
    return late >= STUCK_NS && late / STUCK_TIMES >= due - run->start ? late : 0;
}

static int64_t callback_overdue(const struct mo_delivery *at, int64_t now) {
    return now - at->since >= STUCK_NS ? now - at->since : 0;
}

static const char *name_of(const struct mo_device *d, int tenant) {
    const struct mo_device_model *t = &d->tenants[tenant];
    return t->ops->name ? t->ops->name(t->model) : "";
}

/* --- callbacks ------------------------------------------------------------------------------------------ */
void mo_device_deliveries_add(struct mo_device *d, struct mo_delivery *at, int tenant, int unit) {
    *at =
        (struct mo_delivery){.next = d->deliveries, .tenant = tenant, .unit = unit, .since = mo_now(d->env)};
    d->deliveries = at;
}

void mo_device_deliveries_remove(struct mo_device *d, struct mo_delivery *at) {
    struct mo_delivery **link = &d->deliveries;
    while (*link != at)
        link = &(*link)->next;
    *link = at->next;
    if (at->said)
        mo_device_say(d, MOIRE_LOG_WARN, "tenant '%.100s' goes on: its callback has returned after %.1f s",
                      name_of(d, at->tenant), (double)(mo_now(d->env) - at->since) / 1e9);
}

/* --- the log -------------------------------------------------------------------------------------------- */
static void say_block(struct mo_device *d, const struct mo_view_run *run, int lead, int64_t now) {
    struct mo_stuck_block *s = &d->stuck[lead];
    const int tenant = mo_sched_view(d->sched)->queries[run->query].tenant;
    *s = (struct mo_stuck_block){.start = run->start};
    snprintf(s->name, sizeof s->name, "%s", name_of(d, tenant)); /* the tenant may be gone at the end */
    d->n_stuck++;
    d->stucks++;
    mo_device_say(d, MOIRE_LOG_ERROR,
                  "tenant '%.100s' is stuck: its layers %d to %d have been on unit %d for %.2f s and were to "
                  "take %.2f ms: a kernel does not end, or the thread stands still",
                  s->name, run->begin, run->end - 1, lead, (double)(now - run->start) / 1e9,
                  (double)((run->late_since ? run->late_since : run->predicted_end) - run->start) / 1e6);
}

static void say_blocks_that_end(struct mo_device *d, int64_t now) {
    const struct mo_view *v = mo_sched_view(d->sched);
    for (int lead = 0; lead < d->n_units && d->n_stuck; lead++) {
        struct mo_stuck_block *s = &d->stuck[lead];
        if (!s->start || (v->runs[lead].query >= 0 && v->runs[lead].start == s->start)) continue;
        mo_device_say(d, MOIRE_LOG_WARN, "tenant '%.100s' goes on: its block on unit %d ended after %.1f s",
                      s->name, lead, (double)(now - s->start) / 1e9);
        s->start = 0;
        d->n_stuck--;
    }
}

void mo_device_note_stuck(struct mo_device *d) {
    const int64_t now = mo_now(d->env);
    const struct mo_view *v = mo_sched_view(d->sched);
    say_blocks_that_end(d, now);
    for (int i = 0; i < v->n_running; i++) {
        const struct mo_view_run *run = &v->runs[v->running[i]];
        if (d->stuck[v->running[i]].start != run->start && block_overdue(run, now))
            say_block(d, run, v->running[i], now);
    }
    for (struct mo_delivery *at = d->deliveries; at; at = at->next) {
        if (at->said || !callback_overdue(at, now)) continue;
        at->said = true;
        d->stucks++;
        mo_device_say(d, MOIRE_LOG_ERROR,
                      "tenant '%.100s' is stuck: its callback has not returned for %.2f s",
                      name_of(d, at->tenant), (double)(now - at->since) / 1e9);
    }
}

/* --- who asks ------------------------------------------------------------------------------------------- */
/* What is stuck goes to `out`, of which *n are taken; those beyond `room` are counted only.  Returns: the
 * units that nothing else can run on. */
static struct mo_cores list(struct mo_device *d, struct mo_stuck *out, int room, int *n) {
    const int64_t now = mo_now(d->env);
    const struct mo_view *v = mo_sched_view(d->sched);
    struct mo_cores held = {0};
    for (int i = 0; i < v->n_running; i++) {
        const int lead = v->running[i];
        const struct mo_view_run *run = &v->runs[lead];
        const int64_t ns = block_overdue(run, now);
        if (!ns) continue;
        mo_cores_join(&held, &run->cores);
        if ((*n)++ < room)
            out[*n - 1] = (struct mo_stuck){d->tenants[v->queries[run->query].tenant].owner,
                                            ns,
                                            MOIRE_STUCK_BLOCK,
                                            run->begin,
                                            run->end,
                                            lead};
    }
    for (const struct mo_delivery *at = d->deliveries; at; at = at->next) {
        const int64_t ns = callback_overdue(at, now);
        if (!ns) continue;
        if (at->unit >= 0) mo_cores_add(&held, at->unit);
        if ((*n)++ < room)
            out[*n - 1] =
                (struct mo_stuck){d->tenants[at->tenant].owner, ns, MOIRE_STUCK_CALLBACK, 0, 0, at->unit};
    }
    return held;
}

int mo_device_stuck(struct mo_device *d, struct mo_stuck *out, int room, int *n) {
    mo_device_take(d);
    mo_device_note_stuck(d);
    const struct mo_cores held = list(d, out, room, n);
    /* those that a block has ended without come back within microseconds, unless they stand still, too */
    const int units = mo_cores_none(&held) ? 0 : mo_cores_count(&held) + d->n_late;
    mo_device_drop(d);
    return units < d->n_units ? units : d->n_units;
}

bool mo_device_is_lost(struct mo_device *d) {
    if (!d->calls->is_lost) return false;
    mo_device_take(d);
    const bool lost = d->calls->is_lost(d->self);
    mo_device_drop(d);
    return lost;
}

int64_t mo_device_stucks(struct mo_device *d) {
    mo_device_take(d);
    const int64_t stucks = d->stucks;
    mo_device_drop(d);
    return stucks;
}
