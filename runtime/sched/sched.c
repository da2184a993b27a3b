/* SPDX-License-Identifier: Apache-2.0
 * sched.c - events into the core: arrival, block done, timer, cancel, answered. */
#include <string.h>
#include "runtime/sched/core_impl.h"

static const double ATTAINED_GAIN = 1.0 / 64, GAP_GAIN = 1.0 / 32;

void mo_sched_log(struct mo_sched *s, int64_t now, int kind, int slot, int tenant, int64_t a, int64_t b,
                  int64_t c) {
    if (!s->ring) return;
    mo_event_put(s->ring, now, kind, slot < 0 ? 0 : mo_query_handle(&s->queries, slot), tenant, a, b, c);
}

static void fill_view(struct mo_sched *s, const struct mo_sched_config *c) {
    for (int i = 0; i < c->n_cores; i++)
        s->runs[i].query = s->behind[i].query = -1;
    mo_pace_init(&s->pace, c->n_cores);
    s->view = (struct mo_view){.pace = 1,
                               .block_ns = c->block_ns ? c->block_ns : 1000000,
                               .max_batch = c->max_batch > 1 ? c->max_batch : 1,
                               .resizes = c->ops->resize && !c->gpus,
                               .resets = c->ops->reset && c->reset_ns > 0 && !c->gpus,
                               .reset_ns = c->ops->reset && !c->gpus ? c->reset_ns : 0,
                               .n_cores = c->n_cores,
                               .n_idle = c->n_cores,
                               .idle = mo_cores_first(c->n_cores),
                               .tenants = s->tenant_views,
                               .queries = s->queries.view,
                               .runs = s->runs,
                               .running = s->running,
                               .options = c->policy->options,
                               .objective = c->objective,
                               .memory = c->memory};
}

static bool allocate(struct mo_sched *s, const struct mo_sched_config *c) {
    const struct mo_env *env = c->env;
    int cap = 2 * c->n_cores + 64;
    s->tenant_views = mo_alloc(env, (size_t)c->max_tenants * sizeof *s->tenant_views);
    s->tenants = mo_alloc(env, (size_t)c->max_tenants * sizeof *s->tenants);
    s->runs = mo_alloc(env, (size_t)c->n_cores * sizeof *s->runs);
    s->running = mo_alloc(env, (size_t)c->n_cores * sizeof *s->running);
    s->expiring.slot = mo_alloc(env, (size_t)c->max_queries * sizeof *s->expiring.slot);
    s->expiring.cap = c->max_queries;
    s->behind = mo_alloc(env, (size_t)c->n_cores * sizeof *s->behind);
    s->decisions =
        (struct mo_decisions){.cap = cap, .list = mo_alloc(env, (size_t)cap * sizeof(struct mo_decision))};
    s->policy_state = mo_alloc(env, c->policy->state_bytes);
    return s->tenant_views && s->tenants && s->runs && s->running && s->expiring.slot && s->behind &&
           s->decisions.list && s->policy_state && !mo_queries_init(&s->queries, env, c->max_queries);
}

/* Policies of lets want GPUs to cut, and the others know nothing of lets. */
static int check_policy(const struct mo_sched_config *c, moire_error *err) {
    if (c->policy->learned && c->gpus && !c->gpus->learned)
        return mo_fail(err, MOIRE_EINVAL,
                       "policy '%s' decides by what was trained (moire train), and none of that is given",
                       c->policy->name);
    if (c->policy->gpus == (c->gpus != NULL)) return MOIRE_OK;
    return mo_fail(err, MOIRE_EINVAL,
                   c->gpus ? "policy '%s' is for machines of cores: take one for GPUs"
                           : "policy '%s' is for machines of GPUs: take one for cores",
                   c->policy->name);
}

