/* SPDX-License-Identifier: Apache-2.0
 * child_impl.h - the inside of the library's side of a GPU process, shared by its files.
 *
 * system->lock guards everything but the channel's contents and what is said below.  `up` is a state:
 *   DOWN       no child; tables may change
 *   RESTORING  the life thread puts the tables' contents into a new child; they do not change
 *   UP         serving; `inside` counts those who talk to the child by the channel, and the channel stays
 *              until they are out
 *   CLOSED     for ever
 * The life thread starts children (it lives as long as they may: the kernel ends a child with the thread that
 * started it), a link thread a child sees its end, an answer thread a child takes the ends of its runs. */
#ifndef MO_GPU_CHILD_IMPL_H
#define MO_GPU_CHILD_IMPL_H
#include "runtime/base/lock.h"
#include "runtime/gpu/child/child.h"
#include "runtime/gpu/child/child_wire.h"
#include "runtime/gpu/program.h"

enum { MO_CHILD_QUEUE = 16 /* runs on a let at most */ };
enum { MO_CHILD_DOWN, MO_CHILD_RESTORING, MO_CHILD_UP, MO_CHILD_CLOSED };

struct mo_gpu_let {
    struct mo_gpu_system *system;
    int id, gpu, first, units, priority;
    bool there;                        /* in this child */
    bool closed;                       /* freed when nothing is queued */
    int queued, queue[MO_CHILD_QUEUE]; /* entries of `runs`, oldest first */
    int64_t since;                     /* when the oldest could begin; 0: not known yet */
    moire_error refused;               /* by the child that is there now; code 0: not */
};

/* Contents of a weight in the pool, for every program of a model that has it. */
struct mo_child_weight {
    struct mo_child_weight *next;
    uint64_t model, sum;
    int64_t bytes, at;
    int users;
};

struct mo_gpu_loaded {
    struct mo_gpu_system *system;
    int id, gpu, instances;
    bool there;
    uint32_t prepared; /* bit u: for lets of u + 1 units */
    int64_t bytes;     /* of device memory */
    int64_t at, packed_bytes;
    int batch, n_segments, n_inputs, n_outputs, n_weights;
    int64_t *port_bytes;             /* [n_inputs + n_outputs] of one query */
    struct mo_child_weight **weight; /* [n_weights] */
    uint32_t *filled;                /* [instances] child that ran the first segment */
    moire_error refused;
};

struct mo_child_buffer {
    char *at;
    size_t bytes;
    int64_t offset; /* in the pool */
    bool there;
};

/* An accepted run. */
struct mo_child_pending {
    bool used;
    uint32_t generation, past; /* past: the ring's position behind its record */
    struct mo_gpu_let *let;
    int64_t submitted, hang_ns;
    void (*done)(void *ctx, int code, const char *message, const struct mo_gpu_times *times);
    void *ctx;
};

struct mo_gpu_system {
    const struct mo_env *env;
    struct mo_gpu_config config;
    struct mo_gpu_child_bounds bounds;
    char helper[1024], plugin[MO_CHILD_PATH], folder[MO_CHILD_PATH], cache[MO_CHILD_PATH];
    struct mo_lock lock;
    _Atomic uint32_t up, doorbell; /* doorbell: rung when `up`, `closing` or what is waited for changes */
    _Atomic bool closing;
    int inside;
    moire_error first; /* why the first child did not come up */
    bool tried;        /* the first child came up, or did not */
    /* this child */
    struct mo_child process;
    struct mo_child_channel *channel;
    int channel_fd, n_gpus;
    uint32_t child; /* grows */
    uint32_t tail;  /* of `words`, in words */
    uint32_t head;  /* of `answers` */
    unsigned slots; /* bit i: taken */
    _Atomic bool gone, lost;
    int64_t lost_at, killed_at, progress_at;
    uint32_t progress;
    char reason[MO_CHILD_TEXT];
    struct mo_thread life, link, answers;
    bool living;
    /* what there is, in every child */
    struct mo_gpu_info *info; /* [n_gpus] */
    struct mo_gpu_let *lets[MO_CHILD_LETS];
    struct mo_gpu_loaded *programs[MO_CHILD_PROGRAMS];
    struct mo_child_buffer *buffers; /* [MO_CHILD_BUFFERS] by id */
    int *by_address, n_buffers, next_buffer;
    int pool_fd;
    int64_t pool_bytes;
    struct mo_child_weight *weights;
    struct mo_child_pending runs[MO_CHILD_ANSWERS];
    int n_runs;
    struct mo_gpu_child_stats stats;
};

