/* SPDX-License-Identifier: Apache-2.0
 * engine_gpu.h - the live engine on lets of real GPUs: engine_live.h with a plugin (runtime/gpu/gpu_ops.h) in
 * place of worker teams.
 *
 * It is the same engine: mo_engine_create() with config.gpu set, then mo_engine_gpu_open() in place of
 * mo_engine_open(), and every other call of engine_live.h but those that lend cores (scratch, exclusive,
 * work).  The core, the policies and the clock are the same too; units are numbered as gpus.h says.
 *
 *   start     the core starts a block on a let in force.  It is put on a list under the lock; whoever lets
 *             the lock go (the thread that submits, that of the timer, the plugin's when a block ended) hands
 *             it to the plugin: the block that a let runs and at most one behind it, when that is to end
 *             soon (mo_gpus.ahead_ns); all else waits on the host, where it can still be batched, shed or
 *             overtaken.
 *   done      the plugin's thread reports GPU times to the core, which decides what runs next; answers are
 *             delivered by the engine's service thread.
 *   prepare   another thread opens the lets of the new plan and has their graphs made while the old ones
 *             serve.  Then the core takes the new plan, and from its next block on everything runs there;
 *             old lets are closed when their last block has ended.  Lets that stay are never touched.
 *
 * Faults.  A block that the GPU did not finish answers each of its queries once with the plugin's code:
 * MOIRE_EDEVICE (illegal access, hang, lost), MOIRE_ENOMEM or MOIRE_EFAILED.  So does one that it refuses to
 * take.  The engine goes on: with several GPUs a lost one is taken out of the plan, and what waits is served
 * by the others (what had begun there may be what broke it, so it is answered and not tried again); the last
 * one answers everything with MOIRE_EDEVICE.  A thread asks the plugin now and then whether a lost GPU is
 * back; then it is planned with again.  Who opened the tenant may send failed queries elsewhere. */
#ifndef MO_ENGINE_GPU_H
#define MO_ENGINE_GPU_H
#include "runtime/gpu/gpu_ops.h"
#include "runtime/engine/engine_live.h"

enum { MO_ENGINE_RUNGS = 12, MO_ENGINE_WHY = 200 };

/* Copied by mo_engine_create(); what it points to must outlive the engine. */
struct mo_engine_gpu_config {
    const struct mo_gpu_ops *ops;
    struct mo_gpu_system *system;
    const struct mo_gpus *gpus; /* finished; GPU g is the system's GPU g */
    int max_batch;              /* of any tenant */
    double hang_times; /* a block that takes so many times its profiled time has hung; 0 = 50, and never less
                          than hang_ns */
    int64_t hang_ns;   /* 0 = 1 s */
};

/* What the engine asks of a tenant's model, beside answer() and release() of mo_model_ops. */
struct mo_engine_gpu_model {
    struct mo_model_ops ops; /* begin, run, press and version are not called */
    /* Where the tensors of a query lie in staging memory: fills n_inputs and n_outputs pointers.  They stay
     * until release().  The engine's lock is held. */
    void (*tensors)(void *model, void *user, const void **inputs, void **outputs);
};

struct mo_engine_gpu_tenant {
    struct mo_sched_tenant_config sched; /* profile: as many layers as the programs have segments */
    const struct mo_engine_gpu_model *model;
    void *self;
    /* One program for each of these batches, rising; a batch takes the smallest that holds it.  Equal but for
     * the batch.  Not needed after the call. */
    int n_rungs;
    int batch[MO_ENGINE_RUNGS];
    const struct mo_gpu_program *program[MO_ENGINE_RUNGS];
    int n_inputs, n_outputs, n_segments;
    int64_t output_bytes; /* of the largest output */
};

/* Puts the programs on every GPU that `sched.share` has a profile for and opens the tenant.  Errors: the
 * plugin's, with the tenant's GPU; those of mo_engine_open(). */
int mo_engine_gpu_open(struct mo_engine *engine, const struct mo_engine_gpu_tenant *config, int *tenant,
                       moire_error *err);

/* Changes of plan since the engine was made. */
struct mo_engine_gpu_stats {
    int64_t changes;                /* plans that came into force */
    int64_t opened, closed;         /* lets */
    int64_t ready_ns, ready_max_ns; /* from the wish for a plan until it served: sum, and most */
    int64_t failed;                 /* blocks that the GPU did not finish or did not take */
};
void mo_engine_gpu_stats(struct mo_engine *engine, struct mo_engine_gpu_stats *out);
/* Why the last block of the tenant that failed did; "" when none has. */
void mo_engine_gpu_why(struct mo_engine *engine, int tenant, char out[MO_ENGINE_WHY]);
#endif
