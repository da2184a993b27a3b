/* SPDX-License-Identifier: Apache-2.0
 * engine_live.c - workers, service thread, answers. */
#include "runtime/sched/engine_live.h"

#include <string.h>
#include "runtime/device/barrier.h"
#include "runtime/device/fpu.h"
#include "runtime/device/probe.h"
#include "runtime/device/team.h"

enum { IDLE_SPIN_NS = 30000, BARRIER_SPIN = 4000 };

/* One let a lead core: the block it runs and the barrier of its members. */
struct let {
    struct mo_engine *engine;
    struct mo_run run;
    struct mo_barrier barrier;
    struct mo_barrier_flag *flags;
    _Atomic int rc;
    _Atomic bool drop;
    int64_t start;
};

struct tenant {
    const struct mo_model_ops *ops;
    void *model;
};

/* One exclusive job; see mo_engine_exclusive(). */
struct exclusive {
    struct mo_engine *engine;
    void (*fn)(void *ctx, int core, int worker, int n_workers);
    void *ctx;
    _Atomic int left;
    _Atomic uint32_t done;
};

struct mo_engine {
    const struct mo_env *env;
    struct mo_lock lock;
    struct mo_sched *sched;
    struct mo_team *team;
    struct mo_events *events;
    struct let *lets;
    struct tenant *tenants;
    void **scratch;
    int64_t scratch_bytes, timer_at, since;
    int n_cores, first_resolved, last_resolved;
    struct mo_lock exclusive; /* one exclusive job at a time */
    struct mo_thread service;
    bool service_started, stop;
    _Atomic uint32_t bell;    /* rings the service thread */
    _Atomic uint32_t changes; /* grows whenever a slot was released or a block ended while somebody waits */
    _Atomic int waiters;
    int64_t cpu_before;
};

static struct mo_ring *ring_of(struct mo_engine *e, int which) {
    return e->events ? &e->events->ring[which] : NULL;
}
static void take(struct mo_engine *e) {
    mo_lock_take(e->env->sys, &e->lock);
}
static void drop(struct mo_engine *e) {
    mo_lock_drop(e->env->sys, &e->lock);
}

static void ring_bell(struct mo_engine *e) {
    atomic_fetch_add(&e->bell, 1);
    e->env->sys->futex_wake(e->env->sys->self, &e->bell, 1);
}

static void note_change(struct mo_engine *e) {
    if (!atomic_load(&e->waiters)) return;
    atomic_fetch_add(&e->changes, 1);
    e->env->sys->futex_wake(e->env->sys->self, &e->changes, INT32_MAX);
}

/* --- the core's calls; the lock is held ------------------------------------------------------------------
 */
static void run_member(void *ctx, int core, int worker, int n_workers);

static void engine_start(void *self, const struct mo_run *run) {
    struct mo_engine *e = self;
    struct let *let = &e->lets[run->lead];
    let->run = *run;
    atomic_store_explicit(&let->rc, 0, memory_order_relaxed);
    atomic_store_explicit(&let->drop, false, memory_order_relaxed);
    if (run->n_cores > 1) mo_barrier_begin(&let->barrier, run->n_cores);
    int worker = 0;
    for (int c = run->lead; c >= 0; c = mo_cores_next(&run->cores, c))
        mo_team_post(e->team, c, &(struct mo_job){run_member, let, worker++, run->n_cores});
}

static void engine_set_timer(void *self, int64_t when) {
    struct mo_engine *e = self;
    bool earlier = when < e->timer_at;
    e->timer_at = when;
    if (earlier) ring_bell(e);
}

static void engine_resolved(void *self, int slot) {
    struct mo_engine *e = self;
    struct mo_queries *q = mo_sched_queries(e->sched);
    q->body[slot].next = -1;
    if (e->first_resolved < 0)
        e->first_resolved = slot;
    else
        q->body[e->last_resolved].next = slot;
    e->last_resolved = slot;
}

static void engine_released(void *self, int tenant, void *user) {
    const struct tenant *t = &((struct mo_engine *)self)->tenants[tenant];
    t->ops->release(t->model, user);
}

static int64_t engine_clock(void *self) {
    return mo_now(((struct mo_engine *)self)->env);
}