static inline void mo_child_lock(struct mo_gpu_system *s) {
    mo_lock_take(s->env->sys, &s->lock);
}
static inline void mo_child_unlock(struct mo_gpu_system *s) {
    mo_lock_drop(s->env->sys, &s->lock);
}

/* --- child_call.c --- */
/* Comes in while the child serves: waits for it at most `timeout` (0: not at all).  MOIRE_EDEVICE otherwise,
 * with the reason.  mo_child_leave() ends it. */
int mo_child_enter(struct mo_gpu_system *s, int64_t timeout, moire_error *err);
void mo_child_leave(struct mo_gpu_system *s);
/* Waits while a child is made what the last one was; the lock is held, and held again. */
void mo_child_settle(struct mo_gpu_system *s);
void mo_child_ring_all(struct mo_gpu_system *s);
/* Comes in if what is asked about is there and the child serves.  The lock is held. */
bool mo_child_step_in(struct mo_gpu_system *s, bool there);
/* Asks and waits.  Whoever calls is inside, or is the life thread.  Returns the answer's code; MOIRE_EDEVICE:
 * none came, or the child is of no use any more. */
int mo_child_ask(struct mo_gpu_system *s, const struct mo_child_ask *ask, struct mo_child_reply *reply,
                 moire_error *err);
/* The same of what has two numbers at most, and nothing but a code for an answer. */
int mo_child_tell(struct mo_gpu_system *s, enum mo_child_kind kind, int first, int second, moire_error *err);
/* MOIRE_EDEVICE and why there is no child; the lock is held. */
int mo_child_absent(struct mo_gpu_system *s, moire_error *err);

/* --- child_answers.c --- */
void *mo_child_take_answers(void *system);
/* The child is no good any more: ended as soon as its other runs are, or 0.3 s have passed; at once when
 * `now`. */
void mo_child_lose(struct mo_gpu_system *s, bool now, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Answers what is left with MOIRE_EDEVICE; the child is gone. */
void mo_child_answer_all(struct mo_gpu_system *s, const char *reason);

/* --- child_life.c --- */
/* The life thread: a child after the other, until the system closes. */
void *mo_child_live(void *system);

/* --- child_open.c --- */
int mo_child_open(const struct mo_gpu_config *config, struct mo_gpu_system **out, moire_error *err);
void mo_child_close(struct mo_gpu_system *s);

/* --- child.c --- */
/* Puts a record into the ring; false: it is full.  The lock is held and the child is up. */
bool mo_child_put(struct mo_gpu_system *s, int kind, const void *words, uint32_t n);
int mo_child_ask_let(struct mo_gpu_let *let, moire_error *err);

/* --- child_programs.c --- */
int mo_child_program_load(struct mo_gpu_system *s, int gpu, const struct mo_gpu_program *program,
                          int instances, struct mo_gpu_loaded **out, moire_error *err);
void mo_child_program_unload(struct mo_gpu_loaded *p);
int mo_child_ask_program(struct mo_gpu_loaded *p, moire_error *err);
int mo_child_prepare(struct mo_gpu_loaded *p, struct mo_gpu_let *let, moire_error *err);
int mo_child_ways(struct mo_gpu_loaded *program, struct mo_gpu_ways *out, int room);

/* --- child_staging.c --- */
int mo_child_staging_alloc(struct mo_gpu_system *s, size_t bytes, void **out, moire_error *err);
void mo_child_staging_free(struct mo_gpu_system *s, void *at);
int mo_child_ask_buffer(struct mo_gpu_system *s, int id, moire_error *err);
/* Where memory lies; false: it is no staging memory.  The lock is held. */
bool mo_child_find(const struct mo_gpu_system *s, const void *at, int64_t bytes, uint64_t *place);
/* Whole pages of the pool. */
int mo_child_pool_take(struct mo_gpu_system *s, int64_t bytes, int64_t *at, moire_error *err);
void mo_child_pool_give(struct mo_gpu_system *s, int64_t at, int64_t bytes);
#endif
