/* SPDX-License-Identifier: Apache-2.0
 * vec_math.h - the functions of gates over one vector: those of math.h, with multiply-adds, and with a fast
 * reciprocal where the instruction set has one.  Errors are a few 1e-7, relative near 0.  NaN stays NaN. */
#ifndef MO_SIMD_VEC_MATH_H
#define MO_SIMD_VEC_MATH_H
#include "variants/simd/vec.h"
#if defined(MO_ISA_IS_avx512)
#include <immintrin.h>
#endif

static inline vec_value vec_of(float x) {
    return x - (vec_value){0};
}

/* As fast_exp(): stops at the last normal values. */
static inline vec_value vec_exp(vec_value x) {
    const vec_value magic = vec_of(12582912.0f);
    x = vec_larger(vec_of(-87.33f),
                   vec_smaller(vec_of(88.37f), x)); /* the second operand is what a NaN leaves */
    const vec_value shifted = vec_mac(magic, vec_of(1.44269504088896341f), x), n = shifted - magic;
    const vec_value r = vec_mac(vec_mac(x, vec_of(-0.693359375f), n), vec_of(2.12194440e-4f), n);
    vec_value p = vec_mac(vec_of(1.3981999507e-3f), vec_of(1.9875691500e-4f), r);
    p = vec_mac(vec_of(8.3334519073e-3f), p, r);
    p = vec_mac(vec_of(4.1665795894e-2f), p, r);
    p = vec_mac(vec_of(1.6666665459e-1f), p, r);
    p = vec_mac(vec_of(5.0000001201e-1f), p, r);
    p = vec_mac(r + 1.0f, p, r * r);
    const ivec exponent = ((ivec)shifted - (ivec)magic + 127) << 23;
    return p * (vec_value)exponent;
}

/* e^x of x <= 0, in fewer steps: stops at 2^-125. */
static inline vec_value vec_exp_negative(vec_value x) {
    const vec_value magic = vec_of(12582912.0f);
    x = vec_larger(vec_of(-86.64f), x); /* the second operand is what a NaN leaves */
    const vec_value t = x * 1.44269504088896341f, shifted = t + magic, r = t - (shifted - magic);
    vec_value p = vec_mac(vec_of(9.675541334e-3f), vec_of(1.327647198e-3f), r); /* 2^r within 8e-8 */
    p = vec_mac(vec_of(5.550713274e-2f), p, r);
    p = vec_mac(vec_of(2.402211972e-1f), p, r);
    p = vec_mac(vec_of(6.931469671e-1f), p, r);
    p = vec_mac(vec_of(1.000000072f), p, r);
    return (vec_value)((ivec)p + ((ivec)shifted << 23));
}

/* 1 / x of normal numbers from 1 on. */
static inline vec_value vec_reciprocal(vec_value x) {
#if defined(MO_ISA_IS_avx512)
    const vec_value near = (vec_value)_mm512_rcp14_ps((__m512)x);
    return vec_mac(near, near, vec_mac(vec_of(1.0f), x, -near));
#else
    return 1.0f / x;
#endif
}

static inline vec_value vec_sigmoid(vec_value x) {
    return vec_reciprocal(1.0f + vec_exp(-x));
}

/* 1 - 2 / (1 + e^2x), and a series where that cancels. */
static inline vec_value vec_tanh(vec_value x) {
    const vec_value t = vec_mac(vec_of(1.0f), vec_of(-2.0f), vec_reciprocal(1.0f + vec_exp(x + x)));
    const vec_value x2 = x * x, series = vec_mac(vec_of(-1.0f / 3.0f), vec_of(2.0f / 15.0f), x2);
    const ivec small = x2 < 0.0016f;
    return (vec_value)(((ivec)vec_mac(x, x * x2, series) & small) | ((ivec)t & ~small));
}
#endif
