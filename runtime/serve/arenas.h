/* SPDX-License-Identifier: Apache-2.0
 * arenas.h - memory that queries hold for a while: activations, one pool for all tenants of a runtime, from
 * a query's first block until its answer was delivered, unless it is spilled meanwhile (spill.h); and inputs,
 * one pool a tenant.
 *
 * A pool has as many arenas as were taken at once within the last seconds, and none larger than was asked
 * for: instances with activations of their own would hold the most that every tenant ever had under way.  Who
 * asks gets the smallest arena that fits, of equals its own, then the one used last, whose lines the caches
 * may still hold. Where none fits, the smallest free one is replaced by one that does.  Arenas that nobody
 * wanted for IDLE_NS go back to the system, when somebody asks for one.
 *
 * Kernels write every byte before they read it, which MemorySanitizer and two fillings of the memory show
 * (tests/unit/codegen/used_memory.h).  Should one of them have a fault, no tenant finds what another has left
 * all the same: whoever gets an arena finds zeros or what it has left there itself. Threads: any.  The lock
 * is held for list work only, never while memory is allocated or freed. */
#ifndef MO_SERVE_ARENAS_H
#define MO_SERVE_ARENAS_H
#include "runtime/base/env.h"

struct mo_arenas;
struct mo_arena {
    struct mo_arena *next;
    char *at; /* 64-byte aligned; pages of its own from 64 KiB on, large ones from 2 MiB on */
    size_t bytes;
    uint64_t owner;     /* who took it last */
    size_t own;         /* so many bytes hold zeros or the owner's */
    int64_t idle_since; /* ns; while it is free */
};

/* NULL: out of memory.  `env` outlives the arenas. */
struct mo_arenas *mo_arenas_create(const struct mo_env *env);
/* All must have been given back.  NULL is fine. */
void mo_arenas_destroy(struct mo_arenas *arenas);

/* An arena of at least `bytes`, which hold zeros or what this owner has left there; NULL: out of memory.  An
 * owner is any number that no other has, also not later. */
struct mo_arena *mo_arenas_take(struct mo_arenas *arenas, size_t bytes, uint64_t owner);
void mo_arenas_give(struct mo_arenas *arenas, struct mo_arena *arena);

struct mo_arenas_state {
    int n, taken;
    size_t bytes;     /* of all; resident is what of them was touched */
    int64_t scrubbed; /* bytes that changed their owner, ever */
};
struct mo_arenas_state mo_arenas_state(struct mo_arenas *arenas);
#endif