int mo_sched_create(const struct mo_sched_config *c, struct mo_sched **out, moire_error *err) {
    int code = check_policy(c, err);
    if (code) return code;
    struct mo_sched *s = mo_alloc(c->env, sizeof *s);
    if (s) {
        *s = (struct mo_sched){.env = c->env,
                               .policy = c->policy,
                               .units = c->gpus ? &mo_sched_on_lets : &mo_sched_on_cores,
                               .ops = c->ops,
                               .engine = c->engine,
                               .cost_clock = c->cost_clock,
                               .ring = c->ring,
                               .source = c->source,
                               .block_config = c->block_ns,
                               .timer_at = MO_NEVER,
                               .watch_at = MO_NEVER,
                               .n_cores = c->n_cores,
                               .max_tenants = c->max_tenants};
    }
    bool ok = s && allocate(s, c);
    if (ok) {
        fill_view(s, c);
        ok = s->units->create(s, c->gpus) == MOIRE_OK;
    }
    if (!ok) {
        mo_sched_destroy(s);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d queries and %d tenants", c->max_queries,
                       c->max_tenants);
    }
    if (c->policy->init) c->policy->init(s->policy_state, &s->view);
    *out = s;
    return MOIRE_OK;
}

void mo_sched_destroy(struct mo_sched *s) {
    if (!s) return;
    for (int i = 0; s->tenants && i < s->max_tenants; i++)
        mo_free(s->env, s->tenants[i].memory);
    s->units->destroy(s);
    mo_queries_free(&s->queries);
    mo_free(s->env, s->policy_state);
    mo_free(s->env, s->decisions.list);
    mo_free(s->env, s->behind);
    mo_free(s->env, s->running);
    mo_free(s->env, s->expiring.slot);
    mo_free(s->env, s->runs);
    mo_free(s->env, s->tenants);
    mo_free(s->env, s->tenant_views);
    mo_free(s->env, s);
}

void mo_sched_set_memory(struct mo_sched *s, const struct mo_memory *memory) {
    s->view.memory = *memory;
}

static int reject(struct mo_sched *s, int64_t *counter, int tenant, int code, int64_t now) {
    ++*counter;
    mo_sched_log(s, now, MO_LOG_REJECT, -1, tenant, code, 0, 0);
    return code;
}

/* Recent arrival rate in cores of one-core time. */
static void note_arrival(struct mo_sched *s, int tenant, int64_t arrival) {
    struct mo_sched_tenant *t = &s->tenants[tenant];
    struct mo_view_tenant *tenant_view = &s->tenant_views[tenant];
    double gap = (double)(arrival - t->last_arrival);
    if (t->last_arrival && gap > 0) t->gap = t->gap > 0 ? t->gap + GAP_GAIN * (gap - t->gap) : gap;
    t->last_arrival = arrival;
    if (t->gap > 0)
        tenant_view->load =
            (double)mo_profile_time(tenant_view->profile, 1, 0, tenant_view->profile->n_layers) / t->gap;
}

/* Absolute, by the tenant's target. */
static int64_t deadline_of(const struct mo_view_tenant *tenant_view, int64_t arrival) {
    int64_t deadline;
    return tenant_view->qos_ns && !__builtin_add_overflow(arrival, tenant_view->qos_ns, &deadline) ? deadline
                                                                                                   : MO_NEVER;
}

int mo_sched_arrival(struct mo_sched *s, int tenant, int64_t arrival, void *user, int64_t now, int *out,
                     moire_error *err) {
    return mo_sched_accept(s, tenant, &(struct mo_arrival){.arrival = arrival, .user = user}, now, out, err);
}

int mo_sched_arrival_by(struct mo_sched *s, int tenant, int64_t arrival, int64_t deadline, void *user,
                        int64_t now, int *out, moire_error *err) {
    const struct mo_arrival a = {.arrival = arrival, .deadline = deadline, .user = user};
    return mo_sched_accept(s, tenant, &a, now, out, err);
}

