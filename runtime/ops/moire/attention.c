/* SPDX-License-Identifier: Apache-2.0
 * attention.c - moire.Attention, made by graph passes only: softmax(scale Q K^T + mask) V.
 *
 *   Q [B,H,Sq,D], K [B,H,Sk,D], V [B,H,Sk,E], out [B,H,Sq,E].  Attributes:
 *   scale   1 when absent
 *   order   4 flags for Q, K, V, out: 1 = lies [B,S,H,..], as a projection writes it
 *   heads   H; Q, K and V may then have more heads, of which `first` (3 numbers) names the first to take:
 *           one tensor [B,S,3H,D] serves all three
 *   fill    what a score becomes under a bool mask; keep = 1: the mask tells which scores stay
 * The mask is optional and broadcasts to [B,H,Sq,Sk]: fp32 is added to the scaled scores.
 *
 * moire.QAttention is the same of uint8, as the model's conversions round it; attributes say what numbers
 * stand for (attention.h). */
#include "runtime/ops/moire/attention.h"

#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

enum mo_attention_mask mo_attention_mask_of(const struct mo_node *node, const struct mo_value *mask) {
    if (mask->dtype == MOIRE_NONE) return MO_MASK_NONE;
    if (mask->dtype == MOIRE_F32) return MO_MASK_ADD;
    return mo_attr_int(node, "keep", 0) ? MO_MASK_KEEP : MO_MASK_FILL;
}

/* Batch and rows of one operand, and how to step through it; false when it has too few heads. */
static bool place(const struct mo_shape *s, bool rows_first, int64_t heads, int64_t first, int64_t *rows,
                  struct mo_attention_operand *out) {
    int64_t all = s->d[rows_first ? 2 : 1], columns = s->d[3];
    *rows = s->d[rows_first ? 1 : 2];
    out->head = rows_first ? columns : *rows * columns;
    out->row = rows_first ? all * columns : columns;
    out->batch = all * *rows * columns;
    out->at = first * out->head;
    return first >= 0 && heads >= 0 && first <= all && heads <= all - first;
}

bool mo_attention_view_of(const struct mo_node *node, const struct mo_shape *q, const struct mo_shape *k,
                          const struct mo_shape *v, struct mo_attention_view *out) {
    int64_t order[4] = {0}, first[3] = {0}, rows;
    int orders = mo_attr_ints(node, "order", order, 4), firsts = mo_attr_ints(node, "first", first, 3);
    if ((orders >= 0 && orders != 4) || (firsts >= 0 && firsts != 3)) return false;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4) return false;
    memset(out, 0, sizeof *out);
    out->scale = mo_attr_float(node, "scale", 1);
    out->batch = q->d[0];
    out->heads = mo_attr_int(node, "heads", q->d[order[0] ? 2 : 1]);
    out->depth = q->d[3];
    out->width = v->d[3];
    bool fits = place(q, order[0], out->heads, first[0], &out->queries, &out->q) &&
                place(k, order[1], out->heads, first[1], &out->keys, &out->k) &&
                place(v, order[2], out->heads, first[2], &rows, &out->v);
    bool bare = mo_attr_int(node, "heads", -1) < 0; /* then all must have as many */
    fits = fits && (!bare || (k->d[order[1] ? 2 : 1] == out->heads && v->d[order[2] ? 2 : 1] == out->heads));
    out->out = (struct mo_shape){.rank = 4, .d = {out->batch, out->heads, out->queries, out->width}};
    if (order[3]) {
        out->out.d[1] = out->queries;
        out->out.d[2] = out->heads;
    }
    int64_t own;
    place(&out->out, order[3], out->heads, 0, &own, &out->y);
    return fits && rows == out->keys && k->d[3] == out->depth && k->d[0] == out->batch &&
           v->d[0] == out->batch;
}

void mo_attention_mask_strides(const struct mo_shape *mask, int64_t stride[4]) {
    int64_t step = 1;
    for (int i = 1; i <= 4; i++) {
        int64_t d = i <= mask->rank ? mask->d[mask->rank - i] : 1;
        stride[4 - i] = d == 1 ? 0 : step;
        step *= d;
    }
}