/* --- answers -------------------------------------------------------------------------------------------- */
/* Takes the oldest resolved query out of the list; the lock is held. */
static bool next_answer(struct mo_engine *e, int *slot, struct tenant *tenant, int *tenant_id,
                        struct mo_answer *out) {
    *slot = e->first_resolved;
    if (*slot < 0) return false;
    struct mo_queries *q = mo_sched_queries(e->sched);
    struct mo_query *body = &q->body[*slot];
    struct mo_view_query *face = &q->face[*slot];
    e->first_resolved = body->next;
    *tenant = e->tenants[face->tenant];
    *tenant_id = face->tenant;
    *out = (struct mo_answer){.query = mo_query_handle(q, *slot),
                              .user = body->user,
                              .code = mo_query_outcome(q, *slot),
                              .instance = body->instance,
                              .arrival = face->arrival,
                              .start = face->started,
                              .end = body->end,
                              .deadline = face->deadline == MO_NEVER ? 0 : face->deadline};
    return true;
}

/* Delivers all answers that are due; called without the lock, on a thread of the engine that owns `ring`. */
static void deliver(struct mo_engine *e, struct mo_ring *ring) {
    struct tenant tenant;
    struct mo_answer answer;
    int slot, id;
    for (;;) {
        take(e);
        bool any = next_answer(e, &slot, &tenant, &id, &answer);
        drop(e);
        if (!any) return;
        mo_event_put(ring, mo_now(e->env), MO_LOG_CALLBACK_IN, answer.query, id, answer.code, 0, 0);
        tenant.ops->answer(tenant.model, &answer);
        mo_event_put(ring, mo_now(e->env), MO_LOG_CALLBACK_OUT, answer.query, id, answer.code, 0, 0);
        take(e);
        mo_sched_answered(e->sched, slot, mo_now(e->env));
        drop(e);
        note_change(e);
    }
}

/* After a locked section on a thread of the user's: answers are not its business. */
static void drop_and_ring(struct mo_engine *e) {
    bool due = e->first_resolved >= 0;
    drop(e);
    if (due) ring_bell(e);
}

/* --- workers -------------------------------------------------------------------------------------------- */
static void complete(struct let *let, int core) {
    struct mo_engine *e = let->engine;
    bool dropped = atomic_load_explicit(&let->drop, memory_order_relaxed);
    int code = atomic_load_explicit(&let->rc, memory_order_relaxed), lead = let->run.lead;
    int64_t start = let->start;
    take(e);
    int64_t end = mo_now(e->env);
    mo_sched_stats(e->sched)->kernel_core_ns += (end - start) * let->run.n_cores;
    mo_sched_block_done(e->sched, lead, !dropped, code, start, end, end); /* may reuse *let at once */
    bool due = e->first_resolved >= 0;
    drop(e);
    note_change(e);
    if (due) deliver(e, ring_of(e, core));
}

/* Worker 0 decides whether the block is too late and brings the input in; the others wait for that. */
static void prepare(struct let *let, const struct tenant *t, void *user) {
    struct mo_engine *e = let->engine;
    let->start = mo_now(e->env);
    if (let->start > let->run.latest_start)
        atomic_store(&let->drop, true);
    else if (let->run.first)
        atomic_store(&let->rc, t->ops->begin(t->model, let->run.instance, user));
}

static void run_member(void *ctx, int core, int worker, int n_workers) {
    struct let *let = ctx;
    struct mo_engine *e = let->engine;
    const struct mo_run run = let->run;
    const struct tenant *t = &e->tenants[run.tenant];
    struct mo_queries *q = mo_sched_queries(e->sched);
    uint64_t handle = mo_query_handle(q, run.query);
    struct mo_ring *ring = ring_of(e, core);
    bool ahead = run.first || run.latest_start != MO_NEVER;
    if (worker == 0) prepare(let, t, q->body[run.query].user);
    if (ahead && n_workers > 1) mo_barrier_wait(&let->barrier, worker);
    if (!atomic_load_explicit(&let->drop, memory_order_relaxed) && !atomic_load(&let->rc)) {
        mo_probe_block_start(run.tenant, run.begin, run.end, core);
        mo_event_put(ring, ring ? mo_now(e->env) : 0, MO_LOG_BLOCK_START, handle, run.tenant, run.begin,
                     run.end, core);
        int rc = t->ops->run(t->model, run.instance, run.begin, run.end, worker, n_workers, mo_barrier_wait,
                             &let->barrier, e->scratch[core]);
        if (rc) atomic_store(&let->rc, rc);
        mo_event_put(ring, ring ? mo_now(e->env) : 0, MO_LOG_BLOCK_END, handle, run.tenant, run.begin,
                     run.end, core);
        mo_probe_block_end(run.tenant, run.begin, run.end, core);
    } else {
        mo_event_put(ring, ring ? mo_now(e->env) : 0, MO_LOG_BLOCK_DROP, handle, run.tenant, run.begin,
                     run.end, core);
    }
    if (n_workers > 1) mo_barrier_wait(&let->barrier, worker);
    if (worker == 0) complete(let, core);
}

