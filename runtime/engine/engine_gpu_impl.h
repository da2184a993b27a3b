/* SPDX-License-Identifier: Apache-2.0
 * engine_gpu_impl.h - the inside of the table of GPUs, shared by its files: engine_gpu.c (blocks),
 * engine_gpu_tenants.c (programs and contexts) and engine_gpu_lets.c (lets, changes of plan).
 *
 * The device's lock guards everything but: the list of open lets, which only the preparing thread changes;
 * and programs, which are loaded and unloaded under `changing`, held by that thread while it makes graphs. */
#ifndef MO_ENGINE_GPU_IMPL_H
#define MO_ENGINE_GPU_IMPL_H
#include "runtime/engine/engine_gpu.h"
#include "runtime/engine/device_impl.h"

/* A let that is open on its GPU. */
struct mo_open_let {
    struct mo_open_let *next;
    struct mo_gpu_let *let; /* NULL: it could not be opened; `code` says why */
    int gpu, first, units, priority, code;
    int running;     /* blocks on it, or queued there */
    bool submitting; /* one of them is being submitted to the plugin, which takes one at a time */
    bool in_force, coming;
    char why[MO_ENGINE_WHY];
};

/* The execution context of a batch on one GPU, from its first block to its last.  Contexts i and n_contexts +
 * i share the activations i: of two batches of a tenant in the queue of one let the second begins when the
 * first is done. */
struct mo_batch_context {
    bool taken, running;
    int bucket, batch, left; /* left: of its queries, those that are not gone */
    const void **inputs;     /* [largest batch][n_inputs] */
    void **outputs;          /* [largest batch][n_outputs] */
    void **user;             /* [largest batch]; NULL = gone */
};

/* A tenant on one GPU. */
struct mo_gpu_host {
    struct mo_gpu_loaded *loaded[MO_ENGINE_BUCKETS];
    int n_contexts;                   /* activations */
    struct mo_batch_context *context; /* [2 * n_contexts] */
};

struct mo_gpu_resident {
    bool open;
    void (*tensors)(void *model, void *user, const void **inputs, void **outputs);
    void *model;
    int n_buckets, n_inputs, n_outputs, n_segments, n_instances;
    int batch[MO_ENGINE_BUCKETS];
    struct mo_gpu_host *host; /* [n_gpus] */
    int *context_of;          /* [instances] of the core: context of a query that has begun */
    void *discard;            /* staging memory for outputs that nobody waits for any more */
    void *memory;
    char why[MO_ENGINE_WHY];
};

/* A block that a let runs, or that is queued there. */
struct mo_gpu_work {
    struct mo_engine_gpu *owner;
    struct mo_gpu_work *next; /* of those to be submitted */
    struct mo_run run;
    struct mo_open_let *let;
    struct mo_batch_context *context; /* NULL: it cannot run; `code` says why */
    uint64_t handle;
    int64_t began, hang_ns;
    int gpu, instance, code;
    bool late;
    bool refused; /* while it was queued: `code` and `why` are said when its turn comes */
    char why[MO_ENGINE_WHY];
};

/* The queue of the let that begins at a unit: the block that runs and the one behind it. */
struct mo_let_queue {
    struct mo_gpu_work work[2];
    int n, front;
};

struct mo_engine_gpu {
    struct mo_device *device;
    const struct mo_env *env;
    struct mo_engine_gpu_options config;
    struct mo_gpus gpus;
    struct mo_gpu_resident *tenant; /* [max_tenants] */
    struct mo_let_queue *queue;     /* [n_units] by first unit */
    struct mo_gpu_work *launch, **launch_end;
    struct mo_open_let *lets, **at; /* at: [n_units] in force, by first unit */
    struct mo_thread preparer;
    bool preparer_started, stop, asked, sweep;
    bool lost[MO_PLAN_GPUS];
    _Atomic uint32_t doorbell; /* rings the preparing thread */
    _Atomic uint32_t calls;    /* of done() that the plugin owes, or that have not left it */
    struct mo_lock changing;
    struct mo_lets_plan *plan; /* the preparing thread's copy */
    int64_t asked_at;
    struct mo_engine_gpu_stats stats;
};

/* engine_gpu_tenants.c: calls of the table */
int mo_engine_gpu_admit(void *gpu, const struct mo_device_tenant *config, int *tenant, moire_error *err);
void mo_engine_gpu_forget(void *gpu, int tenant);

/* engine_gpu_lets.c: calls of the table; and the doorbell of the thread that prepares lets */
int mo_engine_gpu_open(struct mo_device *device, const void *options, void **self,
                       struct mo_device_about *about, moire_error *err);
int mo_engine_gpu_begin(void *gpu, moire_error *err);
void mo_engine_gpu_close(void *gpu);
void mo_engine_gpu_ring(struct mo_engine_gpu *g);
#endif
