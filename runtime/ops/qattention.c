/* SPDX-License-Identifier: Apache-2.0
 * qattention.c - moire.QAttention by reference: attention of uint8, as the model's conversions round it.
 *
 * Shapes, order and mask are those of moire.Attention (attention.c); what numbers stand for, attributes say
 * (attention.h).  Only passes make it (codegen/passes/pass_attention.c). */
#include <math.h>
#include "runtime/ops/attention.h"
#include "runtime/ops/util.h"

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

static int infer(const struct mo_op_ctx *ctx) {
    return mo_attention_infer(ctx, MOIRE_U8);
}

static const uint8_t *row_of(const struct mo_value *v, const struct mo_attention_operand *o, int64_t b,
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
static void attend(const struct mo_op_ctx *ctx, const struct mo_attention_view *w,
                   const struct mo_attention_rounding *r, int64_t b, int64_t h, int64_t i, double *p) {
    const uint8_t *q = row_of(&ctx->in[0], &w->q, b, h, i);
    uint8_t *y = (uint8_t *)ctx->out[0].data + b * w->y.batch + h * w->y.head + i * w->y.row;
    const int *zero = r->zero;
    const float *scale = r->scale;
    int64_t stride[4] = {0};
    const bool has_mask = mo_given(ctx, 3);
    if (has_mask) mo_attention_mask_strides(&ctx->in[3].shape, stride);
    for (int64_t j = 0; j < w->keys; j++) {
        const uint8_t *key = row_of(&ctx->in[1], &w->k, b, h, j);
        int64_t sum = 0;
        for (int64_t c = 0; c < w->depth; c++)
            sum += (q[c] - zero[MO_ATTENTION_Q]) * (key[c] - zero[MO_ATTENTION_K]);
        p[j] = (double)sum * (double)scale[MO_ATTENTION_Q] * (double)scale[MO_ATTENTION_K] * (double)r->inner;
        if (scale[MO_ATTENTION_SCORES] > 0)
            p[j] = rounded(p[j], r, MO_ATTENTION_SCORES) * (double)scale[MO_ATTENTION_SCORES];
        p[j] *= (double)w->scale;
        if (has_mask)
            p[j] =
                mo_attention_masked(ctx, p[j], b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]);
    }
    mo_attention_softmax(p, w->keys);
    for (int64_t j = 0; j < w->keys; j++)
        p[j] = rounded(p[j], r, MO_ATTENTION_WEIGHTS);
    for (int64_t c = 0; c < w->width; c++) {
        double sum = 0;
        for (int64_t j = 0; j < w->keys; j++)
            sum += p[j] * (row_of(&ctx->in[2], &w->v, b, h, j)[c] - zero[MO_ATTENTION_V]);
        sum *= (double)scale[MO_ATTENTION_WEIGHTS] * (double)scale[MO_ATTENTION_V];
        y[c] = (uint8_t)(rounded(sum, r, MO_ATTENTION_Y) + zero[MO_ATTENTION_Y]);
    }
}

static int run(const struct mo_op_ctx *ctx) {
    struct mo_attention_view w;
    struct mo_attention_rounding r;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    if (!mo_attention_view_of(ctx->node, &ctx->in[0].shape, &ctx->in[1].shape, &ctx->in[2].shape, &w))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the shapes of query, key and value do not fit");
    mo_attention_rounding_of(ctx->node, &r);
    double *p = mo_scratch(ctx, w.keys, sizeof *p);
    if (!p) return MOIRE_ENOMEM;
    for (int64_t n = 0; n < w.batch * w.heads * w.queries; n++)
        attend(ctx, &w, &r, n / w.queries / w.heads, n / w.queries % w.heads, n % w.queries, p);
    mo_free(ctx->env, p);
    return MOIRE_OK;
}

const struct mo_op mo_ops_qattention[] = {
    {"QAttention", "moire", 1, 3, 4, 1, 1, infer, run, 0},
    {0},
};
