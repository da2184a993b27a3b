/* SPDX-License-Identifier: Apache-2.0
 * attention_halves.c - softmax(scale Q K^T + mask) V by products of bfloat16 on a matrix unit; scores, masks
 * and the softmax are floats.
 *
 * K and V of a head become tiles once.  32 queries then take three steps in scratch: scores, softmax of the
 * rows, whose results become halves, product with V. */
#include "variants/simd/attention_halves.h"
#include "variants/simd/simd.h"
#include "variants/simd/soften.h"
#include "variants/simd/transpose.h"

static const float zeros[2 * 16];

/* n rows of `columns` floats, `row` apart, as halves; rows up to `all` are zeros. */
static void halve_rows(const struct mo_matrix_unit *unit, const float *from, int64_t row, int64_t columns,
                       int64_t n, int64_t all, char *to, int64_t bytes) {
    const int64_t planes = (columns + 15) / 16;
    const struct mo_gather g = {.from = (const char *)from,
                                .plane = 64,
                                .pixel = row * 4,
                                .planes = (int)planes,
                                .lanes = (int)(columns - (planes - 1) * 16),
                                .n = n,
                                .to = to,
                                .width = bytes};
    unit->gather[MO_MATRIX_HALVES](&g);
    memset(to + n * bytes, 0, (size_t)((all - n) * bytes));
}

/* Pairs of a row's numbers become a column. */
static void pack_keys(const struct mo_attention_params *p, const struct mo_attention_room *r, const float *k,
                      char *scratch) {
    const struct mo_attention_view *w = &p->view;
    const int64_t steps = r->depth_bytes / MO_MATRIX_STEP;
    char *rows = scratch + r->rows;
    halve_rows(p->unit, k, w->k.row, w->depth, w->keys, r->key_blocks * 16, rows, r->depth_bytes);
    for (int64_t block = 0; block < r->key_blocks; block++)
        for (int64_t step = 0; step < steps; step++)
            transpose16((const float *)(rows + block * 16 * r->depth_bytes + step * MO_MATRIX_STEP),
                        r->depth_bytes / 4,
                        (float *)tile_of(scratch + r->keys, block, r->key_blocks, step, steps), 16);
}

/* Two rows' numbers of a column become a pair. */
static void pack_values(const struct mo_attention_params *p, const struct mo_attention_room *r,
                        const float *v, char *scratch) {
    const struct mo_attention_view *w = &p->view;
    const int64_t steps = r->key_bytes / MO_MATRIX_STEP;
    char *rows = scratch + r->rows;
    halve_rows(p->unit, v, w->v.row, w->width, w->keys, steps * 32, rows, r->width_bytes);
    for (int64_t block = 0; block < r->width_blocks; block++)
        for (int64_t key = 0; key < steps * 32; key += 2) {
            char *tile = tile_of(scratch + r->values, block, r->width_blocks, key / 32, steps);
            const uint16_t *a = (const uint16_t *)(rows + key * r->width_bytes) + block * 16;
            const uint16_t *b = (const uint16_t *)(rows + (key + 1) * r->width_bytes) + block * 16;
            uint32_t pair[16];
            for (int l = 0; l < 16; l++)
                pair[l] = a[l] | (uint32_t)b[l] << 16;
            memcpy(tile + key % 32 / 2 * 64, pair, sizeof pair);
        }
}

/* n of at most 32 queries; `mask` and `y` belong to the first. */
static void run_queries(const struct mo_attention_params *p, const struct mo_attention_room *r,
                        const float *q, const char *mask, float *y, int64_t n, char *scratch) {
    const struct mo_attention_view *w = &p->view;
    char *rows = scratch + r->rows, *weights = scratch + r->weights, *sums = scratch + r->sums;
    float *scores = (float *)(scratch + r->scores), part[MO_QUERY_ROWS];
    const int64_t row = r->key_blocks * 16;
    halve_rows(p->unit, q, w->q.row, w->depth, n, MO_QUERY_ROWS, rows, r->depth_bytes);
    for (int64_t block = 0; block < r->key_blocks; block += 2) {
        const int blocks = multiply_rows(p, MO_MATRIX_HALVES, rows, r->depth_bytes, scratch + r->keys, zeros,
                                         block, r->key_blocks, sums);
        for (int b = 0; b < blocks; b++)
            for (int64_t i = 0; i < n; i++)
                memcpy(scores + i * row + (block + b) * 16, sums_of(sums, b, i), 64);
    }
    for (int64_t i = 0; i < n; i++) {
        mask_row(p, scores + i * row, mask ? mask + i * mask_row_bytes(p) : NULL);
        part[i] = soften(scores + i * row, w->keys);
    }
    halve_rows(p->unit, scores, row, w->keys, n, MO_QUERY_ROWS, weights, r->key_bytes);
    for (int64_t block = 0; block < r->width_blocks; block += 2) {
        const int blocks = multiply_rows(p, MO_MATRIX_HALVES, weights, r->key_bytes, scratch + r->values,
                                         zeros, block, r->width_blocks, sums);
        for (int b = 0; b < blocks; b++) {
            const int64_t column = (block + b) * 16, left = w->width - column;
            const int64_t valid = left < 16 ? left : 16;
            for (int64_t i = 0; i < n; i++)
                for (int64_t c = 0; c < valid; c++)
                    y[i * w->y.row + column + c] = ((const float *)sums_of(sums, b, i))[c] * part[i];
        }
    }
}

void MO_SIMD(attention_halves)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_attention_params *p = args->params;
    const struct mo_attention_view *w = &p->view;
    const struct mo_attention_room r = mo_attention_room_of(w);
    int64_t packed = -1;
    p->unit->begin();
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t head = unit / p->chunks, first = unit % p->chunks * p->chunk;
        const int64_t last = first + p->chunk < w->queries ? first + p->chunk : w->queries;
        const int64_t b = head / w->heads, h = head % w->heads;
        if (head != packed) {
            pack_keys(p, &r, at(args->in[1], &w->k, b, h), scratch);
            pack_values(p, &r, at(args->in[2], &w->v, b, h), scratch);
            packed = head;
        }
        for (int64_t i = first; i < last; i += MO_QUERY_ROWS)
            run_queries(p, &r, at(args->in[0], &w->q, b, h) + i * w->q.row, mask_at(p, args->in[3], b, h, i),
                        (float *)args->out[0] + b * w->y.batch + h * w->y.head + i * w->y.row,
                        last - i < MO_QUERY_ROWS ? last - i : MO_QUERY_ROWS, scratch);
    }
    p->unit->end();
}
