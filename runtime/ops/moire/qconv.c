/* SPDX-License-Identifier: Apache-2.0
 * qconv.c - moire.QConv and moire.QMatMul by reference; see qconv.h. */
#include "runtime/ops/moire/qconv.h"

#include <string.h>

#include <math.h>
#include "runtime/ops/util.h"

bool mo_is_qconv(const struct mo_node *node) {
    return mo_node_is_ours(node, "QConv") || mo_node_is_ours(node, "QMatMul");
}

bool mo_qconv_read(const struct mo_node *node, struct mo_qconv *out) {
    *out = (struct mo_qconv){.x_zero = (int)mo_attr_int(node, "x_zero", -1),
                             .y_zero = (int)mo_attr_int(node, "y_zero", 0),
                             .y_scale = mo_attr_float(node, "y_scale", 1),
                             .to = (moire_dtype)mo_attr_int(node, "to", MOIRE_NONE)};
    bool bytes = out->to == MOIRE_U8 || out->to == MOIRE_I8;
    return out->x_zero >= 0 && out->x_zero <= 255 && out->y_zero >= -128 && out->y_zero <= 255 &&
           out->y_scale > 0 && (bytes || out->to == MOIRE_F32);
}

static int check_operands(const struct mo_op_ctx *ctx, struct mo_qconv *q) {
    int rc = mo_check_type(ctx, MO_QCONV_X, MO_TYPE(MOIRE_U8));
    if (!rc) rc = mo_check_type(ctx, MO_QCONV_WEIGHTS, MO_TYPE(MOIRE_I8));
    if (!rc) rc = mo_check_type(ctx, MO_QCONV_FACTOR, MO_TYPE(MOIRE_F32));
    if (!rc && mo_given(ctx, MO_QCONV_BIAS)) rc = mo_check_type(ctx, MO_QCONV_BIAS, MO_TYPE(MOIRE_F32));
    if (!rc && mo_given(ctx, MO_QCONV_X_ZERO)) rc = mo_check_type(ctx, MO_QCONV_X_ZERO, MO_TYPE(MOIRE_U8));
    if (!rc) rc = mo_check_rank(ctx, MO_QCONV_WEIGHTS, 2, 5);
    if (rc) return rc;
    const int64_t channels = ctx->in[MO_QCONV_WEIGHTS].shape.d[0];
    if (!mo_qconv_read(ctx->node, q)) return mo_op_fail(ctx, MOIRE_EINVAL, "a zero point or type is missing");
    if (mo_count(&ctx->in[MO_QCONV_FACTOR]) != channels ||
        (mo_given(ctx, MO_QCONV_BIAS) && mo_count(&ctx->in[MO_QCONV_BIAS]) != channels))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "factor and bias must have a value a channel");
    return MOIRE_OK;
}

static int infer_conv(const struct mo_op_ctx *ctx) {
    struct mo_qconv q;
    struct mo_window w;
    const struct mo_shape *x = &ctx->in[MO_QCONV_X].shape, *wt = &ctx->in[MO_QCONV_WEIGHTS].shape;
    int rc = check_operands(ctx, &q);
    if (!rc) rc = mo_check_rank(ctx, MO_QCONV_X, 3, 5);
    if (rc) return rc;
    int64_t group = mo_attr_int(ctx->node, "group", 1);
    if (wt->rank != x->rank || group < 1 || x->d[1] % group || x->d[1] / group != wt->d[1] ||
        wt->d[0] % group)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "weights and groups do not fit the input");
    if ((rc = mo_window_init(ctx, x, wt->d + 2, &w))) return rc;
    struct mo_shape y = mo_window_shape(&w, x->d[0], wt->d[0]);
    return mo_set_out(ctx, 0, q.to, &y);
}

static int infer_matmul(const struct mo_op_ctx *ctx) {
    struct mo_qconv q;
    struct mo_shape y = ctx->in[MO_QCONV_X].shape;
    const struct mo_shape *wt = &ctx->in[MO_QCONV_WEIGHTS].shape;
    int rc = check_operands(ctx, &q);
    if (!rc) rc = mo_check_rank(ctx, MO_QCONV_X, 2, MOIRE_MAX_RANK);
    if (rc) return rc;
    if (wt->rank != 2 || y.d[y.rank - 1] != wt->d[1])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "inner dimensions differ");
    if (mo_given(ctx, MO_QCONV_X_ZERO) && mo_count(&ctx->in[MO_QCONV_X_ZERO]) != 1)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "x has one zero point");
    y.d[y.rank - 1] = wt->d[0];
    return mo_set_out(ctx, 0, q.to, &y);
}

