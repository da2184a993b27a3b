/* SPDX-License-Identifier: Apache-2.0
 * fused_bytes.c - programs of bytes: sums of two, factors by channel, functions of one by table. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

#if defined(MO_ISA_IS_avx512)
#include <immintrin.h>

static inline __m512 floats_at(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* 64 elements a time of uint8, made bytes by instructions that saturate; as many as are whole 64s. */
static int64_t sum_packed(const struct mo_sum_params *p, const uint8_t *a, const uint8_t *b, uint8_t *y,
                          int64_t n) {
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i zero = _mm512_set1_epi16((short)p->zero);
    const __m512i lo = _mm512_set1_epi8((char)((int)rintf(p->lo) + p->zero));
    const __m512i hi = _mm512_set1_epi8((char)((int)rintf(p->hi) + p->zero));
    const __m512 fa = _mm512_set1_ps(p->factor[0]), fb = _mm512_set1_ps(p->factor[1]),
                 add = _mm512_set1_ps(p->add);
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i whole[4];
        for (int k = 0; k < 4; k++) {
            const __m512 x = floats_at(a + i + k * 16), z = floats_at(b + i + k * 16);
            whole[k] = _mm512_cvtps_epi32(_mm512_fmadd_ps(x, fa, _mm512_fmadd_ps(z, fb, add)));
        }
        const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero);
        const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero);
        const __m512i all = _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(first, second), lo), hi);
        _mm512_storeu_si512(y + i, _mm512_permutexvar_epi32(order, all));
    }
    return i;
}
#else
static int64_t sum_packed(const struct mo_sum_params *p, const uint8_t *a, const uint8_t *b, uint8_t *y,
                          int64_t n) {
    (void)p, (void)a, (void)b, (void)y, (void)n;
    return 0;
}
#endif

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

/* Nearest whole number, ties to even, above the zero point, within uint8; NaN becomes 0.  Byte c of a word is
 * channel c of a pixel. */
static void add_channel(const struct mo_enter_params *p, const float *x, int c, uint32_t *restrict word,
                        int64_t n) {
    const float scale = p->scale, zero = p->zero;
    for (int64_t i = 0; i < n; i++) {
        float v = rintf(x[i] / scale) + zero;
        v = v > 0.0f ? v : 0.0f;
        v = v > 255.0f ? 255.0f : v;
        word[i] |= (uint32_t)(int32_t)v << 8 * c;
    }
}

void MO_SIMD(enter_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_enter_params *p = args->params;
    uint32_t *word = scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / p->units, at = unit % p->units * p->unit;
        const int64_t n = p->area - at < p->unit ? p->area - at : p->unit;
        const float *x = (const float *)((const char *)args->in[0] + image * args->in_image[0]) + at;
        char *y = (char *)args->out[0] + image * args->out_image[0] + at * 16;
        memset(word, 0, (size_t)n * sizeof *word);
        for (int c = 0; c < p->channels; c++)
            add_channel(p, x + c * p->area, c, word, n);
        for (int64_t i = 0; i < n; i++) {
            const uint32_t pixel[4] = {word[i]};
            memcpy(y + i * 16, pixel, 16);
        }
    }
}

void MO_SIMD(sum_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_sum_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t at = unit * p->unit, n = p->bytes - at < p->unit ? p->bytes - at : p->unit;
        const uint8_t *a = (const uint8_t *)args->in[0] + at, *b = (const uint8_t *)args->in[1] + at;
        uint8_t *y = (uint8_t *)args->out[0] + at;
        const int64_t done =
            p->is_signed[0] || p->is_signed[1] || p->to_signed ? 0 : sum_packed(p, a, b, y, n);
        if (!p->is_signed[0] && !p->is_signed[1])
            sum_row(p, false, false, a + done, b + done, y + done, n - done);
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
