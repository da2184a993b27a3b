/* SPDX-License-Identifier: Apache-2.0
 * requant.c - sums to outputs, and bytes to floats; see variants/requant.h. */
#include "variants/simd/math.h"
#include "variants/simd/pack_bytes.h"
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

#if defined(MO_ISA_IS_avx512) || defined(MO_ISA_IS_avx2)
/* Vectors of a pixel, and pixels of four vectors. */
enum { PARTS = 16 / LANES, PIXELS = 4 / PARTS };

/* Four vectors a time: pixels by pixels of all their channels. */
static inline __attribute__((always_inline)) void pack_pixels(const struct mo_requant *q,
                                                              const bool is_signed, const char *sums,
                                                              const float *factor, const float *bias,
                                                              int64_t pixels, char *y, int64_t y_pixel) {
    const whole_vec zero = all_shorts(q->zero);
    const whole_vec lo = all_bytes((int)rintf(q->lo) + q->zero), hi = all_bytes((int)rintf(q->hi) + q->zero);
    float_vec f[PARTS], b[PARTS];
    for (int part = 0; part < PARTS; part++)
        f[part] = floats_of(factor + part * LANES), b[part] = floats_of(bias + part * LANES);
    for (int64_t i = 0; i < pixels; i += PIXELS) {
        const int64_t n = pixels - i < PIXELS ? pixels - i : PIXELS;
        whole_vec sum[4];
        for (int k = 0; k < 4; k++) {
            const char *at = sums + (k / PARTS < n ? i + k / PARTS : i) * 64 + k % PARTS * LANES * 4;
            const float_vec s = q->ints ? floats_of_ints(at) : floats_of((const float *)at);
            sum[k] = rounded(multiply_add(s, f[k % PARTS], b[k % PARTS]));
        }
        const whole_vec first = packed_shorts(sum[0], sum[1], zero),
                        second = packed_shorts(sum[2], sum[3], zero);
        const whole_vec all = packed_bytes(first, second, lo, hi, is_signed);
        if (y_pixel == 16 && n == PIXELS) {
            store_whole(y + i * 16, all);
            continue;
        }
        char each[sizeof all];
        store_whole(each, all);
        for (int64_t k = 0; k < n; k++)
            memcpy(y + (i + k) * y_pixel, each + k * 16, 16);
    }
}

static void convert_packed(const struct mo_requant *q, const void *sums, const float *factor,
                           const float *bias, int64_t pixels, char *y, int64_t y_pixel) {
    if (q->to == MOIRE_I8)
        pack_pixels(q, true, sums, factor, bias, pixels, y, y_pixel);
    else
        pack_pixels(q, false, sums, factor, bias, pixels, y, y_pixel);
}
#else
static void convert_packed(const struct mo_requant *q, const void *sums, const float *factor,
                           const float *bias, int64_t pixels, char *y, int64_t y_pixel) {
    if (q->ints)
        convert(q, true, sums, factor, bias, pixels, y, y_pixel);
    else
        convert(q, false, sums, factor, bias, pixels, y, y_pixel);
}
#endif

/* To floats. */
static void convert_floats(const struct mo_requant *q, const char *sums, const float *factor,
                           const float *bias, int64_t pixels, char *y, int64_t y_pixel) {
    const vec_value lo = q->lo - (vec_value){0}, hi = q->hi - (vec_value){0};
    for (int part = 0; part < 16; part += LANES) {
        const vec_value f = *(const vec *)(factor + part), b = *(const vec *)(bias + part);
        for (int64_t i = 0; i < pixels; i++) {
            const vec_value v = sum_of(true, sums + i * 64 + part * 4) * f + b;
            *(vec *)(y + i * y_pixel + part * 4) = bounded(v, lo, hi);
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
    if (q->packs)
        convert_packed(q, sums, factor, bias, pixels, y, y_pixel);
    else if (quick && q->ints)
        convert(q, true, sums, factor, bias, pixels, y, y_pixel);
    else if (quick)
        convert(q, false, sums, factor, bias, pixels, y, y_pixel);
    else if (q->ints && q->act == MO_ACT_NONE && q->steps == 1)
        convert_floats(q, sums, factor, bias, pixels, y, y_pixel);
    else if (q->ints)
        convert_slowly(q, true, sums, factor, bias, pixels, y, y_pixel);
    else
        convert_slowly(q, false, sums, factor, bias, pixels, y, y_pixel);
}

void MO_SIMD(widen)(const uint8_t *from, int zero, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(from[i] - zero);
}

/* Rows are short: a call of the library's memcpy() each would take longer than the copy.  The barriers keep
 * compilers from making one of the loops. */
void MO_SIMD(copy_pixels)(char *to, const char *from, int64_t before, int64_t n, int64_t after, int fill) {
    char filled[16];
    memset(filled, fill, sizeof filled);
    for (; before > 0; before--, to += 16) {
        memcpy(to, filled, 16);
        __asm__ volatile("" : : : "memory");
    }
    for (; n >= 4; n -= 4, to += 64, from += 64) {
        memcpy(to, from, 64);
        __asm__ volatile("" : : : "memory");
    }
    for (; n > 0; n--, to += 16, from += 16) {
        memcpy(to, from, 16);
        __asm__ volatile("" : : : "memory");
    }
    for (; after > 0; after--, to += 16) {
        memcpy(to, filled, 16);
        __asm__ volatile("" : : : "memory");
    }
}