/* All taps between one input plane and one plane of sums. */
static void add_plane(const struct mo_window *w, int32_t *sum, const uint8_t *x, const int8_t *weights,
                      int zero) {
    for (int64_t tap = 0; tap < w->k[0] * w->k[1] * w->k[2]; tap++) {
        int64_t lo[3], hi[3], k[3] = {tap / w->k[2] / w->k[1], tap / w->k[2] % w->k[1], tap % w->k[2]};
        for (int i = 0; i < 3; i++)
            mo_window_range(w, i, k[i], &lo[i], &hi[i]);
        for (int64_t d = lo[0]; d < hi[0]; d++)
            for (int64_t h = lo[1]; h < hi[1]; h++)
                for (int64_t i = lo[2]; i < hi[2]; i++) {
                    int64_t id = d * w->stride[0] + k[0] * w->dilation[0] - w->pad[0];
                    int64_t ih = h * w->stride[1] + k[1] * w->dilation[1] - w->pad[1];
                    int64_t iw = i * w->stride[2] + k[2] * w->dilation[2] - w->pad[2];
                    sum[(d * w->out[1] + h) * w->out[2] + i] +=
                        (x[(id * w->in[1] + ih) * w->in[2] + iw] - zero) * weights[tap];
                }
    }
}

/* Sums of a channel become elements of the output, from `at` on. */
static void finish(const struct mo_op_ctx *ctx, const struct mo_qconv *q, const int32_t *sum, int64_t channel,
                   int64_t at, int64_t n) {
    const struct mo_fuse *f = &ctx->node->fuse;
    const float factor = ((const float *)ctx->in[MO_QCONV_FACTOR].data)[channel];
    const float bias =
        mo_given(ctx, MO_QCONV_BIAS) ? ((const float *)ctx->in[MO_QCONV_BIAS].data)[channel] : 0;
    const double low = q->to == MOIRE_I8 ? -128 : 0;
    for (int64_t i = 0; i < n; i++) {
        float v = mo_activate(f->act, f->a, f->b, fmaf((float)sum[i], factor, bias));
        double r = nearbyint((double)v / (double)q->y_scale) + q->y_zero;
        if (q->to == MOIRE_F32)
            ((float *)ctx->out[0].data)[at + i] = v;
        else
            mo_store_int(&ctx->out[0], at + i, (int64_t)(r != r ? 0 : fmin(fmax(r, low), low + 255)));
    }
}

static int run_conv(const struct mo_op_ctx *ctx) {
    const struct mo_shape *x = &ctx->in[MO_QCONV_X].shape, *wt = &ctx->in[MO_QCONV_WEIGHTS].shape;
    struct mo_qconv q;
    struct mo_window w;
    int rc = mo_window_init(ctx, x, wt->d + 2, &w);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    int64_t in_plane = mo_extent(x, 2, x->rank), plane = w.out[0] * w.out[1] * w.out[2];
    int64_t taps = mo_extent(wt, 2, wt->rank), per_group = wt->d[0] / mo_attr_int(ctx->node, "group", 1);
    int32_t *sum = mo_scratch(ctx, plane, sizeof *sum);
    if (!sum || !mo_qconv_read(ctx->node, &q)) return MOIRE_ENOMEM;
    for (int64_t i = 0; i < x->d[0] * wt->d[0]; i++) {
        int64_t oc = i % wt->d[0], first = i / wt->d[0] * x->d[1] + oc / per_group * wt->d[1];
        for (int64_t k = 0; k < plane; k++)
            sum[k] = 0;
        for (int64_t c = 0; c < wt->d[1]; c++)
            add_plane(&w, sum, (const uint8_t *)ctx->in[MO_QCONV_X].data + (first + c) * in_plane,
                      (const int8_t *)ctx->in[MO_QCONV_WEIGHTS].data + (oc * wt->d[1] + c) * taps, q.x_zero);
        finish(ctx, &q, sum, oc, i * plane, plane);
    }
    mo_free(ctx->env, sum);
    return MOIRE_OK;
}

static int run_matmul(const struct mo_op_ctx *ctx) {
    const int64_t outputs = ctx->in[MO_QCONV_WEIGHTS].shape.d[0], k = ctx->in[MO_QCONV_WEIGHTS].shape.d[1];
    struct mo_qconv q;
    if (!mo_wanted(ctx, 0) || !mo_qconv_read(ctx->node, &q)) return MOIRE_OK;
    if (mo_given(ctx, MO_QCONV_X_ZERO)) q.x_zero = *(const uint8_t *)ctx->in[MO_QCONV_X_ZERO].data;
    for (int64_t i = 0; i < mo_count(&ctx->out[0]); i++) {
        const uint8_t *x = (const uint8_t *)ctx->in[MO_QCONV_X].data + i / outputs * k;
        const int8_t *w = (const int8_t *)ctx->in[MO_QCONV_WEIGHTS].data + i % outputs * k;
        int32_t sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += (x[p] - q.x_zero) * w[p];
        finish(ctx, &q, &sum, i % outputs, i, 1);
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_qconv[] = {
    {"QConv", "moire", 1, 3, 4, 1, 1, infer_conv, run_conv, 0},
    {"QMatMul", "moire", 1, 3, 5, 1, 1, infer_matmul, run_matmul, 0},
    {0},
};
