/* SPDX-License-Identifier: Apache-2.0
 * spill.h - whose activations lie in which arena: those of a paused query give way to a query of the same
 * tenant that begins or goes on.
 *
 * An arena is as large as the widest place of a model, and policies pause queries for more urgent ones, so
 * arenas of paused queries would be most of a busy server's activations.  A query that needs an arena takes
 * over that of a paused query of its tenant, whose live tensors (runtime/plan/live.h) are copied to a buffer
 * of their size before, and back when it goes on.  So a tenant has no more arenas than its queries run blocks
 * at once, whatever the number that has begun; and the arena that is taken over is warm and needs no
 * scrubbing, which one of another tenant would.
 *
 * A query is in one state.  The tenant's lock guards it, and is never held while bytes are copied:
 *   NEW      has no arena yet
 *   RUNS     a block of it runs, or was announced: its arena stays
 *   RESTS    between two blocks: in the tenant's list, its arena may be taken over
 *   LEAVES   somebody copies its live tensors; who wants it meanwhile waits
 *   SPILLED  they lie in `kept`, it has no arena
 * Threads: hold() and release() under the device's lock, the others on workers without one. */
#ifndef MO_SERVE_SPILL_H
#define MO_SERVE_SPILL_H
#include "runtime/base/lock.h"
#include "runtime/plan/live.h"
#include "runtime/serve/arenas.h"

enum mo_spill_state { MO_SPILL_NEW, MO_SPILL_RUNS, MO_SPILL_RESTS, MO_SPILL_LEAVES, MO_SPILL_SPILLED };

/* Of a query. */
struct mo_spill {
    enum mo_spill_state state;
    bool gone;                        /* it was released while it left: who copies frees it */
    int next;                         /* layer that it goes on with */
    struct mo_arena *arena;           /* its activations, one of the runtime's */
    struct mo_arena *kept;            /* what lives of them, while it has no arena */
    struct mo_spill *before, *behind; /* in the list of those that rest */
};

/* What a runtime knows of all tenants. */
struct mo_spill_pools {
    struct mo_arenas *arenas, *kept;
    _Atomic int64_t spills; /* so far */
    _Atomic size_t most;    /* bytes of both at their highest */
};

/* Of a tenant.  All zeros but env, pools, live, bytes, owner and freed, which are set before use. */
struct mo_spiller {
    const struct mo_env *env;
    struct mo_spill_pools *pools;
    const struct mo_live *live;
    size_t bytes;                                     /* of an arena */
    uint64_t owner;                                   /* of arenas */
    void (*freed)(void *ctx, struct mo_spill *spill); /* a query that was gone has left */
    void *ctx;
    struct mo_lock lock;
    struct mo_spill *resting;
    _Atomic uint32_t left; /* futex word: queries that have left so far */
};

/* A block of the query is about to start.  True: mo_spill_begin() comes before it. */
bool mo_spill_hold(struct mo_spiller *spiller, struct mo_spill *spill);
/* Gives the query spill->arena, in which what lived of it lies again.  MOIRE_ENOMEM: it has none. */
int mo_spill_begin(struct mo_spiller *spiller, struct mo_spill *spill);
/* Its block has ended, and it goes on with layer `next`. */
void mo_spill_rest(struct mo_spiller *spiller, struct mo_spill *spill, int next);
/* No block of it runs or will.  False: it is leaving just now, and freed() will be called. */
bool mo_spill_release(struct mo_spiller *spiller, struct mo_spill *spill);
#endif
