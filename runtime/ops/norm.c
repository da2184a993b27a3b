/* SPDX-License-Identifier: Apache-2.0
 * norm.c - normalizations: batch, instance, group, layer, mean-variance, Lp, local response. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

/* Given inputs 1..n-1 must have `count` elements each. */
static int check_vectors(const struct mo_op_ctx *ctx, int n, int64_t count) {
    for (int i = 1; i < n; i++)
        if (mo_given(ctx, i) && mo_count(&ctx->in[i]) != count)
            return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d must have %lld elements", i, (long long)count);
    return MOIRE_OK;
}

/* --- BatchNormalization: scale, B, mean, var --- */
static bool is_training(const struct mo_op_ctx *ctx) {
    return mo_attr_int(ctx->node, "training_mode", 0) != 0 ||
           (ctx->node->opset < 7 && !mo_attr_int(ctx->node, "is_test", 0));
}

static int infer_batch(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    if (rc || (rc = mo_check_rank(ctx, 0, 1, MOIRE_MAX_RANK))) return rc;
    const struct mo_shape *x = &ctx->in[0].shape;
    struct mo_shape channels = {.rank = 1, .d = {x->rank > 1 ? x->d[1] : 1}};
    if (mo_attr_int(ctx->node, "spatial", 1) == 0)
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "spatial = 0 is not supported");
    for (int i = 1; i < 5; i++)
        if ((rc = mo_check_type(ctx, i, MO_FLOATS))) return rc;
    if ((rc = check_vectors(ctx, 5, channels.d[0]))) return rc;
    for (int i = 1; i < ctx->n_out && !rc; i++)
        rc = mo_set_out(ctx, i, ctx->in[3].dtype, &channels);
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, x);
}

/* Mean and population variance of one channel over images and positions. */
static void channel_moments(const struct mo_value *x, int64_t channel, double *mean, double *var) {
    int64_t images = x->shape.d[0], channels = x->shape.rank > 1 ? x->shape.d[1] : 1;
    int64_t size = mo_extent(&x->shape, 2, x->shape.rank), count = images * size;
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < images; n++)
        for (int64_t i = 0; i < size; i++)
            sum += mo_load(x, (n * channels + channel) * size + i);
    *mean = sum / (double)count;
    for (int64_t n = 0; n < images; n++)
        for (int64_t i = 0; i < size; i++) {
            double d = mo_load(x, (n * channels + channel) * size + i) - *mean;
            squares += d * d;
        }
    *var = squares / (double)count;
}

/* y = x * scale + shift over one run of elements. */
static void affine(const struct mo_value *y, const struct mo_value *x, int64_t at, int64_t n, double scale,
                   double shift) {
    enum { SPAN = 256 };
    double span[SPAN];
    for (int64_t i = 0; i < n; i += SPAN) {
        int64_t m = n - i < SPAN ? n - i : SPAN;
        mo_load_span(x, at + i, 1, m, span);
        for (int64_t k = 0; k < m; k++)
            span[k] = span[k] * scale + shift;
        mo_store_span(y, at + i, 1, m, span);
    }
}

static int run_batch(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    int64_t channels = x->shape.rank > 1 ? x->shape.d[1] : 1, size = mo_extent(&x->shape, 2, x->shape.rank);
    double epsilon = (double)mo_attr_float(ctx->node, "epsilon", 1e-5f);
    double momentum = (double)mo_attr_float(ctx->node, "momentum", 0.9f);
    for (int64_t c = 0; c < channels; c++) {
        double mean = mo_load(&ctx->in[3], c), var = mo_load(&ctx->in[4], c);
        double old_mean = mean, old_var = var;
        if (is_training(ctx)) channel_moments(x, c, &mean, &var);
        bool update = is_training(ctx);
        if (mo_wanted(ctx, 1))
            mo_store(&ctx->out[1], c, update ? old_mean * momentum + mean * (1 - momentum) : old_mean);
        if (mo_wanted(ctx, 2))
            mo_store(&ctx->out[2], c, update ? old_var * momentum + var * (1 - momentum) : old_var);
        for (int i = 3; i < 5; i++)
            if (mo_wanted(ctx, i)) mo_store(&ctx->out[i], c, i == 3 ? mean : var);
        double scale = mo_load(&ctx->in[1], c) / sqrt(var + epsilon);
        double shift = mo_load(&ctx->in[2], c) - mean * scale;
        for (int64_t n = 0; mo_wanted(ctx, 0) && n < x->shape.d[0]; n++)
            affine(&ctx->out[0], x, (n * channels + c) * size, size, scale, shift);
    }
    return mo_wanted(ctx, 0) ? mo_epilogue(ctx) : MOIRE_OK;
}

