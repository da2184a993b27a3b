/* SPDX-License-Identifier: Apache-2.0
 * math.h - elementary functions as branch-free arithmetic, so that loops over them become vector code.
 * Errors are a few 1e-7, relative for exp and absolute for the bounded ones.  NaN stays NaN. */
#ifndef MO_SIMD_MATH_H
#define MO_SIMD_MATH_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "variants/kernel.h"

static inline float bits_to_float(int32_t i) {
    float f;
    memcpy(&f, &i, sizeof f);
    return f;
}

static inline int32_t float_to_bits(float f) {
    int32_t i;
    memcpy(&i, &f, sizeof i);
    return i;
}

static inline float least(float a, float b) {
    return a < b ? a : b;
}

static inline float most(float a, float b) {
    return a > b ? a : b;
}

/* Min and Max of ONNX: a NaN on either side is the result. */
static inline float nan_least(float a, float b) {
    float smaller = a < b ? a : b;
    return a != a ? a : smaller;
}

static inline float nan_most(float a, float b) {
    float larger = a > b ? a : b;
    return a != a ? a : larger;
}

/* Divides many numbers by one, for quotients that are rounded to whole numbers within +-512 or clipped there:
 * by a product with the inverse, whose error a multiply-add takes back (Markstein, 1990).  A vector of
 * divisions takes as long as 16 to 24 other instructions. */
struct divisor {
    float by, inverse, most;
    bool multiplies; /* no step of it can overflow or vanish, and there are exact multiply-adds */
};

static inline struct divisor divisor_of(float by) {
    struct divisor d = {.by = by, .inverse = 1.0f / by, .most = by * 1024.0f};
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    d.multiplies = by >= 0x1p-90f && by <= 0x1p100f;
#endif
    return d;
}

static inline __attribute__((always_inline)) float quotient(float x, struct divisor d) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    if (d.multiplies) {
        x = x > d.most ? d.most : x;
        x = x < -d.most ? -d.most : x;
        const float near = x * d.inverse;
        return __builtin_fmaf(__builtin_fmaf(-near, d.by, x), d.inverse, near);
    }
#endif
    return x / d.by;
}

/* e^x: x = n ln 2 + r, a polynomial in r, and n put into the exponent.  Adding 1.5 * 2^23 rounds to an
 * integer that then sits in the low bits, which avoids a float to int conversion. */
static inline float fast_exp(float x) {
    const float magic = 12582912.0f;
    x = x > 88.37f ? 88.37f : x;
    x = x < -87.33f ? -87.33f : x;
    float shifted = x * 1.44269504088896341f + magic;
    float n = shifted - magic;
    float r = x - n * 0.693359375f - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t exponent = (int32_t)((uint32_t)(float_to_bits(shifted) - float_to_bits(magic) + 127) << 23);
    return p * bits_to_float(exponent);
}

/* The same over the whole range: overflows to infinity and underflows to 0, where fast_exp() stops at its
 * last normal values. */
static inline float full_exp(float x) {
    float root = fast_exp(0.5f * x);
    return root * root;
}

/* ln x: x = 2^n m with m in [sqrt 1/2, sqrt 2), and a polynomial in m - 1 (Cephes logf).  0 gives -inf,
 * negative numbers NaN; denormals are scaled up first. */
static inline float fast_log(float x) {
    bool tiny = x < 1.17549435e-38f;
    float y = tiny ? x * 8388608.0f : x;
    int32_t bits = float_to_bits(y), exponent = (int32_t)((uint32_t)bits - 0x3f3504f3u) >> 23;
    float m = bits_to_float((int32_t)((uint32_t)bits - ((uint32_t)exponent << 23))) - 1.0f, m2 = m * m;
    float n = (float)exponent - (tiny ? 23.0f : 0.0f);
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float result = m + (m2 * (p * m - 0.5f) + n * -2.12194440e-4f) + n * 0.693359375f;
    result = x < INFINITY ? result : x; /* infinity and NaN */
    result = x > 0.0f ? result : x == 0.0f ? -INFINITY : x < 0.0f ? NAN : x;
    return result;
}

static inline float fast_sigmoid(float x) {
    return 1.0f / (1.0f + fast_exp(-x));
}

static inline float fast_tanh(float x) {
    float ax = fabsf(x), e = fast_exp(-2.0f * ax), t = (1.0f - e) / (1.0f + e);
    float x2 = x * x, series = ax * (1.0f + x2 * (-1.0f / 3.0f + x2 * (2.0f / 15.0f)));
    return copysignf(ax < 0.04f ? series : t, x);
}

/* Abramowitz and Stegun 7.1.26, error at most 1.5e-7. */
static inline float fast_erf(float x) {
    float ax = fabsf(x), t = 1.0f / (1.0f + 0.3275911f * ax);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return copysignf(1.0f - p * t * fast_exp(-ax * ax), x);
}

static inline float fast_gelu(float x) {
    return 0.5f * x * (1.0f + fast_erf(x * 0.70710678118654752f));
}

/* (1 + tanh u) / 2 is the sigmoid of 2 u. */
static inline float fast_gelu_tanh(float x) {
    return x * fast_sigmoid(1.5957691216f * x * (1.0f + 0.044715f * x * x));
}

/* y = act(x) over n contiguous elements; y may be x.  The switch stands outside the loops. */
static inline void activate_row(enum mo_act act, float a, float b, const float *x, float *y, int64_t n) {
    switch (act) {
    case MO_ACT_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] < 0.0f ? 0.0f : x[i];
        return;
    case MO_ACT_CLIP:
        for (int64_t i = 0; i < n; i++) {
            float low = x[i] < a ? a : x[i];
            y[i] = low > b ? b : low;
        }
        return;
    case MO_ACT_LEAKY:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] < 0.0f ? a * x[i] : x[i];
        return;
    case MO_ACT_SIGMOID:
        for (int64_t i = 0; i < n; i++)
            y[i] = fast_sigmoid(x[i]);
        return;
    case MO_ACT_SILU:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * fast_sigmoid(x[i]);
        return;
    case MO_ACT_HSIGMOID:
        for (int64_t i = 0; i < n; i++) {
            float v = a * x[i] + b, low = v < 0.0f ? 0.0f : v;
            y[i] = low > 1.0f ? 1.0f : low;
        }
        return;
    case MO_ACT_HSWISH:
        for (int64_t i = 0; i < n; i++) {
            float v = a * x[i] + b, low = v < 0.0f ? 0.0f : v;
            y[i] = x[i] * (low > 1.0f ? 1.0f : low);
        }
        return;
    case MO_ACT_TANH:
        for (int64_t i = 0; i < n; i++)
            y[i] = fast_tanh(x[i]);
        return;
    case MO_ACT_GELU_TANH:
        for (int64_t i = 0; i < n; i++)
            y[i] = fast_gelu_tanh(x[i]);
        return;
    case MO_ACT_GELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = fast_gelu(x[i]);
        return;
    default:
        if (y != x && n > 0) memmove(y, x, (size_t)n * sizeof *y);
    }
}

/* The epilogue of one row: y = act(y + residual), or act(y) + residual; residual NULL = none. */
static inline void finish_row(const struct mo_fuse *fuse, const float *residual, float *y, int64_t n) {
    if (residual && !fuse->residual_last)
        for (int64_t i = 0; i < n; i++)
            y[i] += residual[i];
    if (fuse->act != MO_ACT_NONE) activate_row(fuse->act, fuse->a, fuse->b, y, y, n);
    if (residual && fuse->residual_last)
        for (int64_t i = 0; i < n; i++)
            y[i] += residual[i];
}
#endif
