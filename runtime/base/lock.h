/* SPDX-License-Identifier: Apache-2.0
 * lock.h - a small mutex over the sys table's futex.  0 free, 1 held, 2 held and somebody sleeps. */
#ifndef MO_LOCK_H
#define MO_LOCK_H
#include <stdbool.h>
#include "runtime/base/sys.h"

struct mo_lock {
    _Atomic uint32_t word;
};

static inline void mo_cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static inline bool mo_lock_try(struct mo_lock *lock) {
    uint32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void mo_lock_take(const struct mo_sys *sys, struct mo_lock *lock) {
    for (int i = 0; i < 100; i++) {
        if (mo_lock_try(lock)) return;
        mo_cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire))
        sys->futex_wait(sys->self, &lock->word, 2, 0);
}

static inline void mo_lock_drop(const struct mo_sys *sys, struct mo_lock *lock) {
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
        sys->futex_wake(sys->self, &lock->word, 1);
}
#endif
