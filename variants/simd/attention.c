/* SPDX-License-Identifier: Apache-2.0
 * attention.c - softmax(scale Q K^T + mask) V, one head at a time; the scores never leave the cache.
 *
 * For a head, K is packed as panels of 16 keys and V as panels of 16 columns.  A tile of queries then takes
 * three steps in scratch: scores, softmax of its rows, product with V. */
#include "variants/simd/gemm.h"
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static int64_t round16(int64_t n) {
    return (n + 15) / 16 * 16;
}

struct room {
    float *keys, *values, *tile, *scores, *result;
};

/* The binder sizes scratch with the same sums. */
static struct room divide(const struct mo_attention_params *p, float *scratch) {
    struct room r;
    r.keys = scratch;
    r.values = r.keys + round16(p->keys) * p->depth;
    r.tile = r.values + round16(p->width) * p->keys;
    r.scores = r.tile + TILE_ROWS * (p->depth > p->keys ? p->depth : p->keys) + PACK_SLACK;
    r.result = r.scores + TILE_ROWS * round16(p->keys);
    return r;
}

static void pack_keys(const float *k, const struct mo_attention_params *p, float *to) {
    for (int64_t n = 0; n < p->keys; n += 16)
        pack_columns(k + n * p->depth, p->depth, p->keys - n < 16 ? (int)(p->keys - n) : 16, p->depth,
                     to + n * p->depth);
}

static void pack_values(const float *v, const struct mo_attention_params *p, float *to) {
    for (int64_t c = 0; c < p->width; c += 16) {
        int64_t valid = p->width - c < 16 ? p->width - c : 16;
        for (int64_t n = 0; n < p->keys; n++) {
            float *row = to + (c / 16 * p->keys + n) * 16;
            for (int64_t j = 0; j < 16; j++)
                row[j] = j < valid ? v[n * p->width + c + j] : 0.0f;
        }
    }
}

/* rows x n = a (k-major tile) x panels of b, into c with row stride ldc; whole panels are written. */
static void product(const float *a, const float *b, int64_t k, int64_t n, int rows, float *c, int64_t ldc) {
    static const float zero[SLIM_PANELS * 16];
    int64_t panels = round16(n) / 16;
    int wide;
    for (int64_t at = 0; at < panels; at += wide) {
        wide = tile_width(rows, panels - at);
        struct tile t = {.a = a,
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

/* softmax(scale * s + mask) in place; `step` is 0 or 1. */
static void soften(const struct mo_attention_params *p, float *s, const float *mask) {
    float lane[16], top;
    int64_t n = p->keys, whole = n / 16 * 16;
    if (mask && p->mask_key)
        for (int64_t i = 0; i < n; i++)
            s[i] = s[i] * p->scale + mask[i];
    else
        for (int64_t i = 0; i < n; i++)
            s[i] = s[i] * p->scale + (mask ? *mask : 0.0f);
    for (int l = 0; l < 16; l++)
        lane[l] = s[0];
    for (int64_t i = 0; i < whole; i += 16)
        for (int l = 0; l < 16; l++)
            lane[l] = most(s[i + l], lane[l]);
    for (int64_t i = whole; i < n; i++)
        lane[i - whole] = most(s[i], lane[i - whole]);
    top = lane[0];
    for (int l = 1; l < 16; l++)
        top = most(lane[l], top);
    for (int l = 0; l < 16; l++)
        lane[l] = 0.0f;
    for (int64_t i = 0; i < whole; i += 16)
        for (int l = 0; l < 16; l++) {
            s[i + l] = fast_exp(s[i + l] - top);
            lane[l] += s[i + l];
        }
    for (int64_t i = whole; i < n; i++) {
        s[i] = fast_exp(s[i] - top);
        lane[i - whole] += s[i];
    }
    for (int step = 8; step; step /= 2)
        for (int l = 0; l < step; l++)
            lane[l] += lane[l + step];
    const float scale = 1.0f / lane[0];
    for (int64_t i = 0; i < n; i++)
        s[i] *= scale;
}

static void run_queries(const struct mo_attention_params *p, const struct room *r, const float *q,
                        const float *mask, float *y, int64_t count) {
    int64_t blocks = (count + TILE_ROWS - 1) / TILE_ROWS, top, wide = round16(p->keys),
            out = round16(p->width);
    for (int64_t i = 0; i < blocks; i++) {
        int rows = tile_block(count, blocks, i, &top);
        tile_pack(q + top * p->depth, p->depth, 1, rows, p->depth, r->tile);
        product(r->tile, r->keys, p->depth, p->keys, rows, r->scores, wide);
        for (int t = 0; t < rows; t++)
            soften(p, r->scores + t * wide, mask ? mask + (top + t) * p->mask_query : NULL);
        tile_pack(r->scores, wide, 1, rows, p->keys, r->tile);
        if (out == p->width) {
            product(r->tile, r->values, p->keys, p->width, rows, y + top * p->width, p->width);
            continue;
        }
        product(r->tile, r->values, p->keys, p->width, rows, r->result, out);
        for (int t = 0; t < rows; t++)
            memcpy(y + (top + t) * p->width, r->result + t * out, (size_t)p->width * sizeof *y);
    }
}

void MO_SIMD(attention)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_attention_params *p = args->params;
    struct room r = divide(p, scratch);
    int64_t packed = -1;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t head = unit / p->chunks, first = unit % p->chunks * p->chunk;
        int64_t count = p->queries - first < p->chunk ? p->queries - first : p->chunk;
        const float *mask = p->masked ? (const float *)args->in[3] + head / p->heads * p->mask_batch +
                                            head % p->heads * p->mask_head + first * p->mask_query
                                      : NULL;
        if (head != packed) {
            pack_keys((const float *)args->in[1] + head * p->keys * p->depth, p, r.keys);
            pack_values((const float *)args->in[2] + head * p->keys * p->width, p, r.values);
            packed = head;
        }
        run_queries(p, &r, (const float *)args->in[0] + (head * p->queries + first) * p->depth, mask,
                    (float *)args->out[0] + (head * p->queries + first) * p->width, count);
    }
}
