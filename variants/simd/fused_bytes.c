/* SPDX-License-Identifier: Apache-2.0
 * fused_bytes.c - programs of bytes: sums of two, factors by channel, functions of one by table. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

/* Rounded to even, within the bounds, above the zero point; what the floats' bits count up from is `magic`.
 */
static inline __attribute__((always_inline)) void sum_row(const struct mo_sum_params *p, const bool a_signed,
                                                          const bool b_signed, const uint8_t *a,
                                                          const uint8_t *b, uint8_t *restrict y, int64_t n) {
    const float fa = p->factor[0], fb = p->factor[1], add = p->add, lo = p->lo, hi = p->hi;
    const int zero = p->zero;
    for (int64_t i = 0; i < n; i++) {
        const float x = a_signed ? (float)(int8_t)a[i] : (float)a[i];
        const float z = b_signed ? (float)(int8_t)b[i] : (float)b[i];
        float v = x * fa + (z * fb + add);
        v = v > lo ? v : lo;
        v = v > hi ? hi : v;
        y[i] = (uint8_t)((int32_t)rintf(v) + zero);
    }
}

void MO_SIMD(sum_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_sum_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t at = unit * p->unit, n = p->bytes - at < p->unit ? p->bytes - at : p->unit;
        const uint8_t *a = (const uint8_t *)args->in[0] + at, *b = (const uint8_t *)args->in[1] + at;
        uint8_t *y = (uint8_t *)args->out[0] + at;
        if (!p->is_signed[0] && !p->is_signed[1])
            sum_row(p, false, false, a, b, y, n);
        else if (p->is_signed[0] && p->is_signed[1])
            sum_row(p, true, true, a, b, y, n);
        else
            sum_row(p, p->is_signed[0], p->is_signed[1], a, b, y, n);
    }
}

static inline __attribute__((always_inline)) void scale_block(const struct mo_scale_params *p,
                                                              const bool is_signed, const uint8_t *x,
                                                              const float *by, uint8_t *restrict y) {
    const float lo = p->lo, hi = p->hi;
    const int from = p->from, zero = p->zero;
    float factor[16];
    memcpy(factor, by, sizeof factor);
    for (int64_t i = 0; i < p->area; i++) {
        uint8_t all[16];
        for (int l = 0; l < 16; l++) {
            const int32_t whole = (is_signed ? (int8_t)x[i * 16 + l] : x[i * 16 + l]) - from;
            float v = (float)whole * factor[l];
            v = v > lo ? v : lo; /* a NaN becomes the least */
            v = v > hi ? hi : v;
            all[l] = (uint8_t)((int32_t)rintf(v) + zero);
        }
        memcpy(y + i * 16, all, 16);
    }
}

void MO_SIMD(scale_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_scale_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const float *by = (const float *)args->in[1 - p->x] + unit * 16;
        const uint8_t *x = (const uint8_t *)args->in[p->x] + unit * p->area * 16;
        uint8_t *y = (uint8_t *)args->out[0] + unit * p->area * 16;
        float factor[16];
        for (int l = 0; l < 16; l++)
            factor[l] = by[l] * p->scale;
        if (p->is_signed)
            scale_block(p, true, x, factor, y);
        else
            scale_block(p, false, x, factor, y);
    }
}

#if defined(MO_ISA_IS_avx512)
#include <immintrin.h>

/* By permutations of bytes in registers, two of 128 each; needs AVX512_VBMI. */
__attribute__((target("avx512vbmi"))) static void look_up_fast(const uint8_t *table, const uint8_t *x,
                                                               uint8_t *y, int64_t n) {
    const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64),
                  c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
    for (int64_t i = 0; i < n; i += 64) {
        const __mmask64 some = n - i < 64 ? ~0ull >> (64 - (n - i)) : ~0ull;
        const __m512i at = _mm512_maskz_loadu_epi8(some, x + i);
        const __m512i low = _mm512_permutex2var_epi8(a, at, b), high = _mm512_permutex2var_epi8(c, at, d);
        _mm512_mask_storeu_epi8(y + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
    }
}
#else
static void look_up_fast(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] = table[x[i]];
}
#endif

void MO_SIMD(lookup)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_lookup_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t at = unit * p->unit, n = p->bytes - at < p->unit ? p->bytes - at : p->unit;
        const uint8_t *x = (const uint8_t *)args->in[0] + at;
        uint8_t *restrict y = (uint8_t *)args->out[0] + at;
        if (p->permutes)
            look_up_fast(p->table, x, y, n);
        else
            for (int64_t i = 0; i < n; i++)
                y[i] = p->table[x[i]];
    }
}
