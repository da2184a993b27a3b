/* SPDX-License-Identifier: Apache-2.0
 * matrix_model.c - a matrix unit in plain C: what the tiles of one compute, in its order of sums.
 *
 * Products of bytes are exact.  Those of bfloat16 are added pair by pair, each product exact and every sum
 * rounded, with subnormal numbers as zeros, as AMX does; a unit may differ in the last bits. */
#include "variants/matrix/matrix_plain.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, QUADS = MO_MATRIX_STEP / 4 };

static void nothing(void) {}

static void add_bytes(const uint8_t *a, const int8_t *b, int32_t *sum) {
    for (int r = 0; r < QUADS; r++)
        for (int lane = 0; lane < LANES; lane++)
            for (int k = 0; k < 4; k++)
                sum[lane] += a[r * 4 + k] * b[r * MO_MATRIX_STEP + lane * 4 + k];
}

static float widened(const char *half) {
    uint16_t high;
    memcpy(&high, half, 2);
    const float x = mo_bfloat16_wide(high);
    return fabsf(x) < 0x1p-126f ? 0 : x;
}

static void add_halves(const char *a, const char *b, float *sum) {
    for (int at = 0; at < 2 * QUADS; at++) {
        const float x = widened(a + at * 2);
        const char *row = b + at / 2 * MO_MATRIX_STEP + at % 2 * 2;
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] += x * widened(row + lane * 4);
    }
}

/* Those terms whose places add up to two at most, small products first; `a_term` and `b_term` bytes apart. */
static void add_floats(const char *a, int64_t a_term, const char *b, int64_t b_term, float *sum) {
    static const int order[][2] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        add_halves(a + order[i][0] * a_term, b + order[i][1] * b_term, sum);
}

static void run(const struct mo_matrix_job *job, enum mo_matrix_type type, int tiles, int blocks) {
    const int64_t tile = blocks * MO_MATRIX_TILE, terms = type == MO_MATRIX_FLOATS ? MO_MATRIX_TERMS : 1;
    for (int block = 0; block < blocks; block++)
        for (int at = 0; at < tiles * MO_MATRIX_POSITIONS; at++) {
            const char *a = job->a[at / MO_MATRIX_POSITIONS] + at % MO_MATRIX_POSITIONS * job->a_row;
            const char *b = job->b + block * MO_MATRIX_TILE;
            char *sums = job->sums + block * MO_MATRIX_PAIR * MO_MATRIX_TILE + at * 64;
            if (job->start) memcpy(sums, (const char *)job->start + block * 64, 64);
            for (int64_t step = 0; step < job->n_steps; step++, b += terms * tile)
                if (type == MO_MATRIX_BYTES)
                    add_bytes((const uint8_t *)a + job->steps[step], (const int8_t *)b, (int32_t *)sums);
                else if (type == MO_MATRIX_HALVES)
                    add_halves(a + job->steps[step], b, (float *)sums);
                else
                    add_floats(a + job->steps[step], job->a_term, b, tile, (float *)sums);
        }
}

static void run_asides(const struct mo_matrix_job *job) {
    for (int i = 0; i < job->asides; i++)
        job->aside(job->of);
}

static void run_bytes(const struct mo_matrix_job *job, int tiles, int blocks) {
    run_asides(job);
    run(job, MO_MATRIX_BYTES, tiles, blocks);
}

static void run_halves(const struct mo_matrix_job *job, int tiles, int blocks) {
    run_asides(job);
    run(job, MO_MATRIX_HALVES, tiles, blocks);
}

static void run_floats(const struct mo_matrix_job *job, int tiles, int blocks) {
    run_asides(job);
    run(job, MO_MATRIX_FLOATS, tiles, blocks);
}

void mo_matrix_plain_gather_bytes(const struct mo_gather *g) {
    for (int64_t i = 0; i < g->n; i++) {
        char *to = g->to + i * g->width;
        for (int k = 0; k < g->planes; k++)
            memcpy(to + k * 16, g->from + i * g->pixel + k * g->plane, 16);
        memset(to + g->planes * 16, 0, (size_t)(g->width - g->planes * 16));
    }
}

