/* SPDX-License-Identifier: Apache-2.0
 * gemm.h - the register tile all matrix products share: `rows` rows of A against panels of 16 columns of B.
 *
 * A is packed k-major for the tile, a[k * rows + t], so that broadcasts come from one stream; B is read as
 * panels of 16 columns, row k at b + k * ldb.  The tile adds k_count products to what `c` starts from and
 * writes c row by row.  The k order is fixed by the shape alone: any split of the work gives equal bytes. */
#ifndef MO_SIMD_GEMM_H
#define MO_SIMD_GEMM_H
#include <stdbool.h>
#include "runtime/ops/util.h"
#include "variants/simd/transpose.h"
#if defined(MO_ISA_IS_avx512) || defined(MO_ISA_IS_avx2)
#include <immintrin.h>
#endif

#if defined(MO_ISA_IS_avx512)
enum { TILE_ROWS = 14, TILE_PANELS = 2 };
#elif defined(MO_ISA_IS_avx2)
enum { TILE_ROWS = 6, TILE_PANELS = 1 };
#else
enum { TILE_ROWS = 3, TILE_PANELS = 1 };
#endif
/* PACK_SLACK: floats that tile_pack() may write beyond its tile.  SLIM_AHEAD: products at the end of a slim
 * tile that ask for the panels of the next.  Such tiles wait for memory, and what the processor fetches by
 * itself begins anew with every panel (4 to 6 % of a decoder's step on Zen 5; to ask all the time costs as
 * much). */
enum {
    PANEL_VECTORS = 16 / LANES,
    SLIM_ROWS = 3,
    SLIM_PANELS = LANES == 16 ? 4 : 2,
    SLIM_AHEAD = 32,
    PACK_SLACK = 16
};

struct gemm_tile {
    const float *a;
    const float *b;
    int64_t ldb, panel; /* floats from one k to the next, and from one panel to the next */
    float *c;
    int64_t ldc;
    int64_t k_count;
    const float *start;    /* bias of the first panel, read once a tile; NULL: continue from c */
    const uint16_t *small; /* B as float16, in place of b; NULL: none */
    const float *ahead; /* the panels of the tiles after this one, asked for while it computes; may be NULL */
};

