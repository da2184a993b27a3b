/* SPDX-License-Identifier: Apache-2.0
 * cuda.h - the inside of the CUDA plugin.
 *
 * A *system* holds the driver, its GPUs, one completion thread and one lock.  A *gpu* holds the groups of SMs
 * of ONE split (groups of separate splits overlap) and a pool of *contexts*: a context is a run of
 * consecutive groups as one green context.  A *track* is a stream of a context, at one priority, and the
 * events of the runs queued on it; a let is a track in use.  Closing a let gives its track back, so that
 * opening one of units that were a let not long ago takes no call of the driver: the pool keeps
 * MO_CUDA_SPARE contexts that no let uses, those left last.  The others go, and with them the graphs that
 * were captured there.
 *
 * Locks: system->lock guards lists, queues and flags, and is never held across a call of the driver.  A green
 * context may be used by one thread at a time: context->lock is held while it is current.  Programs are
 * prepared in a context of its own over the same groups (`aside`), for that may take long and runs go on
 * meanwhile; gpu->loading makes that one thread.  Order: loading, context, system.
 *
 * Completion.  A thread polls the last event of the oldest run of each track.  cuLaunchHostFunc was not
 * chosen for that: a host function is not called once the context has an error, may not call the driver, and
 * holds the stream up until it returns; and nothing but a watch of our own sees a kernel that hangs.  The
 * poll sleeps a 32nd of the age of the youngest run, 10 us to 200 us, and does not run when nothing is
 * queued.
 *
 * Loss.  After an error that poisons the process's context, or a hang, gpu->lost is set with its reason: what
 * is queued ends MOIRE_EDEVICE, and no call of the driver is made for this GPU again, teardown included, for
 * those could wait for the GPU for ever.  Its memory comes back when the process ends. */
#ifndef MO_CUDA_H
#define MO_CUDA_H
#include "runtime/gpu/cuda/driver.h"
#include "runtime/gpu/gpu_ops.h"
#include "runtime/base/lock.h"

enum {
    MO_CUDA_QUEUE_MOST = 16, /* runs queued on one let */
    MO_CUDA_SPARE = 8,       /* contexts of a GPU that are kept though no let uses them */
    MO_CUDA_MARKS = 4        /* events of a run: begin, copied in, computed, copied out */
};

struct mo_cuda_gpu;
struct mo_cuda_context;
struct mo_cuda_track;

/* One accepted run. */
struct mo_cuda_ticket {
    mo_cu_event marks[MO_CUDA_MARKS];
    int64_t submitted, hang_ns;
    int failed; /* putting it into the stream failed half-way: its answer once what was queued has ended */
    char message[300];
    struct mo_cuda_failure *core; /* where layers on cores say that they have failed; NULL: there are none */
    void (*done)(void *ctx, int code, const char *message, const struct mo_gpu_times *times);
    void *ctx;
};

struct mo_cuda_track {
    struct mo_cuda_track *next;      /* in the context's list of all tracks */
    struct mo_cuda_track *next_busy; /* in the system's list; only the watcher takes out */
    bool busy;
    struct mo_cuda_context *context;
    mo_cu_stream stream;
    int priority;
    struct mo_cuda_ticket tickets[MO_CUDA_QUEUE_MOST]; /* a ring */
    unsigned head, queued;
    int64_t since; /* the run at the head could begin: it was submitted, or the one before ended */
    bool open;     /* a let uses it */
    struct mo_cuda_ticket *filling; /* the run that is being put into the stream */
};

struct mo_cuda_context {
    struct mo_cuda_context *next;
    struct mo_cuda_gpu *gpu;
    int first, units;
    struct mo_cuda_context *aside; /* over the same groups, programs are prepared in it; NULL: none was */
    int users;                     /* lets, open or being opened */
    uint64_t left;                 /* the GPU's count when its last let was closed */
    mo_cu_green green;
    mo_cu_context context;
    struct mo_lock lock; /* held while `context` is current on a thread, except the GPU's main one */
    struct mo_cuda_track *tracks;
};

struct mo_cuda_gpu {
    struct mo_gpu_system *system;
    int index;
    mo_cu_device device;
    mo_cu_context main; /* the primary context */
    struct mo_gpu_info info;
    int priorities[MO_GPU_PRIORITIES];
    struct mo_cu_resource all, groups[MO_GPU_UNITS]; /* before the split; by unit */
    struct mo_cuda_context *contexts;
    uint64_t closings;      /* of lets */
    struct mo_lock making;  /* one context is made at a time */
    struct mo_lock loading; /* one program is loaded, prepared or unloaded at a time */
    mo_cu_library probe;
    int64_t used, limit;       /* bytes of device memory */
    struct mo_cuda_exec *exec; /* made with the first program */
    _Atomic bool lost;
    char reason[300]; /* written before `lost` */
};

struct mo_nvml;

struct mo_gpu_system {
    const struct mo_env *env;
    struct mo_gpu_config config;
    char path[1024], cache[1024];
    struct mo_cuda_object driver;
    struct mo_cuda_driver cu;
    int level;
    struct mo_nvml *nvml; /* NULL: not there, and why */
    char nvml_missing[160];
    struct mo_cuda_gpu *gpus;
    int n_gpus;
    struct mo_lock lock;
    struct mo_cuda_track *busy; /* tracks with runs that have not ended */
    struct mo_thread watcher;
    bool watching;
    _Atomic uint32_t doorbell; /* grows when there is something for the watcher to do */
    _Atomic bool stop;
};

struct mo_gpu_let {
    struct mo_cuda_track *track;
};

