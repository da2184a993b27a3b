/* SPDX-License-Identifier: Apache-2.0
 * transpose.h - 16 x 16 floats, rows to columns, in registers.
 *
 * A square of 2^k vectors is transposed by k rounds of perfect shuffles: row i and row i + half interleave
 * into rows 2i and 2i + 1. */
#ifndef MO_SIMD_TRANSPOSE_H
#define MO_SIMD_TRANSPOSE_H
#include "variants/simd/vec.h"

#if defined(MO_ISA_IS_avx512)
#define LOW_HALVES  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
enum { ROUNDS = 4 };
#elif defined(MO_ISA_IS_avx2)
#define LOW_HALVES  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
enum { ROUNDS = 3 };
#else
#define LOW_HALVES  0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
enum { ROUNDS = 2 };
#endif

/* LANES x LANES; rows of `from` beyond `rows` are zeros, rows of `to` beyond `columns` are not written. */
static inline __attribute__((always_inline)) void
transpose_square(const float *from, int64_t from_row, float *to, int64_t to_row, int rows, int columns) {
    vec a[LANES], b[LANES];
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++)
        a[r] = r < rows ? *(const vec *)(from + r * from_row) : (vec){0};
#pragma GCC unroll 4
    for (int round = 0; round < ROUNDS; round++) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + LANES / 2], LOW_HALVES);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + LANES / 2], HIGH_HALVES);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            a[i] = b[i];
    }
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++)
        if (r < columns) *(vec *)(to + r * to_row) = a[r];
}

/* 16 x 16 in squares; whole. */
static inline void transpose16(const float *from, int64_t from_row, float *to, int64_t to_row) {
    for (int i = 0; i < 16; i += LANES)
        for (int j = 0; j < 16; j += LANES)
            transpose_square(from + i * from_row + j, from_row, to + j * to_row + i, to_row, LANES, LANES);
}

/* The same with `rows` rows of `from` (the others count as zeros). */
static inline void transpose16_from(const float *from, int64_t from_row, float *to, int64_t to_row,
                                    int rows) {
    for (int i = 0; i < 16; i += LANES)
        for (int j = 0; j < 16; j += LANES)
            transpose_square(from + i * from_row + j, from_row, to + j * to_row + i, to_row, rows - i, LANES);
}

/* The same with `columns` rows of `to` written. */
static inline void transpose16_to(const float *from, int64_t from_row, float *to, int64_t to_row,
                                  int columns) {
    for (int i = 0; i < 16; i += LANES)
        for (int j = 0; j < 16; j += LANES)
            transpose_square(from + i * from_row + j, from_row, to + j * to_row + i, to_row, LANES,
                             columns - j);
}
#endif
