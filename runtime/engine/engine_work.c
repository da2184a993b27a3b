/* SPDX-License-Identifier: Apache-2.0
 * engine_work.c - what the engine's own threads do: run blocks, report them, deliver answers, keep the timer.
 * Wake-up calls wait until the lock is let go: a futex call may cost many microseconds on a virtual machine.
 */
#include "runtime/device/fpu.h"
#include "runtime/device/usdt.h"
#include "runtime/engine/engine_gpu_impl.h"

struct mo_ring *mo_engine_ring(struct mo_engine *e, int which) {
    return e->events ? &e->events->ring[which] : NULL;
}
void mo_engine_take(struct mo_engine *e) {
    mo_lock_take(e->env->sys, &e->lock);
}
void mo_engine_ring_bell(struct mo_engine *e) {
    atomic_fetch_add(&e->bell, 1);
    e->env->sys->futex_wake(e->env->sys->self, &e->bell, 1);
}

void mo_engine_let_go(struct mo_engine *e) {
    bool any = e->any_wake, bell = e->bell_due;
    struct mo_cores wake = {{0}};
    if (any) {
        wake = e->wake;
        e->wake = (struct mo_cores){{0}};
    }
    e->any_wake = e->bell_due = false;
    mo_lock_drop(e->env->sys, &e->lock);
    for (int c = any ? mo_cores_next(&wake, -1) : -1; c >= 0; c = mo_cores_next(&wake, c))
        mo_team_wake(e->team, c);
    if (bell) mo_engine_ring_bell(e);
}

void mo_engine_drop(struct mo_engine *e) {
    bool started = e->gpu && e->gpu->launch;
    mo_engine_let_go(e);
    if (started) mo_engine_gpu_launch(e);
}

void mo_engine_note_change(struct mo_engine *e) {
    if (!atomic_load(&e->waiters)) return;
    atomic_fetch_add(&e->changes, 1);
    e->env->sys->futex_wake(e->env->sys->self, &e->changes, INT32_MAX);
}

/* --- the core's calls; the lock is held ------------------------------------------------------------------
 */
static void run_member(void *ctx, int core, int worker, int n_workers);

static void engine_start(void *self, const struct mo_run *run) {
    struct mo_engine *e = self;
    struct mo_let *let = &e->lets[run->lead];
    const struct mo_engine_tenant *tenant = &e->tenants[run->tenant];
    let->run = *run;
    if (tenant->ops->press)
        tenant->ops->press(tenant->model, run->instance, run->begin, run->end, run->pressure, run->n_cores);
    atomic_store_explicit(&let->rc, 0, memory_order_relaxed);
    atomic_store_explicit(&let->drop, false, memory_order_relaxed);
    if (run->n_cores > 1) mo_barrier_begin(&let->barrier, run->n_cores);
    int worker = 0;
    for (int c = run->lead; c >= 0; c = mo_cores_next(&run->cores, c))
        if (mo_team_put(e->team, c, &(struct mo_job){run_member, let, worker++, run->n_cores})) {
            mo_cores_add(&e->wake, c);
            e->any_wake = true;
        }
}

static void engine_set_timer(void *self, int64_t when) {
    struct mo_engine *e = self;
    bool earlier = when < e->timer_at;
    e->timer_at = when;
    if (earlier) e->bell_due = true;
}

static void engine_resolved(void *self, int slot) {
    struct mo_engine *e = self;
    mo_query_list_put(mo_sched_queries(e->sched), &e->resolved, slot);
}

static void engine_released(void *self, int tenant, void *user) {
    const struct mo_engine_tenant *t = &((struct mo_engine *)self)->tenants[tenant];
    t->ops->release(t->model, user);
}

/* --- answers -------------------------------------------------------------------------------------------- */
/* Takes the oldest resolved query out of the list; the lock is held. */
static bool next_answer(struct mo_engine *e, int *slot, struct mo_engine_tenant *tenant, int *tenant_id,
                        struct mo_answer *out) {
    struct mo_queries *q = mo_sched_queries(e->sched);
    *slot = mo_query_list_take(q, &e->resolved, out);
    if (*slot < 0) return false;
    *tenant_id = q->face[*slot].tenant;
    *tenant = e->tenants[*tenant_id];
    return true;
}

