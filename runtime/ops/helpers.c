/* SPDX-License-Identifier: Apache-2.0
 * helpers.c - checks, shapes and broadcasting shared by all operators; the contract in op.h. */
#include "runtime/ops/util.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int mo_op_fail(const struct mo_op_ctx *ctx, int code, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mo_fail(ctx->err, code, "node '%.64s' (%.40s): %s", ctx->node->name, ctx->node->op_type, text);
}

int mo_op_infer(const struct mo_op_ctx *ctx) {
    const struct mo_op *op = ctx->node->op;
    const struct mo_fuse *fuse = &ctx->node->fuse;
    int n_in = fuse->gated ? MO_GATE_IN - 1 : ctx->n_in - (fuse->residual >= 0);
    if (n_in < op->min_in || (op->max_in >= 0 && n_in > op->max_in))
        return mo_op_fail(ctx, MOIRE_EINVAL, "has %d inputs, takes %d to %d", n_in, op->min_in, op->max_in);
    if (ctx->n_out < op->min_out || (op->max_out >= 0 && ctx->n_out > op->max_out))
        return mo_op_fail(ctx, MOIRE_EINVAL, "has %d outputs, gives %d to %d", ctx->n_out, op->min_out,
                          op->max_out);
    for (int i = 0; i < ctx->n_in; i++) {
        if (ctx->in[i].dtype == MOIRE_NONE && (i < op->min_in || op->max_in < 0))
            return mo_op_fail(ctx, MOIRE_EINVAL, "input %d is required", i);
        if (ctx->in[i].dtype == MO_BUNDLE && !(op->flags & (MO_OP_BUNDLES | MO_OP_MAKES)))
            return mo_op_fail(ctx, MOIRE_EINVAL, "input %d is a sequence or an optional, no tensor", i);
        if (ctx->in[i].dtype != MOIRE_NONE && ctx->in[i].shape.rank < 0) return MO_NEED_DATA;
    }
    return op->infer(ctx);
}

int mo_axis(const struct mo_op_ctx *ctx, int64_t axis, int rank) {
    if (axis >= -(int64_t)rank && axis < rank) return (int)(axis < 0 ? axis + rank : axis);
    mo_op_fail(ctx, MOIRE_EINVAL, "axis %lld is outside [-%d, %d)", (long long)axis, rank, rank);
    return -1;
}

bool mo_broadcast(const struct mo_shape *a, const struct mo_shape *b, struct mo_shape *out) {
    struct mo_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 1; i <= result.rank; i++) {
        int64_t da = i <= a->rank ? a->d[a->rank - i] : 1, db = i <= b->rank ? b->d[b->rank - i] : 1;
        if (da != db && da != 1 && db != 1) return false;
        result.d[result.rank - i] = da == 1 ? db : da;
    }
    *out = result;
    return true;
}

int mo_read_ints(const struct mo_op_ctx *ctx, int input, int64_t *out, int cap, bool *need) {
    const struct mo_value *v = &ctx->in[input];
    if (v->dtype != MOIRE_I64 && v->dtype != MOIRE_I32)
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "input %d must be int32 or int64, is %s", input,
                          mo_dtype_name(v->dtype));
    int64_t n = mo_shape_count(&v->shape);
    if (v->shape.rank > 1 || n > cap)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d must be a vector of at most %d numbers", input, cap);
    if (n && !v->data) {
        *need = true;
        return 0;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = mo_load_int(v, i);
    return (int)n;
}

int mo_read_list(const struct mo_op_ctx *ctx, int input, const char *attr, int64_t *out, bool *need) {
    if (mo_given(ctx, input)) return mo_read_ints(ctx, input, out, MOIRE_MAX_RANK, need);
    int n = mo_attr_ints(ctx->node, attr, out, MOIRE_MAX_RANK);
    return n > MOIRE_MAX_RANK ? mo_op_fail(ctx, MOIRE_EINVAL, "%s has %d numbers", attr, n) : n < 0 ? 0 : n;
}

