/* SPDX-License-Identifier: Apache-2.0
 * gemm.c - matrix products: with packed constant weights (gemm) and of two activations (matmul).
 *
 * gemm follows Goto: a chunk of A rows is packed k-major for one block of k (it stays in L2), then each pair
 * of B panels (in L1) meets every row block.  C carries the sum from one k block to the next. */
#include "variants/simd/gemm.h"
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

enum { TAIL = TILE_ROWS * SLIM_PANELS * 16 };

/* One tile at column `col` of `n`; columns beyond n are computed in a side buffer and dropped. */
static void tile_at(struct gemm_tile *t, int rows, int panels, int64_t valid, float *side) {
    float *c = t->c;
    int64_t ldc = t->ldc, width = panels * 16;
    if (valid >= width) {
        tile_run(t, rows, panels);
        return;
    }
    for (int r = 0; !t->start && r < rows; r++)
        memcpy(side + r * width, c + r * ldc, (size_t)valid * sizeof *c);
    t->c = side;
    t->ldc = width;
    tile_run(t, rows, panels);
    for (int r = 0; r < rows; r++)
        memcpy(c + r * ldc, side + r * width, (size_t)valid * sizeof *c);
    t->c = c;
    t->ldc = ldc;
}

struct job {
    const struct mo_kargs *args;
    const struct mo_gemm_params *p;
    const float *a;
    float *c;
    const float *residual;
    int64_t a_row, c_row, residual_row;
    int64_t rows, blocks; /* of this chunk */
    float *packed, *side, *wide;
};

static void widen(const uint16_t *from, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES)
        *(vec *)(to + i) = widened(from + i);
}

/* Rows [k0, k0 + kn) of panels from `at` on, as they lie; of float16 only where one tile reads them. */
static void set_panels(const struct job *job, int64_t at, int64_t panels, int64_t k0, int64_t kn,
                       struct gemm_tile *t) {
    const struct mo_gemm_params *p = job->p;
    const int64_t first = (at * p->k + k0) * 16;
    if (!p->float16) {
        t->b = (const float *)job->args->weights + first;
        t->panel = p->k * 16;
        return;
    }
    if (job->blocks == 1) {
        t->small = (const uint16_t *)job->args->weights + first;
        t->panel = p->k * 16;
        return;
    }
    for (int64_t i = 0; i < panels; i++)
        widen((const uint16_t *)job->args->weights + first + i * p->k * 16, job->wide + i * kn * 16, kn * 16);
    t->b = job->wide;
    t->panel = kn * 16;
}

/* Panels [first, last) against all row blocks for products [k0, k0 + kn). */
static void sweep(const struct job *job, int64_t first, int64_t last, int64_t k0, int64_t kn) {
    const struct mo_gemm_params *p = job->p;
    int64_t top = 0;
    int tallest = tile_block(job->rows, job->blocks, job->blocks - 1, &top), panels;
    for (int64_t at = first; at < last; at += panels) {
        panels = tile_width(tallest, last - at);
        int64_t col = at * 16, valid = p->n - col < panels * 16 ? p->n - col : panels * 16;
        struct gemm_tile t = {.ldb = 16, .k_count = kn, .start = k0 ? NULL : job->args->bias + col};
        set_panels(job, at, panels, k0, kn, &t);
        for (int64_t i = 0; i < job->blocks; i++) {
            int rows = tile_block(job->rows, job->blocks, i, &top);
            t.a = job->packed + top * kn;
            t.c = job->c + top * job->c_row + col;
            t.ldc = job->c_row;
            const bool fetches = job->blocks > 1 && !i && at + 2 * panels <= last && !p->float16;
            t.ahead = fetches ? t.b + panels * t.panel : NULL;
            tile_at(&t, rows, panels, valid, job->side);
            if (k0 + kn < p->k || (p->fuse.act == MO_ACT_NONE && !job->residual)) continue;
            for (int r = 0; r < rows; r++)
                finish_row(&p->fuse,
                           job->residual ? job->residual + (top + r) * job->residual_row + col : NULL,
                           t.c + r * t.ldc, valid);
        }
    }
}

static void run_chunk(struct job *job, int64_t first, int64_t last) {
    const struct mo_gemm_params *p = job->p;
    float *scratch = job->packed;
    for (int64_t k0 = 0; k0 < p->k || !k0; k0 += p->k_block) {
        int64_t kn = p->k - k0 < p->k_block ? p->k - k0 : p->k_block, top;
        if (job->rows == 1 && p->a_step == 1) {
            job->packed = (float *)job->a + k0;
        } else {
            for (int64_t i = 0; i < job->blocks; i++) {
                int rows = tile_block(job->rows, job->blocks, i, &top);
                tile_pack(job->a + top * job->a_row + k0 * p->a_step, job->a_row, p->a_step, rows, kn,
                          scratch + top * kn);
            }
        }
        sweep(job, first, last, k0, kn);
    }
    job->packed = scratch;
}

