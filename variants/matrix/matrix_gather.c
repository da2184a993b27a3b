/* SPDX-License-Identifier: Apache-2.0
 * matrix_gather.c - copies of the input for matrix units, and outputs of bytes and bfloat16, by AVX-512 with
 * its conversions to bfloat16; see matrix.h.  Compiled with these; called only where there is a unit. */
#include "variants/matrix/matrix_gather.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <string.h>

static inline __m128i block_of(const char *p) {
    return _mm_loadu_si128((const __m128i *)p);
}

/* Four blocks that lie apart, in one vector. */
static inline __m512i four_blocks(const char *p, int64_t plane) {
    __m512i all = _mm512_castsi128_si512(block_of(p));
    all = _mm512_inserti32x4(all, block_of(p + plane), 1);
    all = _mm512_inserti32x4(all, block_of(p + 2 * plane), 2);
    return _mm512_inserti32x4(all, block_of(p + 3 * plane), 3);
}

void mo_matrix_gather_bytes(const struct mo_gather *g) {
    const char *from = g->from;
    char *to = g->to;
    if (g->planes == 4 && g->plane == 16) {
        for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += 64)
            _mm512_storeu_si512(to, _mm512_loadu_si512(from));
        return;
    }
    if (g->planes == 4) {
        for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += 64)
            _mm512_storeu_si512(to, four_blocks(from, g->plane));
        return;
    }
    for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += g->width) {
        for (int k = 0; k < g->width / 16; k++) {
            __m128i x = k < g->planes ? block_of(from + k * g->plane) : _mm_setzero_si128();
            _mm_storeu_si128((__m128i *)(to + k * 16), x);
        }
    }
}

static inline void store_halves(char *to, __m512 low, __m512 high) {
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Two whole blocks. */
static inline __attribute__((always_inline)) void gather_two(const struct mo_gather *g, const bool gated) {
    const char *from = g->from;
    char *to = g->to;
    const __m512 f0 = gated ? _mm512_loadu_ps(g->gate) : _mm512_setzero_ps();
    const __m512 f1 = gated ? _mm512_loadu_ps(g->gate + 16) : _mm512_setzero_ps();
    for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += 64) {
        const __m512 x0 = _mm512_loadu_ps(from), x1 = _mm512_loadu_ps(from + g->plane);
        store_halves(to, gated ? _mm512_mul_ps(x0, f0) : x0, gated ? _mm512_mul_ps(x1, f1) : x1);
    }
}

void mo_matrix_gather_halves(const struct mo_gather *g) {
    const __mmask16 last = (__mmask16)((1u << g->lanes) - 1);
    const char *from = g->from;
    char *to = g->to;
    if (g->planes == 2 && g->lanes == 16) {
        if (g->gate)
            gather_two(g, true);
        else
            gather_two(g, false);
        return;
    }
    for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += g->width)
        for (int k = 0; k < g->width / 32; k++) {
            const __mmask16 there = k + 1 < g->planes ? 0xffff : k < g->planes ? last : 0;
            __m512 x = _mm512_maskz_loadu_ps(there, from + k * g->plane);
            if (g->gate) x = _mm512_mul_ps(x, _mm512_maskz_loadu_ps(there, g->gate + k * 16));
            _mm256_storeu_si256((__m256i *)(to + k * 32), (__m256i)_mm512_cvtneps_pbh(x));
        }
}

static inline __m512 widened(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* What a term leaves; nothing of an infinity, or where the term is one. */
static inline __m512 left_of(__m512 x, __m256i term) {
    const __m512 left = _mm512_sub_ps(x, widened(term));
    const __m512 size = _mm512_abs_ps(left), bound = _mm512_set1_ps(INFINITY);
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(size, bound, _CMP_LT_OQ), left);
}

