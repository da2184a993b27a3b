/* SPDX-License-Identifier: Apache-2.0
 * attention.c - softmax(scale Q K^T + mask) V, one head at a time; the scores never leave the cache.
 *
 * For a head, K is packed as panels of 16 keys and V as panels of 16 columns.  Queries that fill vectors are
 * lanes (attention_lanes.h).  A tile of the others takes three steps in scratch: scores, softmax of its rows,
 * product with V. */
#include "variants/simd/attention_lanes.h"
#include "variants/simd/gemm.h"
#include "variants/simd/simd.h"

/* Vectors for fewer queries than this are not worth it. */
enum { LANES_LEAST = LANES * 3 / 4 };

struct room {
    float *keys, *values, *tile, *scores, *result;
    struct lanes lanes;
};

static struct room divide(const struct mo_attention_params *p, float *scratch) {
    const struct mo_attention_places at = mo_attention_places_of(&p->view);
    struct room r = {.keys = scratch + at.keys,
                     .values = scratch + at.values,
                     .tile = scratch + at.tile,
                     .scores = scratch + at.rows,
                     .result = scratch + at.result};
    r.lanes = (struct lanes){.p = p,
                             .keys = r.keys,
                             .values = r.values,
                             .query = scratch + at.query,
                             .scores = scratch + at.columns,
                             .sum = scratch + at.sum};
    return r;
}

static void pack_keys(const float *k, const struct mo_attention_view *w, float *to) {
    for (int64_t n = 0; n < w->keys; n += 16)
        pack_columns(k + n * w->k.row, w->k.row, w->keys - n < 16 ? (int)(w->keys - n) : 16, w->depth,
                     to + n * w->depth);
}

static void pack_values(const float *v, const struct mo_attention_view *w, float *to) {
    for (int64_t c = 0; c < w->width; c += 16) {
        const int64_t valid = w->width - c < 16 ? w->width - c : 16;
        for (int64_t n = 0; n < w->keys; n++, to += 16) {
            if (valid == 16) {
                memcpy(to, v + n * w->v.row + c, 16 * sizeof *to);
                continue;
            }
            memset(to, 0, 16 * sizeof *to);
            for (int64_t j = 0; j < valid; j++)
                to[j] = v[n * w->v.row + c + j];
        }
    }
}

/* rows x n = a (k-major tile) x panels of b, into c with row stride ldc; whole panels are written. */
static void product(const float *a, const float *b, int64_t k, int64_t n, int rows, float *c, int64_t ldc) {
    static const float zero[SLIM_PANELS * 16];
    int64_t panels = mo_round_up(n, 16) / 16;
    int wide;
    for (int64_t at = 0; at < panels; at += wide) {
        wide = tile_width(rows, panels - at);
        struct gemm_tile t = {.a = a,
                              .b = b + at * k * 16,
                              .ldb = 16,
                              .panel = k * 16,
                              .c = c + at * 16,
                              .ldc = ldc,
                              .k_count = k,
                              .start = zero};
        tile_run(&t, rows, wide);
    }
}

/* `mask` and `y` belong to the first of `count` queries at q. */
static void run_rows(const struct mo_attention_params *p, const struct room *r, const float *q,
                     const char *mask, float *y, int64_t count) {
    const struct mo_attention_view *w = &p->view;
    int64_t blocks = (count + TILE_ROWS - 1) / TILE_ROWS, top, wide = mo_round_up(w->keys, 16),
            out = mo_round_up(w->width, 16), mask_bytes = mask_row_bytes(p);
    for (int64_t i = 0; i < blocks; i++) {
        float part[TILE_ROWS];
        int rows = tile_block(count, blocks, i, &top);
        tile_pack(q + top * w->q.row, w->q.row, 1, rows, w->depth, r->tile);
        product(r->tile, r->keys, w->depth, w->keys, rows, r->scores, wide);
        for (int t = 0; t < rows; t++) {
            mask_row(p, r->scores + t * wide, mask ? mask + (top + t) * mask_bytes : NULL);
            part[t] = soften(r->scores + t * wide, w->keys);
        }
        tile_pack(r->scores, wide, 1, rows, w->keys, r->tile);
        product(r->tile, r->values, w->keys, w->width, rows, r->result, out);
        for (int t = 0; t < rows; t++)
            for (int64_t c = 0; c < w->width; c++)
                y[(top + t) * w->y.row + c] = r->result[t * out + c] * part[t];
    }
}

/* The same: what fills vectors, and the rest. */
static void run_queries(const struct mo_attention_params *p, const struct room *r, const float *q,
                        const char *mask, float *y, int64_t count) {
    const struct mo_attention_view *w = &p->view;
    const int64_t rest = count % LANES, vectors = count / LANES + (rest >= LANES_LEAST);
    const int64_t blocks = (vectors + LANE_VECTORS - 1) / LANE_VECTORS, mask_bytes = mask_row_bytes(p);
    int64_t done = 0;
    for (int64_t i = 0; i < blocks; i++) {
        const int wide = (int)(vectors * (i + 1) / blocks - vectors * i / blocks);
        const int64_t left = count - done, most = (int64_t)wide * LANES, n = left < most ? left : most;
        lane_run[wide - 1](&r->lanes, q + done * w->q.row, mask ? mask + done * mask_bytes : NULL,
                           y + done * w->y.row, (int)n);
        done += n;
    }
    if (done < count)
        run_rows(p, r, q + done * w->q.row, mask ? mask + done * mask_bytes : NULL, y + done * w->y.row,
                 count - done);
}

/* Of a chunk: chunks are whole vectors on any level, and the last one has the rest. */
static int64_t first_query(const struct mo_attention_params *p, int64_t chunk) {
    const int64_t queries = p->view.queries;
    return chunk == p->chunks ? queries : queries / MO_LANES_MOST * chunk / p->chunks * MO_LANES_MOST;
}

void MO_SIMD(attention)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_attention_params *p = args->params;
    const struct mo_attention_view *w = &p->view;
    const struct room r = divide(p, scratch);
    int64_t packed = -1;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t head = unit / p->chunks, chunk = unit % p->chunks;
        const int64_t first = first_query(p, chunk), count = first_query(p, chunk + 1) - first;
        int64_t b = head / w->heads, h = head % w->heads;
        const char *mask = mask_at(p, args->in[3], b, h, first);
        if (head != packed) {
            pack_keys(at(args->in[1], &w->k, b, h), w, r.keys);
            pack_values(at(args->in[2], &w->v, b, h), w, r.values);
            packed = head;
        }
        run_queries(p, &r, at(args->in[0], &w->q, b, h) + first * w->q.row, mask,
                    (float *)args->out[0] + b * w->y.batch + h * w->y.head + first * w->y.row, count);
    }
}
