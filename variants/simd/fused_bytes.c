/* SPDX-License-Identifier: Apache-2.0
 * fused_bytes.c - programs of bytes: sums of two, factors by channel, functions of one by table. */
#include "variants/simd/math.h"
#include "variants/simd/pack_bytes.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

#if defined(MO_ISA_IS_avx512) || defined(MO_ISA_IS_avx2)
/* Four vectors of elements a time of uint8, made bytes by instructions that saturate; as many as are whole.
 */
static int64_t sum_packed(const struct mo_sum_params *p, const uint8_t *a, const uint8_t *b, uint8_t *y,
                          int64_t n) {
    const whole_vec zero = all_shorts(p->zero);
    const whole_vec lo = all_bytes((int)rintf(p->lo) + p->zero), hi = all_bytes((int)rintf(p->hi) + p->zero);
    const float_vec fa = floats_all(p->factor[0]), fb = floats_all(p->factor[1]), add = floats_all(p->add);
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        whole_vec sum[4];
        for (int k = 0; k < 4; k++) {
            const float_vec x = floats_of_bytes(a + i + k * LANES), z = floats_of_bytes(b + i + k * LANES);
            sum[k] = rounded(multiply_add(x, fa, multiply_add(z, fb, add)));
        }
        const whole_vec first = packed_shorts(sum[0], sum[1], zero),
                        second = packed_shorts(sum[2], sum[3], zero);
        store_whole(y + i, packed_bytes(first, second, lo, hi, false));
    }
    return i;
}

/* Pixels of uint8 that become uint8, several a time; as many as are whole.  A product above or below all
 * bytes saturates. */
static int64_t scale_packed(const struct mo_scale_params *p, const uint8_t *x, const float *factor,
                            uint8_t *y) {
    const whole_vec zero = all_shorts(p->zero), lo = all_bytes(0), hi = all_bytes(255);
    const float_vec by[2] = {floats_of(factor), floats_of(factor + 16 - LANES)};
    const float_vec from = floats_all((float)p->from);
    const int64_t n = p->area * 16;
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        whole_vec v[4];
        for (int k = 0; k < 4; k++)
            v[k] = rounded((floats_of_bytes(x + i + k * LANES) - from) * by[k % 2]);
        const whole_vec first = packed_shorts(v[0], v[1], zero), second = packed_shorts(v[2], v[3], zero);
        store_whole(y + i, packed_bytes(first, second, lo, hi, false));
    }
    return i / 16;
}
#else
static int64_t scale_packed(const struct mo_scale_params *p, const uint8_t *x, const float *factor,
                            uint8_t *y) {
    (void)p, (void)x, (void)factor, (void)y;
    return 0;
}
static int64_t sum_packed(const struct mo_sum_params *p, const uint8_t *a, const uint8_t *b, uint8_t *y,
                          int64_t n) {
    (void)p, (void)a, (void)b, (void)y, (void)n;
    return 0;
}
#endif

/* Rounded to even, within the bounds, above the zero point.  y may be a or b: pieces are computed aside. */
static inline __attribute__((always_inline)) void sum_row(const struct mo_sum_params *p, const bool a_signed,
                                                          const bool b_signed, const uint8_t *a,
                                                          const uint8_t *b, uint8_t *y, int64_t n) {
    enum { PIECE = 64 };
    const float fa = p->factor[0], fb = p->factor[1], add = p->add, lo = p->lo, hi = p->hi;
    const int zero = p->zero;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t left = n - at < PIECE ? n - at : PIECE;
        uint8_t piece[PIECE];
        for (int64_t i = 0; i < left; i++) {
            const float x = a_signed ? (float)(int8_t)a[at + i] : (float)a[at + i];
            const float z = b_signed ? (float)(int8_t)b[at + i] : (float)b[at + i];
            float v = x * fa + (z * fb + add);
            v = v > lo ? v : lo;
            v = v > hi ? hi : v;
            piece[i] = (uint8_t)((int32_t)rintf(v) + zero);
        }
        memcpy(y + at, piece, (size_t)left);
    }
}

