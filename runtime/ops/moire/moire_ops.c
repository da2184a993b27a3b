/* SPDX-License-Identifier: Apache-2.0
 * moire_ops.c - references of the operators that only graph passes make, domain "moire".
 *
 *   MatMul      A [..,M,K] times B [K,N], or times B [..,K,N] with the leading dimensions of A; optional bias
 *               [N]; fused epilogue (act, residual).
 *   Activation  act(x) of the fused epilogue.
 *   Reorder     a copy; layouts are the business of tensors, and references see plain ones.
 *   Lengths     a copy of lengths of sequences; one beyond `most` is an error.
 * Attention has a file of its own, and the recurrences are in recurrent.c. */
#include <string.h>
#include "runtime/ops/recurrent.h"

static int check_f32(const struct mo_op_ctx *ctx) {
    return mo_check_same(ctx, MO_TYPE(MOIRE_F32));
}

/* --- MatMul -------------------------------------------------------------------------------------------- */

static int infer_matmul(const struct mo_op_ctx *ctx) {
    int rc = check_f32(ctx);
    if (!rc) rc = mo_check_rank(ctx, 0, 2, MOIRE_MAX_RANK);
    if (!rc) rc = mo_check_rank(ctx, 1, 2, MOIRE_MAX_RANK);
    if (rc) return rc;
    const struct mo_shape *a = &ctx->in[0].shape, *b = &ctx->in[1].shape;
    struct mo_shape out = *a;
    if (b->rank != 2 && b->rank != a->rank) return mo_op_fail(ctx, MOIRE_ESHAPE, "operands of unequal rank");
    for (int i = 0; b->rank != 2 && i < a->rank - 2; i++)
        if (a->d[i] != b->d[i]) return mo_op_fail(ctx, MOIRE_ESHAPE, "leading dimensions differ");
    if (a->d[a->rank - 1] != b->d[b->rank - 2])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "inner dimensions differ");
    out.d[out.rank - 1] = b->d[b->rank - 1];
    if (mo_given(ctx, 2) && (ctx->in[2].shape.rank != 1 || ctx->in[2].shape.d[0] != out.d[out.rank - 1]))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the bias must be a row of the output");
    return mo_set_out(ctx, 0, MOIRE_F32, &out);
}

/* One row of the output, summed in double. */
static void matmul_row(const float *a, const float *b, const float *bias, int64_t k, int64_t n, double *sum,
                       float *y) {
    for (int64_t j = 0; j < n; j++)
        sum[j] = bias ? bias[j] : 0;
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++)
            sum[j] += (double)a[p] * b[p * n + j];
    for (int64_t j = 0; j < n; j++)
        y[j] = (float)sum[j];
}

static int run_matmul(const struct mo_op_ctx *ctx) {
    const struct mo_shape *a = &ctx->in[0].shape, *b = &ctx->in[1].shape;
    int64_t k = a->d[a->rank - 1], n = b->d[b->rank - 1], m = a->d[a->rank - 2];
    int64_t rows = mo_extent(a, 0, a->rank - 1);
    const float *bias = mo_given(ctx, 2) ? ctx->in[2].data : NULL;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    double *sum = mo_scratch(ctx, n, sizeof *sum);
    if (!sum) return MOIRE_ENOMEM;
    for (int64_t i = 0; i < rows; i++) {
        const float *right = (const float *)ctx->in[1].data + (b->rank == 2 ? 0 : i / m * k * n);
        matmul_row((const float *)ctx->in[0].data + i * k, right, bias, k, n, sum,
                   (float *)ctx->out[0].data + i * n);
    }
    mo_free(ctx->env, sum);
    return mo_epilogue(ctx);
}

/* --- Activation, Reorder, Lengths ------------------------------------------------------------------------
 */

static int infer_same_f32(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_F32));
    return rc ? rc : mo_set_out(ctx, 0, MOIRE_F32, &ctx->in[0].shape);
}

static int run_copy(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    memmove(ctx->out[0].data, ctx->in[0].data, (size_t)mo_count(&ctx->in[0]) * sizeof(float));
    return mo_epilogue(ctx);
}

static int infer_reorder(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_F32) | MO_TYPE(MOIRE_U8) | MO_TYPE(MOIRE_I8));
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape);
}

static int run_reorder(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    if (mo_wanted(ctx, 0)) memmove(ctx->out[0].data, x->data, (size_t)mo_count(x) * mo_dtype_bytes(x->dtype));
    return MOIRE_OK;
}

static int infer_lengths(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_I32));
    return rc ? rc : mo_set_out(ctx, 0, MOIRE_I32, &ctx->in[0].shape);
}

static int run_lengths(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    int rc = MOIRE_OK;
    for (int64_t b = 0; !rc && b < mo_count(x); b++)
        rc = mo_recurrent_check_length(ctx, mo_load_int(x, b), mo_attr_int(ctx->node, "most", 0), b);
    if (!rc && mo_wanted(ctx, 0)) memmove(ctx->out[0].data, x->data, (size_t)mo_count(x) * sizeof(int32_t));
    return rc;
}

const struct mo_op mo_ops_moire_ops[] = {
    {"MatMul", "moire", 1, 2, 3, 1, 1, infer_matmul, run_matmul, 0},
    {"Activation", "moire", 1, 1, 1, 1, 1, infer_same_f32, run_copy, MO_OP_POINTWISE},
    {"Reorder", "moire", 1, 1, 1, 1, 1, infer_reorder, run_reorder, MO_OP_VIEW},
    {"Lengths", "moire", 1, 1, 1, 1, 1, infer_lengths, run_lengths, 0},
    {0},
};