static int infer(const struct mo_op_ctx *ctx, moire_dtype dtype) {
    struct mo_attention_view w;
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < 3; i++) {
        rc = mo_check_type(ctx, i, MO_TYPE(dtype));
        if (!rc) rc = mo_check_rank(ctx, i, 4, 4);
    }
    if (!rc && mo_given(ctx, 3)) rc = mo_check_type(ctx, 3, MO_TYPE(MOIRE_F32) | MO_BOOLS);
    if (rc) return rc;
    bool ok = mo_attention_view_of(ctx->node, &ctx->in[0].shape, &ctx->in[1].shape, &ctx->in[2].shape, &w);
    if (ok && mo_given(ctx, 3)) {
        struct mo_shape scores = {.rank = 4, .d = {w.batch, w.heads, w.queries, w.keys}}, all;
        ok = mo_broadcast(&scores, &ctx->in[3].shape, &all) && mo_shape_equal(&scores, &all);
    }
    if (!ok) return mo_op_fail(ctx, MOIRE_ESHAPE, "the shapes of query, key, value and mask do not fit");
    return mo_set_out(ctx, 0, dtype, &w.out);
}

static int infer_attention(const struct mo_op_ctx *ctx) {
    return infer(ctx, MOIRE_F32);
}

void mo_attention_softmax(double *p, int64_t n) {
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        if (p[j] > top) top = p[j];
    for (int64_t j = 0; j < n; j++)
        sum += p[j] = exp(p[j] - top);
    for (int64_t j = 0; j < n; j++)
        p[j] /= sum;
}

static double masked(const struct mo_op_ctx *ctx, double score, int64_t at) {
    double fill = (double)mo_attr_float(ctx->node, "fill", -INFINITY);
    switch (mo_attention_mask_of(ctx->node, &ctx->in[3])) {
    case MO_MASK_ADD:
        return score + (double)((const float *)ctx->in[3].data)[at];
    case MO_MASK_FILL:
        return ((const uint8_t *)ctx->in[3].data)[at] ? fill : score;
    case MO_MASK_KEEP:
        return ((const uint8_t *)ctx->in[3].data)[at] ? score : fill;
    case MO_MASK_NONE:
        break;
    }
    return score;
}

static const float *row_of(const struct mo_value *v, const struct mo_attention_operand *o, int64_t b,
                           int64_t h, int64_t s) {
    return (const float *)v->data + o->at + b * o->batch + h * o->head + s * o->row;
}

/* One query: batch b, head h, row i. */
static void attend(const struct mo_op_ctx *ctx, const struct mo_attention_view *w, int64_t b, int64_t h,
                   int64_t i, double *p) {
    const float *q = row_of(&ctx->in[0], &w->q, b, h, i);
    float *y = (float *)ctx->out[0].data + b * w->y.batch + h * w->y.head + i * w->y.row;
    int64_t stride[4] = {0};
    bool has_mask = mo_given(ctx, 3);
    if (has_mask) mo_attention_mask_strides(&ctx->in[3].shape, stride);
    for (int64_t j = 0; j < w->keys; j++) {
        const float *key = row_of(&ctx->in[1], &w->k, b, h, j);
        p[j] = 0;
        for (int64_t c = 0; c < w->depth; c++)
            p[j] += (double)q[c] * (double)key[c];
        p[j] *= (double)w->scale;
        if (has_mask) p[j] = masked(ctx, p[j], b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]);
    }
    mo_attention_softmax(p, w->keys);
    for (int64_t c = 0; c < w->width; c++) {
        double sum = 0;
        for (int64_t j = 0; j < w->keys; j++)
            sum += p[j] * (double)row_of(&ctx->in[2], &w->v, b, h, j)[c];
        y[c] = (float)sum;
    }
}

static int run_attention(const struct mo_op_ctx *ctx) {
    struct mo_attention_view w;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    if (!mo_attention_view_of(ctx->node, &ctx->in[0].shape, &ctx->in[1].shape, &ctx->in[2].shape, &w))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the shapes of query, key and value do not fit");
    double *p = mo_scratch(ctx, w.keys, sizeof *p);
    if (!p) return MOIRE_ENOMEM;
    for (int64_t n = 0; n < w.batch * w.heads * w.queries; n++)
        attend(ctx, &w, n / w.queries / w.heads, n / w.queries % w.heads, n % w.queries, p);
    mo_free(ctx->env, p);
    return MOIRE_OK;
}

/* --- of uint8 ------------------------------------------------------------------------------------------- */

const char *const mo_attention_scales[MO_ATTENTION_PARTS] = {"q_scale",      "k_scale",       "v_scale",
                                                             "scores_scale", "weights_scale", "y_scale"};
const char *const mo_attention_zeros[MO_ATTENTION_PARTS] = {"q_zero",      "k_zero",       "v_zero",
                                                            "scores_zero", "weights_zero", "y_zero"};

