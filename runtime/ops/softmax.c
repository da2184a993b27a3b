/* SPDX-License-Identifier: Apache-2.0
 * softmax.c - Softmax, LogSoftmax and Hardmax.
 *
 * Before opset 13 the input is flattened to a matrix at `axis` (default 1) and a row is everything after;
 * from 13 on the sum runs along one axis (default -1). */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

struct rows {
    int64_t outer, n, inner; /* element k of row (o, i) is at (o n + k) inner + i */
};

static int rows_of(const struct mo_op_ctx *ctx, struct rows *r) {
    const struct mo_shape *x = &ctx->in[0].shape;
    bool flat = ctx->node->opset < 13;
    int64_t attr = mo_attr_int(ctx->node, "axis", flat ? 1 : -1);
    int axis = mo_axis(ctx, attr, x->rank);
    if (axis < 0) return MOIRE_EINVAL;
    *r = (struct rows){.outer = mo_extent(x, 0, axis), .n = mo_extent(x, axis, x->rank), .inner = 1};
    if (!flat) {
        r->n = x->d[axis];
        r->inner = mo_extent(x, axis + 1, x->rank);
    }
    return MOIRE_OK;
}

static int infer_softmax(const struct mo_op_ctx *ctx) {
    struct rows r;
    int rc = rows_of(ctx, &r);
    return rc ? rc : mo_infer_float(ctx);
}

static void softmax(double *x, int64_t n, bool logarithm) {
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, x[i]);
    if (isinf(top) && top < 0) top = 0; /* all -inf: 0/0 below gives NaN, as it should */
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    for (int64_t i = 0; i < n; i++)
        x[i] = logarithm ? x[i] - top - log(sum) : exp(x[i] - top) / sum;
}

static void hardmax(double *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    for (int64_t i = 0; i < n; i++)
        x[i] = i == best;
}

static int run_softmax(const struct mo_op_ctx *ctx) {
    struct rows r;
    int rc = rows_of(ctx, &r);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    double *row = mo_scratch(ctx, r.n, sizeof *row);
    if (!row) return MOIRE_ENOMEM;
    bool hard = !strcmp(ctx->node->op_type, "Hardmax"), logarithm = !strcmp(ctx->node->op_type, "LogSoftmax");
    for (int64_t o = 0; r.n && o < r.outer; o++)
        for (int64_t i = 0; i < r.inner; i++) {
            mo_load_span(&ctx->in[0], o * r.n * r.inner + i, r.inner, r.n, row);
            if (hard)
                hardmax(row, r.n);
            else
                softmax(row, r.n, logarithm);
            mo_store_span(&ctx->out[0], o * r.n * r.inner + i, r.inner, r.n, row);
        }
    mo_free(ctx->env, row);
    return MOIRE_OK;
}

const struct mo_op mo_ops_softmax[] = {
    {"Softmax", "", 1, 1, 1, 1, 1, infer_softmax, run_softmax, 0},
    {"LogSoftmax", "", 1, 1, 1, 1, 1, infer_softmax, run_softmax, 0},
    {"Hardmax", "", 1, 1, 1, 1, 1, infer_softmax, run_softmax, 0},
    {0},
};
