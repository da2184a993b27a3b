/* SPDX-License-Identifier: Apache-2.0
 * decide.c - asking the policy, checking what it wants, carrying it out.
 *
 * Rules of a decision: RUN names a query that waits (and its tenant has a free instance) or is paused; its
 * end lies in (next_layer, n_layers]; its cores are idle and at least one, or it may be queued behind the
 * block that runs there (units->may_queue); a batch is no larger than the
 * engine takes, its members stand behind the query in the same list at the same layer, and there is an
 * instance for each; what else units ask is in on_cores.c and on_lets.c.  SHED names a waiting or
 * paused query of a tenant that allows it, or one whose block is late.  TIMER lies in the future.  RESIZE has
 * its rules in resizing.c, RESET in reset.c, PARK and CLOCK in powering.c.  Whatever breaks a rule is refused
 * and counted; nothing else is disturbed by it.
 */
#include "runtime/sched/core_impl.h"

static bool is_waiting(const struct mo_sched *s, int slot) {
    return slot >= 0 && slot < s->queries.cap && mo_query_is_live(&s->queries, slot) &&
           s->queries.view[slot].run < 0;
}

static struct mo_slot_list *list_of(const struct mo_sched *s, int slot) {
    struct mo_sched_tenant *t = &s->tenants[s->queries.view[slot].tenant];
    return s->queries.record[slot].instance < 0 ? &t->waiting : &t->paused;
}

static bool may_batch(const struct mo_sched *s, const struct mo_decision *d) {
    const struct mo_slot_list *list = list_of(s, d->query);
    int at = mo_slot_find(list, s->queries.view, d->query);
    if (d->batch > s->view.max_batch || at < 0 || d->batch > list->n - at) return false;
    for (int i = 1; i < d->batch; i++)
        if (s->queries.view[list->slot[at + i]].next_layer != s->queries.view[d->query].next_layer)
            return false;
    return true;
}

static bool may_run(const struct mo_sched *s, const struct mo_decision *d) {
    if (!is_waiting(s, d->query)) return false;
    const struct mo_view_query *q = &s->queries.view[d->query];
    if (d->end <= q->next_layer || d->end > s->tenant_views[q->tenant].profile->n_layers) return false;
    if (s->queries.record[d->query].instance < 0 && s->tenants[q->tenant].n_free < mo_sched_batch_of(d))
        return false;
    if (d->batch > 1 && !may_batch(s, d)) return false;
    if (!s->units->may_run(s, d)) return false;
    int lead = mo_cores_next(&d->cores, -1);
    return lead >= 0 && (mo_cores_subset(&d->cores, &s->view.idle) || s->units->may_queue(s, d, lead));
}

/* A query goes from its list into the block of `lead`. */
static void join_run(struct mo_sched *s, int slot, int lead, int n, int64_t now) {
    struct mo_view_query *q = &s->queries.view[slot];
    struct mo_query *record = &s->queries.record[slot];
    struct mo_sched_tenant *t = &s->tenants[q->tenant];
    if (record->instance < 0) {
        record->instance = t->free_instance[--t->n_free];
        q->started = now;
    }
    if (q->last_core >= 0 && (q->last_core != lead || q->last_cores != n)) s->stats.switches++;
    q->run = lead;
    q->last_core = lead;
    q->last_cores = n;
    record->next_in_batch = -1;
    s->stats.members++;
}

/* Takes the decision's queries out of their list and links them. */
static void gather(struct mo_sched *s, const struct mo_decision *d, int lead, int n, int64_t now) {
    struct mo_slot_list *list = list_of(s, d->query);
    int at = mo_slot_find(list, s->queries.view, d->query), batch = mo_sched_batch_of(d);
    for (int i = 0; i < batch; i++) {
        join_run(s, list->slot[at + i], lead, n, now);
        if (i) s->queries.record[list->slot[at + i - 1]].next_in_batch = list->slot[at + i];
    }
    mo_slot_cut(list, at, batch);
}

/* What a decision on cores rests on. */
static void log_basis(struct mo_sched *s, const struct mo_decision *d, int64_t predicted, int64_t now) {
    const struct mo_view_query *q = &s->queries.view[d->query];
    bool ends = d->end == s->tenant_views[q->tenant].profile->n_layers;
    mo_sched_log(s, now, MO_LOG_BASIS, d->query, q->tenant, (int64_t)(d->pressure * MO_EVENT_UNIT + 0.5),
                 ends ? MO_CUT_MODEL : d->cut, predicted);
}

