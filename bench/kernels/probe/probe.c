/* SPDX-License-Identifier: Apache-2.0
 * probe.c - multiply-add tiles, reads and copies at one ISA level; see probe.h.
 *
 * The multiply-add and the broadcast are asm templates where the level has them, so that every compiler runs
 * exactly the tile that is asked for: with plain expressions a broadcast that is used twice may be folded
 * into both uses, and the two forms would measure the same. */
#include "bench/kernels/probe/probe.h"
#include "variants/simd/vec.h"

enum { PAIRED = LANES == 16 ? 14 : 6, FOLDED = 2 * PAIRED, BLOCK = 16 };

static inline vec load(const float *p) {
    return *(const vec *)p;
}

#if defined(MO_ISA_IS_avx512) || defined(MO_ISA_IS_avx2)
static inline vec mac(vec a, vec w, vec x) {
    __asm__("vfmadd231ps %1, %2, %0" : "+v"(a) : "v"(w), "v"(x));
    return a;
}
static inline vec broadcast(const float *p) {
    vec x;
    __asm__("vbroadcastss %1, %0" : "=v"(x) : "m"(*p));
    return x;
}
#else
static inline vec mac(vec a, vec w, vec x) {
    return a + w * x;
}
static inline vec broadcast(const float *p) {
    return (vec){p[0], p[0], p[0], p[0]};
}
#endif

/* Only AVX-512 has a multiply-add with a broadcast memory operand. */
#if defined(MO_ISA_IS_avx512)
static inline vec mac_folded(vec a, vec w, const float *p) {
    __asm__("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(a) : "m"(*p), "v"(w));
    return a;
}
#else
static inline vec mac_folded(vec a, vec w, const float *p) {
    return mac(a, w, broadcast(p));
}
#endif

/* Unrolled as well: an array that is indexed at run time would live in memory, not in registers. */
static inline __attribute__((always_inline)) float sum(const vec *v, const int n) {
    vec all = v[0];
    float total = 0;
#pragma GCC unroll 28
    for (int i = 1; i < n; i++)
        all += v[i];
    for (int i = 0; i < LANES; i++)
        total += all[i];
    return total;
}

static float paired(const float *w, const float *x, int64_t rounds) {
    vec a[PAIRED] = {0}, b[PAIRED] = {0};
    for (int64_t r = 0; r < rounds; r++) {
        const float *wp = w, *xp = x;
        for (int block = 0; block < MO_PROBE_DEPTH / BLOCK; block++, xp += (PAIRED - 1) * BLOCK) {
            for (int i = 0; i < BLOCK; i++, xp++, wp += 2 * LANES) {
                const vec w0 = load(wp), w1 = load(wp + LANES);
#pragma GCC unroll 14
                for (int t = 0; t < PAIRED; t++) {
                    const vec p = broadcast(xp + (size_t)t * BLOCK);
                    a[t] = mac(a[t], w0, p);
                    b[t] = mac(b[t], w1, p);
                }
            }
        }
    }
    return sum(a, PAIRED) + sum(b, PAIRED);
}

static float folded(const float *w, const float *x, int64_t rounds) {
    vec a[FOLDED] = {0};
    for (int64_t r = 0; r < rounds; r++) {
        const float *wp = w, *xp = x;
        for (int block = 0; block < MO_PROBE_DEPTH / BLOCK; block++, xp += (FOLDED - 1) * BLOCK) {
            for (int i = 0; i < BLOCK; i++, xp++, wp += LANES) {
                const vec w0 = load(wp);
#pragma GCC unroll 28
                for (int t = 0; t < FOLDED; t++)
                    a[t] = mac_folded(a[t], w0, xp + (size_t)t * BLOCK);
            }
        }
    }
    return sum(a, FOLDED);
}

enum { STREAM = 8 }; /* vectors of a step: independent sums */

static float read_all(const float *from, int64_t n) {
    vec s[STREAM] = {0};
    for (int64_t i = 0; i + STREAM * LANES <= n; i += STREAM * LANES) {
#pragma GCC unroll 8
        for (int k = 0; k < STREAM; k++)
            s[k] += load(from + i + (ptrdiff_t)k * LANES);
    }
    return sum(s, STREAM);
}

static void copy_all(float *to, const float *from, int64_t n) {
    for (int64_t i = 0; i + STREAM * LANES <= n; i += STREAM * LANES) {
#pragma GCC unroll 8
        for (int k = 0; k < STREAM; k++)
            *(vec *)(to + i + (ptrdiff_t)k * LANES) = load(from + i + (ptrdiff_t)k * LANES);
    }
}

#define PASTE(level)      mo_probe_##level
#define NAME(level)       PASTE(level)
#define MO_PROBE_OF_LEVEL NAME(MO_ISA_LEVEL)
extern const struct mo_probe MO_PROBE_OF_LEVEL;
const struct mo_probe MO_PROBE_OF_LEVEL = {
    .lanes = LANES, .pixels = {PAIRED, FOLDED}, .tile = {paired, folded}, .read = read_all, .copy = copy_all};