/* --- Layer, instance and group normalization: runs of contiguous elements --- */
static void run_moments(const struct mo_value *x, int64_t at, int64_t n, double *mean, double *var) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += mo_load(x, at + i);
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = mo_load(x, at + i) - *mean;
        squares += d * d;
    }
    *var = squares / (double)n;
}

static int infer_layer(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    if (rc || (rc = mo_check_type(ctx, 1, MO_FLOATS))) return rc;
    const struct mo_shape *x = &ctx->in[0].shape;
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", -1), x->rank);
    if (axis < 0) return MOIRE_EINVAL;
    struct mo_shape moments = *x, fit;
    for (int i = axis; i < x->rank; i++)
        moments.d[i] = 1;
    for (int i = 1; i < 3; i++)
        if (mo_given(ctx, i) && (!mo_broadcast(x, &ctx->in[i].shape, &fit) || !mo_shape_equal(x, &fit)))
            return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d does not broadcast to the input", i);
    for (int i = 1; i < ctx->n_out && !rc; i++)
        rc = mo_set_out(ctx, i, MOIRE_F32, &moments);
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, x);
}

/* Scale and bias broadcast to the input. */
static void scale_and_shift(const struct mo_op_ctx *ctx) {
    const struct mo_value *y = &ctx->out[0];
    struct mo_shape none = {.rank = 0};
    const struct mo_shape *operands[] = {&y->shape, &ctx->in[1].shape,
                                         mo_given(ctx, 2) ? &ctx->in[2].shape : &none};
    struct mo_row_walk w;
    for (mo_row_walk_init(&w, &y->shape, operands, 3); w.more; mo_row_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++) {
            double v = mo_load(y, w.off[0] + i * w.step[0]) * mo_load(&ctx->in[1], w.off[1] + i * w.step[1]);
            if (mo_given(ctx, 2)) v += mo_load(&ctx->in[2], w.off[2] + i * w.step[2]);
            mo_store(y, w.off[0] + i * w.step[0], v);
        }
}

/* RMSNormalization takes no mean away. */
static bool is_rms(const struct mo_op_ctx *ctx) {
    return !strcmp(ctx->node->op_type, "RMSNormalization");
}

static int run_layer(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", -1), x->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    int64_t rows = mo_extent(&x->shape, 0, axis), size = mo_extent(&x->shape, axis, x->shape.rank);
    double epsilon = (double)mo_attr_float(ctx->node, "epsilon", 1e-5f), mean, var;
    for (int64_t r = 0; size && r < rows; r++) {
        run_moments(x, r * size, size, &mean, &var);
        if (is_rms(ctx)) {
            var += mean * mean;
            mean = 0;
        }
        double inverse = 1 / sqrt(var + epsilon);
        if (mo_wanted(ctx, 1)) mo_store(&ctx->out[1], r, mean);
        if (mo_wanted(ctx, 2)) mo_store(&ctx->out[2], r, inverse);
        if (mo_wanted(ctx, 0)) affine(&ctx->out[0], x, r * size, size, inverse, -mean * inverse);
    }
    if (mo_wanted(ctx, 0)) scale_and_shift(ctx);
    return mo_wanted(ctx, 0) ? mo_epilogue(ctx) : MOIRE_OK;
}

/* InstanceNormalization is group normalization with one channel a group. */
static int64_t groups_of(const struct mo_op_ctx *ctx) {
    int64_t channels = ctx->in[0].shape.d[1];
    return !strcmp(ctx->node->op_type, "InstanceNormalization") ? channels
                                                                : mo_attr_int(ctx->node, "num_groups", 0);
}