/* --- service thread ------------------------------------------------------------------------------------- */
static void *serve(void *arg) {
    struct mo_engine *e = arg;
    const struct mo_sys *sys = e->env->sys;
    struct mo_ring *ring = ring_of(e, e->n_cores + 1);
    mo_fpu_flush();
    for (;;) {
        uint32_t heard = atomic_load(&e->bell);
        take(e);
        if (e->timer_at <= mo_now(e->env)) {
            e->timer_at = MO_NEVER;
            mo_sched_timer(e->sched, mo_now(e->env));
        }
        int64_t wake = e->timer_at == MO_NEVER ? 0 : e->timer_at;
        bool due = e->first_resolved >= 0, stop = e->stop;
        drop(e);
        if (due)
            deliver(e, ring);
        else if (stop)
            return NULL;
        else
            sys->futex_wait(sys->self, &e->bell, heard, wake);
    }
}

/* --- create, destroy ------------------------------------------------------------------------------------ */
static int start_threads(struct mo_engine *e, const struct mo_engine_config *c, moire_error *err) {
    struct mo_team_config team = {.env = c->env,
                                  .n = e->n_cores,
                                  .spin_ns = IDLE_SPIN_NS,
                                  .cpu = c->no_pin ? NULL : c->topology->cpu,
                                  .lent = c->lent};
    int rc = mo_team_create(&team, &e->team, err);
    if (rc) return rc;
    rc = c->env->sys->thread_start(c->env->sys->self, &e->service, serve, e);
    if (rc) return mo_fail(err, MOIRE_EIO, "cannot start the service thread: %s", strerror(-rc));
    e->service_started = true;
    return MOIRE_OK;
}

static int allocate(struct mo_engine *e, const struct mo_engine_config *c, moire_error *err) {
    const struct mo_env *env = c->env;
    size_t n = (size_t)e->n_cores;
    e->lets = mo_alloc(env, n * sizeof *e->lets);
    e->tenants = mo_alloc(env, (size_t)c->max_tenants * sizeof *e->tenants);
    e->scratch = mo_alloc(env, n * sizeof *e->scratch);
    bool ok = e->lets && e->tenants && e->scratch;
    for (size_t i = 0; ok && i < n; i++) {
        e->lets[i].engine = e;
        e->lets[i].flags = mo_alloc(env, (n - i) * sizeof *e->lets[i].flags); /* let i: cores i and above */
        ok = e->lets[i].flags != NULL;
        mo_barrier_init(&e->lets[i].barrier, env, e->lets[i].flags, BARRIER_SPIN);
    }
    if (ok && c->events) ok = (e->events = mo_events_create(env, e->n_cores + 2, c->events)) != NULL;
    return ok ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine of %d cores", e->n_cores);
}

int mo_engine_create(const struct mo_engine_config *c, struct mo_engine **out, moire_error *err) {
    static const struct mo_engine_ops ops = {engine_start, engine_set_timer, engine_resolved,
                                             engine_released};
    struct mo_engine *e = mo_alloc(c->env, sizeof *e);
    if (!e) return mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine");
    e->env = c->env;
    e->n_cores = c->topology->n_cores;
    e->timer_at = MO_NEVER;
    e->first_resolved = -1;
    e->since = mo_now(c->env);
    int rc = allocate(e, c, err);
    struct mo_sched_config sc = {.env = c->env,
                                 .policy = c->policy,
                                 .n_cores = e->n_cores,
                                 .max_queries = c->max_queries,
                                 .max_tenants = c->max_tenants,
                                 .block_ns = c->block_ns,
                                 .ops = &ops,
                                 .engine = e,
                                 .cost_clock = engine_clock};
    if (!rc) {
        sc.ring = ring_of(e, e->n_cores);
        rc = mo_sched_create(&sc, &e->sched, err);
    }
    if (!rc) rc = start_threads(e, c, err);
    if (rc)
        mo_engine_destroy(e);
    else
        *out = e;
    return rc;
}

