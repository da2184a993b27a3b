/* SPDX-License-Identifier: Apache-2.0
 * attention_lanes.h - attention of many queries: a query for each lane of up to three vectors.
 *
 * Scores then are columns, S^T = K Q^T, and so is the result, O^T = V^T P^T.  What a softmax does to a query
 * it does to a lane: no sums or maxima over lanes.  Weights are read by the second product where the first
 * one and the softmax wrote them.  Both products broadcast from K and V as attention.c packs them, row k of
 * 16 numbers at 16 k.
 *
 * Keys come in blocks whose scores stay in the first cache.  With several blocks, the maximum of a query
 * grows: what was added before is scaled down (Milakov and Gimelshein, Online normalizer calculation for
 * softmax, 2018). */
#ifndef MO_SIMD_ATTENTION_LANES_H
#define MO_SIMD_ATTENTION_LANES_H
#include "variants/simd/attention_room.h"
#include "variants/simd/soften.h"
#include "variants/simd/transpose.h"
#include "variants/simd/vec_math.h"

/* LANE_ROWS x LANE_VECTORS sums are a tile: what the registers hold, and a divisor of 16.  One vector alone
 * has twice the rows, or its sums would wait for each other. */
enum { LANE_ROWS = LANES == 16 ? 8 : 4, LANE_VECTORS = MO_LANE_VECTORS };

struct lanes {
    const struct mo_attention_params *p;
    const float *keys, *values;  /* packed */
    float *query, *scores, *sum; /* [depth], [keys of a block], [width] of queries */
};

/* c[r] = the sum over k of a[16 k + r] b[k]; with `onward` added to what is there. */
static inline __attribute__((always_inline)) void lane_tile(const float *a, const float *b, int64_t k_count,
                                                            float *c, const int rows, const int vectors,
                                                            const bool onward) {
    vec_value acc[2 * LANE_ROWS][LANE_VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[r][v] = onward ? (vec_value) * (const vec *)(c + (r * vectors + v) * LANES) : (vec_value){0};
    for (int64_t k = 0; k < k_count; k++) {
        vec_value x[LANE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            x[v] = *(const vec *)(b + v * LANES);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const vec_value w = vec_broadcast(a + r);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[r][v] = vec_mac(acc[r][v], x[v], w);
        }
        a += 16;
        b += vectors * LANES;
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            *(vec *)(c + (r * vectors + v) * LANES) = acc[r][v];
}

/* n rows of c from panels of 16 of them, `panel` floats apart; whole tiles are written. */
static inline __attribute__((always_inline)) void lane_product(const float *a, int64_t panel, const float *b,
                                                               int64_t k_count, float *c, int64_t n,
                                                               const int vectors, const bool onward) {
    const int rows = vectors == 1 ? 2 * LANE_ROWS : LANE_ROWS, half = rows / 2;
    for (int64_t i = 0; i < n; i += rows) {
        const float *from = a + i / 16 * panel + i % 16;
        float *to = c + i * vectors * LANES;
        if (n - i > half)
            lane_tile(from, b, k_count, to, rows, vectors, onward);
        else
            lane_tile(from, b, k_count, to, half, vectors, onward);
    }
}

/* to[k][lane] = factor * a[lane][k], of `lanes` rows; the other lanes are zeros. */
static inline void lane_columns(const float *a, int64_t row, int lanes, int64_t k_count, float factor,
                                float *to, int64_t to_row) {
    int64_t k = 0;
    for (; k + LANES <= k_count; k += LANES)
        transpose_square(a + k, row, to + k * to_row, to_row, lanes, LANES);
    for (; k < k_count; k++)
        for (int l = 0; l < LANES; l++)
            to[k * to_row + l] = l < lanes ? a[l * row + k] : 0.0f;
    for (k = 0; k < k_count; k++)
        *(vec *)(to + k * to_row) *= factor;
}

/* One row of a mask for all: of n keys from `key` on. */
static inline void mask_all(const struct mo_attention_params *p, const char *mask, float *s, int64_t n,
                            int64_t width) {
    const int64_t step = p->mask_stride[3];
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = 0; l < width; l += LANES) {
            vec *to = (vec *)(s + i * width + l);
            if (p->mask == MO_MASK_ADD)
                *to += ((const float *)mask)[i * step];
            else if ((mask[i * step] != 0) == (p->mask == MO_MASK_FILL))
                *to = vec_of(p->fill);
        }
}

/* Numbers of a mask of n <= LANES keys for one query: what is added, or 1 where a score becomes `fill`. */
static inline void mask_numbers(const struct mo_attention_params *p, const char *mask, int64_t n, float *to) {
    const int64_t step = p->mask_stride[3];
    for (int64_t i = 0; i < n; i++)
        to[i] = p->mask == MO_MASK_ADD ? ((const float *)mask)[i * step]
                                       : (float)((mask[i * step] != 0) == (p->mask == MO_MASK_FILL));
}

/* The masks of `lanes` queries, each its own, on one vector of every key's scores. */
static void mask_each(const struct mo_attention_params *p, const char *mask, int lanes, float *s, int64_t n,
                      int64_t width) {
    const int64_t key_bytes = mask_key_bytes(p), row = mask_row_bytes(p);
    float numbers[LANES * LANES], turned[LANES * LANES];
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t keys = n - i < LANES ? n - i : LANES;
        const char *from = mask + i * key_bytes;
        if (p->mask == MO_MASK_ADD && key_bytes == 4 && keys == LANES) {
            transpose_square((const float *)(const void *)from, row / 4, turned, LANES, lanes, LANES);
        } else {
            memset(numbers, 0, sizeof numbers);
            for (int l = 0; l < lanes; l++)
                mask_numbers(p, from + l * row, keys, numbers + (ptrdiff_t)l * LANES);
            transpose_square(numbers, LANES, turned, LANES, lanes, LANES);
        }
        for (int64_t k = 0; k < keys; k++) {
            vec *to = (vec *)(s + (i + k) * width);
            const vec m = *(const vec *)(turned + k * LANES);
            const ivec hit = m != 0.0f;
            if (p->mask == MO_MASK_ADD)
                *to += m;
            else
                *to = (vec)(((ivec)vec_of(p->fill) & hit) | ((ivec)*to & ~hit));
        }
    }
}