/* See mo_bfloat16_terms(). */
static inline void store_terms(char *to, int64_t apart, __m512 x) {
    const __m256i first = (__m256i)_mm512_cvtneps_pbh(x);
    const __m512 left = left_of(x, first);
    const __m256i second = (__m256i)_mm512_cvtneps_pbh(left);
    _mm256_storeu_si256((__m256i *)to, first);
    _mm256_storeu_si256((__m256i *)(to + apart), second);
    _mm256_storeu_si256((__m256i *)(to + 2 * apart),
                        (__m256i)_mm512_cvtneps_pbh(_mm512_sub_ps(left, widened(second))));
}

static inline __m512i joined(__m512 low, __m512 high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* The same of two vectors, a line a term. */
static inline void store_two(char *to, int64_t apart, __m512 low, __m512 high) {
    const __m512i first = joined(low, high);
    low = left_of(low, _mm512_castsi512_si256(first));
    high = left_of(high, _mm512_extracti64x4_epi64(first, 1));
    const __m512i second = joined(low, high);
    low = _mm512_sub_ps(low, widened(_mm512_castsi512_si256(second)));
    high = _mm512_sub_ps(high, widened(_mm512_extracti64x4_epi64(second, 1)));
    _mm512_storeu_si512(to, first);
    _mm512_storeu_si512(to + apart, second);
    _mm512_storeu_si512(to + 2 * apart, joined(low, high));
}

/* Two whole blocks. */
static inline __attribute__((always_inline)) void terms_of_two(const struct mo_gather *g, const bool gated) {
    const char *from = g->from;
    char *to = g->to;
    const __m512 f0 = gated ? _mm512_loadu_ps(g->gate) : _mm512_setzero_ps();
    const __m512 f1 = gated ? _mm512_loadu_ps(g->gate + 16) : _mm512_setzero_ps();
    for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += 64) {
        const __m512 x0 = _mm512_loadu_ps(from), x1 = _mm512_loadu_ps(from + g->plane);
        store_two(to, g->term, gated ? _mm512_mul_ps(x0, f0) : x0, gated ? _mm512_mul_ps(x1, f1) : x1);
    }
}

void mo_matrix_gather_floats(const struct mo_gather *g) {
    const __mmask16 last = (__mmask16)((1u << g->lanes) - 1);
    const char *from = g->from;
    char *to = g->to;
    if (g->planes == 2 && g->lanes == 16) {
        if (g->gate)
            terms_of_two(g, true);
        else
            terms_of_two(g, false);
        return;
    }
    for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += g->width)
        for (int k = 0; k < g->width / 32; k++) {
            const __mmask16 there = k + 1 < g->planes ? 0xffff : k < g->planes ? last : 0;
            __m512 x = _mm512_maskz_loadu_ps(there, from + k * g->plane);
            if (g->gate) x = _mm512_mul_ps(x, _mm512_maskz_loadu_ps(there, g->gate + k * 16));
            store_terms(to + k * 32, g->term, x);
        }
}

static inline __m256i half_block(const char *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline __m256i gated(__m256i halves, const float *gate) {
    return (__m256i)_mm512_cvtneps_pbh(_mm512_mul_ps(widened(halves), _mm512_loadu_ps(gate)));
}

void mo_matrix_gather_small(const struct mo_gather *g) {
    const char *from = g->from;
    char *to = g->to;
    if (g->planes == 2 && !g->gate) {
        for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += 64) {
            const __m512i low = _mm512_castsi256_si512(half_block(from));
            _mm512_storeu_si512(to, _mm512_inserti64x4(low, half_block(from + g->plane), 1));
        }
        return;
    }
    for (int64_t i = 0; i < g->n; i++, from += g->pixel, to += g->width)
        for (int k = 0; k < g->width / 32; k++) {
            __m256i x = k < g->planes ? half_block(from + k * g->plane) : _mm256_setzero_si256();
            if (g->gate && k < g->planes) x = gated(x, g->gate + k * 16);
            _mm256_storeu_si256((__m256i *)(to + k * 32), x);
        }
}

