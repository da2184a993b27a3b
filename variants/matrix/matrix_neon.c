/* SPDX-License-Identifier: Apache-2.0
 * matrix_neon.c - products of bytes by aarch64's dot product, behind the interface of a matrix unit.
 *
 * The instruction multiplies signed bytes.  Positions are unsigned, so 128 is taken off each, and 128 times
 * the sum of the weights added: those sums are of the first positions' pass over the weights, and serve all
 * others of the job.  Four positions by one block of 16 channels are added up at a time, in 16 registers; a
 * row of weights is four bytes of a step for each of 16 channels, which is the instruction's order.
 *
 * Compiled for Armv8.2 with the dot product; called only where mo_matrix_of() found it. */
#include "variants/matrix/matrix_plain.h"

#if defined(__aarch64__)
#include <arm_neon.h>

enum { POSITIONS = 4, VECTORS = 4, QUARTERS = 4 };

static void nothing(void) {}

/* Lanes are part of the instruction. */
static inline __attribute__((always_inline)) int32x4_t dot(int32x4_t sum, int8x16_t w, int8x16_t x,
                                                           const int lane) {
    switch (lane) {
    case 0:
        return vdotq_laneq_s32(sum, w, x, 0);
    case 1:
        return vdotq_laneq_s32(sum, w, x, 1);
    case 2:
        return vdotq_laneq_s32(sum, w, x, 2);
    default:
        return vdotq_laneq_s32(sum, w, x, 3);
    }
}

static inline __attribute__((always_inline)) void add_row(int32x4_t sum[POSITIONS][VECTORS],
                                                          int32x4_t of_weights[VECTORS], const char *b,
                                                          const int8x16_t x[POSITIONS], const int lane,
                                                          const bool first) {
    const int8x16_t ones = vdupq_n_s8(1);
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        const int8x16_t w = vld1q_s8((const int8_t *)b + v * 16);
        if (first) of_weights[v] = vdotq_s32(of_weights[v], w, ones);
#pragma GCC unroll 4
        for (int p = 0; p < POSITIONS; p++)
            sum[p][v] = dot(sum[p][v], w, x[p], lane);
    }
}

/* Positions from `a` on against one block; sums go to `to`.  `first`: sums of weights are made, too. */
static inline __attribute__((always_inline)) void body(const struct mo_matrix_job *job, const char *a,
                                                       const char *b, int64_t b_step, const int32_t *start,
                                                       int32_t *to, int32x4_t of_weights[VECTORS],
                                                       const bool first) {
    int32x4_t sum[POSITIONS][VECTORS];
#pragma GCC unroll 4
    for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            sum[p][v] = vld1q_s32((start ? start : to + p * 16) + v * 4);
    for (int64_t i = 0; i < job->n_steps; i++, b += b_step) {
        const char *at = a + job->steps[i];
        for (int q = 0; q < QUARTERS; q++) {
            int8x16_t x[POSITIONS];
#pragma GCC unroll 4
            for (int p = 0; p < POSITIONS; p++)
                x[p] = vreinterpretq_s8_u8(
                    veorq_u8(vld1q_u8((const uint8_t *)at + p * job->a_row + q * 16), vdupq_n_u8(128)));
            add_row(sum, of_weights, b + q * 256, x, 0, first);
            add_row(sum, of_weights, b + q * 256 + 64, x, 1, first);
            add_row(sum, of_weights, b + q * 256 + 128, x, 2, first);
            add_row(sum, of_weights, b + q * 256 + 192, x, 3, first);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            vst1q_s32(to + p * 16 + v * 4, vaddq_s32(sum[p][v], vshlq_n_s32(of_weights[v], 7)));
}

static void run_bytes(const struct mo_matrix_job *job, int tiles, int blocks) {
    for (int k = 0; k < blocks; k++) {
        const char *b = job->b + k * MO_MATRIX_TILE;
        const int32_t *start = job->start ? (const int32_t *)job->start + k * 16 : NULL;
        int32x4_t of_weights[VECTORS] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
        for (int p = 0; p < tiles * MO_MATRIX_POSITIONS; p += POSITIONS) {
            const char *a = job->a[p / MO_MATRIX_POSITIONS] + p % MO_MATRIX_POSITIONS * job->a_row;
            int32_t *to = (int32_t *)(job->sums + k * MO_MATRIX_PAIR * MO_MATRIX_TILE + p * 64);
            if (p == 0)
                body(job, a, b, blocks * MO_MATRIX_TILE, start, to, of_weights, true);
            else
                body(job, a, b, blocks * MO_MATRIX_TILE, start, to, of_weights, false);
        }
    }
}

const struct mo_matrix_unit mo_matrix_neon = {
    .conv = {"qconv neon dot", NULL},
    .gemm = {"qgemm neon dot", NULL},
    .vectors = true,
    .begin = nothing,
    .end = nothing,
    .run = {run_bytes, NULL},
    .gather = {mo_matrix_plain_gather_bytes, NULL},
    .gather_narrow = {mo_matrix_plain_gather_narrow_bytes, NULL},
};
#endif