static int infer_group(const struct mo_op_ctx *ctx) {
    int rc = mo_check_same(ctx, MO_FLOATS);
    if (rc || (rc = mo_check_rank(ctx, 0, 3, MOIRE_MAX_RANK))) return rc;
    int64_t channels = ctx->in[0].shape.d[1], groups = groups_of(ctx);
    if (groups < 1 || channels % groups)
        return mo_op_fail(ctx, MOIRE_EINVAL, "%lld channels do not fall into %lld groups",
                          (long long)channels, (long long)groups);
    bool by_group = !strcmp(ctx->node->op_type, "GroupNormalization") && ctx->node->opset < 21;
    if ((rc = check_vectors(ctx, 3, by_group ? groups : channels))) return rc;
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape);
}

static int run_group(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *x = &ctx->in[0];
    int64_t channels = x->shape.d[1], size = mo_extent(&x->shape, 2, x->shape.rank), groups = groups_of(ctx);
    int64_t width = channels / groups;
    double epsilon = (double)mo_attr_float(ctx->node, "epsilon", 1e-5f), mean, var;
    for (int64_t g = 0; size && g < x->shape.d[0] * groups; g++) {
        run_moments(x, g * width * size, width * size, &mean, &var);
        for (int64_t k = 0; k < width; k++) {
            int64_t channel = g % groups * width + k;
            if (mo_count(&ctx->in[1]) != channels) channel = g % groups; /* a scale for every group */
            double scale = mo_load(&ctx->in[1], channel) / sqrt(var + epsilon);
            affine(&ctx->out[0], x, (g * width + k) * size, size, scale,
                   mo_load(&ctx->in[2], channel) - mean * scale);
        }
    }
    return mo_epilogue(ctx);
}

/* --- LRN: sum of squares over neighbouring channels --- */
static int infer_lrn(const struct mo_op_ctx *ctx) {
    int rc = mo_check_rank(ctx, 0, 2, MOIRE_MAX_RANK);
    if (!rc && mo_attr_int(ctx->node, "size", 0) < 1)
        return mo_op_fail(ctx, MOIRE_EINVAL, "attribute size must be positive");
    return rc ? rc : mo_infer_float(ctx);
}

static int run_lrn(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *x = &ctx->in[0];
    int64_t channels = x->shape.d[1], plane = mo_extent(&x->shape, 2, x->shape.rank);
    int64_t size = mo_attr_int(ctx->node, "size", 1), low = (size - 1) / 2, high = size - 1 - low;
    double alpha = (double)mo_attr_float(ctx->node, "alpha", 1e-4f) / (double)size;
    double beta = (double)mo_attr_float(ctx->node, "beta", 0.75f),
           bias = (double)mo_attr_float(ctx->node, "bias", 1);
    for (int64_t n = 0; n < x->shape.d[0]; n++)
        for (int64_t c = 0; c < channels; c++) {
            int64_t from = c - low > 0 ? c - low : 0, to = high < channels - 1 - c ? c + high : channels - 1;
            for (int64_t i = 0; i < plane; i++) {
                double squares = 0;
                for (int64_t k = from; k <= to; k++) {
                    double v = mo_load(x, (n * channels + k) * plane + i);
                    squares += v * v;
                }
                int64_t at = (n * channels + c) * plane + i;
                mo_store(&ctx->out[0], at, mo_load(x, at) / pow(bias + alpha * squares, beta));
            }
        }
    return MOIRE_OK;
}

/* --- LpNormalization along one axis --- */
static int infer_lp(const struct mo_op_ctx *ctx) {
    int64_t p = mo_attr_int(ctx->node, "p", 2);
    if (p != 1 && p != 2) return mo_op_fail(ctx, MOIRE_EINVAL, "attribute p must be 1 or 2");
    if (mo_axis(ctx, mo_attr_int(ctx->node, "axis", -1), ctx->in[0].shape.rank) < 0) return MOIRE_EINVAL;
    return mo_infer_float(ctx);
}

