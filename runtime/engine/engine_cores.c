/* SPDX-License-Identifier: Apache-2.0
 * engine_cores.c - the table of cores: starts blocks on teams of workers and runs them; see engine_cores.h.
 */
#include "runtime/engine/engine_cores.h"

#include "runtime/device/claims.h"
#include "runtime/device/team.h"
#include "runtime/device/usdt.h"
#include "runtime/engine/device_impl.h"

enum { CLAIMS_SPIN = 4000 };

/* A block and the team that runs it.  Step 0 of the claims brings the input in, step i runs layer begin + i
 * - 1. Members look at nothing but this before they hold a step or a piece: the tenant may be gone before the
 * last of them has come. */
struct team_block {
    struct cores *cores;
    struct team_block *next_free;
    struct mo_claims claims;
    struct mo_claims_range *ranges;
    struct mo_run run;
    struct mo_device_model tenant;
    void *user;
    uint64_t handle;
    int64_t start;
    _Atomic int inside; /* members that have not left */
    int code;
    bool drop; /* it came too late to be run */
};

struct cores {
    struct mo_device *device;
    const struct mo_env *env;
    struct mo_team_config team_config;
    struct mo_team *team;
    struct team_block *blocks, *free; /* as many as cores: each has one core at least */
    struct mo_claims_member *members; /* of every core */
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
    c->members = mo_alloc(env, n * sizeof *c->members);
    c->scratch = mo_alloc(env, n * sizeof *c->scratch);
    bool ok = c->blocks && c->members && c->scratch;
    for (size_t i = 0; ok && i < n; i++) {
        struct team_block *block = &c->blocks[i];
        block->cores = c;
        block->ranges = mo_alloc(env, n * sizeof *block->ranges);
        ok = block->ranges != NULL;
        mo_claims_init(&block->claims, env, block->ranges, c->n, CLAIMS_SPIN);
        block->next_free = c->free;
        c->free = block;
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
        if (c->blocks) mo_free(c->env, c->blocks[i].ranges);
        if (c->scratch) mo_free(c->env, c->scratch[i]);
    }
    mo_free(c->env, c->scratch);
    mo_free(c->env, c->members);
    mo_free(c->env, c->blocks);
    mo_free(c->env, c);
}

static int64_t cpu_ns(void *self) {
    return mo_team_cpu_ns(((struct cores *)self)->team);
}

/* --- a block begins; the lock is held ------------------------------------------------------------------- */
static void run_member(void *ctx, int core, int worker, int n_workers);

/* A job for a core, as a member with a seat. */
static void call_in(struct cores *c, struct team_block *block, int core, int seat) {
    mo_claims_seat(&c->members[core], seat);
    if (!mo_team_put(c->team, core, &(struct mo_job){run_member, block, seat, block->run.n_cores})) return;
    mo_cores_add(&c->wake, core);
    c->any_wake = true;
}