/* The first query stands for the block; the others name it. */
static void log_run(struct mo_sched *s, const struct mo_decision *d, int lead, int n, bool behind,
                    int64_t predicted, int64_t now) {
    const struct mo_view_query *q = &s->queries.view[d->query];
    if (!s->ring) return;
    mo_sched_log(s, now, MO_LOG_DISPATCH, d->query, q->tenant, q->next_layer, d->end, n);
    if (!s->view.gpus) log_basis(s, d, predicted, now);
    int64_t first = (int64_t)mo_query_handle(&s->queries, d->query);
    for (int slot = s->queries.record[d->query].next_in_batch; slot >= 0;
         slot = s->queries.record[slot].next_in_batch)
        mo_sched_log(s, now, MO_LOG_MEMBER, slot, q->tenant, q->next_layer, d->end, first);
    if (behind) mo_sched_log(s, now, MO_LOG_QUEUE, d->query, q->tenant, lead, 0, 0);
}

static int64_t predict(const struct mo_sched *s, const struct mo_decision *d, const struct mo_view_query *q,
                       int lead, int n) {
    int64_t solo = s->units->solo(s, q->tenant, lead, n, q->next_layer, d->end, mo_sched_batch_of(d));
    return (int64_t)((double)solo * s->tenant_views[q->tenant].residual);
}

void mo_sched_add_running(struct mo_sched *s, int lead, int tenant) {
    int at = s->view.n_running++;
    for (; at > 0 && s->running[at - 1] > lead; at--)
        s->running[at] = s->running[at - 1];
    s->running[at] = (short)lead;
    for (int i = 0; s->view.n_running > 1 && i < s->view.n_running; i++)
        s->runs[s->running[i]].alone = false;
    const struct mo_profile *p = s->tenant_views[tenant].profile;
    if (s->tenant_views[tenant].n_running++ == 0)
        s->view.resident += (double)mo_profile_bytes(p, 0, p->n_layers);
}

static void start_run(struct mo_sched *s, const struct mo_decision *d, int64_t now) {
    const struct mo_view_query *q = &s->queries.view[d->query];
    bool first = s->queries.record[d->query].instance < 0;
    int lead = mo_cores_next(&d->cores, -1), n = mo_cores_count(&d->cores), batch = mo_sched_batch_of(d);
    int64_t predicted = predict(s, d, q, lead, n), begin = now;
    bool behind = s->runs[lead].query >= 0;
    if (behind && s->runs[lead].predicted_end > now) begin = s->runs[lead].predicted_end;
    gather(s, d, lead, n, now);
    s->units->begins(s, d, lead);
    s->stats.conflicts += d->wanted > n;
    struct mo_view_run *at = behind ? &s->behind[lead] : &s->runs[lead];
    *at = (struct mo_view_run){.query = d->query,
                               .batch = batch,
                               .begin = q->next_layer,
                               .end = d->end,
                               .n_cores = n,
                               .cores = d->cores,
                               .wanted = d->wanted > n ? d->wanted : n,
                               .start = begin,
                               .predicted_end = begin + predicted,
                               .unhindered = d->wanted > n ? predict(s, d, q, lead, d->wanted) : 0,
                               .pace = s->view.pace,
                               .pressure = d->pressure,
                               .alone = !s->view.n_running};
    mo_sched_run_from(s->tenant_views[q->tenant].profile, at, q->next_layer, begin);
    if (!behind) {
        mo_sched_add_running(s, lead, q->tenant);
        mo_cores_subtract(&s->view.idle, &d->cores);
        s->view.n_idle -= n;
    }
    s->stats.blocks++;
    mo_sched_watch_from(s, now);
    mo_sched_mirror(s, q->tenant);
    log_run(s, d, lead, n, behind, predicted, now);
    struct mo_run run = {.query = d->query,
                         .tenant = q->tenant,
                         .instance = s->queries.record[d->query].instance,
                         .begin = q->next_layer,
                         .end = d->end,
                         .lead = lead,
                         .n_cores = n,
                         .batch = batch,
                         .cores = d->cores,
                         .latest_start = d->when,
                         .pressure = d->pressure,
                         .first = first,
                         .behind = behind};
    s->ops->start(s->engine, &run);
}

static bool may_shed(const struct mo_sched *s, int slot) {
    if (slot < 0 || slot >= s->queries.cap || !mo_query_is_live(&s->queries, slot)) return false;
    const struct mo_view_query *q = &s->queries.view[slot];
    return s->tenant_views[q->tenant].shed_late && (q->run < 0 || s->runs[q->run].late_since);
}

