/* SPDX-License-Identifier: Apache-2.0
 * attention_bytes.c - attention of uint8 by products of bytes on a matrix unit; scores, masks and the softmax
 * are floats, rounded to 8 bits where the model says so.
 *
 * K and V of a head become tiles once, signed.  With k' = k - 128 and zero points zq and zk' a score is
 *
 *   sum (q - zq)(k' - zk')  =  sum q k'  +  (depth zq zk' - zq sum k')  -  zk' sum q
 *
 * where sums start from the second term, which is the key's, and the third is the query's; likewise for the
 * product of weights and V.  32 queries take three steps in scratch, as in attention_halves.c. */
#include "variants/simd/attention_bytes.h"
#include "variants/simd/simd.h"
#include "variants/simd/soften.h"
#include "variants/simd/transpose.h"
#include "variants/simd/vec.h"

typedef struct mo_attention_bytes_params params;
typedef struct mo_attention_bytes_room room;
typedef uint8_t byte_vec __attribute__((vector_size(LANES), aligned(1), may_alias));

static const uint8_t *byte_at(const void *base, const struct mo_attention_operand *o, int64_t b, int64_t h) {
    return (const uint8_t *)base + o->at + b * o->batch + h * o->head;
}

/* Signed, and their sum. */
static int32_t sign_row(const uint8_t *from, int8_t *restrict to, int64_t n) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += from[i];
    for (int64_t i = 0; i < n; i++)
        to[i] = (int8_t)(from[i] ^ 0x80);
    return sum - (int32_t)n * 128;
}

/* Four of a row's numbers become a column. */
static void pack_keys(const params *p, const room *r, const uint8_t *k, char *scratch) {
    const struct mo_attention_view *w = &p->of.view;
    const int64_t steps = r->depth_bytes / MO_MATRIX_STEP, rows = r->key_blocks * 16;
    char *row = scratch + r->rows;
    int32_t *start = (int32_t *)(scratch + r->key_start);
    memset(row, 0, (size_t)(rows * r->depth_bytes));
    for (int64_t j = 0; j < rows; j++) {
        const int32_t sum =
            j < w->keys ? sign_row(k + j * w->k.row, (int8_t *)row + j * r->depth_bytes, w->depth) : 0;
        start[j] = p->q_zero * ((int32_t)w->depth * p->k_zero - sum);
    }
    for (int64_t block = 0; block < r->key_blocks; block++)
        for (int64_t step = 0; step < steps; step++)
            transpose16((const float *)(row + block * 16 * r->depth_bytes + step * MO_MATRIX_STEP),
                        r->depth_bytes / 4,
                        (float *)tile_of(scratch + r->keys, block, r->key_blocks, step, steps), 16);
}

/* Sixteen columns of four rows: numbers of a column side by side. */
static void join_rows(const uint8_t *const row[4], int64_t at, char *to, int32_t *sum) {
    for (int part = 0; part < 16; part += LANES) {
        ivec x[4];
        for (int j = 0; j < 4; j++)
            x[j] = __builtin_convertvector(*(const byte_vec *)(row[j] + at + part), ivec);
        *(ivec *)(to + part * 4) = (x[0] | x[1] << 8 | x[2] << 16 | x[3] << 24) ^ (int32_t)0x80808080;
        *(ivec *)(sum + part) += x[0] + x[1] + x[2] + x[3] - 4 * 128;
    }
}

static void pack_values(const params *p, const room *r, const uint8_t *v, char *scratch) {
    const struct mo_attention_view *w = &p->of.view;
    const int64_t steps = r->key_bytes / MO_MATRIX_STEP, columns = r->width_blocks * 16;
    int32_t *start = (int32_t *)(scratch + r->value_start);
    uint8_t *edge = (uint8_t *)scratch + r->rows; /* rows that end in a block, or are not there */
    memset(scratch + r->values, 0, (size_t)(r->width_blocks * r->key_bytes * 16));
    memset(start, 0, (size_t)columns * 4);
    for (int64_t key = 0; key < w->keys; key += 4) {
        const uint8_t *row[4];
        for (int j = 0; j < 4; j++) {
            row[j] = v + (key + j) * w->v.row;
            if (key + j < w->keys && w->width == columns) continue;
            memset(edge + j * columns, 128, (size_t)columns); /* zeros once they are signed */
            if (key + j < w->keys) memcpy(edge + j * columns, row[j], (size_t)w->width);
            row[j] = edge + j * columns;
        }
        for (int64_t block = 0; block < r->width_blocks; block++) {
            char *tile = tile_of(scratch + r->values, block, r->width_blocks, key / MO_MATRIX_STEP, steps);
            join_rows(row, block * 16, tile + key % MO_MATRIX_STEP * 16, start + block * 16);
        }
    }
    for (int64_t c = 0; c < columns; c++)
        start[c] = p->weights_zero * ((int32_t)w->keys * p->v_zero - start[c]);
}

/* Adding 1.5 x 2^23 leaves no room for a fraction: the sum is rounded to even, and its bits count up. */
static const float magic = 12582912.0f;

/* What a number less its zero point may be. */
struct bounds {
    vec_value lo, hi;
};

static inline struct bounds bounds_of(int zero) {
    return (struct bounds){(float)-zero - (vec_value){0}, (float)(255 - zero) - (vec_value){0}};
}

/* Within the bounds; a NaN becomes the least. */
static inline __attribute__((always_inline)) vec_value bounded(vec_value x, const struct bounds *b) {
    return vec_smaller(vec_larger(x, b->lo), b->hi);
}

static inline __attribute__((always_inline)) void store_bytes(uint8_t *to, vec_value x, int zero) {
    *(byte_vec *)to = __builtin_convertvector((ivec)(x + magic) - (0x4b400000 - zero), byte_vec);
}

