/* SPDX-License-Identifier: Apache-2.0
 * decide.c - asking the policy, checking what it wants, carrying it out.
 *
 * Rules of a decision: RUN names a query that waits (and its tenant has a free instance) or is paused; its
 * end lies in (next_layer, n_layers]; its cores are idle and at least one, or it may be queued behind the
 * block that a let runs (may_queue); a batch is no larger than the
 * engine takes, its members stand behind the query in the same list at the same layer, and there is an
 * instance for each; on GPUs the cores are a let that may run the tenant (lets.c), and a batch that is cut
 * into blocks stays together and on its GPU, one a tenant.  SHED names a waiting or
 * paused query of a tenant that allows it.  TIMER lies in the future.  Whatever breaks a rule is refused and
 * counted; nothing else is disturbed by it. */
#include "runtime/sched/core_impl.h"

static bool is_waiting(const struct mo_sched *s, int slot) {
    return slot >= 0 && slot < s->queries.cap && mo_query_is_live(&s->queries, slot) &&
           s->queries.face[slot].run < 0;
}

static struct mo_slot_list *list_of(const struct mo_sched *s, int slot) {
    struct mo_sched_tenant *t = &s->tenants[s->queries.face[slot].tenant];
    return s->queries.body[slot].instance < 0 ? &t->waiting : &t->paused;
}

static int batch_of(const struct mo_decision *d) {
    return d->batch > 1 ? d->batch : 1;
}

static bool may_batch(const struct mo_sched *s, const struct mo_decision *d) {
    const struct mo_slot_list *list = list_of(s, d->query);
    int at = mo_slot_find(list, s->queries.face, d->query);
    if (d->batch > s->view.max_batch || at < 0 || d->batch > list->n - at) return false;
    for (int i = 1; i < d->batch; i++)
        if (s->queries.face[list->slot[at + i]].next_layer != s->queries.face[d->query].next_layer)
            return false;
    return true;
}

/* On GPUs.  What a batch has computed so far lies on its GPU, so it goes on there, whole, on any let; and
 * none is cut on a GPU that is about to have no let. */
static bool may_cut(const struct mo_sched *s, const struct mo_decision *d) {
    const struct mo_view_query *q = &s->queries.face[d->query];
    const struct mo_view_tenant *face = &s->faces[q->tenant];
    int lead = mo_cores_next(&d->cores, -1), gpu = lead >= 0 ? s->lets->gpus->gpu_of[lead] : -1;
    if (s->queries.body[d->query].instance >= 0)
        return gpu == face->paused_gpu && batch_of(d) == face->n_paused && mo_sched_is_let(s, &d->cores);
    if (!mo_sched_let_runs(s, q->tenant, &d->cores)) return false;
    return d->end == face->profile->n_layers || (face->paused_gpu < 0 && mo_sched_gpu_stays(s, gpu));
}

/* A whole batch behind the block that ends another: whoever wants to cut decides when the let is idle, and a
 * batch that is between two blocks has nobody but the core's next decision before it. */
static bool may_queue(const struct mo_sched *s, const struct mo_decision *d, int lead) {
    const struct mo_view_run *run = &s->runs[lead];
    if (!s->lets || !s->lets->gpus->ahead_ns || run->query < 0 || s->behind[lead].query >= 0) return false;
    const struct mo_view_query *q = &s->queries.face[d->query], *now = &s->queries.face[run->query];
    return run->end == s->faces[now->tenant].profile->n_layers && d->when == MO_NEVER &&
           s->queries.body[d->query].instance < 0 && d->end == s->faces[q->tenant].profile->n_layers &&
           mo_cores_subset(&d->cores, &run->cores) && mo_cores_subset(&run->cores, &d->cores);
}

static bool may_run(const struct mo_sched *s, const struct mo_decision *d) {
    if (!is_waiting(s, d->query)) return false;
    const struct mo_view_query *q = &s->queries.face[d->query];
    if (d->end <= q->next_layer || d->end > s->faces[q->tenant].profile->n_layers) return false;
    if (s->queries.body[d->query].instance < 0 && s->tenants[q->tenant].n_free < batch_of(d)) return false;
    if (d->batch > 1 && !may_batch(s, d)) return false;
    if (s->lets && !may_cut(s, d)) return false;
    int lead = mo_cores_next(&d->cores, -1);
    return lead >= 0 && (mo_cores_subset(&d->cores, &s->view.idle) || may_queue(s, d, lead));
}

