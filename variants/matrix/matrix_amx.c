/* SPDX-License-Identifier: Apache-2.0
 * matrix_amx.c - Intel's matrix unit, AMX: tiles of int8 and of bfloat16.
 *
 * Compiled with the unit's flags; called only where mo_matrix_of() found it.  Eight tiles: four of sums, two
 * of positions, two of weights.  Loads bring two of each for four products, which take 16 cycles each; of
 * terms fourteen loads are for 24 products. */
#include "variants/matrix/matrix_gather.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

/* Of weights that are asked for ahead, one line in so many bytes: the processor brings those about it by
 * itself, and a request waits for memory in one of the few buffers that loads of tiles need.  Of terms there
 * are more products for each, and every line is asked for. */
enum { NEAR_BYTES = 4096, TERMS_NEAR_BYTES = 64 }; /* a line a page; a step asks for one at least */

/* What all tiles are: 16 rows of 64 bytes.  Compilers see that the first bytes are read and no more: it must
 * not be made on the stack. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} config = {
    .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static void begin(void) {
    _tile_loadconfig(&config);
}

static void end(void) {
    _tile_release();
}

/* Numbers of tiles are part of the instructions: sums in 0 to 3 (block, then tile), positions in 4 and 5,
 * weights in 6 and 7. */
static inline __attribute__((always_inline)) void multiply(const bool halves, const int tiles,
                                                           const int blocks) {
    if (halves) {
        _tile_dpbf16ps(0, 4, 6);
        if (tiles == 2) _tile_dpbf16ps(1, 5, 6);
        if (blocks == 2) _tile_dpbf16ps(2, 4, 7);
        if (tiles == 2 && blocks == 2) _tile_dpbf16ps(3, 5, 7);
    } else {
        _tile_dpbusd(0, 4, 6);
        if (tiles == 2) _tile_dpbusd(1, 5, 6);
        if (blocks == 2) _tile_dpbusd(2, 4, 7);
        if (tiles == 2 && blocks == 2) _tile_dpbusd(3, 5, 7);
    }
}

static inline __attribute__((always_inline)) void load_positions(const struct mo_matrix_job *job,
                                                                 const int64_t at, const int tiles) {
    _tile_loadd(4, job->a[0] + at, job->a_row);
    if (tiles == 2) _tile_loadd(5, job->a[1] + at, job->a_row);
}

static inline __attribute__((always_inline)) void load_weights(const char *b, const int term,
                                                               const int blocks) {
    b += term * blocks * MO_MATRIX_TILE;
    _tile_loadd(6, b, 64);
    if (blocks == 2) _tile_loadd(7, b + MO_MATRIX_TILE, 64);
}

static inline __attribute__((always_inline)) void multiply_step(const struct mo_matrix_job *job,
                                                                const int64_t at, const char *b,
                                                                const bool halves, const int tiles,
                                                                const int blocks) {
    load_weights(b, 0, blocks);
    load_positions(job, at, tiles);
    multiply(halves, tiles, blocks);
}

/* Products of the terms of floats whose places in the sums of three add up to two at most: what is left out
 * is as small as the rounding of a product.  Small ones come first.  In this order each product has one
 * operand of the product before it. */
static inline __attribute__((always_inline)) void multiply_terms(const struct mo_matrix_job *job,
                                                                 const int64_t at, const char *b,
                                                                 const int tiles, const int blocks) {
    load_weights(b, 2, blocks);
    load_positions(job, at, tiles);
    multiply(true, tiles, blocks);
    load_weights(b, 1, blocks);
    multiply(true, tiles, blocks);
    load_positions(job, at + job->a_term, tiles);
    multiply(true, tiles, blocks);
    load_weights(b, 0, blocks);
    multiply(true, tiles, blocks);
    load_positions(job, at + 2 * job->a_term, tiles);
    multiply(true, tiles, blocks);
    load_positions(job, at, tiles);
    multiply(true, tiles, blocks);
}

