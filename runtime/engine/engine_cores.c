/* SPDX-License-Identifier: Apache-2.0
 * engine_cores.c - the table of cores: starts blocks on worker teams and runs them; see engine_cores.h. */
#include "runtime/engine/engine_cores.h"

#include "runtime/device/barrier.h"
#include "runtime/device/usdt.h"
#include "runtime/device/team.h"
#include "runtime/engine/device_impl.h"

enum { BARRIER_SPIN = 4000 };

/* The block that a lead core's team runs, and the barrier of its members; one a lead core. */
struct team_block {
    struct cores *cores;
    struct mo_run run;
    struct mo_barrier barrier;
    struct mo_barrier_flag *flags;
    _Atomic int rc;
    _Atomic bool drop;
    int64_t start;
};

struct cores {
    struct mo_device *device;
    const struct mo_env *env;
    struct mo_team_config team_config;
    struct mo_team *team;
    struct team_block *blocks;
    void **scratch;
    int64_t scratch_bytes;
    int n;
    struct mo_lock exclusive; /* one exclusive job at a time */
    /* sleeping workers with a job: woken when the lock has been let go */
    struct mo_cores wake;
    bool any_wake;
};

/* --- open, close ---------------------------------------------------------------------------------------- */
static int open_cores(struct mo_device *device, const void *options, void **self,
                      struct mo_device_about *about, moire_error *err) {
    const struct mo_engine_cores_options *o = options;
    const struct mo_env *env = device->env;
    struct cores *c = *self = mo_alloc(env, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine");
    c->device = device;
    c->env = env;
    c->n = about->n_units = o->topology->n_cores;
    c->team_config = (struct mo_team_config){.env = env,
                                             .n = c->n,
                                             .spin_ns = MO_SPIN_NS,
                                             .cpu = o->no_pin ? NULL : o->topology->cpu,
                                             .lent = o->lent};
    size_t n = (size_t)c->n;
    c->blocks = mo_alloc(env, n * sizeof *c->blocks);
    c->scratch = mo_alloc(env, n * sizeof *c->scratch);
    bool ok = c->blocks && c->scratch;
    for (size_t i = 0; ok && i < n; i++) {
        c->blocks[i].cores = c;
        c->blocks[i].flags = mo_alloc(env, (n - i) * sizeof *c->blocks[i].flags); /* cores i and above */
        ok = c->blocks[i].flags != NULL;
        mo_barrier_init(&c->blocks[i].barrier, env, c->blocks[i].flags, BARRIER_SPIN);
    }
    return ok ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine of %d cores", c->n);
}

static int begin(void *self, moire_error *err) {
    struct cores *c = self;
    return mo_team_create(&c->team_config, &c->team, err);
}

static void close_cores(void *self) {
    struct cores *c = self;
    mo_team_destroy(c->team);
    for (int i = 0; i < c->n; i++) {
        if (c->blocks) mo_free(c->env, c->blocks[i].flags);
        if (c->scratch) mo_free(c->env, c->scratch[i]);
    }
    mo_free(c->env, c->scratch);
    mo_free(c->env, c->blocks);
    mo_free(c->env, c);
}

static int64_t cpu_ns(void *self) {
    return mo_team_cpu_ns(((struct cores *)self)->team);
}

/* --- a block begins; the lock is held ------------------------------------------------------------------- */
static void run_member(void *ctx, int core, int worker, int n_workers);

static void start(void *self, const struct mo_run *run) {
    struct cores *c = self;
    struct team_block *block = &c->blocks[run->lead];
    const struct mo_device_model *tenant = &c->device->tenants[run->tenant];
    block->run = *run;
    if (tenant->ops->select_versions)
        tenant->ops->select_versions(tenant->model, run->instance, run->begin, run->end, run->pressure,
                                     run->n_cores);
    atomic_store_explicit(&block->rc, 0, memory_order_relaxed);
    atomic_store_explicit(&block->drop, false, memory_order_relaxed);
    if (run->n_cores > 1) mo_barrier_begin(&block->barrier, run->n_cores);
    int worker = 0;
    for (int core = run->lead; core >= 0; core = mo_cores_next(&run->cores, core))
        if (mo_team_put(c->team, core, &(struct mo_job){run_member, block, worker++, run->n_cores})) {
            mo_cores_add(&c->wake, core);
            c->any_wake = true;
        }
}

static void leave(void *self) {
    struct cores *c = self;
    bool any = c->any_wake;
    struct mo_cores wake = {{0}};
    if (any) {
        wake = c->wake;
        c->wake = (struct mo_cores){{0}};
    }
    c->any_wake = false;
    bool doorbell = mo_device_unlock(c->device);
    for (int core = any ? mo_cores_next(&wake, -1) : -1; core >= 0; core = mo_cores_next(&wake, core))
        mo_team_wake(c->team, core);
    if (doorbell) mo_device_ring_doorbell(c->device);
}

/* --- workers -------------------------------------------------------------------------------------------- */
static void complete(struct team_block *block, int core) {
    struct mo_device *d = block->cores->device;
    bool dropped = atomic_load_explicit(&block->drop, memory_order_relaxed);
    int code = atomic_load_explicit(&block->rc, memory_order_relaxed), lead = block->run.lead;
    int64_t from = block->start;
    mo_device_take(d);
    int64_t end = mo_now(d->env);
    mo_sched_stats(d->sched)->kernel_core_ns += (end - from) * block->run.n_cores;
    mo_sched_block_done(d->sched, lead, !dropped, code, from, end, NULL, end); /* may reuse *block at once */
    mo_device_drop_and_deliver(d, mo_device_ring(d, core));
}

/* Worker 0 decides whether the block is too late and brings the input in; the others wait for that. */
static void prepare(struct team_block *block, const struct mo_device_model *t, void *user) {
    block->start = mo_now(block->cores->env);
    if (block->start > block->run.latest_start)
        atomic_store(&block->drop, true);
    else if (block->run.first)
        atomic_store(&block->rc, t->ops->begin(t->model, block->run.instance, user));
}

/* Which versions the layers of a block run; nothing when all run their first. */
static void log_versions(struct mo_ring *ring, int64_t now, const struct mo_device_model *t,
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
    struct team_block *block = ctx;
    struct cores *c = block->cores;
    struct mo_device *d = c->device;
    const struct mo_run run = block->run;
    const struct mo_device_model *t = &d->tenants[run.tenant];
    struct mo_queries *q = mo_sched_queries(d->sched);
    uint64_t handle = mo_query_handle(q, run.query);
    struct mo_ring *ring = mo_device_ring(d, core);
    bool ahead = run.first || run.latest_start != MO_NEVER;
    if (worker == 0) prepare(block, t, q->record[run.query].user);
    if (ahead && n_workers > 1) mo_barrier_wait(&block->barrier, worker);
    if (!atomic_load_explicit(&block->drop, memory_order_relaxed) && !atomic_load(&block->rc)) {
        mo_probe_block_start(handle, run.tenant, run.begin, run.end, core);
        if (worker == 0) log_versions(ring, block->start, t, &run, handle);
        mo_event_put(ring, ring ? mo_now(d->env) : 0, MO_LOG_BLOCK_START, handle, run.tenant, run.begin,
                     run.end, core);
        int rc = t->ops->run(t->model, run.instance, run.begin, run.end, worker, n_workers, mo_barrier_wait,
                             &block->barrier, c->scratch[core]);
        if (rc) atomic_store(&block->rc, rc);
        mo_event_put(ring, ring ? mo_now(d->env) : 0, MO_LOG_BLOCK_END, handle, run.tenant, run.begin,
                     run.end, core);
        mo_probe_block_end(handle, run.tenant, run.begin, run.end, core);
    } else {
        mo_event_put(ring, ring ? mo_now(d->env) : 0, MO_LOG_BLOCK_DROP, handle, run.tenant, run.begin,
                     run.end, core);
    }
    if (n_workers > 1) mo_barrier_wait(&block->barrier, worker);
    if (worker == 0) complete(block, core);
}

const struct mo_device_calls mo_engine_cores = {
    .name = "cores",
    .open = open_cores,
    .begin = begin,
    .close = close_cores,
    .start = start,
    .leave = leave,
    .cpu_ns = cpu_ns,
};

/* --- exclusive use -------------------------------------------------------------------------------------- */
struct exclusive {
    struct mo_device *device;
    void (*fn)(void *ctx, int core, int worker, int n_workers);
    void *ctx;
    _Atomic int left;
    _Atomic uint32_t done;
};

static void run_exclusive(void *ctx, int core, int worker, int n_workers) {
    struct exclusive *x = ctx;
    x->fn(x->ctx, core, worker, n_workers);
    const struct mo_sys *sys = x->device->env->sys;
    if (atomic_fetch_sub(&x->left, 1) == 1) {
        atomic_store(&x->done, 1);
        /* x may be gone from here on: the waiter owns it; wake by address only */
        sys->futex_wake(sys->self, &x->done, 1);
    }
}

static bool all_are_idle(struct mo_device *d, int arg) {
    (void)arg;
    return mo_sched_view(d->sched)->n_idle == d->n_units;
}

void mo_engine_cores_exclusive(struct mo_device *d, int n,
                               void (*fn)(void *ctx, int core, int worker, int n_workers), void *ctx) {
    struct cores *c = d->self;
    const struct mo_sys *sys = d->env->sys;
    struct exclusive x = {.device = d, .fn = fn, .ctx = ctx, .left = n};
    mo_lock_take(sys, &c->exclusive);
    mo_device_take(d);
    mo_sched_hold(d->sched);
    mo_device_drop(d);
    mo_device_wait(d, all_are_idle, 0);
    for (int i = 0; i < n; i++)
        mo_team_post(c->team, i, &(struct mo_job){run_exclusive, &x, i, n});
    while (!atomic_load(&x.done))
        sys->futex_wait(sys->self, &x.done, 0, 0);
    mo_device_take(d);
    mo_sched_unhold(d->sched, mo_now(d->env));
    mo_device_drop(d);
    mo_lock_drop(sys, &c->exclusive);
}

struct scratch_job {
    struct cores *cores;
    void **fresh;
};

static void swap_scratch(void *ctx, int core, int worker, int n_workers) {
    (void)worker, (void)n_workers;
    struct scratch_job *job = ctx;
    void *old = job->cores->scratch[core];
    job->cores->scratch[core] = job->fresh[core];
    job->fresh[core] = old;
}

int mo_engine_cores_scratch(struct mo_device *d, int64_t bytes, moire_error *err) {
    struct cores *c = d->self;
    if (bytes <= c->scratch_bytes) return MOIRE_OK;
    struct scratch_job job = {c, mo_alloc(d->env, (size_t)c->n * sizeof(void *))};
    bool ok = job.fresh != NULL;
    for (int i = 0; ok && i < c->n; i++)
        ok = (job.fresh[i] = mo_alloc_scratch(d->env, (size_t)bytes)) != NULL;
    if (ok) {
        mo_engine_cores_exclusive(d, c->n, swap_scratch, &job);
        c->scratch_bytes = bytes;
    }
    for (int i = 0; job.fresh && i < c->n; i++)
        mo_free(d->env, job.fresh[i]);
    mo_free(d->env, job.fresh);
    return ok ? MOIRE_OK
              : mo_fail(err, MOIRE_ENOMEM, "out of memory: kernels need %lld bytes of scratch a core",
                        (long long)bytes);
}

void *mo_engine_cores_scratch_of(struct mo_device *d, int core) {
    return ((struct cores *)d->self)->scratch[core];
}

int mo_engine_cores_work(struct mo_device *d, int core) {
    return mo_team_work(((struct cores *)d->self)->team, core);
}