static void start(void *self, const struct mo_run *run) {
    struct cores *c = self;
    struct mo_queries *q = mo_sched_queries(c->device->sched);
    struct team_block *block = c->free;
    c->free = block->next_free;
    block->run = *run;
    block->tenant = c->device->tenants[run->tenant];
    block->user = q->record[run->query].user;
    block->handle = mo_query_handle(q, run->query);
    if (block->tenant.ops->hold) block->run.first = block->tenant.ops->hold(block->tenant.model, block->user);
    if (block->tenant.ops->select_versions)
        block->tenant.ops->select_versions(block->tenant.model, run->instance, run->begin, run->end,
                                           run->pressure, run->n_cores);
    block->drop = false;
    atomic_store_explicit(&block->inside, run->n_cores, memory_order_relaxed);
    mo_claims_begin(&block->claims, run->end - run->begin + 1, run->n_cores);
    int seat = 0;
    for (int core = run->lead; core >= 0; core = mo_cores_next(&run->cores, core))
        call_in(c, block, core, seat++);
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
/* A core's part in a block. */
struct part {
    struct team_block *block;
    struct mo_ring *ring;
    int core;
    bool begun;
};

static void complete(struct team_block *block, int core) {
    struct cores *c = block->cores;
    struct mo_device *d = c->device;
    const int lead = block->run.lead, code = block->code;
    const int64_t from = block->start;
    const bool ran = !block->drop;
    if (block->tenant.ops->rest && !code)
        block->tenant.ops->rest(block->tenant.model, block->user, ran ? block->run.end : block->run.begin);
    mo_device_take(d);
    int64_t end = mo_now(d->env);
    mo_sched_stats(d->sched)->kernel_core_ns += (end - from) * block->run.n_cores;
    block->next_free = c->free;
    c->free = block; /* the next block may be this one at once */
    mo_sched_block_done(d->sched, lead, ran, code, from, end, NULL, end);
    mo_device_drop_and_deliver(d, mo_device_ring(d, core));
}

static void log_part(const struct part *p, int kind) {
    const struct mo_run *run = &p->block->run;
    mo_event_put(p->ring, p->ring ? mo_now(p->block->cores->env) : 0, kind, p->block->handle, run->tenant,
                 run->begin, run->end, p->core);
}

static void begin_part(struct part *p) {
    const struct mo_run *run = &p->block->run;
    if (p->begun) return;
    p->begun = true;
    mo_probe_block_start(p->block->handle, run->tenant, run->begin, run->end, p->core);
    log_part(p, MO_LOG_BLOCK_START);
}

static void end_part(struct part *p) {
    const struct mo_run *run = &p->block->run;
    if (p->block->drop) {
        log_part(p, MO_LOG_BLOCK_DROP);
        return;
    }
    begin_part(p);
    log_part(p, MO_LOG_BLOCK_END);
    mo_probe_block_end(p->block->handle, run->tenant, run->begin, run->end, p->core);
}

/* Which versions the layers of a block run; nothing when all run their first. */
static void log_versions(struct mo_ring *ring, const struct team_block *block) {
    const struct mo_run *run = &block->run;
    const struct mo_device_model *t = &block->tenant;
    if (!ring || !t->ops->version) return;
    for (int from = run->begin; from < run->end; from += MO_EVENT_VERSIONS) {
        int n = run->end - from < MO_EVENT_VERSIONS ? run->end - from : MO_EVENT_VERSIONS;
        int64_t digits = 0;
        for (int i = n; i-- > 0;)
            digits = digits << 3 | (t->ops->version(t->model, run->instance, from + i) & 7);
        if (digits)
            mo_event_put(ring, block->start, MO_LOG_VERSIONS, block->handle, run->tenant, from, digits, n);
    }
}

/* Who comes first decides whether the block is too late, and brings the input in. */
static int prepare(struct part *p) {
    struct team_block *block = p->block;
    const struct mo_device_model *t = &block->tenant;
    block->start = mo_now(block->cores->env);
    block->drop = block->start > block->run.latest_start;
    if (block->drop) return MOIRE_EEXPIRED;
    log_versions(p->ring, block);
    begin_part(p);
    return block->run.first ? t->ops->begin(t->model, block->run.instance, block->user) : MOIRE_OK;
}

static int run_step(void *ctx, int step, int width, void *scratch) {
    struct part *p = ctx;
    const struct team_block *block = p->block;
    if (step == 0) return prepare(p);
    begin_part(p);
    return block->tenant.ops->step(block->tenant.model, block->run.instance, block->run.begin + step - 1,
                                   width, scratch);
}

static void run_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    struct part *part = ctx;
    const struct team_block *block = part->block;
    begin_part(part);
    block->tenant.ops->pieces(block->tenant.model, block->run.instance, block->run.begin + p->step - 1,
                              p->from, p->to, p->of, scratch);
}

static void run_member(void *ctx, int core, int worker, int n_workers) {
    static const struct mo_claims_calls calls = {run_step, run_pieces};
    struct team_block *block = ctx;
    struct cores *c = block->cores;
    struct part part = {block, mo_device_ring(c->device, core), core, false};
    int code = MOIRE_OK;
    (void)worker, (void)n_workers;
    enum mo_claims_end end =
        mo_claims_work(&block->claims, &c->members[core], &calls, &part, c->scratch[core], &code);
    if (end == MO_CLAIMS_LAST) block->code = block->drop ? MOIRE_OK : code;
    end_part(&part);
    if (atomic_fetch_sub(&block->inside, 1) == 1) complete(block, core);
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
