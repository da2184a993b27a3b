/* SPDX-License-Identifier: Apache-2.0
 * engine_gpu.h - the table of GPUs: blocks on lets, through a plugin (runtime/gpu/gpu_ops.h) in place of
 * worker teams.  Units are numbered as gpus.h says.
 *
 *   start     the core starts a block on a let in force.  It is put on a list under the lock; whoever lets
 *             the lock go (the thread that submits, that of the timer, the plugin's when a block ended) hands
 *             it to the plugin: the block that a let runs and at most one behind it, when that is to end
 *             soon (mo_gpus.ahead_ns); all else waits on the host, where it can still be batched, shed or
 *             overtaken.
 *   done      the plugin's thread reports GPU times to the core, which decides what runs next; answers are
 *             delivered by the service thread.
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
#include "runtime/engine/device.h"

extern const struct mo_device_calls mo_engine_gpus;

enum { MO_ENGINE_BUCKETS = 12, MO_ENGINE_WHY = 200 };

/* Copied; what it points to must outlive the engine. */
struct mo_engine_gpu_options {
    const struct mo_gpu_ops *ops;
    struct mo_gpu_system *system;
    const struct mo_gpus *gpus; /* finished; GPU g is the system's GPU g */
    int max_batch;              /* of any tenant */
    int64_t hang_ns;            /* no block has hung before; 0 = 1 s */
};

/* What a tenant brings beside its model's ops, in mo_device_tenant.programs; its profile has as many layers
 * as the programs have segments.  The device puts them on every GPU that `sched.share` has a profile for.
 * Errors of opening it: the plugin's, with the GPU; the scheduler's. */
struct mo_engine_gpu_programs {
    /* Where the tensors of a query lie in staging memory: fills n_inputs and n_outputs pointers.  They stay
     * until release().  The device's lock is held. */
    void (*tensors)(void *model, void *user, const void **inputs, void **outputs);
    /* One program for each of these batches, rising; a batch takes the smallest that holds it.  Equal but for
     * the batch.  Not needed after the call. */
    int n_buckets;
    int batch[MO_ENGINE_BUCKETS];
    const struct mo_gpu_program *program[MO_ENGINE_BUCKETS];
    int n_inputs, n_outputs, n_segments;
    int64_t output_bytes; /* of the largest output */
};

/* Changes of plan since the engine was made. */
struct mo_engine_gpu_stats {
    int64_t changes;                /* plans that came into force */
    int64_t opened, closed;         /* lets */
    int64_t ready_ns, ready_max_ns; /* from the wish for a plan until it served: sum, and most */
    int64_t failed;                 /* blocks that the GPU did not finish or did not take */
};
void mo_engine_gpu_stats(struct mo_device *device, struct mo_engine_gpu_stats *out);
/* Why the last block of the tenant that failed did; "" when none has. */
void mo_engine_gpu_why(struct mo_device *device, int tenant, char out[MO_ENGINE_WHY]);
/* How the tenant's programs compute, by GPU, batch and size of let: at most `room` rows; returns how many
 * there are.  Waits while lets are prepared. */
struct mo_engine_gpu_way {
    int gpu, batch;
    struct mo_gpu_ways ways;
};
int mo_engine_gpu_ways(struct mo_device *device, int tenant, struct mo_engine_gpu_way *out, int room);
#endif
