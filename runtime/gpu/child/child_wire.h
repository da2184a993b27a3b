/* SPDX-License-Identifier: Apache-2.0
 * child_wire.h - what the library and the process of its GPUs say to one another, in memory that both map.
 *
 * The *channel* is one fixed structure, new with every process:
 *   - `words`, a ring of records from the library: runs, and lets to be closed, in order;
 *   - `answers`, a ring of the ends of runs;
 *   - `slots`, for all else: a caller puts a question into a free one and waits there for its answer.
 * The *pool* is a file in memory that grows and outlives processes: staging memory, programs and weights lie
 * there by offset, each a run of whole pages that is never used for anything else.
 *
 * Positions only grow (modulo 2^32).  A consumer that finds nothing says `asleep`, looks again, and waits on
 * the ring's doorbell; a producer rings only then.  So a busy queue costs no call of the system.
 *
 * The child believes the library.  The library believes nothing: it keeps its own copy of every position,
 * copies what it reads before it looks at it, and takes anything impossible for the child's death. */
#ifndef MO_GPU_CHILD_WIRE_H
#define MO_GPU_CHILD_WIRE_H
#include "runtime/gpu/gpu_ops.h"

enum {
    MO_CHILD_MAGIC = 0x6d6f6968, /* of this layout; raise with every change */
    MO_CHILD_LINK = 3,           /* descriptors of the child: the stream that ends with either of us, */
    MO_CHILD_CHANNEL,
    MO_CHILD_POOL,
    MO_CHILD_WORDS = 1 << 15,
    MO_CHILD_ANSWERS = 512, /* and runs that are accepted and not ended */
    MO_CHILD_SLOTS = 6,
    MO_CHILD_LETS = 1024, /* ids, all given by the library */
    MO_CHILD_PROGRAMS = 8192,
    MO_CHILD_BUFFERS = 32768,
    MO_CHILD_TEXT = 512,
    MO_CHILD_PATH = 512,
    MO_CHILD_PAGE = 4096,
    MO_CHILD_VERSION_EXIT = 96 /* exit status of a child with another layout */
};

/* One direction of a ring. */
struct mo_child_ring {
    _Alignas(64) _Atomic uint32_t tail; /* the producer's */
    _Alignas(64) _Atomic uint32_t head; /* the consumer's */
    _Alignas(64) _Atomic uint32_t asleep;
    _Atomic uint32_t doorbell;
};

/* Records of `words`: the kind, the number of words after the head, then those. */
enum mo_child_record { MO_CHILD_PAD, MO_CHILD_RUN, MO_CHILD_CLOSE /* a let: its id */ };

struct mo_child_head {
    uint32_t kind, words;
};

/* Followed by where the inputs lie (begin == 0), then the outputs (end == number of segments). */
struct mo_child_run {
    uint64_t run; /* named in the answer */
    uint32_t let, program;
    int32_t instance, begin, end, batch;
    int64_t hang_ns;
};

/* A place in staging memory: id of a buffer and offset into it. */
static inline uint64_t mo_child_place(uint32_t buffer, uint64_t at) {
    return (uint64_t)buffer << 40 | at;
}

struct mo_child_answer {
    uint64_t run;
    int32_t code;
    struct mo_gpu_times times;
    char message[MO_CHILD_TEXT];
};

enum mo_child_kind {
    MO_CHILD_OPEN,      /* n: queue, abi, libraries_first; x: hang_ns, memory;
                           plugin, path, cache */
    MO_CHILD_DESCRIBE,  /* n: gpu */
    MO_CHILD_COUNTERS,  /* n: gpu, whether numbers are wanted */
    MO_CHILD_LET_OPEN,  /* n: let, gpu, first, units, priority */
    MO_CHILD_LET_PROBE, /* n: let */
    MO_CHILD_LOAD,      /* n: program, gpu, instances; x: offset and bytes of the packed program */
    MO_CHILD_UNLOAD,    /* n: program */
    MO_CHILD_PREPARE,   /* n: program, let */
    MO_CHILD_WAYS,      /* n: program */
    MO_CHILD_REGISTER,  /* n: buffer; x: offset and bytes in the pool */
    MO_CHILD_FORGET,    /* n: buffer */
    MO_CHILD_QUIT
};

struct mo_child_ask {
    int32_t kind, n[6];
    int64_t x[2];
    char text[3][MO_CHILD_PATH];
};

struct mo_child_reply {
    int32_t code;
    int64_t x; /* OPEN: GPUs; LOAD: bytes of device memory; WAYS: rows */
    union {
        struct mo_gpu_info info;
        struct mo_gpu_counters counters;
        uint64_t sms[MO_GPU_SM_WORDS];
        struct mo_gpu_ways ways[MO_GPU_UNITS];
    };
    char message[MO_CHILD_TEXT];
};

enum { MO_CHILD_FREE, MO_CHILD_ASKED, MO_CHILD_ANSWERED };

struct mo_child_slot {
    _Alignas(64) _Atomic uint32_t state; /* the child waits here, */
    _Atomic uint32_t doorbell;           /* the library here */
    uint32_t after;                      /* not before the ring was consumed up to this */
    struct mo_child_ask ask;
    struct mo_child_reply reply;
};

struct mo_child_channel {
    uint32_t magic, bytes;
    int32_t parent; /* process id of the library's */
    struct mo_child_ring down, up;
    struct mo_child_slot slots[MO_CHILD_SLOTS];
    uint64_t words[MO_CHILD_WORDS];
    struct mo_child_answer answers[MO_CHILD_ANSWERS];
};

/* Rings, if the other side has gone to sleep. */
static inline void mo_child_ring_doorbell(const struct mo_sys *sys, struct mo_child_ring *ring) {
    if (!atomic_load(&ring->asleep)) return;
    atomic_fetch_add(&ring->doorbell, 1);
    sys->shared_wake(sys->self, &ring->doorbell, 1);
}

/* Waits until the tail is no longer `seen`, the doorbell rings, or the deadline (0: none). */
static inline void mo_child_ring_wait(const struct mo_sys *sys, struct mo_child_ring *ring, uint32_t seen,
                                      int64_t deadline) {
    atomic_store(&ring->asleep, 1);
    const uint32_t doorbell = atomic_load(&ring->doorbell);
    if (atomic_load(&ring->tail) == seen) sys->shared_wait(sys->self, &ring->doorbell, doorbell, deadline);
    atomic_store(&ring->asleep, 0);
}
#endif
