/* SPDX-License-Identifier: Apache-2.0
 * attention_few.c - attention of a few queries, as a decoder that goes word by word has them.
 *
 * Keys and values are read once where they lie: packing them, as attention.c does, would move more than the
 * products read.  Each row of K is multiplied with the query as it comes, each row of V is added to the sums
 * of a few columns, which stay in registers. */
#include "variants/simd/simd.h"
#include "variants/simd/soften.h"
#include "variants/simd/vec.h"

enum { SUMS = 4, WIDE = SUMS * LANES };

static inline vec_value at_lanes(const float *p) {
    return *(const vec *)(const void *)p;
}

static inline float sum_lanes(vec_value a) {
    float lane[16] = {0};
    memcpy(lane, &a, sizeof a);
    return fold_lanes(lane, true);
}

static float dot(const float *a, const float *b, int64_t n) {
    vec_value sum[SUMS] = {{0}};
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        for (int k = 0; k < SUMS; k++)
            sum[k] = vec_mac(sum[k], at_lanes(a + i + k * LANES), at_lanes(b + i + k * LANES));
    for (; i + LANES <= n; i += LANES)
        sum[0] = vec_mac(sum[0], at_lanes(a + i), at_lanes(b + i));
    float all = sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < n; i++)
        all += a[i] * b[i];
    return all;
}

/* y = `part` times the sum of rows of V, each times its weight; the columns of `vectors` vectors. */
static inline __attribute__((always_inline)) void columns(const struct mo_attention_view *w, const float *v,
                                                          const float *weight, float part, float *y,
                                                          const int vectors) {
    vec_value sum[SUMS] = {{0}};
    for (int64_t n = 0; n < w->keys; n++) {
        const vec_value x = vec_broadcast(weight + n);
        for (int k = 0; k < vectors; k++)
            sum[k] = vec_mac(sum[k], at_lanes(v + n * w->v.row + k * LANES), x);
    }
    for (int k = 0; k < vectors; k++)
        *(vec *)(void *)(y + k * LANES) = sum[k] * part;
}

static void average(const struct mo_attention_view *w, const float *v, const float *weight, float part,
                    float *y) {
    int64_t c = 0;
    for (; c + WIDE <= w->width; c += WIDE)
        columns(w, v + c, weight, part, y + c, SUMS);
    for (; c + LANES <= w->width; c += LANES)
        columns(w, v + c, weight, part, y + c, 1);
    for (; c < w->width; c++) {
        float sum = 0;
        for (int64_t n = 0; n < w->keys; n++)
            sum += weight[n] * v[n * w->v.row + c];
        y[c] = sum * part;
    }
}

void MO_SIMD(attention_few)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_attention_params *p = args->params;
    const struct mo_attention_view *w = &p->view;
    float *scores = scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t b = unit / w->heads, h = unit % w->heads;
        const float *q = at(args->in[0], &w->q, b, h), *k = at(args->in[1], &w->k, b, h),
                    *v = at(args->in[2], &w->v, b, h);
        const char *mask = mask_at(p, args->in[3], b, h, 0);
        float *y = (float *)args->out[0] + b * w->y.batch + h * w->y.head;
        for (int64_t i = 0; i < w->queries; i++) {
            for (int64_t n = 0; n < w->keys; n++)
                scores[n] = dot(q + i * w->q.row, k + n * w->k.row, w->depth);
            mask_row(p, scores, mask ? mask + i * mask_row_bytes(p) : NULL);
            const float part = soften(scores, w->keys);
            average(w, v, scores, part, y + i * w->y.row);
        }
    }
}
