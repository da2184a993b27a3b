/* SPDX-License-Identifier: Apache-2.0
 * matmul.c - Gemm and MatMul.  Halves are summed in float32 or wider, float64 and integers as wide as they
 * are. */
#include <string.h>
#include "runtime/ops/util.h"

/* y[m][n] += a[m][k] b[k][n], all row-major: inner loop contiguous. */
static void multiply(float *y, const float *a, const float *b, int64_t m, int64_t k, int64_t n) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++) {
            float factor = a[i * k + p];
            const float *row = b + p * n;
            float *out = y + i * n;
            for (int64_t j = 0; j < n; j++)
                out[j] += factor * row[j];
        }
}

/* One product of any type: element by element. */
static void multiply_any(const struct mo_value *y, int64_t y0, const struct mo_value *a, int64_t a0,
                         const struct mo_value *b, int64_t b0, const int64_t *mkn) {
    bool ints = mo_type_in(a->dtype, MO_INTS);
    for (int64_t i = 0; i < mkn[0]; i++)
        for (int64_t j = 0; j < mkn[2]; j++) {
            double sum = 0;
            uint64_t whole = 0;
            for (int64_t p = 0; p < mkn[1]; p++) {
                int64_t ai = a0 + i * mkn[1] + p, bi = b0 + p * mkn[2] + j;
                if (ints)
                    whole += (uint64_t)mo_load_int(a, ai) * (uint64_t)mo_load_int(b, bi);
                else
                    sum += mo_load(a, ai) * mo_load(b, bi);
            }
            if (ints)
                mo_store_int(y, y0 + i * mkn[2] + j, (int64_t)whole);
            else
                mo_store(y, y0 + i * mkn[2] + j, sum);
        }
}

/* Operands as matrices with batch dimensions; vectors get the missing dimension. */
static int matmul_shapes(const struct mo_op_ctx *ctx, struct mo_shape *a, struct mo_shape *b,
                         struct mo_shape *batch) {
    *a = ctx->in[0].shape;
    *b = ctx->in[1].shape;
    if (!a->rank || !b->rank) return mo_op_fail(ctx, MOIRE_ESHAPE, "a scalar operand");
    if (a->rank == 1) *a = (struct mo_shape){.rank = 2, .d = {1, a->d[0]}};
    if (b->rank == 1) *b = (struct mo_shape){.rank = 2, .d = {b->d[0], 1}};
    if (a->d[a->rank - 1] != b->d[b->rank - 2])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "inner dimensions %lld and %lld differ",
                          (long long)a->d[a->rank - 1], (long long)b->d[b->rank - 2]);
    struct mo_shape lead_a = *a, lead_b = *b;
    lead_a.rank -= 2;
    lead_b.rank -= 2;
    if (!mo_broadcast(&lead_a, &lead_b, batch))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the batch dimensions do not broadcast");
    return MOIRE_OK;
}

static int infer_matmul(const struct mo_op_ctx *ctx) {
    struct mo_shape a = {0}, b = {0}, out = {0};
    int rc = mo_check_same(ctx, MO_NUMBERS);
    if (rc || (rc = matmul_shapes(ctx, &a, &b, &out))) return rc;
    if (out.rank + 2 > MOIRE_MAX_RANK) return mo_op_fail(ctx, MOIRE_ESHAPE, "rank over the limit");
    if (ctx->in[0].shape.rank > 1) out.d[out.rank++] = a.d[a.rank - 2];
    if (ctx->in[1].shape.rank > 1) out.d[out.rank++] = b.d[b.rank - 1];
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &out);
}

static int run_matmul(const struct mo_op_ctx *ctx) {
    struct mo_shape a = {0}, b = {0}, batch = {0};
    int rc = matmul_shapes(ctx, &a, &b, &batch);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    const struct mo_value *y = &ctx->out[0];
    int64_t mkn[3] = {a.d[a.rank - 2], a.d[a.rank - 1], b.d[b.rank - 1]};
    memset(y->data, 0, (size_t)mo_count(y) * mo_dtype_bytes(y->dtype));
    struct mo_shape lead_a = a, lead_b = b;
    lead_a.rank -= 2;
    lead_b.rank -= 2;
    const struct mo_shape *operands[] = {&batch, &lead_a, &lead_b};
    struct mo_row_walk w;
    for (mo_row_walk_init(&w, &batch, operands, 3); w.more; mo_row_walk_next(&w))
        for (int64_t r = 0; r < w.row; r++) {
            int64_t y0 = (w.off[0] + r * w.step[0]) * mkn[0] * mkn[2];
            int64_t a0 = (w.off[1] + r * w.step[1]) * mkn[0] * mkn[1];
            int64_t b0 = (w.off[2] + r * w.step[2]) * mkn[1] * mkn[2];
            if (y->dtype == MOIRE_F32)
                multiply((float *)y->data + y0, (const float *)ctx->in[0].data + a0,
                         (const float *)ctx->in[1].data + b0, mkn[0], mkn[1], mkn[2]);
            else
                multiply_any(y, y0, &ctx->in[0], a0, &ctx->in[1], b0, mkn);
        }
    return mo_epilogue(ctx);
}