/* A query goes from its list into the block of `lead`. */
static void join_run(struct mo_sched *s, int slot, int lead, int n, int64_t now) {
    struct mo_view_query *q = &s->queries.face[slot];
    struct mo_query *body = &s->queries.body[slot];
    struct mo_sched_tenant *t = &s->tenants[q->tenant];
    if (body->instance < 0) {
        body->instance = t->free_instance[--t->n_free];
        q->started = now;
    }
    if (q->last_core >= 0 && (q->last_core != lead || q->last_cores != n)) s->stats.switches++;
    q->run = lead;
    q->last_core = lead;
    q->last_cores = n;
    body->mate = -1;
    s->stats.members++;
}

/* Takes the decision's queries out of their list and links them. */
static void gather(struct mo_sched *s, const struct mo_decision *d, int lead, int n, int64_t now) {
    struct mo_slot_list *list = list_of(s, d->query);
    int at = mo_slot_find(list, s->queries.face, d->query), batch = batch_of(d);
    for (int i = 0; i < batch; i++) {
        join_run(s, list->slot[at + i], lead, n, now);
        if (i) s->queries.body[list->slot[at + i - 1]].mate = list->slot[at + i];
    }
    mo_slot_cut(list, at, batch);
}

/* The first query stands for the block; the others name it. */
static void log_run(struct mo_sched *s, const struct mo_decision *d, int lead, int n, bool behind,
                    int64_t now) {
    const struct mo_view_query *q = &s->queries.face[d->query];
    if (!s->ring) return;
    mo_sched_log(s, now, MO_LOG_DISPATCH, d->query, q->tenant, q->next_layer, d->end, n);
    int64_t first = (int64_t)mo_query_handle(&s->queries, d->query);
    for (int slot = s->queries.body[d->query].mate; slot >= 0; slot = s->queries.body[slot].mate)
        mo_sched_log(s, now, MO_LOG_MEMBER, slot, q->tenant, q->next_layer, d->end, first);
    if (behind) mo_sched_log(s, now, MO_LOG_QUEUE, d->query, q->tenant, lead, 0, 0);
}

static int64_t predict(const struct mo_sched *s, const struct mo_decision *d, const struct mo_view_query *q,
                       int lead, int n) {
    int64_t solo = mo_view_solo(&s->view, q->tenant, lead, n, q->next_layer, d->end, batch_of(d));
    return (int64_t)((double)solo * s->faces[q->tenant].residual);
}

void mo_sched_add_running(struct mo_sched *s, int lead, int tenant) {
    int at = s->view.n_running++;
    for (; at > 0 && s->running[at - 1] > lead; at--)
        s->running[at] = s->running[at - 1];
    s->running[at] = (short)lead;
    const struct mo_profile *p = s->faces[tenant].profile;
    if (s->faces[tenant].n_running++ == 0) s->view.resident += (double)mo_profile_bytes(p, 0, p->n_layers);
}

