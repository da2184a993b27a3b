/* SPDX-License-Identifier: Apache-2.0
 * engine_live.h - carries decisions out on real cores in real time.
 *
 * One lock guards the scheduler core.  It is held for a dispatch, never across a kernel, a callback or a copy
 * of tensors.  The worker that ends a block takes the lock, reports, and the policy's next blocks are in the
 * mailboxes (often its own) when it lets go; then it delivers answers.  A service thread serves the policy's
 * timer and the answers that no worker decided (cancelled, shed, unloaded).
 *
 * The engine knows models only through struct mo_model, so that tests can run it on fake ones. */
#ifndef MO_ENGINE_LIVE_H
#define MO_ENGINE_LIVE_H
#include "runtime/base/lock.h"
#include "runtime/device/topology.h"
#include "runtime/sched/sched.h"

/* What the engine asks of a tenant's model.  Functions run on workers without a lock. */
struct mo_model_ops {
    /* Before the first block: puts the query's input into the instance.  0 or a code. */
    int (*begin)(void *model, int instance, void *user);
    /* As mo_instance_run(); the last thing it does with n_workers > 1 need not be a barrier. */
    int (*run)(void *model, int instance, int begin, int end, int worker, int n_workers,
               void (*barrier)(void *ctx, int worker), void *ctx, void *scratch);
    /* Delivers; the instance may be used until it returns, then it serves another query. */
    void (*answer)(void *model, const struct mo_answer *answer);
    /* The query is gone for good, after its answer and its last block: `user` may be reused.  The engine's
     * lock is held, so this must be short and must not call back. */
    void (*release)(void *model, void *user);
    /* May be NULL.  Before layers [begin, end) of an instance start on so many cores: picks their versions
     * for these and a pressure.  The engine's lock is held. */
    void (*press)(void *model, int instance, int begin, int end, double pressure, int cores);
    /* May be NULL.  The version of a layer that an instance runs, 0 to 7; asked for the event log only. */
    int (*version)(void *model, int instance, int layer);
};

struct mo_engine_config {
    const struct mo_env *env;
    const struct mo_topology *topology; /* lives as long as the engine */
    const struct mo_policy *policy;
    int max_queries, max_tenants;
    int64_t block_ns;
    bool no_pin, lent;                      /* lent: workers come by mo_engine_work() */
    int64_t events;                         /* entries of each event ring, 0 = no events */
    struct mo_pressure_source source;       /* as in struct mo_sched_config */
    const struct mo_engine_gpu_config *gpu; /* engine_gpu.h: on these GPUs, and topology is not asked for */
};

struct mo_engine;
int mo_engine_create(const struct mo_engine_config *config, struct mo_engine **out, moire_error *err);
/* Every tenant must be closed before.  NULL is fine. */
void mo_engine_destroy(struct mo_engine *engine);

/* Scratch memory every worker has for kernels; grows when a tenant needs more (while the workers are held).
 */
int mo_engine_scratch(struct mo_engine *engine, int64_t bytes, moire_error *err);
/* As mo_sched_set_memory(). */
void mo_engine_set_memory(struct mo_engine *engine, const struct mo_memory *memory);
int mo_engine_open(struct mo_engine *engine, const struct mo_sched_tenant_config *config,
                   const struct mo_model_ops *ops, void *model, int *tenant, moire_error *err);
/* Resolves what is open with `code`, waits until every slot is free, forgets the tenant. */
void mo_engine_close(struct mo_engine *engine, int tenant, int code);

int mo_engine_submit(struct mo_engine *engine, int tenant, int64_t arrival, void *user, uint64_t *handle,
                     moire_error *err);
int mo_engine_cancel(struct mo_engine *engine, uint64_t handle);
/* The same of the query that was submitted with that `user`. */
int mo_engine_cancel_user(struct mo_engine *engine, const void *user);
/* Waits until no accepted query is unanswered. */
void mo_engine_drain(struct mo_engine *engine);
/* Resolves everything with `code`; answers follow from the engine's threads. */
void mo_engine_abort(struct mo_engine *engine, int code);

/* Runs fn(ctx, core, worker, n) on the first n cores while no block runs; returns when all have.  The
 * neighbours wait meanwhile, so keep it short. */
void mo_engine_exclusive(struct mo_engine *engine, int n,
                         void (*fn)(void *ctx, int core, int worker, int n_workers), void *ctx);
void *mo_engine_scratch_of(struct mo_engine *engine, int core);

/* The calling thread becomes the worker of a core; see mo_team_work(). */
int mo_engine_work(struct mo_engine *engine, int core);

int mo_engine_cores(const struct mo_engine *engine);
void mo_engine_stats(struct mo_engine *engine, struct mo_sched_stats *out);
void mo_engine_stats_reset(struct mo_engine *engine);
/* NULL when events are off.  Read or dump it when the engine is drained. */
struct mo_events *mo_engine_events(struct mo_engine *engine);
/* The ring of one thread that is not the engine's; NULL when events are off. */
struct mo_ring *mo_engine_guest_ring(struct mo_engine *engine);
#endif
