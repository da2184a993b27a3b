/* SPDX-License-Identifier: Apache-2.0
 * qmean.c - moire.QGlobalAveragePool: the mean of uint8 over the spatial dimensions, as what it stands for.
 *
 * Attributes: x_zero and x_scale.  y = (mean - x_zero) * x_scale, float32, [N,C,1,...].  Only passes make it
 * (codegen/passes/pass_qmoves.c). */
#include "runtime/ops/util.h"

static int infer(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_U8));
    if (!rc) rc = mo_check_rank(ctx, 0, 3, MOIRE_MAX_RANK);
    if (rc) return rc;
    struct mo_shape y = ctx->in[0].shape;
    for (int i = 2; i < y.rank; i++)
        y.d[i] = 1;
    return mo_set_out(ctx, 0, MOIRE_F32, &y);
}

static int run(const struct mo_op_ctx *ctx) {
    const struct mo_shape *x = &ctx->in[0].shape;
    const int64_t area = mo_extent(x, 2, x->rank), zero = mo_attr_int(ctx->node, "x_zero", 0);
    const float scale = mo_attr_float(ctx->node, "x_scale", 1);
    const uint8_t *from = ctx->in[0].data;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    for (int64_t i = 0; i < x->d[0] * x->d[1]; i++) {
        int64_t sum = 0;
        for (int64_t k = 0; k < area; k++)
            sum += from[i * area + k] - zero;
        ((float *)ctx->out[0].data)[i] = (float)((double)sum / (double)area) * scale;
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_qmean[] = {
    {"QGlobalAveragePool", "moire", 1, 1, 1, 1, 1, infer, run, 0},
    {0},
};