/* `mask`: of the first query and the first key of n. */
static void mask_lanes(const struct mo_attention_params *p, const char *mask, int64_t queries, float *s,
                       int64_t n, int64_t width) {
    if (!p->mask_stride[2]) {
        mask_all(p, mask, s, n, width);
        return;
    }
    for (int64_t l = 0; l < queries; l += LANES)
        mask_each(p, mask + l * mask_row_bytes(p), queries - l < LANES ? (int)(queries - l) : LANES, s + l, n,
                  width);
}

/* What a score is compared with: where all are -inf, 0. */
static inline vec_value lane_base(vec_value top) {
    const ivec none = top == vec_of(-INFINITY);
    return (vec_value)((ivec)top & ~none);
}

struct lane_state {
    vec_value top[LANE_VECTORS], total[LANE_VECTORS];
};

/* Scores become weights of the largest so far; returns in `kept` what earlier weights are worth now. */
static inline __attribute__((always_inline)) void lane_soften(float *s, int64_t n, struct lane_state *state,
                                                              vec_value *kept, const int vectors) {
    vec_value top[LANE_VECTORS], base[LANE_VECTORS], total[LANE_VECTORS];
    for (int v = 0; v < vectors; v++)
        top[v] = state->top[v];
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            top[v] = vec_larger(*(const vec *)(s + (i * vectors + v) * LANES), top[v]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        base[v] = lane_base(top[v]);
        kept[v] = vec_exp_negative(state->top[v] - base[v]);
        total[v] = state->total[v] * kept[v];
        state->top[v] = top[v];
    }
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            vec *at = (vec *)(s + (i * vectors + v) * LANES);
            const vec_value e = vec_exp_negative(*at - base[v]);
            total[v] += e;
            *at = e;
        }
    for (int v = 0; v < vectors; v++)
        state->total[v] = total[v];
}

/* How many of `count` queries are lanes of vector v. */
static inline int lanes_of(int count, int v) {
    return count - v * LANES < LANES ? count - v * LANES : LANES;
}