static inline __attribute__((always_inline)) vec_value reals(const int32_t *sum, int32_t less, float factor) {
    return __builtin_convertvector(*(const ivec *)sum - less, vec_value) * factor;
}

/* Sixteen scores of a query; `less` is its own term. */
static void score_block(const params *p, const int32_t *sum, int32_t less, float *to) {
    const struct bounds b = bounds_of(p->scores_zero);
    for (int part = 0; part < 16; part += LANES) {
        const vec_value x = reals(sum + part, less, p->to_scores);
        *(vec *)(to + part) = p->rounds ? bounded(x, &b) + magic - magic : x;
    }
}

/* e^(s - top) times `part`, as bytes, of whole blocks; the sum of the first n. */
static int32_t weigh_row(const params *p, const float *s, float part, int64_t n, uint8_t *to) {
    const struct bounds b = bounds_of(p->weights_zero);
    const float factor = part * p->to_weights;
    int32_t sum = 0;
    for (int64_t i = 0; i < (n + 15) / 16 * 16; i += LANES)
        store_bytes(to + i, bounded(*(const vec *)(s + i) * factor, &b), p->weights_zero);
    for (int64_t i = 0; i < n; i++)
        sum += to[i];
    return sum;
}

/* Up to sixteen results of a query. */
static void write_block(const params *p, const int32_t *sum, int32_t less, int64_t n, uint8_t *y) {
    const struct bounds b = bounds_of(p->y_zero);
    uint8_t all[16];
    for (int part = 0; part < 16; part += LANES)
        store_bytes(n < 16 ? all + part : y + part, bounded(reals(sum + part, less, p->to_y), &b), p->y_zero);
    if (n < 16) memcpy(y, all, (size_t)n);
}

/* Rows of n queries, and the sum of each. */
static void copy_queries(const params *p, const room *r, const uint8_t *q, int64_t n, char *rows,
                         int32_t *sum) {
    const struct mo_attention_view *w = &p->of.view;
    memset(rows, 0, (size_t)(MO_QUERY_ROWS * r->depth_bytes));
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *from = q + i * w->q.row;
        memcpy(rows + i * r->depth_bytes, from, (size_t)w->depth);
        int32_t all = 0;
        for (int64_t c = 0; c < w->depth; c++)
            all += from[c];
        sum[i] = all;
    }
}

/* n of at most 32 queries; `mask` and `y` belong to the first. */
static void run_queries(const params *p, const room *r, const uint8_t *q, const char *mask, uint8_t *y,
                        int64_t n, char *scratch) {
    const struct mo_attention_view *w = &p->of.view;
    char *rows = scratch + r->rows, *weights = scratch + r->weights, *sums = scratch + r->sums;
    float *scores = (float *)(scratch + r->scores);
    int32_t sum[MO_QUERY_ROWS];
    const int64_t row = r->key_blocks * 16;
    copy_queries(p, r, q, n, rows, sum);
    for (int64_t block = 0; block < r->key_blocks; block += 2) {
        const int blocks = multiply_rows(&p->of, MO_MATRIX_BYTES, rows, r->depth_bytes, scratch + r->keys,
                                         scratch + r->key_start + block * 64, block, r->key_blocks, sums);
        for (int b = 0; b < blocks; b++)
            for (int64_t i = 0; i < n; i++)
                score_block(p, sums_of(sums, b, i), p->k_zero * sum[i], scores + i * row + (block + b) * 16);
    }
    memset(weights, 0, (size_t)(MO_QUERY_ROWS * r->key_bytes));
    for (int64_t i = 0; i < n; i++) {
        mask_row(&p->of, scores + i * row, mask ? mask + i * mask_row_bytes(&p->of) : NULL);
        const float part = soften(scores + i * row, w->keys);
        sum[i] = weigh_row(p, scores + i * row, part, w->keys, (uint8_t *)weights + i * r->key_bytes);
    }
    for (int64_t block = 0; block < r->width_blocks; block += 2) {
        const int blocks = multiply_rows(&p->of, MO_MATRIX_BYTES, weights, r->key_bytes, scratch + r->values,
                                         scratch + r->value_start + block * 64, block, r->width_blocks, sums);
        for (int b = 0; b < blocks; b++) {
            const int64_t column = (block + b) * 16, left = w->width - column;
            for (int64_t i = 0; i < n; i++)
                write_block(p, sums_of(sums, b, i), p->v_zero * sum[i], left < 16 ? left : 16,
                            y + i * w->y.row + column);
        }
    }
}

void MO_SIMD(attention_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const params *p = args->params;
    const struct mo_attention_view *w = &p->of.view;
    const room r = mo_attention_bytes_room_of(w);
    int64_t packed = -1;
    p->of.unit->begin();
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t head = unit / p->of.chunks, first = unit % p->of.chunks * p->of.chunk;
        const int64_t last = first + p->of.chunk < w->queries ? first + p->of.chunk : w->queries;
        const int64_t b = head / w->heads, h = head % w->heads;
        if (head != packed) {
            pack_keys(p, &r, byte_at(args->in[1], &w->k, b, h), scratch);
            pack_values(p, &r, byte_at(args->in[2], &w->v, b, h), scratch);
            packed = head;
        }
        for (int64_t i = first; i < last; i += MO_QUERY_ROWS)
            run_queries(p, &r, byte_at(args->in[0], &w->q, b, h) + i * w->q.row,
                        mask_at(&p->of, args->in[3], b, h, i),
                        (uint8_t *)args->out[0] + b * w->y.batch + h * w->y.head + i * w->y.row,
                        last - i < MO_QUERY_ROWS ? last - i : MO_QUERY_ROWS, scratch);
    }
    p->of.unit->end();
}