/* A vector of float16. */
#if defined(MO_ISA_IS_avx512)
static inline vec_value widened(const uint16_t *p) {
    return (vec_value)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
#elif defined(MO_ISA_IS_avx2)
static inline vec_value widened(const uint16_t *p) {
    return (vec_value)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
#else
/* Of compiled models that were made for more. */
static inline vec_value widened(const uint16_t *p) {
    vec_value x;
    for (int l = 0; l < LANES; l++)
        x[l] = mo_half_to_float(p[l]);
    return x;
}
#endif

/* rows and panels are compile-time constants of each caller, so `acc` lives in registers. */
static inline __attribute__((always_inline)) void tile_body(const struct gemm_tile *t, const int rows,
                                                            const int panels, const bool half) {
    const int width = panels * PANEL_VECTORS;
    vec_value acc[TILE_ROWS][SLIM_PANELS * PANEL_VECTORS];
    const float *a = t->a, *b = t->b, *ahead = t->ahead ? t->ahead : b;
    const uint16_t *small = t->small;
    const int64_t ldb = t->ldb, panel = t->panel;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int w = 0; w < width; w++)
            acc[r][w] = *(const vec *)((t->start ? t->start : t->c + r * t->ldc) + w * LANES);
    for (int64_t k = 0; k < t->k_count; k++) {
        vec_value bw[SLIM_PANELS * PANEL_VECTORS];
#pragma GCC unroll 16
        for (int w = 0; w < width; w++) {
            const int64_t at = w / PANEL_VECTORS * panel + w % PANEL_VECTORS * LANES;
            if (half)
                bw[w] = widened(small + at);
            else
                bw[w] = *(const vec *)(b + at);
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const vec_value x = vec_broadcast(a + r);
#pragma GCC unroll 16
            for (int w = 0; w < width; w++)
                acc[r][w] = vec_mac(acc[r][w], bw[w], x);
        }
        if (panels == SLIM_PANELS && !half && k >= t->k_count - SLIM_AHEAD) {
            const float *next = t->b + panels * panel + (k - t->k_count + SLIM_AHEAD) * ldb;
#pragma GCC unroll 16
            for (int w = 0; w < panels; w++)
                __builtin_prefetch(next + w * panel);
        }
        if (panels == TILE_PANELS && !half) {
#pragma GCC unroll 16
            for (int w = 0; w < panels; w++)
                __builtin_prefetch(ahead + w * panel, 0, 2);
            ahead += ldb;
        }
        a += rows;
        b = half ? b : b + ldb;
        small = half ? small + ldb : small;
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int w = 0; w < width; w++)
            *(vec *)(t->c + r * t->ldc + w * LANES) = acc[r][w];
}

/* One case a height, for tiles of 1, TILE_PANELS or (few rows) SLIM_PANELS panels. */
static inline __attribute__((always_inline)) void
tile_rows(const struct gemm_tile *t, int rows, const int panels, const int most_rows, const bool half) {
    switch (rows) {
    case 1:
        tile_body(t, 1, panels, half);
        return;
    case 2:
        tile_body(t, 2, panels, half);
        return;
    case 3:
        tile_body(t, 3, panels, half);
        return;
    default:
        break;
    }
    if (most_rows <= 3) return;
    switch (rows) {
    case 4:
        tile_body(t, 4, panels, half);
        return;
    case 5:
        tile_body(t, 5, panels, half);
        return;
    case 6:
        tile_body(t, 6, panels, half);
        return;
    default:
        break;
    }
    if (most_rows <= 6) return;
    switch (rows) {
    case 7:
        tile_body(t, 7, panels, half);
        return;
    case 8:
        tile_body(t, 8, panels, half);
        return;
    case 9:
        tile_body(t, 9, panels, half);
        return;
    case 10:
        tile_body(t, 10, panels, half);
        return;
    case 11:
        tile_body(t, 11, panels, half);
        return;
    case 12:
        tile_body(t, 12, panels, half);
        return;
    case 13:
        tile_body(t, 13, panels, half);
        return;
    default:
        tile_body(t, 14, panels, half);
        return;
    }
}

static __attribute__((noinline)) void tile_single(const struct gemm_tile *t, int rows) {
    tile_rows(t, rows, 1, TILE_ROWS, false);
}

static __attribute__((noinline)) void tile_full(const struct gemm_tile *t, int rows) {
    tile_rows(t, rows, TILE_PANELS, TILE_ROWS, false);
}

static __attribute__((noinline)) void tile_slim(const struct gemm_tile *t, int rows) {
    tile_rows(t, rows, SLIM_PANELS, SLIM_ROWS, false);
}

/* The same with B as float16. */
static __attribute__((noinline)) void tile_single_half(const struct gemm_tile *t, int rows) {
    tile_rows(t, rows, 1, TILE_ROWS, true);
}

static __attribute__((noinline)) void tile_full_half(const struct gemm_tile *t, int rows) {
    tile_rows(t, rows, TILE_PANELS, TILE_ROWS, true);
}

static __attribute__((noinline)) void tile_slim_half(const struct gemm_tile *t, int rows) {
    tile_rows(t, rows, SLIM_PANELS, SLIM_ROWS, true);
}

/* How many of `left` panels the next tile takes, given its height. */
static inline int tile_width(int rows, int64_t left) {
    if (rows <= SLIM_ROWS && left >= SLIM_PANELS) return SLIM_PANELS;
    return left >= TILE_PANELS ? TILE_PANELS : 1;
}

static inline void tile_run(const struct gemm_tile *t, int rows, int panels) {
    const bool slim = rows <= SLIM_ROWS && panels == SLIM_PANELS;
    if (slim)
        (t->small ? tile_slim_half : tile_slim)(t, rows);
    else if (panels == TILE_PANELS)
        (t->small ? tile_full_half : tile_full)(t, rows);
    else
        (t->small ? tile_single_half : tile_single)(t, rows);
}

/* k-major copy of a block of A: element (r, k) is a[r * row + k * step].  Squares are written whole, each row
 * over the end of the one before: the copy must go upwards, and PACK_SLACK floats follow the last. */
static inline void tile_pack(const float *a, int64_t row, int64_t step, int rows, int64_t k_count,
                             float *to) {
    int64_t k = 0;
    for (; step == 1 && rows > 1 && k + LANES <= k_count; k += LANES)
        transpose_square(a + k, row, to + k * rows, rows, rows, LANES);
    for (; k < k_count; k++)
        for (int r = 0; r < rows; r++)
            to[k * rows + r] = a[r * row + k * step];
}

/* A panel from `valid` rows of k_count floats each, `row` apart: row n becomes column n. */
static inline void pack_columns(const float *from, int64_t row, int valid, int64_t k_count, float *panel) {
    int64_t k = 0;
    for (; k + 16 <= k_count; k += 16)
        transpose16_from(from + k, row, panel + k * 16, 16, valid);
    for (; k < k_count; k++)
        for (int n = 0; n < 16; n++)
            panel[k * 16 + n] = n < valid ? from[n * row + k] : 0.0f;
}

/* Rows [first, first + count) of block `i` of `blocks` equal shares of `rows`. */
static inline int tile_block(int64_t rows, int64_t blocks, int64_t i, int64_t *first) {
    *first = rows * i / blocks;
    return (int)(rows * (i + 1) / blocks - *first);
}
#endif