/* The result of `count` queries over the sum of their weights, to rows of y. */
static inline __attribute__((always_inline)) void
lane_result(const struct lanes *w, const struct lane_state *state, float *y, int count, const int vectors) {
    const struct mo_attention_view *view = &w->p->view;
    const int64_t row = (int64_t)vectors * LANES;
    for (int v = 0; v < vectors; v++) {
        /* NaN where the largest is infinite, as the softmax is then */
        const vec_value part = 1.0f / state->total[v] + (state->top[v] - state->top[v]);
        const int lanes = lanes_of(count, v);
        float *sum = w->sum + (ptrdiff_t)v * LANES, *to = y + v * LANES * view->y.row;
        int64_t c = 0;
        for (; c < view->width; c++)
            *(vec *)(sum + c * row) *= part;
        for (c = 0; c + LANES <= view->width; c += LANES)
            transpose_square(sum + c * row, row, to + c, view->y.row, LANES, lanes);
        for (; c < view->width; c++)
            for (int l = 0; l < lanes; l++)
                to[l * view->y.row + c] = sum[c * row + l];
    }
}

/* Keys [first, first + n): their scores, weights, and what V makes of these. */
static inline __attribute__((always_inline)) void lane_keys(const struct lanes *w, const char *mask,
                                                            int64_t first, int64_t n, int count,
                                                            struct lane_state *state, const int vectors) {
    const struct mo_attention_params *p = w->p;
    const struct mo_attention_view *view = &p->view;
    const int64_t row = (int64_t)vectors * LANES;
    const float *values = w->values + first * 16;
    vec_value kept[LANE_VECTORS];
    lane_product(w->keys + first * view->depth, 16 * view->depth, w->query, view->depth, w->scores, n,
                 vectors, false);
    if (mask) mask_lanes(p, mask + first * mask_key_bytes(p), count, w->scores, n, row);
    lane_soften(w->scores, n, state, kept, vectors);
    if (!first) {
        lane_product(values, 16 * view->keys, w->scores, n, w->sum, view->width, vectors, false);
        return;
    }
    for (int64_t c = 0; c < view->width; c++)
        for (int v = 0; v < vectors; v++)
            *(vec *)(w->sum + c * row + v * LANES) *= kept[v];
    lane_product(values, 16 * view->keys, w->scores, n, w->sum, view->width, vectors, true);
}

/* `count` queries from q on, in `vectors` vectors; `mask` and `y` are the first one's. */
static inline __attribute__((always_inline)) void
lane_block(const struct lanes *w, const float *q, const char *mask, float *y, int count, const int vectors) {
    const struct mo_attention_view *view = &w->p->view;
    const int64_t block = mo_attention_block_of(view->keys);
    struct lane_state state;
    for (int v = 0; v < vectors; v++) {
        lane_columns(q + v * LANES * view->q.row, view->q.row, lanes_of(count, v), view->depth, view->scale,
                     w->query + (ptrdiff_t)v * LANES, (int64_t)vectors * LANES);
        state.top[v] = vec_of(-INFINITY);
        state.total[v] = vec_of(0.0f);
    }
    for (int64_t first = 0; first < view->keys; first += block)
        lane_keys(w, mask, first, view->keys - first < block ? view->keys - first : block, count, &state,
                  vectors);
    lane_result(w, &state, y, count, vectors);
}

static __attribute__((noinline)) void lane_block_1(const struct lanes *w, const float *q, const char *mask,
                                                   float *y, int count) {
    lane_block(w, q, mask, y, count, 1);
}

static __attribute__((noinline)) void lane_block_2(const struct lanes *w, const float *q, const char *mask,
                                                   float *y, int count) {
    lane_block(w, q, mask, y, count, 2);
}

static __attribute__((noinline)) void lane_block_3(const struct lanes *w, const float *q, const char *mask,
                                                   float *y, int count) {
    lane_block(w, q, mask, y, count, 3);
}

/* By vectors, less one. */
static void (*const lane_run[LANE_VECTORS])(const struct lanes *w, const float *q, const char *mask, float *y,
                                            int count) = {lane_block_1, lane_block_2, lane_block_3};
#endif