/* Nearest whole number, ties to even, above the zero point, within uint8; NaN becomes 0.  Byte c of a word is
 * channel c of a pixel. */
static void add_channel(const struct mo_enter_params *p, const float *x, int c, uint32_t *restrict word,
                        int64_t n) {
    const struct divisor scale = divisor_of(p->scale);
    const float zero = p->zero;
    for (int64_t i = 0; i < n; i++) {
        float v = rintf(quotient(x[i], scale)) + zero;
        v = v > 0.0f ? v : 0.0f;
        v = v > 255.0f ? 255.0f : v;
        word[i] |= (uint32_t)(int32_t)v << 8 * c;
    }
}

/* Each word, and three of zero. */
static void spread_words(const uint32_t *word, char *y, int64_t n) {
    int64_t i = 0;
#if defined(MO_ISA_IS_avx512)
    for (; i + 4 <= n; i += 4) {
        const __m512i four = _mm512_zextsi128_si512(_mm_loadu_si128((const __m128i *)(word + i)));
        _mm512_storeu_si512(y + i * 16, _mm512_maskz_expand_epi32(0x1111, four));
    }
#endif
    for (; i < n; i++) {
        const uint32_t pixel[4] = {word[i]};
        memcpy(y + i * 16, pixel, 16);
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
        spread_words(word, y, n);
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

/* Pixels [done, area) of a block of 16 channels. */
static inline __attribute__((always_inline)) void scale_block(const struct mo_scale_params *p,
                                                              const bool is_signed, const uint8_t *x,
                                                              const float *by, uint8_t *y, int64_t done) {
    const float lo = p->lo, hi = p->hi;
    const int from = p->from, zero = p->zero;
    float factor[16];
    memcpy(factor, by, sizeof factor);
    for (int64_t i = done; i < p->area; i++) {
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
        bool small = true; /* products fit an int32, and none is a NaN */
        for (int l = 0; l < 16; l++) {
            factor[l] = by[l] * p->scale;
            small &= fabsf(factor[l]) < 0x1p22f;
        }
        if (p->is_signed)
            scale_block(p, true, x, factor, y, 0);
        else
            scale_block(p, false, x, factor, y, small ? scale_packed(p, x, factor, y) : 0);
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
#elif defined(MO_ISA_IS_avx2)
/* Bytes of a table of 128 at `at`, as an exclusive or of 8 looks at 16 bytes each: those of index k are the
 * k-th sixteenth of the table, less all that the looks before it found.  Where `at` is negative: zeros. */
static inline __attribute__((always_inline)) __m256i look_up_half(const __m256i table[8], __m256i at) {
    const __m256i sixteen = _mm256_set1_epi8(16);
    __m256i y = _mm256_shuffle_epi8(table[0], at);
    for (int k = 1; k < 8; k++) {
        at = _mm256_subs_epi8(at, sixteen);
        y = _mm256_xor_si256(y, _mm256_shuffle_epi8(table[k], at));
    }
    return y;
}

static void look_up_fast(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t n) {
    const __m256i top = _mm256_set1_epi8(-128);
    __m256i part[16];
    for (int k = 0; k < 16; k++) {
        const __m128i here = _mm_loadu_si128((const __m128i *)(table + k * 16));
        const __m128i before =
            k % 8 ? _mm_loadu_si128((const __m128i *)(table + k * 16 - 16)) : _mm_setzero_si128();
        part[k] = _mm256_broadcastsi128_si256(_mm_xor_si128(here, before));
    }
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m256i at = _mm256_loadu_si256((const __m256i *)(x + i));
        const __m256i low = look_up_half(part, at), high = look_up_half(part + 8, _mm256_xor_si256(at, top));
        _mm256_storeu_si256((__m256i *)(y + i), _mm256_xor_si256(low, high));
    }
    for (; i < n; i++)
        y[i] = table[x[i]];
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
        uint8_t *y = (uint8_t *)args->out[0] + at;
        if (p->permutes)
            look_up_fast(p->table, x, y, n);
        else
            for (int64_t i = 0; i < n; i++)
                y[i] = p->table[x[i]];
    }
}
