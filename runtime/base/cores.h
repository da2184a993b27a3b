/* SPDX-License-Identifier: Apache-2.0
 * cores.h - a let: a set of cores as a bit mask, numbered as the runtime numbers them (0..n-1).
 * Plain values, no allocation; every function is total for indices below MO_MAX_CORES. */
#ifndef MO_CORES_H
#define MO_CORES_H
#include <stdbool.h>
#include <stdint.h>

enum { MO_MAX_CORES = 1024, MO_CORES_WORDS = MO_MAX_CORES / 64 };

struct mo_cores {
    uint64_t w[MO_CORES_WORDS];
};

static inline void mo_cores_add(struct mo_cores *s, int core) {
    s->w[core >> 6] |= UINT64_C(1) << (core & 63);
}
static inline void mo_cores_remove(struct mo_cores *s, int core) {
    s->w[core >> 6] &= ~(UINT64_C(1) << (core & 63));
}
static inline bool mo_cores_has(const struct mo_cores *s, int core) {
    return s->w[core >> 6] >> (core & 63) & 1;
}
/* The first n cores. */
static inline struct mo_cores mo_cores_first(int n) {
    struct mo_cores s = {{0}};
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
    for (int i = 0; i < MO_CORES_WORDS; i++)
        if (s->w[i]) n += mo_bits(s->w[i]);
    return n;
}
/* Smallest member > after (after = -1 begins); -1 when there is none. */
static inline int mo_cores_next(const struct mo_cores *s, int after) {
    for (int i = (after + 1) >> 6, from = (after + 1) & 63; i < MO_CORES_WORDS; i++, from = 0) {
        uint64_t rest = s->w[i] >> from;
        if (rest) return i * 64 + from + __builtin_ctzll(rest);
    }
    return -1;
}
static inline bool mo_cores_subset(const struct mo_cores *part, const struct mo_cores *whole) {
    uint64_t beyond = 0;
    for (int i = 0; i < MO_CORES_WORDS; i++)
        beyond |= part->w[i] & ~whole->w[i];
    return beyond == 0;
}
static inline bool mo_cores_meet(const struct mo_cores *a, const struct mo_cores *b) {
    uint64_t common = 0;
    for (int i = 0; i < MO_CORES_WORDS; i++)
        common |= a->w[i] & b->w[i];
    return common != 0;
}
static inline void mo_cores_subtract(struct mo_cores *s, const struct mo_cores *gone) {
    for (int i = 0; i < MO_CORES_WORDS; i++)
        s->w[i] &= ~gone->w[i];
}
static inline void mo_cores_join(struct mo_cores *s, const struct mo_cores *more) {
    for (int i = 0; i < MO_CORES_WORDS; i++)
        s->w[i] |= more->w[i];
}
/* Moves n cores from *pool to the result, `prefer` (or -1) first when it is there; n <= count(pool). */
static inline struct mo_cores mo_cores_take(struct mo_cores *pool, int n, int prefer) {
    struct mo_cores got = {{0}};
    if (n > 0 && prefer >= 0 && mo_cores_has(pool, prefer)) {
        mo_cores_add(&got, prefer);
        mo_cores_remove(pool, prefer);
        n--;
    }
    for (int i = 0; i < MO_CORES_WORDS && n > 0; i++) {
        uint64_t rest = pool->w[i];
        int here = rest ? mo_bits(rest) : 0;
        if (here > n)
            for (int k = 0; k < n; k++)
                rest &= rest - 1;
        else
            rest = 0;
        got.w[i] |= pool->w[i] & ~rest;
        n -= here < n ? here : n;
    }
    mo_cores_subtract(pool, &got);
    return got;
}
#endif
