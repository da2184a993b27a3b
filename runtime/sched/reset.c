/* SPDX-License-Identifier: Apache-2.0
 * reset.c - killing a running block: the way to get a device back that cannot preempt (Flexy, section II.C3),
 * or at once (REEF, Han et al., OSDI 2022).
 *
 * Rules of a decision RESET or RESET_BLOCK: the engine can do it (view.resets), and the query is the first of
 * a running block of a best-effort tenant and has no answer yet.  Its queries are neither answered nor lost.
 * After RESET each gives its instance back and waits again from its first layer, at its old place by
 * (deadline, priority, order), which is ahead of all of its tenant that came later; the list of waiting
 * queries has room for them whatever has been accepted meanwhile.  After RESET_BLOCK, on cores only, a query
 * that has ended a block before keeps its instance and is paused before the one that was killed.  The cores
 * are in mo_sched.coming until the engine gives them back.
 */
#include "runtime/sched/core_impl.h"

static struct mo_view_run *block_of(struct mo_sched *s, int slot) {
    if (!s->view.resets || slot < 0 || slot >= s->queries.cap || !mo_query_is_live(&s->queries, slot))
        return NULL;
    const struct mo_view_query *q = &s->queries.view[slot];
    if (q->run < 0 || s->runs[q->run].query != slot || !s->tenant_views[q->tenant].best_effort) return NULL;
    return &s->runs[q->run];
}

/* The query is as it was before its first block.  One that has its answer is only let go. */
static void start_over(struct mo_sched *s, int slot, int64_t now) {
    struct mo_view_query *q = &s->queries.view[slot];
    struct mo_query *record = &s->queries.record[slot];
    struct mo_sched_tenant *t = &s->tenants[q->tenant];
    q->run = -1;
    if (!mo_query_is_live(&s->queries, slot)) {
        mo_sched_try_release(s, slot, now);
        return;
    }
    t->free_instance[t->n_free++] = record->instance;
    record->instance = record->next_in_batch = -1;
    record->ran = 0;
    q->next_layer = 0;
    q->started = 0;
    mo_slot_insert(&t->waiting, s->queries.view, slot);
}

/* The query is as it was before the block that was killed. */
static void step_back(struct mo_sched *s, int slot, int layer, int64_t now) {
    struct mo_view_query *q = &s->queries.view[slot];
    q->run = -1;
    if (!mo_query_is_live(&s->queries, slot)) {
        mo_sched_try_release(s, slot, now);
        return;
    }
    q->next_layer = layer;
    mo_slot_insert(&s->tenants[q->tenant].paused, s->queries.view, slot);
}

bool mo_sched_reset(struct mo_sched *s, const struct mo_decision *d, int64_t now) {
    struct mo_view_run *run = block_of(s, d->query);
    const bool block = d->kind == MO_RESET_BLOCK;
    if (!run || (block && s->view.gpus)) return false;
    const struct mo_view_run killed = *run;
    const bool keeps = block && killed.begin > 0;
    const int lead = s->queries.view[d->query].run, tenant = s->queries.view[d->query].tenant;
    int64_t lost = now - killed.start;
    for (int slot = keeps ? -1 : d->query; slot >= 0; slot = s->queries.record[slot].next_in_batch)
        lost += s->queries.record[slot].ran;
    mo_sched_log(s, now, MO_LOG_RESET, d->query, tenant, killed.begin, killed.end, lost);
    mo_sched_drop_running(s, lead);
    run->query = -1;
    mo_cores_join(&s->coming, &killed.cores);
    if (killed.late_since) mo_sched_late_ended(s, &killed, now);
    s->stats.resets++;
    s->stats.reset_lost_ns += lost;
    for (int slot = d->query, next; slot >= 0; slot = next) {
        next = s->queries.record[slot].next_in_batch;
        if (keeps)
            step_back(s, slot, killed.begin, now);
        else
            start_over(s, slot, now);
    }
    mo_sched_mirror(s, tenant);
    s->ops->reset(s->engine, lead);
    return true;
}
