/* SPDX-License-Identifier: Apache-2.0
 * pack_bytes.h - four vectors of whole numbers to bytes, where a level has instructions for it: two saturate
 * to the type, so that what is left of the bounds costs an instruction each for all four.  Only instructions
 * that the level has for both signs of bytes. */
#ifndef MO_SIMD_PACK_BYTES_H
#define MO_SIMD_PACK_BYTES_H
#include <math.h>
#include <stdint.h>

#if defined(MO_ISA_IS_avx512)
#include <immintrin.h>
typedef __m512 float_vec;
typedef __m512i whole_vec;

static inline float_vec floats_of(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline float_vec floats_all(float x) {
    return _mm512_set1_ps(x);
}
static inline float_vec floats_of_ints(const void *p) {
    return _mm512_cvtepi32_ps(_mm512_loadu_si512(p));
}
static inline float_vec floats_of_bytes(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline float_vec multiply_add(float_vec a, float_vec b, float_vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline whole_vec rounded(float_vec x) {
    return _mm512_cvtps_epi32(x);
}
static inline whole_vec all_bytes(int x) {
    return _mm512_set1_epi8((char)x);
}
static inline whole_vec all_shorts(int x) {
    return _mm512_set1_epi16((short)x);
}
static inline void store_whole(void *p, whole_vec x) {
    _mm512_storeu_si512(p, x);
}
static inline whole_vec packed_shorts(whole_vec a, whole_vec b, whole_vec add) {
    return _mm512_adds_epi16(_mm512_packs_epi32(a, b), add);
}
static inline whole_vec packed_bytes(whole_vec a, whole_vec b, whole_vec lo, whole_vec hi,
                                     const bool is_signed) {
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    whole_vec all = is_signed ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
    all = is_signed ? _mm512_min_epi8(_mm512_max_epi8(all, lo), hi)
                    : _mm512_min_epu8(_mm512_max_epu8(all, lo), hi);
    return _mm512_permutexvar_epi32(order, all);
}
#elif defined(MO_ISA_IS_avx2)
#include <immintrin.h>
typedef __m256 float_vec;
typedef __m256i whole_vec;

static inline float_vec floats_of(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline float_vec floats_all(float x) {
    return _mm256_set1_ps(x);
}
static inline float_vec floats_of_ints(const void *p) {
    return _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline float_vec floats_of_bytes(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline float_vec multiply_add(float_vec a, float_vec b, float_vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline whole_vec rounded(float_vec x) {
    return _mm256_cvtps_epi32(x);
}
static inline whole_vec all_bytes(int x) {
    return _mm256_set1_epi8((char)x);
}
static inline whole_vec all_shorts(int x) {
    return _mm256_set1_epi16((short)x);
}
static inline void store_whole(void *p, whole_vec x) {
    _mm256_storeu_si256((__m256i *)p, x);
}
static inline whole_vec packed_shorts(whole_vec a, whole_vec b, whole_vec add) {
    return _mm256_adds_epi16(_mm256_packs_epi32(a, b), add);
}
static inline whole_vec packed_bytes(whole_vec a, whole_vec b, whole_vec lo, whole_vec hi,
                                     const bool is_signed) {
    const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    whole_vec all = is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
    all = is_signed ? _mm256_min_epi8(_mm256_max_epi8(all, lo), hi)
                    : _mm256_min_epu8(_mm256_max_epu8(all, lo), hi);
    return _mm256_permutevar8x32_epi32(all, order);
}
#endif
#endif
