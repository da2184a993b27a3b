/* SPDX-License-Identifier: Apache-2.0
 * requant.c - sums to outputs, and bytes to floats; see variants/requant.h. */
#include "variants/simd/math.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

typedef uint8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

static inline __attribute__((always_inline)) vec_value sum_of(const bool ints, const char *sums) {
    if (ints) return __builtin_convertvector(*(const ivec *)sums, vec_value);
    return *(const vec *)sums;
}

/* A NaN becomes `lo`. */
static inline __attribute__((always_inline)) vec_value bounded(vec_value x, vec_value lo, vec_value hi) {
    return vec_smaller(vec_larger(x, lo), hi);
}

/* Adding 1.5 x 2^23 leaves no room for a fraction: the sum is rounded to even, and its bits count up. */
static inline __attribute__((always_inline)) void store_bytes(char *y, vec_value x, int zero) {
    const float magic = 12582912.0f;
    const int32_t bits = 0x4b400000;
    *(bytes *)y = __builtin_convertvector((ivec)(x + magic) - (bits - zero), bytes);
}

static inline __attribute__((always_inline)) void convert(const struct mo_requant *q, const bool ints,
                                                          const char *sums, const float *factor,
                                                          const float *bias, int64_t pixels, char *y,
                                                          int64_t y_pixel) {
    const vec_value lo = q->lo - (vec_value){0}, hi = q->hi - (vec_value){0};
    for (int part = 0; part < 16; part += LANES) {
        const vec_value f = *(const vec *)(factor + part), b = *(const vec *)(bias + part);
        for (int64_t i = 0; i < pixels; i++) {
            const vec_value v = sum_of(ints, sums + i * 64 + part * 4) * f + b;
            store_bytes(y + i * y_pixel + part, bounded(v, lo, hi), q->zero);
        }
    }
}

/* The same with an activation between, or for floats. */
static inline __attribute__((always_inline)) void convert_slowly(const struct mo_requant *q, const bool ints,
                                                                 const char *sums, const float *factor,
                                                                 const float *bias, int64_t pixels, char *y,
                                                                 int64_t y_pixel) {
    const vec_value lo = q->lo - (vec_value){0}, hi = q->hi - (vec_value){0};
    for (int64_t i = 0; i < pixels; i++) {
        float row[16];
        for (int part = 0; part < 16; part += LANES)
            *(vec *)(row + part) = sum_of(ints, sums + i * 64 + part * 4) * *(const vec *)(factor + part) +
                                   *(const vec *)(bias + part);
        if (q->act != MO_ACT_NONE) activate_row(q->act, q->a, q->b, row, row, 16);
        for (int part = 0; part < 16; part += LANES) {
            const vec_value v = bounded(*(const vec *)(row + part) * q->steps, lo, hi);
            if (q->to == MOIRE_F32)
                *(vec *)(y + i * y_pixel + part * 4) = v;
            else
                store_bytes(y + i * y_pixel + part, v, q->zero);
        }
    }
}

void MO_SIMD(requantize)(const struct mo_requant *q, const void *sums, const float *factor, const float *bias,
                         int64_t pixels, char *y, int64_t y_pixel) {
    bool quick = q->act == MO_ACT_NONE && q->to != MOIRE_F32;
    if (quick && q->ints)
        convert(q, true, sums, factor, bias, pixels, y, y_pixel);
    else if (quick)
        convert(q, false, sums, factor, bias, pixels, y, y_pixel);
    else if (q->ints)
        convert_slowly(q, true, sums, factor, bias, pixels, y, y_pixel);
    else
        convert_slowly(q, false, sums, factor, bias, pixels, y, y_pixel);
}

void MO_SIMD(widen)(const uint8_t *from, int zero, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(from[i] - zero);
}