static inline __attribute__((always_inline)) void
body(const struct mo_matrix_job *job, const enum mo_matrix_type type, const int tiles, const int blocks) {
    const char *start = job->start, *b = job->b;
    const int64_t n = job->n_steps;
    const int terms = type == MO_MATRIX_FLOATS ? MO_MATRIX_TERMS : 1;
    const int64_t near = type == MO_MATRIX_FLOATS ? TERMS_NEAR_BYTES : NEAR_BYTES;
    char *sums = job->sums;
    /* every row the same 16; or sums as they were stored */
    const int64_t down = start ? 0 : 64, across = start ? 0 : MO_MATRIX_TILE;
    const char *first = start ? start : sums, *second = start ? start + 64 : sums + 2 * MO_MATRIX_TILE;
    _tile_loadd(0, first, down);
    if (tiles == 2) _tile_loadd(1, first + across, down);
    if (blocks == 2) _tile_loadd(2, second, down);
    if (tiles == 2 && blocks == 2) _tile_loadd(3, second + across, down);
    const char *next = job->next;
    const int64_t ahead = job->next_bytes, late = n - job->asides;
    for (int64_t i = 0; i < n; i++, b += terms * blocks * MO_MATRIX_TILE) {
        for (int64_t k = 0; k < ahead; k += near, next += near)
            _mm_prefetch(next, _MM_HINT_T1);
        if (type == MO_MATRIX_FLOATS)
            multiply_terms(job, job->steps[i], b, tiles, blocks);
        else
            multiply_step(job, job->steps[i], b, type == MO_MATRIX_HALVES, tiles, blocks);
        if (i >= late) job->aside(job->of);
    }
    _tile_stored(0, sums, 64);
    if (tiles == 2) _tile_stored(1, sums + MO_MATRIX_TILE, 64);
    if (blocks == 2) _tile_stored(2, sums + 2 * MO_MATRIX_TILE, 64);
    if (tiles == 2 && blocks == 2) _tile_stored(3, sums + 3 * MO_MATRIX_TILE, 64);
}

/* Of two tiles and two blocks. */
static inline __attribute__((always_inline)) void brief_body(const struct mo_matrix_job *job,
                                                             const bool halves) {
    const char *start = job->start, *b = job->b;
    char *sums = job->sums;
    if (job->zero) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, start, 0);
        _tile_loadd(1, start, 0);
        _tile_loadd(2, start + 64, 0);
        _tile_loadd(3, start + 64, 0);
    }
    for (int64_t i = 0; i < job->n_steps; i++, b += 2 * MO_MATRIX_TILE) {
        multiply_step(job, job->steps[i], b, halves, 2, 2);
    }
    for (int i = 0; i < job->asides; i++)
        job->aside(job->of);
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + MO_MATRIX_TILE, 64);
    _tile_stored(2, sums + 2 * MO_MATRIX_TILE, 64);
    _tile_stored(3, sums + 3 * MO_MATRIX_TILE, 64);
}

static inline __attribute__((always_inline)) void run(const struct mo_matrix_job *job,
                                                      const enum mo_matrix_type type, int tiles, int blocks) {
    if (tiles == 2 && blocks == 2 && job->brief && job->start && type != MO_MATRIX_FLOATS)
        brief_body(job, type == MO_MATRIX_HALVES);
    else if (tiles == 2 && blocks == 2)
        body(job, type, 2, 2);
    else if (tiles == 2)
        body(job, type, 2, 1);
    else if (blocks == 2)
        body(job, type, 1, 2);
    else
        body(job, type, 1, 1);
}

static void run_bytes(const struct mo_matrix_job *job, int tiles, int blocks) {
    run(job, MO_MATRIX_BYTES, tiles, blocks);
}

static void run_halves(const struct mo_matrix_job *job, int tiles, int blocks) {
    run(job, MO_MATRIX_HALVES, tiles, blocks);
}

static void run_floats(const struct mo_matrix_job *job, int tiles, int blocks) {
    run(job, MO_MATRIX_FLOATS, tiles, blocks);
}

const struct mo_matrix_unit mo_matrix_amx = {
    .conv = {"qconv amx", "conv bf16 amx", "conv f32 amx"},
    .gemm = {"qgemm amx", "gemm bf16 amx", "gemm f32 amx"},
    .begin = begin,
    .end = end,
    .run = {run_bytes, run_halves, run_floats},
    .gather = {mo_matrix_gather_bytes, mo_matrix_gather_halves, mo_matrix_gather_floats},
    .gather_narrow = {mo_matrix_gather_narrow_bytes, mo_matrix_gather_narrow_halves,
                      mo_matrix_gather_narrow_floats},
    .gather_small = mo_matrix_gather_small,
    .narrow = mo_matrix_narrow_pixels,
    .small_pixels = mo_matrix_small_pixels,
    .small_rows = mo_matrix_small_rows,
};
#endif