/* Delivers all answers that are due; called without the lock, on a thread of the engine that owns `ring`. */
static void deliver(struct mo_engine *e, struct mo_ring *ring) {
    struct mo_engine_tenant tenant;
    struct mo_answer answer;
    int slot, id;
    for (;;) {
        mo_engine_take(e);
        bool any = next_answer(e, &slot, &tenant, &id, &answer);
        mo_engine_drop(e);
        if (!any) return;
        mo_event_put(ring, mo_now(e->env), MO_LOG_CALLBACK_IN, answer.query, id, answer.code, 0, 0);
        tenant.ops->answer(tenant.model, &answer);
        mo_event_put(ring, mo_now(e->env), MO_LOG_CALLBACK_OUT, answer.query, id, answer.code, 0, 0);
        mo_engine_take(e);
        mo_sched_answered(e->sched, slot, mo_now(e->env));
        mo_engine_drop(e);
        mo_engine_note_change(e);
    }
}

/* --- workers -------------------------------------------------------------------------------------------- */
static void complete(struct mo_let *let, int core) {
    struct mo_engine *e = let->engine;
    bool dropped = atomic_load_explicit(&let->drop, memory_order_relaxed);
    int code = atomic_load_explicit(&let->rc, memory_order_relaxed), lead = let->run.lead;
    int64_t start = let->start;
    mo_engine_take(e);
    int64_t end = mo_now(e->env);
    mo_sched_stats(e->sched)->kernel_core_ns += (end - start) * let->run.n_cores;
    mo_sched_block_done(e->sched, lead, !dropped, code, start, end, end); /* may reuse *let at once */
    bool due = e->resolved.first >= 0;
    mo_engine_drop(e);
    mo_engine_note_change(e);
    if (due) deliver(e, mo_engine_ring(e, core));
}

/* Worker 0 decides whether the block is too late and brings the input in; the others wait for that. */
static void prepare(struct mo_let *let, const struct mo_engine_tenant *t, void *user) {
    struct mo_engine *e = let->engine;
    let->start = mo_now(e->env);
    if (let->start > let->run.latest_start)
        atomic_store(&let->drop, true);
    else if (let->run.first)
        atomic_store(&let->rc, t->ops->begin(t->model, let->run.instance, user));
}

/* Which versions the layers of a block run; nothing when all run their first. */
static void log_versions(struct mo_ring *ring, int64_t now, const struct mo_engine_tenant *t,
                         const struct mo_run *run, uint64_t handle) {
    if (!ring || !t->ops->version) return;
    for (int from = run->begin; from < run->end; from += MO_EVENT_VERSIONS) {
        int n = run->end - from < MO_EVENT_VERSIONS ? run->end - from : MO_EVENT_VERSIONS;
        int64_t digits = 0;
        for (int i = n; i-- > 0;)
            digits = digits << 3 | (t->ops->version(t->model, run->instance, from + i) & 7);
        if (digits) mo_event_put(ring, now, MO_LOG_VERSIONS, handle, run->tenant, from, digits, n);
    }
}

static void run_member(void *ctx, int core, int worker, int n_workers) {
    struct mo_let *let = ctx;
    struct mo_engine *e = let->engine;
    const struct mo_run run = let->run;
    const struct mo_engine_tenant *t = &e->tenants[run.tenant];
    struct mo_queries *q = mo_sched_queries(e->sched);
    uint64_t handle = mo_query_handle(q, run.query);
    struct mo_ring *ring = mo_engine_ring(e, core);
    bool ahead = run.first || run.latest_start != MO_NEVER;
    if (worker == 0) prepare(let, t, q->body[run.query].user);
    if (ahead && n_workers > 1) mo_barrier_wait(&let->barrier, worker);
    if (!atomic_load_explicit(&let->drop, memory_order_relaxed) && !atomic_load(&let->rc)) {
        mo_probe_block_start(run.tenant, run.begin, run.end, core);
        if (worker == 0) log_versions(ring, let->start, t, &run, handle);
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
void *mo_engine_serve(void *arg) {
    struct mo_engine *e = arg;
    const struct mo_sys *sys = e->env->sys;
    struct mo_ring *ring = mo_engine_ring(e, e->n_cores + MO_RING_SERVICE);
    mo_fpu_flush();
    for (;;) {
        uint32_t heard = atomic_load(&e->bell);
        mo_engine_take(e);
        if (e->timer_at <= mo_now(e->env)) {
            e->timer_at = MO_NEVER;
            mo_sched_timer(e->sched, mo_now(e->env));
        }
        int64_t wake = e->timer_at == MO_NEVER ? 0 : e->timer_at;
        bool due = e->resolved.first >= 0, stop = e->stop;
        mo_engine_drop(e);
        if (due)
            deliver(e, ring);
        else if (stop)
            return NULL;
        else
            sys->futex_wait(sys->self, &e->bell, heard, wake);
    }
}

const struct mo_engine_ops mo_engine_table = {
    .start = engine_start,
    .set_timer = engine_set_timer,
    .resolved = engine_resolved,
    .released = engine_released,
};