/* fail.c.  mo_cuda_error() with "GPU 0: " before it; an error that poisons the context marks the GPU lost. */
int mo_cuda_fail(struct mo_cuda_gpu *gpu, unsigned result, moire_error *err, const char *what);
/* The same for an error that `err` (never NULL) holds already, e.g. of exec.h; returns its code. */
int mo_cuda_note(struct mo_cuda_gpu *gpu, moire_error *err);
/* Marks the GPU lost (the first reason stays). */
void mo_cuda_lose(struct mo_cuda_gpu *gpu, const char *reason);
/* MOIRE_OK, or MOIRE_EDEVICE with the reason.  To be asked before calls of the driver. */
int mo_cuda_alive(const struct mo_cuda_gpu *gpu, moire_error *err);

/* host_memory.c.  Makes a context current on this thread and takes it back; the GPU must be alive.  enter()
 * takes the context's lock; NULL context = the GPU's main one, for memory and modules, which all contexts
 * share. */
int mo_cuda_enter(struct mo_cuda_gpu *gpu, struct mo_cuda_context *context, moire_error *err);
void mo_cuda_leave(struct mo_cuda_gpu *gpu, struct mo_cuda_context *context);
int mo_cuda_staging_alloc(struct mo_gpu_system *s, size_t bytes, void **out, moire_error *err);
void mo_cuda_staging_free(struct mo_gpu_system *s, void *at);
int mo_cuda_staging_register(struct mo_gpu_system *s, void *at, size_t bytes, moire_error *err);
void mo_cuda_staging_forget(struct mo_gpu_system *s, void *at);

/* contexts.c */
int mo_cuda_split(struct mo_cuda_gpu *gpu, moire_error *err);
void mo_cuda_contexts_free(struct mo_cuda_gpu *gpu);
/* The context of units [first, first + units) for one let more, made when it is not in the pool; put(): for
 * one less, and it may go. */
int mo_cuda_context_get(struct mo_cuda_gpu *gpu, int first, int units, struct mo_cuda_context **out,
                        moire_error *err);
void mo_cuda_context_put(struct mo_cuda_context *context);
/* Its context aside, made when there is none.  The loading lock is held. */
int mo_cuda_context_aside(struct mo_cuda_context *context, struct mo_cuda_context **out, moire_error *err);
/* Ends spare contexts beyond MO_CUDA_SPARE.  The loading lock is held. */
void mo_cuda_contexts_trim(struct mo_cuda_gpu *gpu);
/* The name of a context's groups for exec.h. */
static inline uint32_t mo_cuda_place(const struct mo_cuda_context *c) {
    return (uint32_t)c->first << 16 | (uint32_t)c->units;
}
/* A free track of a context at a priority, made when there is none; it is free again once it is given back
 * and its queue is empty. */
int mo_cuda_track_take(struct mo_cuda_context *context, int priority, struct mo_cuda_track **out,
                       moire_error *err);
void mo_cuda_track_give(struct mo_cuda_track *track);

/* queue.c.  The work of one run, put into the track's stream part by part, with a mark before the first and
 * after each; called with the context current. */
struct mo_cuda_work {
    int (*enqueue)(void *work, struct mo_cuda_track *track, int part, moire_error *err); /* part 0, 1, 2 */
    void *work; /* needed only until submit() returns */
    int64_t hang_ns;
    void (*done)(void *ctx, int code, const char *message, const struct mo_gpu_times *times);
    void *ctx;
};
int mo_cuda_submit(struct mo_gpu_let *let, const struct mo_cuda_work *work, moire_error *err);
int mo_cuda_watch_start(struct mo_gpu_system *s, moire_error *err);
/* Waits until nothing is queued, then ends the thread. */
void mo_cuda_watch_stop(struct mo_gpu_system *s);

/* program_run.c, over exec.h */
int mo_cuda_program_load(struct mo_gpu_system *s, int gpu, const struct mo_gpu_program *program,
                         int instances, struct mo_gpu_loaded **out, moire_error *err);
void mo_cuda_program_unload(struct mo_gpu_loaded *program);
int64_t mo_cuda_program_bytes(const struct mo_gpu_loaded *program);
int mo_cuda_program_ways(struct mo_gpu_loaded *program, struct mo_gpu_ways *out, int room);
int mo_cuda_prepare(struct mo_gpu_loaded *program, struct mo_gpu_let *let, moire_error *err);
int mo_cuda_run(const struct mo_gpu_run *run, moire_error *err);
void mo_cuda_programs_close(struct mo_cuda_gpu *gpu);

/* open.c, let_open.c, sm_probe.c, nvml.c: rows of struct mo_gpu_ops */
int mo_cuda_open(const struct mo_gpu_config *config, struct mo_gpu_system **out, moire_error *err);
void mo_cuda_close(struct mo_gpu_system *s);
/* NULL (MOIRE_EINVAL): there is no such GPU. */
struct mo_cuda_gpu *mo_cuda_gpu_of(struct mo_gpu_system *s, int index, moire_error *err);
int mo_cuda_let_open(struct mo_gpu_system *s, int gpu, int first, int units, int priority,
                     struct mo_gpu_let **out, moire_error *err);
void mo_cuda_let_close(struct mo_gpu_let *let);
/* PTX of its kernel mo_probe(uint32_t *seen): every block notes its SM and stays there for 100,000 cycles. */
extern const char mo_cuda_sm_probe[];
int mo_cuda_let_probe(struct mo_gpu_let *let, uint64_t sms[MO_GPU_SM_WORDS], moire_error *err);
int mo_cuda_counters(struct mo_gpu_system *s, int gpu, struct mo_gpu_counters *out, moire_error *err);
void mo_cuda_nvml_open(struct mo_gpu_system *s);
void mo_cuda_nvml_close(struct mo_gpu_system *s);
#endif