/* Into [0, 1]; a NaN stays one. */
static float unit(float x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

float mo_activate(enum mo_act act, float a, float b, float x) {
    switch (act) {
    case MO_ACT_RELU:
        return x < 0 ? 0 : x;
    case MO_ACT_CLIP:
        return x < a ? a : x > b ? b : x;
    case MO_ACT_LEAKY:
        return x < 0 ? a * x : x;
    case MO_ACT_SIGMOID:
        return 1 / (1 + expf(-x));
    case MO_ACT_SILU:
        return x / (1 + expf(-x));
    case MO_ACT_HSIGMOID:
        return unit(a * x + b);
    case MO_ACT_HSWISH:
        return x * unit(a * x + b);
    case MO_ACT_TANH:
        return tanhf(x);
    case MO_ACT_GELU:
        return 0.5f * x * (1 + erff(x * 0.70710678f));
    case MO_ACT_GELU_TANH:
        return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    default:
        return x;
    }
}

int mo_epilogue(const struct mo_op_ctx *ctx) {
    const struct mo_fuse *fuse = &ctx->node->fuse;
    if (fuse->residual < 0 && fuse->act == MO_ACT_NONE) return MOIRE_OK;
    const struct mo_value *residual = fuse->residual >= 0 ? &ctx->in[fuse->residual] : NULL;
    const struct mo_value *out = &ctx->out[0];
    if (out->dtype != MOIRE_F32 ||
        (residual && (residual->dtype != MOIRE_F32 || !mo_shape_equal(&residual->shape, &out->shape))))
        return mo_op_fail(ctx, MOIRE_EINTERNAL, "fused epilogue does not fit the output");
    const float *r = residual ? residual->data : NULL;
    float *y = out->data;
    int64_t n = mo_count(out);
    for (int64_t i = 0; i < n; i++) {
        float x = r && !fuse->residual_last ? y[i] + r[i] : y[i];
        x = mo_activate(fuse->act, fuse->a, fuse->b, x);
        y[i] = r && fuse->residual_last ? x + r[i] : x;
    }
    return MOIRE_OK;
}

bool mo_given(const struct mo_op_ctx *ctx, int i) {
    return i < ctx->n_in && i != ctx->node->fuse.residual && ctx->in[i].dtype != MOIRE_NONE;
}

int mo_check_type(const struct mo_op_ctx *ctx, int i, unsigned set) {
    if (!mo_given(ctx, i)) return mo_op_fail(ctx, MOIRE_EINVAL, "input %d is required", i);
    if (mo_type_in(ctx->in[i].dtype, set)) return MOIRE_OK;
    return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "input %d of type %s is not supported", i,
                      mo_dtype_name(ctx->in[i].dtype));
}

int mo_check_rank(const struct mo_op_ctx *ctx, int i, int low, int high) {
    if (!mo_given(ctx, i)) return mo_op_fail(ctx, MOIRE_EINVAL, "input %d is required", i);
    int rank = ctx->in[i].shape.rank;
    if (rank >= low && rank <= high) return MOIRE_OK;
    return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d has rank %d, needs %d to %d", i, rank, low, high);
}

int mo_check_same(const struct mo_op_ctx *ctx, unsigned set) {
    int rc = mo_check_type(ctx, 0, set);
    for (int i = 1; !rc && i < ctx->n_in; i++)
        if (mo_given(ctx, i) && ctx->in[i].dtype != ctx->in[0].dtype)
            rc = mo_op_fail(ctx, MOIRE_EINVAL, "input %d is %s but input 0 is %s", i,
                            mo_dtype_name(ctx->in[i].dtype), mo_dtype_name(ctx->in[0].dtype));
    return rc;
}

int mo_set_out(const struct mo_op_ctx *ctx, int i, moire_dtype dtype, const struct mo_shape *shape) {
    if (i >= ctx->n_out) return MOIRE_OK;
    char text[160];
    int64_t count = mo_shape_count(shape), bytes;
    if (shape->rank > MOIRE_MAX_RANK || count < 0 ||
        __builtin_mul_overflow(count, (int64_t)mo_dtype_bytes(dtype), &bytes))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "output %d would have the shape %s", i,
                          mo_shape_text(shape, text, sizeof text));
    if (bytes > ctx->env->limits.tensor_bytes)
        return mo_op_fail(ctx, MOIRE_ELIMIT, "output %d of shape %s is over the limit tensor_bytes", i,
                          mo_shape_text(shape, text, sizeof text));
    ctx->out[i].dtype = dtype;
    ctx->out[i].shape = *shape;
    return MOIRE_OK;
}

int mo_attr_sizes(const struct mo_op_ctx *ctx, const char *name, int64_t *out, int cap) {
    int n = mo_attr_ints(ctx->node, name, out, cap);
    if (n < 0) return 0;
    if (n > cap) return mo_op_fail(ctx, MOIRE_EINVAL, "attribute %s has %d numbers", name, n);
    for (int i = 0; i < n; i++)
        if (out[i] < -INT32_MAX || out[i] > INT32_MAX)
            return mo_op_fail(ctx, MOIRE_EINVAL, "attribute %s has the number %lld", name, (long long)out[i]);
    return n;
}

void *mo_scratch(const struct mo_op_ctx *ctx, int64_t count, size_t size) {
    size_t bytes;
    void *p = NULL;
    if (count >= 0 && !__builtin_mul_overflow((size_t)count + 1, size, &bytes)) p = mo_alloc(ctx->env, bytes);
    if (!p) mo_op_fail(ctx, MOIRE_ENOMEM, "out of memory");
    return p;
}

int mo_infer_same(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_ANY);
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape);
}

int mo_infer_float(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape);
}

int mo_infer_number(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_NUMBERS);
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape);
}