int mo_sched_accept(struct mo_sched *s, int tenant, const struct mo_arrival *a, int64_t now, int *out,
                    moire_error *err) {
    struct mo_sched_tenant *t = &s->tenants[tenant];
    struct mo_view_tenant *tenant_view = &s->tenant_views[tenant];
    if (!tenant_view->open)
        return mo_fail(err, reject(s, &s->stats.rejected_closed, tenant, MOIRE_EUNLOADED, now),
                       "the tenant is being unloaded");
    if (t->waiting.n >= t->queue)
        return mo_fail(err, reject(s, &s->stats.rejected_queue, tenant, MOIRE_EBUSY, now),
                       "limit 'queue' (%d waiting queries of the tenant) reached: try later", t->queue);
    int slot = mo_query_open(&s->queries);
    if (slot < 0)
        return mo_fail(err, reject(s, &s->stats.rejected_limit, tenant, MOIRE_EBUSY, now),
                       "limit 'queries' (%d unanswered queries) reached: try later", s->queries.cap);
    int64_t deadline = a->deadline ? a->deadline : deadline_of(tenant_view, a->arrival);
    s->queries.view[slot] =
        (struct mo_view_query){.tenant = tenant,
                               .arrival = a->arrival,
                               .deadline = deadline,
                               .priority = a->own_priority ? a->priority : tenant_view->priority,
                               .order = s->order++,
                               .last_core = -1,
                               .run = -1};
    s->queries.record[slot].user = a->user;
    t->pending++;
    s->stats.accepted++;
    if (++s->view.n_in_system > s->stats.in_system_max) s->stats.in_system_max = s->view.n_in_system;
    mo_slot_insert(&t->waiting, s->queries.view, slot);
    mo_slot_take_turn(&t->waiting, s->queries.view, slot);
    mo_sched_mirror(s, tenant);
    note_arrival(s, tenant, a->arrival);
    mo_sched_log(s, now, MO_LOG_ACCEPT, slot, tenant, a->arrival, deadline, (int64_t)a->tag);
    *out = slot;
    if (a->expires && !mo_sched_expire_at(s, slot, now)) return MOIRE_OK;
    mo_sched_dispatch(s, MO_EVENT_ARRIVAL, slot, tenant, now);
    return MOIRE_OK;
}

/* One counter an outcome; and whether the answer counts for or against attainment. */
static void count_outcome(struct mo_sched *s, const struct mo_view_query *q, int code, int64_t now) {
    struct mo_sched_stats *st = &s->stats;
    int64_t *counter = code == MOIRE_OK           ? &st->ok
                       : code == MOIRE_EEXPIRED   ? &st->expired
                       : code == MOIRE_ESHED      ? &st->shed
                       : code == MOIRE_ECANCELLED ? &st->cancelled
                       : code == MOIRE_EUNLOADED  ? &st->unloaded
                       : code == MOIRE_ESHUTDOWN  ? &st->shutdown
                                                  : &st->failed;
    ++*counter;
    bool in_time = code == MOIRE_OK && now <= q->deadline;
    st->in_time += in_time;
    if (code == MOIRE_ECANCELLED || code == MOIRE_EUNLOADED || code == MOIRE_ESHUTDOWN) return;
    struct mo_view_tenant *tenant_view = &s->tenant_views[q->tenant];
    tenant_view->answered++;
    tenant_view->in_time += in_time;
    tenant_view->attained += ATTAINED_GAIN * ((in_time ? 1.0 : 0.0) - tenant_view->attained);
}

bool mo_sched_resolve(struct mo_sched *s, int slot, int code, int64_t now) {
    struct mo_view_query *q = &s->queries.view[slot];
    struct mo_query *record = &s->queries.record[slot];
    if (!mo_query_resolve(&s->queries, slot, code)) return false;
    struct mo_sched_tenant *t = &s->tenants[q->tenant];
    if (q->run < 0 && !mo_slot_remove(&t->waiting, s->queries.view, slot))
        mo_slot_remove(&t->paused, s->queries.view, slot);
    mo_sched_mirror(s, q->tenant);
    if (record->expires) mo_sched_expires_no_more(s, slot);
    record->end = now;
    q->decided = true;
    s->view.n_in_system--;
    count_outcome(s, q, code, now);
    mo_sched_log(s, now, MO_LOG_RESOLVE, slot, q->tenant, code, q->deadline, 0);
    s->ops->resolved(s->engine, slot);
    return true;
}

