/* SPDX-License-Identifier: Apache-2.0
 * device_submit.c - queries into a device, one or many at once, and what a tenant has under way there. */
#include "runtime/device/usdt.h"
#include "runtime/engine/device_impl.h"

/* The lock is held. */
static void submit(struct mo_device *d, int tenant, struct mo_device_query *query, moire_error *err) {
    int slot;
    int64_t now = mo_now(d->env);
    struct mo_arrival a = query->arrival;
    mo_event_put(mo_device_locked_ring(d), now, MO_LOG_SUBMIT, 0, tenant, a.arrival, 0, 0);
    if (!a.arrival) a.arrival = now;
    d->guest = query->guest;
    if (d->guest) d->guest->user = a.user;
    query->code = mo_sched_accept(d->sched, tenant, &a, now, &slot, err);
    d->guest = NULL;
    if (query->code) return;
    struct mo_queries *q = mo_sched_queries(d->sched);
    q->record[slot].known = query->known; /* nobody has looked: it is answered without the lock */
    if (query->known) d->taken_over++;
    query->handle = mo_query_handle(q, slot);
    mo_probe_query_submit(query->handle, tenant, a.arrival, q->view[slot].deadline);
}

void mo_device_submit(struct mo_device *d, int tenant, struct mo_device_query *queries, int n,
                      moire_error *err) {
    bool refused = false;
    mo_device_take(d);
    if (n > 1) mo_sched_hold(d->sched); /* one decision about all of them */
    for (int i = 0; i < n; i++) {
        submit(d, tenant, &queries[i], refused ? NULL : err);
        refused |= queries[i].code != MOIRE_OK;
    }
    if (n > 1) mo_sched_unhold(d->sched, mo_now(d->env));
    mo_device_drop(d);
}

void mo_device_be_guest(struct mo_device *d, int core) {
    d->calls->be_guest(d->self, core);
}

static bool is_quiet(struct mo_device *d, int tenant) {
    return mo_sched_tenant_pending(d->sched, tenant) == 0;
}

void mo_device_quiet(struct mo_device *d, int tenant) {
    mo_device_wait(d, is_quiet, tenant);
}

void mo_device_now(struct mo_device *d, int tenant, struct mo_device_now *out) {
    *out = (struct mo_device_now){0};
    mo_device_take(d);
    const struct mo_view *v = mo_sched_view(d->sched);
    for (int i = 0; i < v->n_tenants; i++) {
        if (tenant >= 0 && i != tenant) continue;
        out->waiting += v->tenants[i].n_waiting;
        out->paused += v->tenants[i].n_paused;
        out->blocks += v->tenants[i].n_running;
        if (tenant >= 0) out->residual = v->tenants[i].residual;
    }
    for (int i = 0; i < v->n_running; i++) {
        const struct mo_view_run *run = &v->runs[v->running[i]];
        if (tenant < 0 || v->queries[run->query].tenant == tenant) out->units += run->n_cores;
    }
    for (int i = 0; i < MO_PRESSURES; i++)
        out->pressure[i] = v->pressure[i];
    out->block_ns = v->block_ns;
    out->pace = v->pace;
    mo_device_drop(d);
}
