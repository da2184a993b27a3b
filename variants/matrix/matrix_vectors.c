/* SPDX-License-Identifier: Apache-2.0
 * matrix_vectors.c - products of bfloat16 by AVX-512's vector instruction, behind the interface of a matrix
 * unit: for processors that have the instruction at twice the rate of float32's, and no unit.
 *
 * Eight positions by two blocks of 16 channels are added up at a time, in 16 registers: a pair of numbers of
 * a position is broadcast, and meets the pairs of 16 channels. */
#include "variants/matrix/matrix_gather.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { POSITIONS = 8, PAIRS = MO_MATRIX_STEP / 4 };

static void nothing(void) {}

static inline __attribute__((always_inline)) __m512bh weights(const char *b) {
    return (__m512bh)_mm512_loadu_si512(b);
}

static inline __attribute__((always_inline)) __m512bh pair_at(const char *a) {
    return (__m512bh)_mm512_set1_epi32(*(const int32_t *)a);
}

static inline __attribute__((always_inline)) void body(const struct mo_matrix_job *job, const char *a,
                                                       char *sums, const int blocks) {
    const int64_t row = job->a_row;
    const char *b = job->b;
    __m512 sum[POSITIONS][MO_MATRIX_PAIR];
#pragma GCC unroll 8
    for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 2
        for (int k = 0; k < blocks; k++)
            sum[p][k] = _mm512_loadu_ps(
                job->start ? (const float *)job->start + k * 16
                           : (const float *)(sums + k * MO_MATRIX_PAIR * MO_MATRIX_TILE) + p * 16);
    for (int64_t i = 0; i < job->n_steps; i++, b += blocks * MO_MATRIX_TILE) {
        const char *at = a + job->steps[i];
        for (int r = 0; r < PAIRS; r++, at += 4) {
            const __m512bh w0 = weights(b + r * 64),
                           w1 = blocks == 2 ? weights(b + MO_MATRIX_TILE + r * 64) : w0;
#pragma GCC unroll 8
            for (int p = 0; p < POSITIONS; p++) {
                const __m512bh x = pair_at(at + p * row);
                sum[p][0] = _mm512_dpbf16_ps(sum[p][0], w0, x);
                if (blocks == 2) sum[p][1] = _mm512_dpbf16_ps(sum[p][1], w1, x);
            }
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 2
        for (int k = 0; k < blocks; k++)
            _mm512_storeu_ps((float *)(sums + k * MO_MATRIX_PAIR * MO_MATRIX_TILE) + p * 16, sum[p][k]);
}

static void run_halves(const struct mo_matrix_job *job, int tiles, int blocks) {
    for (int t = 0; t < tiles; t++)
        for (int p = 0; p < MO_MATRIX_POSITIONS; p += POSITIONS) {
            const char *a = job->a[t] + p * job->a_row;
            char *sums = job->sums + t * MO_MATRIX_TILE + p * 64;
            if (blocks == 2)
                body(job, a, sums, 2);
            else
                body(job, a, sums, 1);
        }
}

const struct mo_matrix_unit mo_matrix_vectors = {
    .conv = {NULL, "conv bf16"},
    .gemm = {NULL, "gemm bf16"},
    .vectors = true,
    .begin = nothing,
    .end = nothing,
    .run = {NULL, run_halves},
    .gather = {NULL, mo_matrix_gather_halves},
    .gather_narrow = {NULL, mo_matrix_gather_narrow_halves},
    .gather_small = mo_matrix_gather_small,
    .narrow = mo_matrix_narrow_pixels,
};
#endif
