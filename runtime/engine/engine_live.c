/* SPDX-License-Identifier: Apache-2.0
 * engine_live.c - what callers do with the live engine: create, open, submit, drain, borrow the cores. */
#include <string.h>
#include "runtime/engine/engine_gpu_impl.h"

enum { BARRIER_SPIN = 4000 };

/* --- create, destroy ------------------------------------------------------------------------------------ */
static int start_threads(struct mo_engine *e, const struct mo_engine_config *c, moire_error *err) {
    struct mo_team_config team = {.env = c->env,
                                  .n = e->n_cores,
                                  .spin_ns = MO_SPIN_NS,
                                  .cpu = c->no_pin || e->gpu ? NULL : c->topology->cpu,
                                  .lent = c->lent};
    int rc = e->gpu ? mo_engine_gpu_start(e, err) : mo_team_create(&team, &e->team, err);
    if (rc) return rc;
    rc = c->env->sys->thread_start(c->env->sys->self, &e->service, mo_engine_serve, e);
    if (rc) return mo_fail(err, MOIRE_EIO, "cannot start the service thread: %s", strerror(-rc));
    e->service_started = true;
    return MOIRE_OK;
}

static int allocate(struct mo_engine *e, const struct mo_engine_config *c, moire_error *err) {
    const struct mo_env *env = c->env;
    size_t n = (size_t)e->n_cores;
    if (!e->gpu) e->lets = mo_alloc(env, n * sizeof *e->lets);
    e->tenants = mo_alloc(env, (size_t)c->max_tenants * sizeof *e->tenants);
    e->scratch = mo_alloc(env, n * sizeof *e->scratch);
    bool ok = (e->lets || e->gpu) && e->tenants && e->scratch;
    for (size_t i = 0; ok && e->lets && i < n; i++) {
        e->lets[i].engine = e;
        e->lets[i].flags = mo_alloc(env, (n - i) * sizeof *e->lets[i].flags); /* let i: cores i and above */
        ok = e->lets[i].flags != NULL;
        mo_barrier_init(&e->lets[i].barrier, env, e->lets[i].flags, BARRIER_SPIN);
    }
    if (ok && c->events)
        ok = (e->events = mo_events_create(env, e->n_cores + MO_RINGS_BESIDE, c->events)) != NULL;
    return ok ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine of %d cores", e->n_cores);
}

static int64_t engine_clock(void *self) {
    return mo_now(((struct mo_engine *)self)->env);
}