void MO_SIMD(gemm)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_gemm_params *p = args->params;
    struct job job = {.args = args,
                      .p = p,
                      .side = scratch,
                      .packed = (float *)scratch + TAIL,
                      .wide = (float *)scratch + p->wide_at};
    int64_t panels = (p->n + 15) / 16;
    job.a_row = p->a_row;
    job.c_row = p->c_row;
    job.residual_row = p->residual_row;
    while (begin < end) {
        int64_t chunk = begin / p->groups, group = begin % p->groups;
        int64_t stop = end - begin < p->groups - group ? group + (end - begin) : p->groups;
        int64_t image = chunk / p->chunks, row = chunk % p->chunks * p->chunk;
        job.rows = p->rows - row < p->chunk ? p->rows - row : p->chunk;
        job.blocks = (job.rows + TILE_ROWS - 1) / TILE_ROWS;
        job.a = (const float *)((const char *)args->in[0] + image * args->in_image[0]) + row * job.a_row;
        job.c = (float *)((char *)args->out[0] + image * args->out_image[0]) + row * job.c_row;
        job.residual = args->residual
                           ? (const float *)((const char *)args->residual + image * args->residual_image) +
                                 row * job.residual_row
                           : NULL;
        run_chunk(&job, group * p->group, stop * p->group < panels ? stop * p->group : panels);
        begin += stop - group;
    }
}

/* Columns [col, col + 16 * panels) of B as packed panels, zeros beyond n. */
static void pack_panels(const float *b, const struct mo_matmul_params *p, int64_t col, int64_t panels,
                        float *to) {
    for (int64_t i = 0; i < panels; i++) {
        int64_t at = col + i * 16, valid = p->n - at < 16 ? p->n - at : 16;
        float *panel = to + i * p->k * 16;
        if (valid < 16) memset(panel, 0, (size_t)p->k * 16 * sizeof *panel);
        if (p->b_step == 1) {
            for (int64_t k = 0; k < p->k; k++)
                memcpy(panel + k * 16, b + k * p->b_row + at, (size_t)valid * 4);
        } else if (p->b_row == 1) {
            pack_columns(b + at * p->b_step, p->b_step, (int)valid, p->k, panel);
        } else {
            for (int64_t n = 0; n < valid; n++)
                for (int64_t k = 0; k < p->k; k++)
                    panel[k * 16 + n] = b[k * p->b_row + (at + n) * p->b_step];
        }
    }
}

void MO_SIMD(matmul)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_matmul_params *p = args->params;
    float *side = scratch, *a_tile = side + TAIL, *b_panels = a_tile + TILE_ROWS * p->k + PACK_SLACK;
    int64_t blocks = (p->rows + TILE_ROWS - 1) / TILE_ROWS, all = (p->n + 15) / 16, top;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t matrix = unit / p->groups, first = unit % p->groups * p->group;
        int64_t panels = all - first < p->group ? all - first : p->group, a_at = 0, b_at = 0, left = matrix;
        for (int d = p->rank - 1; d >= 0; d--) {
            a_at += left % p->dims[d] * p->a_dims[d];
            b_at += left % p->dims[d] * p->b_dims[d];
            left /= p->dims[d];
        }
        const float *a = (const float *)args->in[0] + a_at;
        float *c = (float *)args->out[0] + matrix * p->rows * p->n;
        pack_panels((const float *)args->in[1] + b_at, p, first * 16, panels, b_panels);
        for (int64_t i = 0; i < blocks; i++) {
            int rows = tile_block(p->rows, blocks, i, &top), wide;
            tile_pack(a + top * p->a_row, p->a_row, p->a_step, rows, p->k, a_tile);
            for (int64_t at = 0; at < panels; at += wide) {
                wide = tile_width(rows, panels - at);
                int64_t col = (first + at) * 16, valid = p->n - col < wide * 16 ? p->n - col : wide * 16;
                struct gemm_tile t = {.a = a_tile,
                                      .b = b_panels + at * p->k * 16,
                                      .ldb = 16,
                                      .panel = p->k * 16,
                                      .c = c + top * p->n + col,
                                      .ldc = p->n,
                                      .k_count = p->k,
                                      .start = args->bias + col};
                tile_at(&t, rows, wide, valid, side);
                for (int r = 0; r < rows; r++) {
                    float *y = t.c + r * t.ldc;
                    finish_row(&p->fuse,
                               args->residual
                                   ? (const float *)args->residual + (y - (const float *)args->out[0])
                                   : NULL,
                               y, valid);
                }
            }
        }
    }
}