void mo_matrix_narrow_pixels(float lo, float hi, const float *sums, int64_t pixels, const char *residual,
                             char *y) {
    const __m512 low = _mm512_set1_ps(lo), high = _mm512_set1_ps(hi);
    for (int64_t i = 0; i < pixels; i++) {
        __m512 v = _mm512_loadu_ps(sums + i * 16);
        if (residual) v = _mm512_add_ps(v, widened(half_block(residual + i * 32)));
        v = _mm512_min_ps(high, _mm512_max_ps(low, v)); /* of a NaN the second operand is left */
        _mm256_storeu_si256((__m256i *)(y + i * 32), (__m256i)_mm512_cvtneps_pbh(v));
    }
}

/* What makes bytes of sums.  Packing to bytes keeps within [0, 255] by itself. */
struct small {
    __m512i zero, lo, hi;
    bool moved, bounded; /* by a zero that is not 0, by narrower bounds */
};

static inline struct small small_by(const struct mo_tile_pack *pack) {
    return (struct small){_mm512_loadu_si512(pack->zero), _mm512_loadu_si512(pack->lo),
                          _mm512_loadu_si512(pack->hi), pack->zero[0] != 0,
                          pack->lo[0] != 0 || pack->hi[0] != 255};
}

static inline __m512i rounded(const char *sums, __m512 factor, __m512 shift) {
    const __m512 x = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums));
    return _mm512_cvtps_epi32(_mm512_fmadd_ps(x, factor, shift));
}

/* Four vectors, one after the other. */
static inline __attribute__((always_inline)) __m512i small_of(const __m512i sum[4], const struct small *s,
                                                              const bool moved, const bool bounded) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low = _mm512_packs_epi32(sum[0], sum[1]), high = _mm512_packs_epi32(sum[2], sum[3]);
    if (moved) low = _mm512_adds_epi16(low, s->zero), high = _mm512_adds_epi16(high, s->zero);
    __m512i all = _mm512_packus_epi16(low, high);
    if (bounded) all = _mm512_min_epu8(_mm512_max_epu8(all, s->lo), s->hi);
    return _mm512_permutexvar_epi32(order, all);
}

static inline __attribute__((always_inline)) void pixels_by(const struct small *s, const bool moved,
                                                            const bool bounded, const char *sums,
                                                            const float *factor, const float *shift,
                                                            int64_t pixels, char *y) {
    const __m512 f = _mm512_loadu_ps(factor), h = _mm512_loadu_ps(shift);
    for (int64_t i = 0; i < pixels; i += 4) {
        __m512i sum[4];
        for (int k = 0; k < 4; k++)
            sum[k] = rounded(sums + (i + k) * 64, f, h);
        const __m512i all = small_of(sum, s, moved, bounded);
        if (i + 4 <= pixels)
            _mm512_storeu_si512(y + i * 16, all);
        else
            _mm512_mask_storeu_epi32(y + i * 16, (__mmask16)((1u << 4 * (pixels - i)) - 1), all);
    }
}

/* Pixels of one block that follow each other. */
void mo_matrix_small_pixels(const struct mo_tile_pack *pack, const char *sums, const float *factor,
                            const float *shift, int64_t pixels, char *y) {
    const struct small s = small_by(pack);
    if (s.bounded)
        pixels_by(&s, true, true, sums, factor, shift, pixels, y);
    else if (s.moved)
        pixels_by(&s, true, false, sums, factor, shift, pixels, y);
    else
        pixels_by(&s, false, false, sums, factor, shift, pixels, y);
}

/* Rows of two blocks side by side: both are written at once, as rows that lie apart may share few places of
 * the first cache. */