static void start_run(struct mo_sched *s, const struct mo_decision *d, int64_t now) {
    const struct mo_view_query *q = &s->queries.face[d->query];
    bool first = s->queries.body[d->query].instance < 0;
    int lead = mo_cores_next(&d->cores, -1), n = mo_cores_count(&d->cores), batch = batch_of(d);
    int64_t predicted = predict(s, d, q, lead, n), begin = now;
    bool behind = s->runs[lead].query >= 0;
    if (behind && s->runs[lead].predicted_end > now) begin = s->runs[lead].predicted_end;
    gather(s, d, lead, n, now);
    if (s->lets && (q->next_layer > 0 || d->end < s->faces[q->tenant].profile->n_layers)) {
        s->tenants[q->tenant].cut_runs = true;
        s->faces[q->tenant].paused_gpu = s->lets->gpus->gpu_of[lead];
    }
    if (d->wanted > n) {
        s->stats.conflicts++;
        s->stats.conflict_ns += predicted - predict(s, d, q, lead, d->wanted);
    }
    struct mo_view_run *at = behind ? &s->behind[lead] : &s->runs[lead];
    *at = (struct mo_view_run){.query = d->query,
                               .batch = batch,
                               .begin = q->next_layer,
                               .end = d->end,
                               .n_cores = n,
                               .cores = d->cores,
                               .start = begin,
                               .predicted_end = begin + predicted,
                               .pressure = d->pressure};
    if (!behind) {
        mo_sched_add_running(s, lead, q->tenant);
        mo_cores_subtract(&s->view.idle, &d->cores);
        s->view.n_idle -= n;
    }
    s->stats.blocks++;
    mo_sched_mirror(s, q->tenant);
    log_run(s, d, lead, n, behind, now);
    struct mo_run run = {.query = d->query,
                         .tenant = q->tenant,
                         .instance = s->queries.body[d->query].instance,
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

static bool apply(struct mo_sched *s, const struct mo_decision *d, int64_t now) {
    switch (d->kind) {
    case MO_RUN:
        if (!may_run(s, d)) return false;
        start_run(s, d, now);
        return true;
    case MO_SHED: {
        if (!is_waiting(s, d->query)) return false;
        const struct mo_view_query *q = &s->queries.face[d->query];
        if (!s->faces[q->tenant].shed_late) return false;
        mo_sched_resolve(s, d->query, q->deadline <= now ? MOIRE_EEXPIRED : MOIRE_ESHED, now);
        return true;
    }
    case MO_TIMER:
        if (d->when <= now) return false;
        s->timer_at = d->when;
        s->ops->set_timer(s->engine, d->when);
        return true;
    case MO_LETS:
        return mo_sched_lets_ask(s, d->plan);
    }
    return false;
}

/* The oldest query that could run, -1 when there is none. */
static int oldest_runnable(const struct mo_sched *s) {
    int best = -1;
    for (int i = 0; i < s->view.n_tenants; i++) {
        const struct mo_view_tenant *t = &s->faces[i];
        int candidates[2] = {t->n_paused ? t->paused[0] : -1,
                             t->n_waiting && t->free_instances ? t->waiting[0] : -1};
        for (int k = 0; k < 2; k++) {
            int c = candidates[k];
            if (c >= 0 && (best < 0 || s->queries.face[c].order < s->queries.face[best].order)) best = c;
        }
    }
    return best;
}

/* No let in force may run the query (its tenant came after the plan), and nothing else is to happen: a new
 * plan is due soon.  Once for a query, for that plan may leave it out too. */
static void plan_soon(struct mo_sched *s, int slot, int64_t now) {
    const int64_t soon = 100000000, order = s->queries.face[slot].order;
    if (!s->policy->plan || s->view.lets_coming || s->hurried == order + 1) return;
    s->hurried = order + 1;
    if (s->planned_at > now + soon - s->policy->plan_period_ns)
        s->planned_at = now + soon - s->policy->plan_period_ns;
    s->timer_at = now + soon;
    s->ops->set_timer(s->engine, s->timer_at);
}

/* Liveness whatever the policy does: with every core idle, no timer asked for and work at hand, the oldest
 * query runs a block on one core; on GPUs it runs to its end, on a let that may run it if there is one. */
static void rescue(struct mo_sched *s, int64_t now) {
    if (s->view.n_idle < s->n_cores || s->timer_at != MO_NEVER) return;
    int slot = oldest_runnable(s);
    if (slot < 0) return;
    const struct mo_view_tenant *t = &s->faces[s->queries.face[slot].tenant];
    bool begun = s->queries.body[slot].instance >= 0;
    struct mo_decision d = {.kind = MO_RUN, .query = slot, .cores = mo_cores_first(1), .when = MO_NEVER};
    if (s->lets && !mo_sched_let_of(s, s->queries.face[slot].tenant, begun ? t->paused_gpu : -1, &d.cores)) {
        plan_soon(s, slot, now);
        return;
    }
    d.batch = s->lets && begun ? t->n_paused : 1;
    d.end = s->lets ? t->profile->n_layers : mo_view_block(&s->view, slot, 1);
    s->stats.rescues++;
    start_run(s, &d, now);
}

void mo_sched_dispatch(struct mo_sched *s, enum mo_event_kind kind, int query, int tenant, int64_t now) {
    if (s->held) {
        s->missed = true;
        return;
    }
    int64_t begin = s->cost_clock ? s->cost_clock(s->engine) : 0;
    struct mo_event event = {kind, query, tenant};
    s->view.now = now;
    mo_sched_read_pressure(s);
    s->decisions.n = 0;
    if (s->policy->plan && now - s->planned_at >= s->policy->plan_period_ns) {
        s->planned_at = now;
        s->policy->plan(s->policy_state, &s->view);
    }
    s->policy->dispatch(s->policy_state, &s->view, &event, &s->decisions);
    int n = s->decisions.n > s->decisions.cap ? s->decisions.cap : s->decisions.n;
    for (int i = 0; i < n; i++)
        if (!apply(s, &s->decisions.list[i], now)) s->stats.refused++;
    rescue(s, now);
    if (s->cost_clock) mo_histogram_add(&s->stats.decision_ns, s->cost_clock(s->engine) - begin);
}
