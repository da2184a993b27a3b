/* SPDX-License-Identifier: Apache-2.0
 * loss.c - NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
 *
 * Scores are [N][C][d...], labels [N][d...], optional class weights [C].  A label equal to ignore_index
 * contributes nothing; any other label outside [0, C) is an error. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

enum { LABELS = MO_TYPE(MOIRE_I32) | MO_TYPE(MOIRE_I64) };
enum reduction { NONE, MEAN, SUM, UNKNOWN };

static enum reduction reduction_of(const struct mo_op_ctx *ctx) {
    const char *name = mo_attr_string(ctx->node, "reduction", "mean");
    return !strcmp(name, "none") ? NONE : !strcmp(name, "mean") ? MEAN : !strcmp(name, "sum") ? SUM : UNKNOWN;
}

static int infer_loss(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    if (rc || (rc = mo_check_type(ctx, 1, LABELS)) || (rc = mo_check_rank(ctx, 0, 2, MOIRE_MAX_RANK)))
        return rc;
    const struct mo_shape *x = &ctx->in[0].shape;
    struct mo_shape labels = {.rank = x->rank - 1, .d = {x->d[0]}}, scalar = {.rank = 0};
    for (int i = 2; i < x->rank; i++)
        labels.d[i - 1] = x->d[i];
    if (!mo_shape_equal(&labels, &ctx->in[1].shape))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the labels do not fit the scores");
    if (mo_given(ctx, 2) && ((rc = mo_check_type(ctx, 2, MO_FLOATS)) || mo_count(&ctx->in[2]) != x->d[1]))
        return rc ? rc : mo_op_fail(ctx, MOIRE_ESHAPE, "one weight a class is needed");
    if (reduction_of(ctx) == UNKNOWN) return mo_op_fail(ctx, MOIRE_EINVAL, "an unknown reduction");
    rc = mo_set_out(ctx, 0, ctx->in[0].dtype, reduction_of(ctx) == NONE ? &labels : &scalar);
    return rc ? rc : mo_set_out(ctx, 1, ctx->in[0].dtype, x); /* log-probabilities */
}

/* Log-softmax over the classes of one position, or the scores as they are. */
static void log_probabilities(const struct mo_op_ctx *ctx, int64_t at, int64_t inner, int64_t classes,
                              double *out) {
    mo_load_span(&ctx->in[0], at, inner, classes, out);
    if (*ctx->node->op_type != 'S') return;
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < classes; c++)
        top = fmax(top, out[c]);
    for (int64_t c = 0; c < classes; c++)
        sum += exp(out[c] - top);
    for (int64_t c = 0; c < classes; c++)
        out[c] -= top + log(sum);
}

static int losses(const struct mo_op_ctx *ctx, double *row, double *total, double *weights) {
    const struct mo_shape *x = &ctx->in[0].shape;
    const struct mo_attr *ignore = mo_attr_find(ctx->node, "ignore_index");
    int64_t classes = x->d[1], inner = mo_extent(x, 2, x->rank), n = x->d[0] * inner;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i / inner * classes * inner + i % inner, label = mo_load_int(&ctx->in[1], i);
        double loss = 0, weight = 0;
        log_probabilities(ctx, at, inner, classes, row);
        if (mo_wanted(ctx, 1)) mo_store_span(&ctx->out[1], at, inner, classes, row);
        if (!ignore || label != ignore->i) {
            if (label < 0 || label >= classes)
                return mo_op_fail(ctx, MOIRE_EINVAL, "label %lld is outside [0, %lld)", (long long)label,
                                  (long long)classes);
            weight = mo_given(ctx, 2) ? mo_load(&ctx->in[2], label) : 1;
            loss = -row[label] * weight;
        }
        *total += loss;
        *weights += weight;
        if (reduction_of(ctx) == NONE && mo_wanted(ctx, 0)) mo_store(&ctx->out[0], i, loss);
    }
    return MOIRE_OK;
}

static int run_loss(const struct mo_op_ctx *ctx) {
    double total = 0, weights = 0, *row = mo_scratch(ctx, ctx->in[0].shape.d[1], sizeof *row);
    if (!row) return MOIRE_ENOMEM;
    int rc = losses(ctx, row, &total, &weights);
    mo_free(ctx->env, row);
    if (rc || !mo_wanted(ctx, 0) || reduction_of(ctx) == NONE) return rc;
    mo_store(&ctx->out[0], 0, reduction_of(ctx) == MEAN ? total / weights : total);
    return MOIRE_OK;
}

const struct mo_op mo_ops_loss[] = {
    {"NegativeLogLikelihoodLoss", "", 12, 2, 3, 1, 1, infer_loss, run_loss, 0},
    {"SoftmaxCrossEntropyLoss", "", 12, 2, 3, 1, 2, infer_loss, run_loss, 0},
    {0},
};