bool mo_sched_try_release(struct mo_sched *s, int slot, int64_t now) {
    struct mo_view_query *q = &s->queries.view[slot];
    struct mo_query *record = &s->queries.record[slot];
    if (!record->answered || q->run >= 0) return false;
    struct mo_sched_tenant *t = &s->tenants[q->tenant];
    if (record->instance >= 0) t->free_instance[t->n_free++] = record->instance;
    t->pending--;
    mo_sched_log(s, now, MO_LOG_RELEASE, slot, q->tenant, 0, 0, 0);
    mo_sched_mirror(s, q->tenant);
    s->ops->released(s->engine, q->tenant, record->user);
    mo_query_release(&s->queries, slot);
    return true;
}

/* A query leaves the block that ended: decided, or paused before its next layer. */
static void leave_run(struct mo_sched *s, int slot, int code, int64_t now) {
    struct mo_view_query *q = &s->queries.view[slot];
    int lead = q->run, tenant = q->tenant;
    q->run = -1;
    if (!mo_query_is_live(&s->queries, slot)) {
        mo_sched_try_release(s, slot, now);
        return;
    }
    bool ended = q->next_layer >= s->tenant_views[tenant].profile->n_layers;
    if (!code && !ended && s->units->lost(s, tenant)) code = MOIRE_EDEVICE;
    if (code != MOIRE_OK) {
        q->run = lead; /* in no list: keeps resolve from looking for it */
        bool says_why = code == MOIRE_EDEVICE || code == MOIRE_ENOMEM;
        mo_sched_resolve(s, slot, says_why ? code : MOIRE_EFAILED, now);
        q->run = -1;
    } else if (ended) {
        q->run = lead;
        mo_sched_resolve(s, slot, MOIRE_OK, now);
        q->run = -1;
    } else {
        mo_slot_insert(&s->tenants[tenant].paused, s->queries.view, slot);
        mo_sched_mirror(s, tenant);
    }
}

/* The block of a lead core is no longer among those that run. */
void mo_sched_drop_running(struct mo_sched *s, int lead) {
    int at = 0;
    while (s->running[at] != lead)
        at++;
    s->view.n_running--;
    memmove(&s->running[at], &s->running[at + 1], (size_t)(s->view.n_running - at) * sizeof *s->running);
    int tenant = s->queries.view[s->runs[lead].query].tenant;
    const struct mo_profile *p = s->tenant_views[tenant].profile;
    if (--s->tenant_views[tenant].n_running == 0)
        s->view.resident -= (double)mo_profile_bytes(p, 0, p->n_layers);
}

/* The let's next block begins: the one that was queued, if there is one.  cores: that are out of the old. */
static void go_on(struct mo_sched *s, int lead, const struct mo_cores *cores, int64_t now) {
    struct mo_view_run *run = &s->runs[lead];
    int64_t predicted = s->behind[lead].predicted_end - s->behind[lead].start;
    mo_sched_drop_running(s, lead);
    if (s->behind[lead].query < 0) {
        run->query = -1;
        mo_cores_join(&s->view.idle, cores);
        s->view.n_idle += mo_cores_count(cores);
        return;
    }
    *run = s->behind[lead];
    s->behind[lead].query = -1;
    mo_sched_add_running(s, lead, s->queries.view[run->query].tenant);
    run->start = run->since = now;
    run->predicted_end = now + predicted;
    for (int slot = run->query; slot >= 0; slot = s->queries.record[slot].next_in_batch)
        s->queries.view[slot].started = now;
}

/* Cores of the block that ended: those of `inside` (NULL = none) come back later, the others are out. */
static struct mo_cores cores_out(struct mo_sched *s, const struct mo_view_run *run, int tenant,
                                 const struct mo_cores *inside, int64_t now) {
    struct mo_cores out = run->cores;
    if (inside) {
        mo_cores_subtract(&out, inside);
        mo_cores_join(&s->coming, inside);
    }
    int n = inside ? mo_cores_count(inside) : 0;
    if (run->resized || n)
        mo_sched_log(s, now, MO_LOG_BLOCK_DONE, run->query, tenant, run->begin, run->end, n);
    return out;
}