void mo_attention_rounding_of(const struct mo_node *node, struct mo_attention_rounding *out) {
    for (int i = 0; i < MO_ATTENTION_PARTS; i++) {
        out->scale[i] = mo_attr_float(node, mo_attention_scales[i], i == MO_ATTENTION_SCORES ? 0 : 1);
        out->zero[i] = (int)mo_attr_int(node, mo_attention_zeros[i], 0);
    }
    out->inner = mo_attr_float(node, "inner", 1);
}

static int infer_qattention(const struct mo_op_ctx *ctx) {
    return infer(ctx, MOIRE_U8);
}

static const uint8_t *bytes_at(const struct mo_value *v, const struct mo_attention_operand *o, int64_t b,
                               int64_t h, int64_t s) {
    return (const uint8_t *)v->data + o->at + b * o->batch + h * o->head + s * o->row;
}

/* Less its zero point. */
static double rounded(double x, const struct mo_attention_rounding *r, enum mo_attention_part part) {
    const double zero = r->zero[part], q = nearbyint(x / (double)r->scale[part]) + zero;
    if (!(q > 0)) return -zero;
    return (q > 255 ? 255 : q) - zero;
}

/* One query: batch b, head h, row i. */
static void attend_bytes(const struct mo_op_ctx *ctx, const struct mo_attention_view *w,
                         const struct mo_attention_rounding *r, int64_t b, int64_t h, int64_t i, double *p) {
    const uint8_t *q = bytes_at(&ctx->in[0], &w->q, b, h, i);
    uint8_t *y = (uint8_t *)ctx->out[0].data + b * w->y.batch + h * w->y.head + i * w->y.row;
    const int *zero = r->zero;
    const float *scale = r->scale;
    int64_t stride[4] = {0};
    const bool has_mask = mo_given(ctx, 3);
    if (has_mask) mo_attention_mask_strides(&ctx->in[3].shape, stride);
    for (int64_t j = 0; j < w->keys; j++) {
        const uint8_t *key = bytes_at(&ctx->in[1], &w->k, b, h, j);
        int64_t sum = 0;
        for (int64_t c = 0; c < w->depth; c++)
            sum += (q[c] - zero[MO_ATTENTION_Q]) * (key[c] - zero[MO_ATTENTION_K]);
        p[j] = (double)sum * (double)scale[MO_ATTENTION_Q] * (double)scale[MO_ATTENTION_K] * (double)r->inner;
        if (scale[MO_ATTENTION_SCORES] > 0)
            p[j] = rounded(p[j], r, MO_ATTENTION_SCORES) * (double)scale[MO_ATTENTION_SCORES];
        p[j] *= (double)w->scale;
        if (has_mask) p[j] = masked(ctx, p[j], b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]);
    }
    mo_attention_softmax(p, w->keys);
    for (int64_t j = 0; j < w->keys; j++)
        p[j] = rounded(p[j], r, MO_ATTENTION_WEIGHTS);
    for (int64_t c = 0; c < w->width; c++) {
        double sum = 0;
        for (int64_t j = 0; j < w->keys; j++)
            sum += p[j] * (bytes_at(&ctx->in[2], &w->v, b, h, j)[c] - zero[MO_ATTENTION_V]);
        sum *= (double)scale[MO_ATTENTION_WEIGHTS] * (double)scale[MO_ATTENTION_V];
        y[c] = (uint8_t)(rounded(sum, r, MO_ATTENTION_Y) + zero[MO_ATTENTION_Y]);
    }
}

static int run_qattention(const struct mo_op_ctx *ctx) {
    struct mo_attention_view w;
    struct mo_attention_rounding r;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    if (!mo_attention_view_of(ctx->node, &ctx->in[0].shape, &ctx->in[1].shape, &ctx->in[2].shape, &w))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the shapes of query, key and value do not fit");
    mo_attention_rounding_of(ctx->node, &r);
    double *p = mo_scratch(ctx, w.keys, sizeof *p);
    if (!p) return MOIRE_ENOMEM;
    for (int64_t n = 0; n < w.batch * w.heads * w.queries; n++)
        attend_bytes(ctx, &w, &r, n / w.queries / w.heads, n / w.queries % w.heads, n % w.queries, p);
    mo_free(ctx->env, p);
    return MOIRE_OK;
}

const struct mo_op mo_ops_attention[] = {
    {"Attention", "moire", 1, 3, 4, 1, 1, infer_attention, run_attention, 0},
    {"QAttention", "moire", 1, 3, 4, 1, 1, infer_qattention, run_qattention, 0},
    {0},
};
