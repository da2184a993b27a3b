/* SPDX-License-Identifier: Apache-2.0
 * device_serve.c - the lock of a device, the answers it owes, and its service thread, which serves the
 * policy's timer, delivers what no thread of the device delivers itself (cancelled, shed, unloaded), and
 * writes the log.
 * Wake-up calls wait until the lock is let go: a futex call may cost many microseconds on a virtual machine,
 * and what a user's log does nobody knows. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/device/fpu.h"
#include "runtime/device/usdt.h"
#include "runtime/engine/device_impl.h"

struct mo_ring *mo_device_ring(struct mo_device *d, int which) {
    return d->events ? &d->events->ring[which] : NULL;
}

void mo_device_take(struct mo_device *d) {
    mo_lock_take(d->env->sys, &d->lock);
}

void mo_device_ring_doorbell(struct mo_device *d) {
    atomic_fetch_add(&d->doorbell, 1);
    d->env->sys->futex_wake(d->env->sys->self, &d->doorbell, 1);
}

bool mo_device_unlock(struct mo_device *d) {
    bool doorbell = d->doorbell_due;
    d->doorbell_due = false;
    mo_lock_drop(d->env->sys, &d->lock);
    return doorbell;
}

void mo_device_leave_answers(struct mo_device *d) {
    if (d->resolved.first >= 0) d->doorbell_due = true;
}

void mo_device_drop(struct mo_device *d) {
    mo_device_leave_answers(d);
    d->calls->leave(d->self);
}

void mo_device_note_change(struct mo_device *d) {
    if (!atomic_load(&d->waiters)) return;
    atomic_fetch_add(&d->changes, 1);
    d->env->sys->futex_wake(d->env->sys->self, &d->changes, INT32_MAX);
}

void mo_device_wait(struct mo_device *d, bool (*done)(struct mo_device *d, int arg), int arg) {
    const struct mo_sys *sys = d->env->sys;
    atomic_fetch_add(&d->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&d->changes);
        mo_device_take(d);
        bool is = done(d, arg);
        mo_device_drop(d);
        if (is) break;
        sys->futex_wait(sys->self, &d->changes, seen, mo_now(d->env) + 100000000);
    }
    atomic_fetch_sub(&d->waiters, 1);
}

/* --- answers -------------------------------------------------------------------------------------------- */
/* Takes the oldest resolved query out of the list, if it is `only` or that is 0; the lock is held. */
static bool next_answer(struct mo_device *d, uint64_t only, int *slot, struct mo_device_model *tenant,
                        int *tenant_id, struct mo_answer *out) {
    struct mo_queries *q = mo_sched_queries(d->sched);
    if (only && d->resolved.first >= 0 && mo_query_handle(q, d->resolved.first) != only) return false;
    *slot = mo_query_list_take(q, &d->resolved, out);
    if (*slot < 0) return false;
    *tenant_id = q->view[*slot].tenant;
    *tenant = d->tenants[*tenant_id];
    return true;
}

/* The query's owner has returned from its answer. */
static void answered(struct mo_device *d, int slot, struct mo_delivery *at) {
    mo_device_take(d);
    mo_device_deliveries_remove(d, at);
    if (mo_sched_queries(d->sched)->record[slot].known) d->taken_over--;
    mo_sched_answered(d->sched, slot, mo_now(d->env));
    d->calls->leave(d->self);
    mo_device_note_change(d);
}

/* Delivers all answers that are due; called without the lock, on a thread that owns `ring`: a unit's, or the
 * service thread (-1); or, `only` this, what comes behind it being the service thread's. */
static void deliver(struct mo_device *d, struct mo_ring *ring, int unit, uint64_t only) {
    struct mo_delivery delivery;
    struct mo_device_model tenant;
    struct mo_answer answer;
    int slot, id;
    for (;;) {
        mo_device_take(d);
        bool any = next_answer(d, only, &slot, &tenant, &id, &answer);
        if (any)
            mo_device_deliveries_add(d, &delivery, id, unit);
        else
            mo_device_leave_answers(d);
        d->calls->leave(d->self);
        if (!any) return;
        const uint64_t query = answer.query;
        answer.query = answer.known ? answer.known : mo_device_tag(d, query);
        mo_event_put(ring, mo_now(d->env), MO_LOG_CALLBACK_IN, query, id, answer.code, 0, 0);
        mo_probe_query_answer(query, id, answer.code, answer.end - answer.arrival);
        tenant.ops->answer(tenant.model, &answer);
        mo_event_put(ring, mo_now(d->env), MO_LOG_CALLBACK_OUT, query, id, answer.code, 0, 0);
        answered(d, slot, &delivery);
    }
}

void mo_device_drop_and_deliver(struct mo_device *d, struct mo_ring *ring, int unit, uint64_t only) {
    bool due = d->resolved.first >= 0;
    if (d->n_stuck) mo_device_note_stuck(d);
    d->calls->leave(d->self);
    mo_device_note_change(d);
    if (due) deliver(d, ring, unit, only);
}

/* --- the log -------------------------------------------------------------------------------------------- */
void mo_device_say(struct mo_device *d, int level, const char *format, ...) {
    if (!d->env->log || d->n_lines == MO_DEVICE_LINES) return;
    struct mo_device_line *line = &d->line[d->n_lines++];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line->text, sizeof line->text, format, ap);
    va_end(ap);
    line->level = level;
    d->doorbell_due = true;
}

void mo_device_write_lines(struct mo_device *d) {
    struct mo_device_line line;
    for (;;) {
        mo_device_take(d);
        const bool any = d->n_lines > 0;
        if (any) {
            line = d->line[0];
            memmove(&d->line[0], &d->line[1], (size_t)--d->n_lines * sizeof line);
        }
        mo_lock_drop(d->env->sys, &d->lock); /* nothing else was done under it */
        if (!any) return;
        mo_log(d->env, line.level, "%s", line.text);
    }
}

/* --- service thread ------------------------------------------------------------------------------------- */
void *mo_device_serve(void *arg) {
    struct mo_device *d = arg;
    const struct mo_sys *sys = d->env->sys;
    struct mo_ring *ring = mo_device_ring(d, d->n_units + MO_RING_SERVICE);
    sys->name_thread(sys->self, "moire-service");
    (void)sys->foreground(sys->self);
    mo_fpu_flush();
    for (;;) {
        uint32_t heard = atomic_load(&d->doorbell);
        mo_device_take(d);
        if (d->timer_at <= mo_now(d->env)) {
            d->timer_at = MO_NEVER;
            mo_sched_timer(d->sched, mo_now(d->env));
        }
        mo_device_note_stuck(d);
        int64_t wake = d->timer_at == MO_NEVER ? 0 : d->timer_at;
        bool due = d->resolved.first >= 0, stop = d->stop, lines = d->n_lines > 0;
        d->calls->leave(d->self);
        if (lines) mo_device_write_lines(d);
        if (due)
            deliver(d, ring, -1, 0);
        else if (stop)
            return NULL;
        else
            sys->futex_wait(sys->self, &d->doorbell, heard, wake);
    }
}
