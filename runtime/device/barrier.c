/* SPDX-License-Identifier: Apache-2.0
 * barrier.c - gather by flags, release by gate; two members exchange flags. */
#include "runtime/device/barrier.h"
#include "runtime/base/lock.h"

void mo_barrier_init(struct mo_barrier *b, const struct mo_env *env, struct mo_barrier_flag *flags,
                     int spin) {
    *b = (struct mo_barrier){.env = env, .n = 1, .spin = spin, .flag = flags};
}

void mo_barrier_begin(struct mo_barrier *b, int n) {
    uint32_t base = b->flag[0].mine;
    b->n = n;
    atomic_store(&b->gate, base);
    for (int i = 0; i < n; i++) {
        atomic_store(&b->flag[i].round, base);
        b->flag[i].mine = base;
    }
}

static bool reached(_Atomic uint32_t *word, uint32_t want) {
    return (int32_t)(atomic_load(word) - want) >= 0;
}

/* Waits until *word has reached `want`; `asleep` counts who may need a wake-up call. */
static void await(const struct mo_barrier *b, _Atomic uint32_t *word, _Atomic uint32_t *asleep,
                  uint32_t want) {
    for (int i = 0; i < b->spin; i++) {
        if (reached(word, want)) return;
        mo_cpu_relax();
    }
    const struct mo_sys *sys = b->env->sys;
    for (;;) {
        atomic_fetch_add(asleep, 1);
        uint32_t now = atomic_load(word);
        if ((int32_t)(now - want) < 0) sys->futex_wait(sys->self, word, now, 0);
        atomic_fetch_sub(asleep, 1);
        if (reached(word, want)) return;
    }
}

static void announce(const struct mo_barrier *b, _Atomic uint32_t *word, _Atomic uint32_t *asleep,
                     uint32_t value) {
    atomic_store(word, value);
    if (atomic_load(asleep)) b->env->sys->futex_wake(b->env->sys->self, word, INT32_MAX);
}

void mo_barrier_wait(void *barrier, int worker) {
    struct mo_barrier *b = barrier;
    struct mo_barrier_flag *own = &b->flag[worker];
    uint32_t round = ++own->mine;
    if (b->n == 2) { /* each looks at the other's flag: one trip between the cores instead of two */
        struct mo_barrier_flag *other = &b->flag[!worker];
        announce(b, &own->round, &own->asleep, round);
        await(b, &other->round, &other->asleep, round);
        return;
    }
    if (worker) {
        announce(b, &own->round, &own->asleep, round);
        await(b, &b->gate, &b->sleepers, round);
        return;
    }
    for (int i = 1; i < b->n; i++)
        await(b, &b->flag[i].round, &b->flag[i].asleep, round);
    announce(b, &b->gate, &b->sleepers, round);
}