static void shed(struct mo_sched *s, int slot, int64_t now) {
    s->stats.stall_sheds += s->view.n_late > 0;
    mo_sched_resolve(s, slot, s->queries.view[slot].deadline <= now ? MOIRE_EEXPIRED : MOIRE_ESHED, now);
}

static bool apply(struct mo_sched *s, const struct mo_decision *d, int64_t now) {
    switch (d->kind) {
    case MO_RUN:
        if (!may_run(s, d)) return false;
        start_run(s, d, now);
        return true;
    case MO_SHED:
        if (!may_shed(s, d->query)) return false;
        shed(s, d->query, now);
        return true;
    case MO_TIMER:
        if (d->when <= now) return false;
        s->timer_at = d->when;
        mo_sched_set_alarm(s);
        return true;
    case MO_LETS:
        return s->units->ask(s, d->plan);
    case MO_RESIZE:
        return mo_sched_resize(s, d, now);
    case MO_RESET:
    case MO_RESET_BLOCK:
        return mo_sched_reset(s, d, now);
    case MO_PARK:
        return mo_sched_park(s, &d->cores, now);
    case MO_CLOCK:
        return mo_sched_clock(s, d->device, d->clock, now);
    }
    return false;
}

/* The oldest query that could run, -1 when there is none. */
static int oldest_runnable(const struct mo_sched *s) {
    int best = -1;
    for (int i = 0; i < s->view.n_tenants; i++) {
        const struct mo_view_tenant *t = &s->tenant_views[i];
        int candidates[2] = {t->n_paused ? t->paused[0] : -1,
                             t->n_waiting && t->free_instances ? t->waiting[0] : -1};
        for (int k = 0; k < 2; k++) {
            int c = candidates[k];
            if (c >= 0 && (best < 0 || s->queries.view[c].order < s->queries.view[best].order)) best = c;
        }
    }
    return best;
}

/* Liveness whatever the policy does: with all idle, or parked, no timer asked for and work at hand, the
 * oldest query runs. */
static void ensure_progress(struct mo_sched *s, int64_t now) {
    const struct mo_cores none = {0};
    const int parked = mo_cores_count(&s->view.parked);
    if (s->view.n_idle + parked < s->n_cores || s->timer_at != MO_NEVER) return;
    struct mo_decision d = {.kind = MO_RUN, .query = oldest_runnable(s), .when = MO_NEVER};
    if (d.query < 0) return;
    if (parked) mo_sched_park(s, &none, now);
    if (!s->units->ensure_progress(s, &d, now)) return;
    s->stats.forced_runs++;
    start_run(s, &d, now);
}

/* Asks the policy and carries out what it wants. */
static void ask(struct mo_sched *s, const struct mo_event *event, int64_t now) {
    s->decisions.n = 0;
    s->trimmed = false;
    mo_sched_hide_full(s);
    s->policy->dispatch(s->policy_state, &s->view, event, &s->decisions);
    mo_sched_show_full(s);
    int n = s->decisions.n > s->decisions.cap ? s->decisions.cap : s->decisions.n;
    for (int i = 0; i < n; i++) {
        struct mo_decision *d = &s->decisions.list[i];
        if (mo_sched_trim(s, d) && !apply(s, d, now)) s->stats.refused++;
    }
}

void mo_sched_dispatch(struct mo_sched *s, enum mo_event_kind kind, int query, int tenant, int64_t now) {
    if (s->held) {
        s->missed = true;
        return;
    }
    int64_t begin = s->cost_clock ? s->cost_clock(s->engine) : 0;
    struct mo_event event = {kind, query, tenant};
    s->view.now = now;
    mo_sched_forget_pace(s, now);
    if (s->watch_at <= now) mo_sched_watch(s, now);
    mo_sched_read_pressure(s);
    if (s->policy->plan && now - s->planned_at >= s->policy->plan_period_ns) {
        s->planned_at = now;
        s->policy->plan(s->policy_state, &s->view);
    }
    ask(s, &event, now);
    for (int more = s->bounded; more > 0 && s->trimmed && s->view.n_idle > 0; more--)
        ask(s, &event, now);
    ensure_progress(s, now);
    mo_sched_power_note(s, now);
    if (s->cost_clock) mo_histogram_add(&s->stats.decision_ns, s->cost_clock(s->engine) - begin);
}
