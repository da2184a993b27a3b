/* SPDX-License-Identifier: Apache-2.0
 * engine_cores_jobs.c - what runs on cores while no block does, and the scratch of kernels. */
#include "runtime/engine/engine_cores_impl.h"

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
        mo_device_take(x->device);
        mo_sched_unhold(x->device->sched, mo_now(x->device->env));
        mo_device_drop(x->device);
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
    struct mo_cores_engine *c = d->self;
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
    mo_lock_drop(sys, &c->exclusive);
}

struct scratch_job {
    struct mo_cores_engine *cores;
    void **fresh;
};

static void swap_scratch(void *ctx, int core, int worker, int n_workers) {
    (void)worker, (void)n_workers;
    struct scratch_job *job = ctx;
    void *old = job->cores->scratch[core];
    job->cores->scratch[core] = job->fresh[core];
    job->fresh[core] = old;
}

/* The lock is held. */
static bool grow_scratch(struct mo_device *d, int64_t bytes) {
    struct mo_cores_engine *c = d->self;
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
    return ok;
}

int mo_engine_cores_scratch(struct mo_device *d, int64_t bytes, moire_error *err) {
    struct mo_cores_engine *c = d->self;
    mo_lock_take(d->env->sys, &c->growing);
    const bool ok = bytes <= c->scratch_bytes || grow_scratch(d, bytes);
    mo_lock_drop(d->env->sys, &c->growing);
    return ok ? MOIRE_OK
              : mo_fail(err, MOIRE_ENOMEM, "out of memory: kernels need %lld bytes of scratch a core",
                        (long long)bytes);
}

struct mo_team_config mo_engine_cores_team(struct mo_device *d) {
    struct mo_team_config config = ((struct mo_cores_engine *)d->self)->team_config;
    if (config.lent) config.cpu = NULL; /* the host says where its threads are */
    config.lent = false;
    return config;
}

int mo_engine_cores_work(struct mo_device *d, int core) {
    return mo_team_work(((struct mo_cores_engine *)d->self)->team, core);
}