void mo_engine_destroy(struct mo_engine *e) {
    if (!e) return;
    const struct mo_env *env = e->env;
    if (e->service_started) {
        take(e);
        e->stop = true;
        drop(e);
        ring_bell(e);
        env->sys->thread_join(env->sys->self, e->service);
    }
    mo_team_destroy(e->team);
    mo_sched_destroy(e->sched);
    mo_events_destroy(e->events);
    for (int i = 0; i < e->n_cores; i++) {
        if (e->lets) mo_free(env, e->lets[i].flags);
        if (e->scratch) mo_free(env, e->scratch[i]);
    }
    mo_free(env, e->scratch);
    mo_free(env, e->lets);
    mo_free(env, e->tenants);
    mo_free(env, e);
}

/* --- tenants and queries -------------------------------------------------------------------------------- */
int mo_engine_open(struct mo_engine *e, const struct mo_sched_tenant_config *config,
                   const struct mo_model_ops *ops, void *model, int *tenant, moire_error *err) {
    take(e);
    int rc = mo_sched_tenant_open(e->sched, config, mo_now(e->env), tenant, err);
    if (!rc) e->tenants[*tenant] = (struct tenant){ops, model};
    drop(e);
    return rc;
}

/* Sleeps until `done` holds; it is asked under the lock. */
static void wait_until(struct mo_engine *e, bool (*done)(struct mo_engine *e, int arg), int arg) {
    const struct mo_sys *sys = e->env->sys;
    atomic_fetch_add(&e->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&e->changes);
        take(e);
        bool is = done(e, arg);
        drop(e);
        if (is) break;
        sys->futex_wait(sys->self, &e->changes, seen, mo_now(e->env) + 100000000);
    }
    atomic_fetch_sub(&e->waiters, 1);
}

static bool tenant_is_quiet(struct mo_engine *e, int tenant) {
    return mo_sched_tenant_pending(e->sched, tenant) == 0;
}
static bool nothing_is_open(struct mo_engine *e, int arg) {
    (void)arg;
    return mo_sched_queries(e->sched)->n_live == 0;
}
static bool all_cores_idle(struct mo_engine *e, int arg) {
    (void)arg;
    return mo_sched_view(e->sched)->n_idle == e->n_cores;
}

void mo_engine_close(struct mo_engine *e, int tenant, int code) {
    take(e);
    mo_sched_tenant_close(e->sched, tenant, code, mo_now(e->env));
    drop_and_ring(e);
    wait_until(e, tenant_is_quiet, tenant);
    take(e);
    mo_sched_tenant_free(e->sched, tenant);
    drop(e);
}

int mo_engine_submit(struct mo_engine *e, int tenant, int64_t arrival, void *user, uint64_t *handle,
                     moire_error *err) {
    int slot;
    take(e);
    int64_t now = mo_now(e->env);
    mo_event_put(ring_of(e, e->n_cores), now, MO_LOG_SUBMIT, 0, tenant, arrival, 0, 0);
    int rc = mo_sched_arrival(e->sched, tenant, arrival ? arrival : now, user, now, &slot, err);
    if (!rc && handle) *handle = mo_query_handle(mo_sched_queries(e->sched), slot);
    drop_and_ring(e);
    return rc;
}

int mo_engine_cancel(struct mo_engine *e, uint64_t handle) {
    take(e);
    int rc = mo_sched_cancel(e->sched, handle, MOIRE_ECANCELLED, mo_now(e->env));
    drop_and_ring(e);
    return rc;
}

void mo_engine_drain(struct mo_engine *e) {
    wait_until(e, nothing_is_open, 0);
    take(e);
    mo_event_put(ring_of(e, e->n_cores), mo_now(e->env), MO_LOG_DRAINED, 0, -1, 0, 0, 0);
    drop(e);
}

