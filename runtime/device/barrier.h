/* SPDX-License-Identifier: Apache-2.0
 * barrier.h - barrier of workers that measure together: each worker raises its own flag, worker 0 gathers
 * them and opens the gate. Waiting spins for a bounded time, then sleeps on the futex; a wake-up costs a call
 * only when one sleeps. Every atomic is sequentially consistent where sleeping is decided; there are no bare
 * fences. */
#ifndef MO_BARRIER_H
#define MO_BARRIER_H
#include "runtime/base/env.h"

struct mo_barrier_flag {
    _Atomic uint32_t round;
    _Atomic uint32_t asleep;
    uint32_t mine; /* rounds this worker has passed; its own */
    char pad[52];
};

struct mo_barrier {
    const struct mo_env *env;
    int n, spin;
    _Atomic uint32_t gate; /* rounds that are complete; only grows */
    _Atomic uint32_t sleepers;
    struct mo_barrier_flag *flag; /* one entry, a cache line, for each possible member */
};

/* Once, before use, with zeroed flags.  spin: polls before a waiter sleeps. */
void mo_barrier_init(struct mo_barrier *b, const struct mo_env *env, struct mo_barrier_flag *flags, int spin);
/* Sets the number of members for the next rounds.  Nobody may be before or in mo_barrier_wait() but for
 * members of a finished round that have yet to see its gate open: nothing they read is touched. */
void mo_barrier_begin(struct mo_barrier *b, int n);
/* Returns when all n workers have called it. */
void mo_barrier_wait(void *barrier, int worker);
#endif