static int run_lp(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *x = &ctx->in[0];
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", -1), x->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    bool square = mo_attr_int(ctx->node, "p", 2) == 2;
    int64_t outer = mo_extent(&x->shape, 0, axis), n = x->shape.d[axis];
    int64_t inner = mo_extent(&x->shape, axis + 1, x->shape.rank);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            double norm = 0;
            int64_t at = o * n * inner + i;
            for (int64_t k = 0; k < n; k++) {
                double v = mo_load(x, at + k * inner);
                norm += square ? v * v : fabs(v);
            }
            if (square) norm = sqrt(norm);
            for (int64_t k = 0; k < n; k++)
                mo_store(&ctx->out[0], at + k * inner, norm > 0 ? mo_load(x, at + k * inner) / norm : 0);
        }
    return MOIRE_OK;
}

/* --- MeanVarianceNormalization over the listed axes --- */
static int mvn_axes(const struct mo_op_ctx *ctx, bool *over) {
    int64_t axes[MOIRE_MAX_RANK] = {0, 2, 3};
    int n = mo_attr_sizes(ctx, "axes", axes, MOIRE_MAX_RANK);
    if (n < 0) return n;
    for (int i = 0; i < (mo_attr_find(ctx->node, "axes") ? n : 3); i++) {
        int axis = mo_axis(ctx, axes[i], ctx->in[0].shape.rank);
        if (axis < 0) return MOIRE_EINVAL;
        over[axis] = true;
    }
    return MOIRE_OK;
}

static int infer_mvn(const struct mo_op_ctx *ctx) {
    bool over[MOIRE_MAX_RANK] = {false};
    int rc = mvn_axes(ctx, over);
    return rc ? rc : mo_infer_float(ctx);
}

/* Two passes over the input add up sums, then squared distances; a third writes. */
static void mvn(const struct mo_op_ctx *ctx, const struct mo_shape *kept, double *mean, double *var) {
    const struct mo_value *x = &ctx->in[0];
    const struct mo_shape *operands[] = {&x->shape, kept};
    double count = (double)mo_count(x) / (double)mo_shape_count(kept);
    for (int pass = 0; pass < 3; pass++) {
        struct mo_row_walk w;
        for (mo_row_walk_init(&w, &x->shape, operands, 2); w.more; mo_row_walk_next(&w))
            for (int64_t i = 0; i < w.row; i++) {
                int64_t to = w.off[1] + i * w.step[1], at = w.off[0] + i * w.step[0];
                double v = mo_load(x, at), d = v - mean[to] / count;
                if (pass == 0) mean[to] += v;
                if (pass == 1) var[to] += d * d;
                if (pass == 2) mo_store(&ctx->out[0], at, d / (sqrt(var[to] / count) + 1e-9));
            }
    }
}

static int run_mvn(const struct mo_op_ctx *ctx) {
    bool over[MOIRE_MAX_RANK] = {false};
    int rc = mvn_axes(ctx, over);
    if (rc || !mo_wanted(ctx, 0) || !mo_count(&ctx->in[0])) return rc;
    struct mo_shape kept = ctx->in[0].shape;
    for (int i = 0; i < kept.rank; i++)
        if (over[i]) kept.d[i] = 1;
    int64_t n = mo_shape_count(&kept);
    double *sums = mo_scratch(ctx, 2 * n, sizeof *sums); /* zeroed */
    if (!sums) return MOIRE_ENOMEM;
    mvn(ctx, &kept, sums, sums + n);
    mo_free(ctx->env, sums);
    return MOIRE_OK;
}

const struct mo_op mo_ops_norm[] = {
    {"BatchNormalization", "", 6, 5, 5, 1, 5, infer_batch, run_batch, 0},
    {"LayerNormalization", "", 17, 2, 3, 1, 3, infer_layer, run_layer, 0},
    {"RMSNormalization", "", 23, 2, 2, 1, 1, infer_layer, run_layer, 0},
    {"InstanceNormalization", "", 1, 3, 3, 1, 1, infer_group, run_group, 0},
    {"GroupNormalization", "", 18, 3, 3, 1, 1, infer_group, run_group, 0},
    {"LRN", "", 1, 1, 1, 1, 1, infer_lrn, run_lrn, 0},
    {"LpNormalization", "", 1, 1, 1, 1, 1, infer_lp, run_lp, 0},
    {"MeanVarianceNormalization", "", 9, 1, 1, 1, 1, infer_mvn, run_mvn, 0},
    {0},
};
