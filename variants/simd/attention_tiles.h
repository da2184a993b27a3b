/* SPDX-License-Identifier: Apache-2.0
 * attention_tiles.h - what kernels of attention on a matrix unit share: 32 queries at a time by tiles of K or
 * V.
 */
#ifndef MO_SIMD_ATTENTION_TILES_H
#define MO_SIMD_ATTENTION_TILES_H
#include "variants/matrix/matrix.h"
#include "variants/simd/params.h"

/* Queries at a time; their rows are whole steps of 64 bytes. */
enum { MO_QUERY_ROWS = MO_MATRIX_PAIR * MO_MATRIX_POSITIONS };

/* Tile `step` of block `block` of `blocks`: pairs of them lie together. */
static inline char *tile_of(char *tiles, int64_t block, int64_t blocks, int64_t step, int64_t steps) {
    const int64_t pair = blocks - block / 2 * 2 < 2 ? 1 : 2;
    return tiles + block / 2 * 2 * steps * MO_MATRIX_TILE + (step * pair + block % 2) * MO_MATRIX_TILE;
}

/* 32 rows of `width` bytes by the tiles of two blocks, of which one may not be there; how many there are.
 * `start`: what sums of these blocks start from. */
static inline int multiply_rows(const struct mo_attention_params *p, enum mo_matrix_type type,
                                const char *rows, int64_t width, const char *tiles, const void *start,
                                int64_t block, int64_t blocks, char *sums) {
    const int n = blocks - block < 2 ? 1 : 2;
    const int64_t steps = width / MO_MATRIX_STEP;
    const struct mo_matrix_job job = {.a = {rows, rows + MO_MATRIX_POSITIONS * width},
                                      .a_row = width,
                                      .steps = p->steps,
                                      .n_steps = steps,
                                      .b = tiles + block * steps * MO_MATRIX_TILE,
                                      .start = start,
                                      .sums = sums};
    p->unit->run[type](&job, MO_MATRIX_PAIR, n);
    return n;
}

/* Sixteen sums of a row. */
static inline const void *sums_of(const char *sums, int block, int64_t row) {
    return sums + block * MO_MATRIX_PAIR * MO_MATRIX_TILE + row * 64;
}
#endif