void mo_sched_block_done(struct mo_sched *s, int lead, bool ran, int code, int64_t start, int64_t end,
                         const struct mo_cores *inside, int64_t now) {
    const struct mo_view_run *run = &s->runs[lead];
    struct mo_view_run ended;
    if (s->behind[lead].query >= 0) { /* which takes its place */
        ended = *run;
        run = &ended;
    }
    int first = run->query, tenant = s->queries.view[first].tenant, done = run->end;
    struct mo_cores out = cores_out(s, run, tenant, inside, now);
    go_on(s, lead, &out, now);
    if (run->late_since) mo_sched_late_ended(s, run, now);
    if (ran && code == MOIRE_OK) {
        mo_sched_learn(s, run, lead, tenant, end - start, now);
        mo_histogram_add(&s->stats.block_ns, end - start);
        if (run->unhindered) s->stats.conflict_ns += end - start - run->unhindered;
    } else if (!ran) {
        s->stats.late_drops++;
    }
    for (int slot = first, next_in_batch; slot >= 0; slot = next_in_batch) {
        next_in_batch = s->queries.record[slot].next_in_batch;
        s->queries.record[slot].ran += ran ? end - start : 0;
        if (ran && code == MOIRE_OK) s->queries.view[slot].next_layer = done;
        leave_run(s, slot, code, now);
    }
    if (run->begin > 0 || done < s->tenant_views[tenant].profile->n_layers)
        s->tenants[tenant].cut_runs = false;
    mo_sched_mirror(s, tenant);
    mo_sched_dispatch(s, MO_EVENT_DONE, first, tenant, now);
}

int mo_sched_cancel(struct mo_sched *s, uint64_t handle, int code, int64_t now) {
    int slot = mo_query_slot(&s->queries, handle);
    if (slot < 0) return MOIRE_ESTALE;
    int tenant = s->queries.view[slot].tenant;
    bool decided = mo_sched_resolve(s, slot, code, now);
    mo_sched_log(s, now, MO_LOG_CANCEL, slot, tenant, decided, 0, 0);
    if (!decided) return MOIRE_ESTALE;
    mo_sched_dispatch(s, MO_EVENT_FREED, slot, tenant, now);
    return MOIRE_OK;
}

void mo_sched_answered(struct mo_sched *s, int slot, int64_t now) {
    s->queries.record[slot].answered = true;
    int tenant = s->queries.view[slot].tenant;
    bool waited = s->tenant_views[tenant].free_instances == 0 && s->tenant_views[tenant].n_waiting > 0;
    if (mo_sched_try_release(s, slot, now) && waited) mo_sched_dispatch(s, MO_EVENT_FREED, -1, tenant, now);
}

void mo_sched_abort(struct mo_sched *s, int code, int64_t now) {
    s->held++; /* nothing new starts while the rest is resolved */
    for (int i = 0; i < s->queries.cap; i++)
        if (mo_query_is_live(&s->queries, i)) mo_sched_resolve(s, i, code, now);
    mo_sched_unhold(s, now);
}

void mo_sched_hold(struct mo_sched *s) {
    s->held++;
}

void mo_sched_unhold(struct mo_sched *s, int64_t now) {
    if (--s->held || !s->missed) return;
    s->missed = false;
    mo_sched_dispatch(s, MO_EVENT_FREED, -1, -1, now);
}

int64_t mo_sched_accepted(const struct mo_sched *s) {
    return s->order;
}
const struct mo_view *mo_sched_view(const struct mo_sched *s) {
    return &s->view;
}
struct mo_queries *mo_sched_queries(struct mo_sched *s) {
    return &s->queries;
}
struct mo_sched_stats *mo_sched_stats(struct mo_sched *s) {
    return &s->stats;
}