static int infer_gemm(const struct mo_op_ctx *ctx) {
    int rc = mo_check_same(ctx, MO_FLOATS);
    if (rc || (rc = mo_check_rank(ctx, 0, 2, 2)) || (rc = mo_check_rank(ctx, 1, 2, 2))) return rc;
    bool ta = mo_attr_int(ctx->node, "transA", 0) != 0, tb = mo_attr_int(ctx->node, "transB", 0) != 0;
    const int64_t *a = ctx->in[0].shape.d, *b = ctx->in[1].shape.d;
    if (a[!ta] != b[tb])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "inner dimensions %lld and %lld differ", (long long)a[!ta],
                          (long long)b[tb]);
    struct mo_shape y = {.rank = 2, .d = {a[ta], b[!tb]}}, with_c;
    if (mo_given(ctx, 2) && (!mo_broadcast(&y, &ctx->in[2].shape, &with_c) || !mo_shape_equal(&y, &with_c)))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "C does not broadcast to the product");
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

/* Reads an operand as a row-major matrix of floats or, when `wide`, of doubles, transposed if asked; freed by
 * the caller. */
static void *matrix(const struct mo_op_ctx *ctx, int input, bool transpose, bool wide) {
    const struct mo_value *v = &ctx->in[input];
    int64_t rows = v->shape.d[0], cols = v->shape.d[1];
    void *copy = mo_scratch(ctx, rows * cols, wide ? sizeof(double) : sizeof(float));
    if (!copy) return NULL;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            int64_t to = transpose ? c * rows + r : r * cols + c;
            double x = mo_load(v, r * cols + c);
            if (wide)
                ((double *)copy)[to] = x;
            else
                ((float *)copy)[to] = (float)x;
        }
    return copy;
}

/* As multiply(), for float64, which nothing narrower may hold between. */
static void multiply_wide(double *y, const double *a, const double *b, int64_t m, int64_t k, int64_t n) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++)
                y[i * n + j] += a[i * k + p] * b[p * n + j];
}

/* alpha times the product plus beta times C. */
static int combine(const struct mo_op_ctx *ctx, const void *product, bool wide) {
    double alpha = (double)mo_attr_float(ctx->node, "alpha", 1),
           beta = (double)mo_attr_float(ctx->node, "beta", 1);
    struct mo_shape none = {.rank = 0};
    const struct mo_shape *operands[] = {&ctx->out[0].shape, mo_given(ctx, 2) ? &ctx->in[2].shape : &none};
    struct mo_row_walk w;
    for (mo_row_walk_init(&w, &ctx->out[0].shape, operands, 2); w.more; mo_row_walk_next(&w))
        for (int64_t j = 0; j < w.row; j++) {
            double c = mo_given(ctx, 2) ? mo_load(&ctx->in[2], w.off[1] + j * w.step[1]) : 0;
            int64_t at = w.off[0] + j * w.step[0];
            double sum = wide ? ((const double *)product)[at] : (double)((const float *)product)[at];
            mo_store(&ctx->out[0], at, alpha * sum + beta * c);
        }
    return mo_epilogue(ctx);
}

static int run_gemm(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    bool wide = ctx->out[0].dtype == MOIRE_F64, ta = mo_attr_int(ctx->node, "transA", 0) != 0;
    int64_t m = ctx->out[0].shape.d[0], n = ctx->out[0].shape.d[1], k = ctx->in[0].shape.d[!ta];
    void *a = matrix(ctx, 0, ta, wide);
    void *b = matrix(ctx, 1, mo_attr_int(ctx->node, "transB", 0) != 0, wide);
    void *product = mo_scratch(ctx, m * n, wide ? sizeof(double) : sizeof(float));
    int rc = a && b && product ? MOIRE_OK : MOIRE_ENOMEM;
    if (!rc) memset(product, 0, (size_t)(m * n) * (wide ? sizeof(double) : sizeof(float)));
    if (!rc && wide) multiply_wide(product, a, b, m, k, n);
    if (!rc && !wide) multiply(product, a, b, m, k, n);
    if (!rc) rc = combine(ctx, product, wide);
    mo_free(ctx->env, a);
    mo_free(ctx->env, b);
    mo_free(ctx->env, product);
    return rc;
}

const struct mo_op mo_ops_matmul[] = {
    {"MatMul", "", 1, 2, 2, 1, 1, infer_matmul, run_matmul, 0},
    {"Gemm", "", 1, 2, 3, 1, 1, infer_gemm, run_gemm, 0},
    {0},
};