int mo_engine_create(const struct mo_engine_config *c, struct mo_engine **out, moire_error *err) {
    struct mo_engine *e = mo_alloc(c->env, sizeof *e);
    if (!e) return mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine");
    e->env = c->env;
    e->n_cores = c->gpu ? c->gpu->gpus->n_units : c->topology->n_cores;
    e->timer_at = MO_NEVER;
    e->resolved = MO_QUERY_LIST_EMPTY;
    e->since = mo_now(c->env);
    int rc = c->gpu ? mo_engine_gpu_create(e, c, err) : MOIRE_OK;
    if (!rc) rc = allocate(e, c, err);
    struct mo_sched_config sc = {.env = c->env,
                                 .policy = c->policy,
                                 .n_cores = e->n_cores,
                                 .max_queries = c->max_queries,
                                 .max_tenants = c->max_tenants,
                                 .block_ns = c->block_ns,
                                 .max_batch = c->gpu ? c->gpu->max_batch : 1,
                                 .gpus = c->gpu ? &e->gpu->gpus : NULL,
                                 .ops = c->gpu ? &mo_engine_gpu_table : &mo_engine_table,
                                 .engine = e,
                                 .cost_clock = engine_clock,
                                 .source = c->source};
    if (!rc) {
        sc.ring = mo_engine_ring(e, e->n_cores + MO_RING_LOCKED);
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
        mo_engine_take(e);
        e->stop = true;
        mo_engine_drop(e);
        mo_engine_ring_bell(e);
        env->sys->thread_join(env->sys->self, e->service);
    }
    mo_engine_gpu_destroy(e);
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
/* After a locked section on a thread of the user's: answers are not its business. */
static void drop_and_ring(struct mo_engine *e) {
    if (e->resolved.first >= 0) e->bell_due = true;
    mo_engine_drop(e);
}

int mo_engine_open(struct mo_engine *e, const struct mo_sched_tenant_config *config,
                   const struct mo_model_ops *ops, void *model, int *tenant, moire_error *err) {
    mo_engine_take(e);
    int rc = mo_sched_tenant_open(e->sched, config, mo_now(e->env), tenant, err);
    if (!rc) e->tenants[*tenant] = (struct mo_engine_tenant){ops, model};
    mo_engine_drop(e);
    return rc;
}

void mo_engine_set_memory(struct mo_engine *e, const struct mo_memory *memory) {
    mo_engine_take(e);
    mo_sched_set_memory(e->sched, memory);
    mo_engine_drop(e);
}

/* Sleeps until `done` holds; it is asked under the lock. */
static void wait_until(struct mo_engine *e, bool (*done)(struct mo_engine *e, int arg), int arg) {
    const struct mo_sys *sys = e->env->sys;
    atomic_fetch_add(&e->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&e->changes);
        mo_engine_take(e);
        bool is = done(e, arg);
        mo_engine_drop(e);
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
    mo_engine_take(e);
    mo_sched_tenant_close(e->sched, tenant, code, mo_now(e->env));
    drop_and_ring(e);
    wait_until(e, tenant_is_quiet, tenant);
    if (e->gpu) mo_engine_gpu_forget(e, tenant);
    mo_engine_take(e);
    mo_sched_tenant_free(e->sched, tenant);
    mo_engine_drop(e);
}

int mo_engine_submit(struct mo_engine *e, int tenant, int64_t arrival, void *user, uint64_t *handle,
                     moire_error *err) {
    int slot;
    mo_engine_take(e);
    int64_t now = mo_now(e->env);
    mo_event_put(mo_engine_ring(e, e->n_cores + MO_RING_LOCKED), now, MO_LOG_SUBMIT, 0, tenant, arrival, 0,
                 0);
    int rc = mo_sched_arrival(e->sched, tenant, arrival ? arrival : now, user, now, &slot, err);
    if (!rc && handle) *handle = mo_query_handle(mo_sched_queries(e->sched), slot);
    drop_and_ring(e);
    return rc;
}

int mo_engine_cancel(struct mo_engine *e, uint64_t handle) {
    mo_engine_take(e);
    int rc = mo_sched_cancel(e->sched, handle, MOIRE_ECANCELLED, mo_now(e->env));
    drop_and_ring(e);
    return rc;
}

int mo_engine_cancel_user(struct mo_engine *e, const void *user) {
    int rc = MOIRE_ESTALE;
    mo_engine_take(e);
    struct mo_queries *q = mo_sched_queries(e->sched);
    for (int i = 0; i < q->cap && rc; i++)
        if (mo_query_is_live(q, i) && q->body[i].user == user)
            rc = mo_sched_cancel(e->sched, mo_query_handle(q, i), MOIRE_ECANCELLED, mo_now(e->env));
    drop_and_ring(e);
    return rc;
}

void mo_engine_drain(struct mo_engine *e) {
    wait_until(e, nothing_is_open, 0);
    mo_engine_take(e);
    mo_event_put(mo_engine_ring(e, e->n_cores + MO_RING_LOCKED), mo_now(e->env), MO_LOG_DRAINED, 0, -1, 0, 0,
                 0);
    mo_engine_drop(e);
}

void mo_engine_abort(struct mo_engine *e, int code) {
    mo_engine_take(e);
    mo_event_put(mo_engine_ring(e, e->n_cores + MO_RING_LOCKED), mo_now(e->env), MO_LOG_SHUTDOWN, 0, -1, code,
                 0, 0);
    mo_sched_abort(e->sched, code, mo_now(e->env));
    drop_and_ring(e);
}

/* --- exclusive use of the cores ------------------------------------------------------------------------- */
/* One exclusive job; see mo_engine_exclusive(). */
struct exclusive {
    struct mo_engine *engine;
    void (*fn)(void *ctx, int core, int worker, int n_workers);
    void *ctx;
    _Atomic int left;
    _Atomic uint32_t done;
};

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
    mo_engine_take(e);
    mo_sched_hold(e->sched);
    mo_engine_drop(e);
    wait_until(e, all_cores_idle, 0);
    for (int i = 0; i < n; i++)
        mo_team_post(e->team, i, &(struct mo_job){run_exclusive, &x, i, n});
    while (!atomic_load(&x.done))
        sys->futex_wait(sys->self, &x.done, 0, 0);
    mo_engine_take(e);
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
        ok = (job.fresh[i] = mo_alloc_scratch(e->env, (size_t)bytes)) != NULL;
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

struct mo_ring *mo_engine_guest_ring(struct mo_engine *e) {
    return mo_engine_ring(e, e->n_cores + MO_RING_GUEST);
}

static int64_t cpu_ns(struct mo_engine *e) {
    return (e->team ? mo_team_cpu_ns(e->team) : 0) + e->env->sys->thread_cpu(e->env->sys->self, e->service);
}

void mo_engine_stats(struct mo_engine *e, struct mo_sched_stats *out) {
    int64_t cpu = cpu_ns(e);
    mo_engine_take(e);
    *out = *mo_sched_stats(e->sched);
    out->worker_cpu_ns = cpu - e->cpu_before;
    int64_t now = mo_now(e->env), accepted = mo_sched_accepted(e->sched);
    int64_t open = mo_sched_view(e->sched)->n_in_system;
    out->wall_ns = now - e->since;
    mo_event_put(mo_engine_ring(e, e->n_cores + MO_RING_LOCKED), now, MO_LOG_SAMPLE, 0, -1, accepted,
                 accepted - open, open);
    mo_engine_drop(e);
}

void mo_engine_stats_reset(struct mo_engine *e) {
    int64_t cpu = cpu_ns(e);
    mo_engine_take(e);
    *mo_sched_stats(e->sched) = (struct mo_sched_stats){0};
    e->cpu_before = cpu;
    e->since = mo_now(e->env);
    mo_engine_drop(e);
}
