/* SPDX-License-Identifier: Apache-2.0
 * linalg.c - Det. */
#include <math.h>
#include "runtime/ops/util.h"

static int infer_det(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    if (rc || (rc = mo_check_rank(ctx, 0, 2, MOIRE_MAX_RANK))) return rc;
    struct mo_shape y = ctx->in[0].shape;
    if (y.d[y.rank - 1] != y.d[y.rank - 2])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the matrices are not square");
    y.rank -= 2;
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

/* Gaussian elimination with partial pivoting; destroys m. */
static double determinant(double *m, int64_t n) {
    double det = 1;
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; r++)
            if (fabs(m[r * n + c]) > fabs(m[pivot * n + c])) pivot = r;
        if (m[pivot * n + c] == 0) return 0;
        if (pivot != c) det = -det;
        for (int64_t k = 0; k < n; k++) {
            double swap = m[c * n + k];
            m[c * n + k] = m[pivot * n + k];
            m[pivot * n + k] = swap;
        }
        det *= m[c * n + c];
        for (int64_t r = c + 1; r < n; r++) {
            double factor = m[r * n + c] / m[c * n + c];
            for (int64_t k = c; k < n; k++)
                m[r * n + k] -= factor * m[c * n + k];
        }
    }
    return det;
}

static int run_det(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    int64_t n = x->shape.d[x->shape.rank - 1], matrices = mo_extent(&x->shape, 0, x->shape.rank - 2);
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    double *m = mo_scratch(ctx, n * n, sizeof *m);
    if (!m) return MOIRE_ENOMEM;
    for (int64_t i = 0; i < matrices; i++) {
        mo_load_span(x, i * n * n, 1, n * n, m);
        mo_store(&ctx->out[0], i, determinant(m, n));
    }
    mo_free(ctx->env, m);
    return MOIRE_OK;
}

const struct mo_op mo_ops_linalg[] = {
    {"Det", "", 11, 1, 1, 1, 1, infer_det, run_det, 0},
    {0},
};
