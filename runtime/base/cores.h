/* SPDX-License-Identifier: Apache-2.0
 * cores.h - a let: a set of cores as a bit mask, numbered as the runtime numbers them (0..n-1).
 * Plain values, no allocation; every function is total for indices below MO_MAX_CORES.
 *
 * A set has room for the largest machine, and most machines are far smaller: which words have members is
 * kept, too, and words without any cost nothing. */
#ifndef MO_CORES_H
#define MO_CORES_H
#include <stdbool.h>
#include <stdint.h>

enum { MO_MAX_CORES = 1024, MO_CORES_WORDS = MO_MAX_CORES / 64 };

struct mo_cores {
    uint32_t used; /* bit i: w[i] is not 0 */
    uint64_t w[MO_CORES_WORDS];
};

static inline bool mo_cores_none(const struct mo_cores *s) {
    return s->used == 0;
}
/* The first word of a mask of words that is not empty. */
static inline int mo_cores_word(uint32_t used) {
    return __builtin_ctz(used);
}
/* Word i has changed. */
static inline void mo_cores_set_word(struct mo_cores *s, int i, uint64_t word) {
    s->w[i] = word;
    s->used = (s->used & ~(UINT32_C(1) << i)) | (uint32_t)(word != 0) << i;
}
static inline void mo_cores_add(struct mo_cores *s, int core) {
    s->w[core >> 6] |= UINT64_C(1) << (core & 63);
    s->used |= UINT32_C(1) << (core >> 6);
}
static inline void mo_cores_remove(struct mo_cores *s, int core) {
    mo_cores_set_word(s, core >> 6, s->w[core >> 6] & ~(UINT64_C(1) << (core & 63)));
}
static inline bool mo_cores_has(const struct mo_cores *s, int core) {
    return s->w[core >> 6] >> (core & 63) & 1;
}
/* The first n cores. */
static inline struct mo_cores mo_cores_first(int n) {
    struct mo_cores s = {0};
    for (int i = 0; i < n; i++)
        mo_cores_add(&s, i);
    return s;
}
/* Bits of a word; in parallel sums, for the baseline has no instruction and a call costs more. */
static inline int mo_bits(uint64_t v) {
    v -= v >> 1 & UINT64_C(0x5555555555555555);
    v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
    return (int)(((v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) * UINT64_C(0x0101010101010101) >> 56);
}
static inline int mo_cores_count(const struct mo_cores *s) {
    int n = 0;
    for (uint32_t used = s->used; used; used &= used - 1)
        n += mo_bits(s->w[mo_cores_word(used)]);
    return n;
}
/* Smallest member > after (after = -1 begins); -1 when there is none. */
static inline int mo_cores_next(const struct mo_cores *s, int after) {
    int first = (after + 1) >> 6, from = (after + 1) & 63;
    if (first >= MO_CORES_WORDS) return -1;
    uint64_t rest = s->w[first] >> from;
    if (rest) return after + 1 + __builtin_ctzll(rest);
    uint32_t behind = s->used & ~((UINT32_C(2) << first) - 1);
    if (!behind) return -1;
    int i = mo_cores_word(behind);
    return i * 64 + __builtin_ctzll(s->w[i]);
}
static inline bool mo_cores_subset(const struct mo_cores *part, const struct mo_cores *whole) {
    if (part->used & ~whole->used) return false;
    for (uint32_t used = part->used; used; used &= used - 1) {
        int i = mo_cores_word(used);
        if (part->w[i] & ~whole->w[i]) return false;
    }
    return true;
}
static inline bool mo_cores_meet(const struct mo_cores *a, const struct mo_cores *b) {
    for (uint32_t used = a->used & b->used; used; used &= used - 1) {
        int i = mo_cores_word(used);
        if (a->w[i] & b->w[i]) return true;
    }
    return false;
}
static inline void mo_cores_subtract(struct mo_cores *s, const struct mo_cores *gone) {
    for (uint32_t used = s->used & gone->used; used; used &= used - 1) {
        int i = mo_cores_word(used);
        mo_cores_set_word(s, i, s->w[i] & ~gone->w[i]);
    }
}
static inline void mo_cores_join(struct mo_cores *s, const struct mo_cores *more) {
    for (uint32_t used = more->used; used; used &= used - 1) {
        int i = mo_cores_word(used);
        s->w[i] |= more->w[i];
    }
    s->used |= more->used;
}
/* Moves n cores from *pool to the result, `prefer` (or -1) first when it is there; n <= count(pool). */
static inline struct mo_cores mo_cores_take(struct mo_cores *pool, int n, int prefer) {
    struct mo_cores got = {0};
    if (n > 0 && prefer >= 0 && mo_cores_has(pool, prefer)) {
        mo_cores_add(&got, prefer);
        mo_cores_remove(pool, prefer);
        n--;
    }
    for (uint32_t used = pool->used; used && n > 0; used &= used - 1) {
        int i = mo_cores_word(used), here = mo_bits(pool->w[i]);
        uint64_t rest = here > n ? pool->w[i] : 0;
        for (int k = 0; k < n && rest; k++)
            rest &= rest - 1;
        got.w[i] |= pool->w[i] & ~rest;
        got.used |= UINT32_C(1) << i;
        mo_cores_set_word(pool, i, rest);
        n -= here < n ? here : n;
    }
    return got;
}
#endif
