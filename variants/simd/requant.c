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

#if defined(MO_ISA_IS_avx512)
#include <immintrin.h>

/* The first and last byte that lie within the bounds. */
static __m512i bound(const struct mo_requant *q, float edge) {
    return _mm512_set1_epi8((char)((int)rintf(edge) + q->zero));
}

/* Four pixels a time: two packing instructions saturate to the type, so that what is left of the bounds costs
 * an instruction each for all four.  Only instructions that the level has for both signs of bytes. */
static inline __attribute__((always_inline)) void pack_pixels(const struct mo_requant *q,
                                                              const bool is_signed, const char *sums,
                                                              const float *factor, const float *bias,
                                                              int64_t pixels, char *y, int64_t y_pixel) {
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i zero = _mm512_set1_epi16((short)q->zero), lo = bound(q, q->lo), hi = bound(q, q->hi);
    const __m512 f = _mm512_loadu_ps(factor), b = _mm512_loadu_ps(bias);
    for (int64_t i = 0; i < pixels; i += 4) {
        const int n = pixels - i < 4 ? (int)(pixels - i) : 4;
        __m512i whole[4];
        for (int k = 0; k < 4; k++) {
            const int64_t at = k < n ? i + k : i;
            const __m512 s = q->ints ? _mm512_cvtepi32_ps(_mm512_loadu_si512(sums + at * 64))
                                     : _mm512_loadu_ps(sums + at * 64);
            whole[k] = _mm512_cvtps_epi32(_mm512_fmadd_ps(s, f, b));
        }
        const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero);
        const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero);
        __m512i all = is_signed ? _mm512_packs_epi16(first, second) : _mm512_packus_epi16(first, second);
        all = is_signed ? _mm512_min_epi8(_mm512_max_epi8(all, lo), hi)
                        : _mm512_min_epu8(_mm512_max_epu8(all, lo), hi);
        all = _mm512_permutexvar_epi32(order, all);
        if (y_pixel == 16 && n == 4) {
            _mm512_storeu_si512(y + i * 16, all);
            continue;
        }
        _mm_storeu_si128((__m128i *)(y + i * y_pixel), _mm512_castsi512_si128(all));
        if (n > 1) _mm_storeu_si128((__m128i *)(y + (i + 1) * y_pixel), _mm512_extracti32x4_epi32(all, 1));
        if (n > 2) _mm_storeu_si128((__m128i *)(y + (i + 2) * y_pixel), _mm512_extracti32x4_epi32(all, 2));
        if (n > 3) _mm_storeu_si128((__m128i *)(y + (i + 3) * y_pixel), _mm512_extracti32x4_epi32(all, 3));
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
