/* SPDX-License-Identifier: Apache-2.0
 * vec.h - the vector of the ISA level a file is compiled for. */
#ifndef MO_SIMD_VEC_H
#define MO_SIMD_VEC_H
#include <stdint.h>

#if defined(MO_ISA_IS_avx512)
enum { LANES = 16 };
#elif defined(MO_ISA_IS_avx2)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* The larger of every pair, or the NaN among them.  (As a loop over lanes gcc leaves this scalar.) */
static inline vec vec_most(vec a, vec b) {
    ivec mine = (a > b) | (a != a);
    return (vec)(((ivec)a & mine) | ((ivec)b & ~mine));
}
/* The same as a value: aligned, so that it may live in a register of an asm statement. */
typedef float vec_value __attribute__((vector_size(4 * LANES)));

/* a + w x, and x in every lane, as one instruction each that compilers cannot take apart: given expressions,
 * they hoist the broadcasts of a whole tile above its arithmetic and spill the accumulators. */
#if defined(MO_ISA_IS_avx512) || defined(MO_ISA_IS_avx2)
static inline __attribute__((always_inline)) vec_value vec_mac(vec_value a, vec_value w, vec_value x) {
    __asm__("vfmadd231ps %1, %2, %0" : "+v"(a) : "v"(w), "v"(x));
    return a;
}
static inline __attribute__((always_inline)) vec_value vec_broadcast(const float *p) {
    vec_value x;
    __asm__("vbroadcastss %1, %0" : "=v"(x) : "m"(*p));
    return x;
}
/* a > b ? a : b */
static inline __attribute__((always_inline)) vec_value vec_larger(vec_value a, vec_value b) {
    vec_value x;
    __asm__("vmaxps %2, %1, %0" : "=v"(x) : "v"(a), "v"(b));
    return x;
}
/* a < b ? a : b */
static inline __attribute__((always_inline)) vec_value vec_smaller(vec_value a, vec_value b) {
    vec_value x;
    __asm__("vminps %2, %1, %0" : "=v"(x) : "v"(a), "v"(b));
    return x;
}
#else
static inline vec_value vec_mac(vec_value a, vec_value w, vec_value x) {
    return a + w * x;
}
static inline vec_value vec_broadcast(const float *p) {
    return *p - (vec_value){0};
}
static inline vec_value vec_larger(vec_value a, vec_value b) {
    ivec mine = a > b;
    return (vec_value)(((ivec)a & mine) | ((ivec)b & ~mine));
}
static inline __attribute__((always_inline)) vec_value vec_smaller(vec_value a, vec_value b) {
    ivec mine = a < b;
    return (vec_value)(((ivec)a & mine) | ((ivec)b & ~mine));
}
#endif
#endif