void mo_engine_abort(struct mo_engine *e, int code) {
    take(e);
    mo_event_put(ring_of(e, e->n_cores), mo_now(e->env), MO_LOG_SHUTDOWN, 0, -1, code, 0, 0);
    mo_sched_abort(e->sched, code, mo_now(e->env));
    drop_and_ring(e);
}

/* --- exclusive use of the cores ------------------------------------------------------------------------- */
static void run_exclusive(void *ctx, int core, int worker, int n_workers) {
    struct exclusive *x = ctx;
    x->fn(x->ctx, core, worker, n_workers);
    struct mo_engine *e = x->engine;
    if (atomic_fetch_sub(&x->left, 1) == 1) {
        atomic_store(&x->done, 1);
        /* x may be gone from here on: the waiter owns it; wake by address only */
        e->env->sys->futex_wake(e->env->sys->self, &x->done, 1);
    }
}

void mo_engine_exclusive(struct mo_engine *e, int n,
                         void (*fn)(void *ctx, int core, int worker, int n_workers), void *ctx) {
    const struct mo_sys *sys = e->env->sys;
    struct exclusive x = {.engine = e, .fn = fn, .ctx = ctx, .left = n};
    mo_lock_take(sys, &e->exclusive);
    take(e);
    mo_sched_hold(e->sched);
    drop(e);
    wait_until(e, all_cores_idle, 0);
    for (int i = 0; i < n; i++)
        mo_team_post(e->team, i, &(struct mo_job){run_exclusive, &x, i, n});
    while (!atomic_load(&x.done))
        sys->futex_wait(sys->self, &x.done, 0, 0);
    take(e);
    mo_sched_unhold(e->sched, mo_now(e->env));
    drop_and_ring(e);
    mo_lock_drop(sys, &e->exclusive);
}

struct scratch_job {
    struct mo_engine *engine;
    void **fresh;
};

static void swap_scratch(void *ctx, int core, int worker, int n_workers) {
    (void)worker, (void)n_workers;
    struct scratch_job *job = ctx;
    void *old = job->engine->scratch[core];
    job->engine->scratch[core] = job->fresh[core];
    job->fresh[core] = old;
}

int mo_engine_scratch(struct mo_engine *e, int64_t bytes, moire_error *err) {
    if (bytes <= e->scratch_bytes) return MOIRE_OK;
    struct scratch_job job = {e, mo_alloc(e->env, (size_t)e->n_cores * sizeof(void *))};
    bool ok = job.fresh != NULL;
    for (int i = 0; ok && i < e->n_cores; i++)
        ok = (job.fresh[i] = mo_alloc(e->env, (size_t)bytes)) != NULL;
    if (ok) {
        mo_engine_exclusive(e, e->n_cores, swap_scratch, &job);
        e->scratch_bytes = bytes;
    }
    for (int i = 0; job.fresh && i < e->n_cores; i++)
        mo_free(e->env, job.fresh[i]);
    mo_free(e->env, job.fresh);
    return ok ? MOIRE_OK
              : mo_fail(err, MOIRE_ENOMEM, "out of memory: kernels need %lld bytes of scratch a core",
                        (long long)bytes);
}

void *mo_engine_scratch_of(struct mo_engine *e, int core) {
    return e->scratch[core];
}

int mo_engine_work(struct mo_engine *e, int core) {
    return mo_team_work(e->team, core);
}

int mo_engine_cores(const struct mo_engine *e) {
    return e->n_cores;
}

struct mo_events *mo_engine_events(struct mo_engine *e) {
    return e->events;
}

static int64_t cpu_ns(struct mo_engine *e) {
    return mo_team_cpu_ns(e->team) + e->env->sys->thread_cpu(e->env->sys->self, e->service);
}

void mo_engine_stats(struct mo_engine *e, struct mo_sched_stats *out) {
    int64_t cpu = cpu_ns(e);
    take(e);
    *out = *mo_sched_stats(e->sched);
    out->worker_cpu_ns = cpu - e->cpu_before;
    out->wall_ns = mo_now(e->env) - e->since;
    drop(e);
}

void mo_engine_stats_reset(struct mo_engine *e) {
    int64_t cpu = cpu_ns(e);
    take(e);
    *mo_sched_stats(e->sched) = (struct mo_sched_stats){0};
    e->cpu_before = cpu;
    e->since = mo_now(e->env);
    drop(e);
}