/* One number, or its terms. */
static void put(float x, int terms, int64_t apart, char *to) {
    uint16_t term[MO_MATRIX_TERMS] = {mo_bfloat16(x)};
    if (terms > 1) mo_bfloat16_terms(x, term);
    for (int t = 0; t < terms; t++)
        memcpy(to + t * apart, &term[t], 2);
}

static void gather(const struct mo_gather *g, int terms) {
    for (int64_t i = 0; i < g->n; i++) {
        char *to = g->to + i * g->width;
        for (int t = 0; t < terms; t++)
            memset(to + t * g->term, 0, (size_t)g->width);
        for (int k = 0; k < g->planes; k++)
            for (int lane = 0; lane < (k + 1 < g->planes ? 16 : g->lanes); lane++) {
                const char *from = g->from + i * g->pixel + k * g->plane;
                const float x = ((const float *)from)[lane] * (g->gate ? g->gate[k * 16 + lane] : 1);
                put(x, terms, g->term, to + k * 32 + lane * 2);
            }
    }
}

static void gather_halves(const struct mo_gather *g) {
    gather(g, 1);
}

static void gather_floats(const struct mo_gather *g) {
    gather(g, MO_MATRIX_TERMS);
}

static void gather_small(const struct mo_gather *g) {
    for (int64_t i = 0; i < g->n; i++) {
        uint16_t *to = (uint16_t *)(g->to + i * g->width);
        memset(to, 0, (size_t)g->width);
        for (int k = 0; k < g->planes * 16; k++) {
            uint16_t half;
            memcpy(&half, g->from + i * g->pixel + k / 16 * g->plane + k % 16 * 2, 2);
            to[k] = g->gate ? mo_bfloat16(mo_bfloat16_wide(half) * g->gate[k]) : half;
        }
    }
}

static void narrow(float lo, float hi, const float *sums, int64_t pixels, const char *residual, char *y) {
    for (int64_t i = 0; i < pixels * 16; i++) {
        uint16_t half = 0;
        if (residual) memcpy(&half, residual + i * 2, 2);
        float v = sums[i] + mo_bfloat16_wide(half);
        v = v < lo ? lo : v;
        half = mo_bfloat16(v > hi ? hi : v);
        memcpy(y + i * 2, &half, 2);
    }
}

void mo_matrix_plain_gather_narrow_bytes(const struct mo_gather *g) {
    for (int64_t i = 0; i < g->n; i++)
        memcpy(g->to + i * g->width, g->from + i * g->pixel, 4);
}

static void gather_narrow(const struct mo_gather *g, int terms) {
    for (int64_t i = 0; i < g->n; i++)
        for (int k = 0; k < 4; k++) {
            float x = 0;
            if (k < g->planes) memcpy(&x, g->from + i * g->pixel + k * g->plane, 4);
            put(x, terms, g->term, g->to + i * g->width + k * 2);
        }
}

static void gather_narrow_halves(const struct mo_gather *g) {
    gather_narrow(g, 1);
}

static void gather_narrow_floats(const struct mo_gather *g) {
    gather_narrow(g, MO_MATRIX_TERMS);
}

const struct mo_matrix_unit mo_matrix_model = {
    .conv = {"qconv model", "conv bf16 model", "conv f32 model"},
    .gemm = {"qgemm model", "gemm bf16 model", "gemm f32 model"},
    .begin = nothing,
    .end = nothing,
    .run = {run_bytes, run_halves, run_floats},
    .gather = {mo_matrix_plain_gather_bytes, gather_halves, gather_floats},
    .gather_narrow = {mo_matrix_plain_gather_narrow_bytes, gather_narrow_halves, gather_narrow_floats},
    .gather_small = gather_small,
    .narrow = narrow,
};