void mo_matrix_small_rows(const struct mo_tile_pack *pack, const char *sums, const float *factor,
                          const float *shift, int64_t rows, char *y, int64_t y_row) {
    const struct small s = small_by(pack);
    const __m512 f[2] = {_mm512_loadu_ps(factor), _mm512_loadu_ps(factor + 16)};
    const __m512 h[2] = {_mm512_loadu_ps(shift), _mm512_loadu_ps(shift + 16)};
    for (int64_t i = 0; i < rows; i += 2) {
        __m512i sum[4];
        for (int k = 0; k < 4; k++)
            sum[k] = rounded(sums + (i + k / 2) * 64 + k % 2 * MO_MATRIX_PAIR * MO_MATRIX_TILE, f[k % 2],
                             h[k % 2]);
        const __m512i all = small_of(sum, &s, true, true);
        _mm256_storeu_si256((__m256i *)(y + i * y_row), _mm512_castsi512_si256(all));
        if (i + 1 < rows)
            _mm256_storeu_si256((__m256i *)(y + (i + 1) * y_row), _mm512_extracti64x4_epi64(all, 1));
    }
}

/* The first words of sixteen pixels of four. */
static inline __m512i first_words(const char *from) {
    const __m512i pair = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 64);
    const __m512i c = _mm512_loadu_si512(from + 128), d = _mm512_loadu_si512(from + 192);
    return _mm512_inserti64x4(_mm512_permutex2var_epi32(a, pair, b),
                              _mm512_castsi512_si256(_mm512_permutex2var_epi32(c, pair, d)), 1);
}

/* Words go to the first of two or four, or follow each other. */
void mo_matrix_gather_narrow_bytes(const struct mo_gather *g) {
    const int words = (int)(g->width / 4), per_store = 16 / words;
    const __mmask16 firsts = words == 4 ? 0x1111 : words == 2 ? 0x5555 : 0xffff;
    int64_t i = 0;
    for (; g->pixel == 16 && words <= 4 && i + 16 <= g->n; i += 16) {
        const __m512i all = first_words(g->from + i * 16);
        for (int k = 0; k < words; k++) {
            const __m512i some = _mm512_maskz_compress_epi32((__mmask16)(0xffff << k * per_store), all);
            _mm512_mask_storeu_epi32(g->to + i * g->width + k * 64, firsts,
                                     _mm512_maskz_expand_epi32(firsts, some));
        }
    }
    for (; i < g->n; i++)
        memcpy(g->to + i * g->width, g->from + i * g->pixel, 4);
}

/* Channels of four pixels of floats, side by side. */
void mo_matrix_gather_narrow_halves(const struct mo_gather *g) {
    const __m128 none = _mm_setzero_ps();
    int64_t i = 0;
    for (; g->pixel == 4 && i + 4 <= g->n; i += 4) {
        __m128 c[4];
        for (int k = 0; k < 4; k++)
            c[k] = k < g->planes ? _mm_loadu_ps((const float *)(g->from + k * g->plane) + i) : none;
        _MM_TRANSPOSE4_PS(c[0], c[1], c[2], c[3]);
        for (int k = 0; k < 4; k++)
            _mm_storel_epi64((__m128i *)(g->to + (i + k) * g->width), (__m128i)_mm_cvtneps_pbh(c[k]));
    }
    for (; i < g->n; i++) {
        float x[4] = {0};
        for (int k = 0; k < g->planes; k++)
            memcpy(&x[k], g->from + i * g->pixel + k * g->plane, 4);
        _mm_storel_epi64((__m128i *)(g->to + i * g->width), (__m128i)_mm_cvtneps_pbh(_mm_loadu_ps(x)));
    }
}

/* Their three terms.  Layers of so few channels have few pixels for what they compute. */
void mo_matrix_gather_narrow_floats(const struct mo_gather *g) {
    for (int64_t i = 0; i < g->n; i++) {
        float x[16] = {0};
        uint16_t terms[MO_MATRIX_TERMS][16];
        for (int k = 0; k < g->planes; k++)
            memcpy(&x[k], g->from + i * g->pixel + k * g->plane, 4);
        store_terms((char *)terms, (int64_t)sizeof terms[0], _mm512_loadu_ps(x));
        for (int t = 0; t < MO_MATRIX_TERMS; t++)
            memcpy(g->to + i * g->width + t * g->term, terms[t], 8);
    }
}
#endif
