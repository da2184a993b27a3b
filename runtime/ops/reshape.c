/* SPDX-License-Identifier: Apache-2.0
 * reshape.c - operators that only rename dimensions (views), ask for them, or make constants from them. */
#include <string.h>
#include "runtime/ops/elements.h"

/* Output 0 is the input's bytes. */
static int run_view(const struct mo_op_ctx *ctx) {
    if (mo_wanted(ctx, 0) && ctx->out[0].data != ctx->in[0].data)
        mo_copy_elem(&ctx->out[0], 0, &ctx->in[0], 0, mo_count(&ctx->in[0]));
    return MOIRE_OK;
}

static int set_view(const struct mo_op_ctx *ctx, const struct mo_shape *y) {
    char a[120], b[120];
    if (mo_shape_count(y) != mo_count(&ctx->in[0]))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "cannot see %s as %s",
                          mo_shape_text(&ctx->in[0].shape, a, sizeof a), mo_shape_text(y, b, sizeof b));
    return mo_set_out(ctx, 0, ctx->in[0].dtype, y);
}

static int infer_identity(const struct mo_op_ctx *ctx) {
    if (ctx->in[0].dtype == MO_BUNDLE) return mo_set_out(ctx, 0, MO_BUNDLE, &ctx->in[0].shape);
    return mo_infer_same(ctx);
}

static int infer_reshape(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc) return rc;
    const struct mo_shape *x = &ctx->in[0].shape;
    struct mo_shape y = {0};
    bool need = false, keep_zero = mo_attr_int(ctx->node, "allowzero", 0) != 0;
    ctx->out[0].dtype = ctx->in[0].dtype;
    y.rank = mo_read_list(ctx, 1, "shape", y.d, &need);
    if (y.rank < 0) return y.rank;
    if (need) return MO_NEED_DATA;
    int64_t known = 1;
    int open = -1;
    for (int i = 0; i < y.rank; i++) {
        if (y.d[i] == 0 && !keep_zero) {
            if (i >= x->rank)
                return mo_op_fail(ctx, MOIRE_ESHAPE, "dimension %d copies one that is not there", i);
            y.d[i] = x->d[i];
        }
        if (y.d[i] == -1 && open >= 0) return mo_op_fail(ctx, MOIRE_ESHAPE, "two dimensions are -1");
        if (y.d[i] == -1)
            open = i;
        else if (y.d[i] < 0 || __builtin_mul_overflow(known, y.d[i], &known))
            return mo_op_fail(ctx, MOIRE_ESHAPE, "dimension %d is %lld", i, (long long)y.d[i]);
    }
    if (open >= 0) y.d[open] = known ? mo_count(&ctx->in[0]) / known : 0;
    return set_view(ctx, &y);
}

static int infer_flatten(const struct mo_op_ctx *ctx) {
    const struct mo_shape *x = &ctx->in[0].shape;
    int64_t attr = mo_attr_int(ctx->node, "axis", 1);
    int rc = mo_check_type(ctx, 0, MO_ANY), axis = attr == x->rank ? x->rank : mo_axis(ctx, attr, x->rank);
    if (rc || axis < 0) return rc ? rc : MOIRE_EINVAL;
    struct mo_shape y = {.rank = 2, .d = {mo_extent(x, 0, axis), mo_extent(x, axis, x->rank)}};
    return set_view(ctx, &y);
}

/* Marks the listed axes of a shape of that rank; count or an error. */
static int mark_axes(const struct mo_op_ctx *ctx, const int64_t *axes, int n, int rank, bool *marked) {
    for (int i = 0; i < n; i++) {
        int axis = mo_axis(ctx, axes[i], rank);
        if (axis < 0) return MOIRE_EINVAL;
        if (marked[axis]) return mo_op_fail(ctx, MOIRE_EINVAL, "axis %d is named twice", axis);
        marked[axis] = true;
    }
    return n;
}

static int infer_squeeze(const struct mo_op_ctx *ctx) {
    const struct mo_shape *x = &ctx->in[0].shape;
    int64_t axes[MOIRE_MAX_RANK];
    bool need = false, gone[MOIRE_MAX_RANK] = {false};
    int rc = mo_check_type(ctx, 0, MO_ANY), n = mo_read_list(ctx, 1, "axes", axes, &need);
    if (rc || n < 0) return rc ? rc : n;
    ctx->out[0].dtype = ctx->in[0].dtype;
    if (need) return MO_NEED_DATA;
    if ((rc = mark_axes(ctx, axes, n, x->rank, gone)) < 0) return rc;
    struct mo_shape y = {0};
    for (int i = 0; i < x->rank; i++) {
        if (!n && x->d[i] == 1) gone[i] = true;
        if (gone[i] && x->d[i] != 1)
            return mo_op_fail(ctx, MOIRE_ESHAPE, "dimension %d is %lld, not 1", i, (long long)x->d[i]);
        if (!gone[i]) y.d[y.rank++] = x->d[i];
    }
    return set_view(ctx, &y);
}

static int infer_unsqueeze(const struct mo_op_ctx *ctx) {
    const struct mo_shape *x = &ctx->in[0].shape;
    int64_t axes[MOIRE_MAX_RANK];
    bool need = false, added[MOIRE_MAX_RANK] = {false};
    int rc = mo_check_type(ctx, 0, MO_ANY), n = mo_read_list(ctx, 1, "axes", axes, &need);
    if (rc || n < 0) return rc ? rc : n;
    ctx->out[0].dtype = ctx->in[0].dtype;
    if (need) return MO_NEED_DATA;
    if (x->rank + n > MOIRE_MAX_RANK) return mo_op_fail(ctx, MOIRE_ESHAPE, "rank over %d", MOIRE_MAX_RANK);
    struct mo_shape y = {.rank = x->rank + n};
    if ((rc = mark_axes(ctx, axes, n, y.rank, added)) < 0) return rc;
    for (int i = 0, from = 0; i < y.rank; i++)
        y.d[i] = added[i] ? 1 : x->d[from++];
    return set_view(ctx, &y);
}

/* --- Dropout: identity and a mask of ones; training with a ratio above 0 is refused --- */

/* Training that would drop something; inputs not yet known count as inference. */
static bool drops(const struct mo_op_ctx *ctx) {
    bool training =
        mo_given(ctx, 2) && mo_count(&ctx->in[2]) == 1 && ctx->in[2].data && mo_load_int(&ctx->in[2], 0);
    bool ratio_known = mo_given(ctx, 1) && mo_count(&ctx->in[1]) == 1;
    if (ratio_known && !ctx->in[1].data) return false;
    return training && (ratio_known ? mo_load(&ctx->in[1], 0) : 0.5) > 0;
}

static int infer_dropout(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    if (rc || (rc = mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape))) return rc;
    if (drops(ctx)) return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "training mode is not supported");
    return mo_set_out(ctx, 1, ctx->node->opset < 10 ? ctx->in[0].dtype : MOIRE_BOOL, &ctx->in[0].shape);
}

static int run_dropout(const struct mo_op_ctx *ctx) {
    int64_t n = mo_count(&ctx->in[0]);
    if (drops(ctx)) return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "training mode is not supported");
    for (int64_t i = 0; mo_wanted(ctx, 1) && i < n; i++)
        mo_store_int(&ctx->out[1], i, 1);
    return run_view(ctx);
}

/* --- Shape and Size --- */
static int clamp(int64_t v, int rank) {
    if (v < 0) v += rank;
    return (int)(v < 0 ? 0 : v > rank ? rank : v);
}

static int infer_shape(const struct mo_op_ctx *ctx) {
    int rank = ctx->in[0].shape.rank;
    int start = clamp(mo_attr_int(ctx->node, "start", 0), rank),
        end = clamp(mo_attr_int(ctx->node, "end", rank), rank);
    struct mo_shape y = {.rank = 1, .d = {end > start ? end - start : 0}};
    return mo_set_out(ctx, 0, MOIRE_I64, &y);
}

static int run_shape(const struct mo_op_ctx *ctx) {
    int start = clamp(mo_attr_int(ctx->node, "start", 0), ctx->in[0].shape.rank);
    for (int64_t i = 0; mo_wanted(ctx, 0) && i < mo_count(&ctx->out[0]); i++)
        ((int64_t *)ctx->out[0].data)[i] = ctx->in[0].shape.d[start + i];
    return MOIRE_OK;
}

static int infer_size(const struct mo_op_ctx *ctx) {
    struct mo_shape scalar = {.rank = 0};
    return mo_set_out(ctx, 0, MOIRE_I64, &scalar);
}

static int run_size(const struct mo_op_ctx *ctx) {
    if (mo_wanted(ctx, 0)) *(int64_t *)ctx->out[0].data = mo_shape_count(&ctx->in[0].shape);
    return MOIRE_OK;
}

/* --- Constant: one of several attributes --- */
static int constant_value(const struct mo_op_ctx *ctx, const struct mo_attr **found, moire_dtype *dtype,
                          struct mo_shape *shape) {
    for (int i = 0; i < ctx->node->n_attrs; i++) {
        const struct mo_attr *a = &ctx->node->attrs[i];
        bool list = a->type == MO_ATTR_INTS || a->type == MO_ATTR_FLOATS;
        if (strncmp(a->name, "value", 5)) continue;
        if (a->type == MO_ATTR_TENSOR && mo_type_in(a->tensor.dtype, MO_ANY) && a->tensor.data) {
            *dtype = a->tensor.dtype;
            *shape = a->tensor.shape;
        } else if (a->type == MO_ATTR_INT || a->type == MO_ATTR_FLOAT || list) {
            *dtype = a->type == MO_ATTR_INT || a->type == MO_ATTR_INTS ? MOIRE_I64 : MOIRE_F32;
            *shape = (struct mo_shape){.rank = list, .d = {a->n}};
        } else {
            continue;
        }
        *found = a;
        return MOIRE_OK;
    }
    return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "no value of a supported kind");
}

static int infer_constant(const struct mo_op_ctx *ctx) {
    const struct mo_attr *a;
    moire_dtype dtype;
    struct mo_shape shape;
    int rc = constant_value(ctx, &a, &dtype, &shape);
    return rc ? rc : mo_set_out(ctx, 0, dtype, &shape);
}

static int run_constant(const struct mo_op_ctx *ctx) {
    const struct mo_attr *a = NULL;
    moire_dtype dtype;
    struct mo_shape shape;
    int rc = constant_value(ctx, &a, &dtype, &shape);
    if (rc || !a || !mo_wanted(ctx, 0)) return rc;
    struct mo_value from = {.dtype = dtype, .shape = shape};
    union {
        const void *source;
        void *data; /* read only below */
    } view = {.source = a->type == MO_ATTR_TENSOR   ? a->tensor.data
                        : a->type == MO_ATTR_INT    ? (const void *)&a->i
                        : a->type == MO_ATTR_FLOAT  ? (const void *)&a->f
                        : a->type == MO_ATTR_FLOATS ? (const void *)a->floats
                                                    : (const void *)a->ints};
    from.data = view.data;
    mo_copy_elem(&ctx->out[0], 0, &from, 0, mo_shape_count(&shape));
    return MOIRE_OK;
}

/* --- ConstantOfShape, Expand, Range --- */
static int infer_filled(const struct mo_op_ctx *ctx) {
    struct mo_shape y = {0};
    bool need = false;
    const struct mo_attr *value = mo_attr_find(ctx->node, "value");
    bool given = value && value->type == MO_ATTR_TENSOR;
    if (given && (mo_shape_count(&value->tensor.shape) != 1 || !mo_type_in(value->tensor.dtype, MO_ANY)))
        return mo_op_fail(ctx, MOIRE_EINVAL, "attribute value must hold one number");
    ctx->out[0].dtype = given ? value->tensor.dtype : MOIRE_F32;
    y.rank = mo_read_ints(ctx, 0, y.d, MOIRE_MAX_RANK, &need);
    if (y.rank < 0) return y.rank;
    return need ? MO_NEED_DATA : mo_set_out(ctx, 0, ctx->out[0].dtype, &y);
}

static int run_filled(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_attr *value = mo_attr_find(ctx->node, "value");
    const size_t each = mo_dtype_bytes(ctx->out[0].dtype), all = (size_t)mo_count(&ctx->out[0]) * each;
    char *to = ctx->out[0].data;
    if (!value || value->type != MO_ATTR_TENSOR) {
        memset(to, 0, all);
        return MOIRE_OK;
    }
    if (all) mo_copy_elem(&ctx->out[0], 0, &value->tensor, 0, 1);
    mo_elements_repeat(to, each, all);
    return MOIRE_OK;
}

static int infer_expand(const struct mo_op_ctx *ctx) {
    struct mo_shape to = {0}, y;
    bool need = false;
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc) return rc;
    ctx->out[0].dtype = ctx->in[0].dtype;
    to.rank = mo_read_ints(ctx, 1, to.d, MOIRE_MAX_RANK, &need);
    if (to.rank < 0) return to.rank;
    if (need) return MO_NEED_DATA;
    if (!mo_broadcast(&ctx->in[0].shape, &to, &y))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the input does not broadcast to the asked shape");
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

/* What the dimensions from d on make of the elements at `from`: where the input has one of several, that is
 * made once and repeated. */
static void expand(const struct mo_shape *y, const int64_t *stride, int d, char *to, const char *from,
                   size_t bytes) {
    const int64_t rest = mo_extent(y, d < y->rank ? d + 1 : d, y->rank);
    const size_t each = (size_t)rest * bytes;
    bool dense = true;
    for (int64_t i = y->rank - 1, n = 1; i >= d; n *= y->d[i--])
        dense = dense && (stride[i] == n || y->d[i] == 1);
    if (dense) {
        memcpy(to, from, d < y->rank ? (size_t)y->d[d] * each : bytes);
    } else if (!stride[d]) {
        expand(y, stride, d + 1, to, from, bytes);
        mo_elements_repeat(to, each, (size_t)y->d[d] * each);
    } else {
        for (int64_t i = 0; i < y->d[d]; i++)
            expand(y, stride, d + 1, to + (size_t)i * each, from + (size_t)(i * stride[d]) * bytes, bytes);
    }
}

static int run_expand(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    int64_t own[MOIRE_MAX_RANK] = {0}, stride[MOIRE_MAX_RANK] = {0};
    if (!mo_wanted(ctx, 0) || !mo_count(y)) return MOIRE_OK;
    mo_strides(&x->shape, own);
    for (int i = 0, lead = y->shape.rank - x->shape.rank; i < x->shape.rank; i++)
        if (x->shape.d[i] != 1) stride[lead + i] = own[i];
    expand(&y->shape, stride, 0, y->data, x->data, mo_dtype_bytes(y->dtype));
    return MOIRE_OK;
}

static int infer_range(const struct mo_op_ctx *ctx) {
    int rc = mo_check_same(ctx, MO_NUMBERS);
    if (rc) return rc;
    ctx->out[0].dtype = ctx->in[0].dtype;
    for (int i = 0; i < 3; i++) {
        if (mo_count(&ctx->in[i]) != 1) return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d must be a scalar", i);
        if (!ctx->in[i].data) return MO_NEED_DATA;
    }
    double start = mo_load(&ctx->in[0], 0), limit = mo_load(&ctx->in[1], 0), delta = mo_load(&ctx->in[2], 0);
    double n = (limit - start) / delta;
    if (delta == 0 || n != n || n > 1e15) return mo_op_fail(ctx, MOIRE_EINVAL, "the range does not end");
    int64_t count = n > 0 ? (int64_t)n : 0;
    if (n > 0 && (double)count < n) count++;
    struct mo_shape y = {.rank = 1, .d = {count}};
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_range(const struct mo_op_ctx *ctx) {
    const struct mo_value *y = &ctx->out[0];
    int64_t n = mo_count(y);
    bool ints = mo_type_in(y->dtype, MO_INTS);
    for (int64_t i = 0; mo_wanted(ctx, 0) && i < n; i++)
        if (ints)
            mo_store_int(y, i,
                         (int64_t)((uint64_t)mo_load_int(&ctx->in[0], 0) +
                                   (uint64_t)i * (uint64_t)mo_load_int(&ctx->in[2], 0)));
        else
            mo_store(y, i, mo_load(&ctx->in[0], 0) + (double)i * mo_load(&ctx->in[2], 0));
    return MOIRE_OK;
}

const struct mo_op mo_ops_shape[] = {
    {"Reshape", "", 1, 1, 2, 1, 1, infer_reshape, run_view, MO_OP_VIEW},
    {"Flatten", "", 1, 1, 1, 1, 1, infer_flatten, run_view, MO_OP_VIEW},
    {"Squeeze", "", 1, 1, 2, 1, 1, infer_squeeze, run_view, MO_OP_VIEW},
    {"Unsqueeze", "", 1, 1, 2, 1, 1, infer_unsqueeze, run_view, MO_OP_VIEW},
    {"Identity", "", 1, 1, 1, 1, 1, infer_identity, run_view, MO_OP_VIEW | MO_OP_POINTWISE | MO_OP_BUNDLES},
    {"Dropout", "", 1, 1, 3, 1, 2, infer_dropout, run_dropout, MO_OP_POINTWISE},
    {"Shape", "", 1, 1, 1, 1, 1, infer_shape, run_shape, 0},
    {"Size", "", 1, 1, 1, 1, 1, infer_size, run_size, 0},
    {"Constant", "", 1, 0, 0, 1, 1, infer_constant, run_constant, 0},
    {"ConstantOfShape", "", 9, 1, 1, 1, 1, infer_filled, run_filled, 0},
    {"Expand", "", 8, 2, 2, 1, 1, infer_expand, run_expand, 0},
    {"Range", "", 11, 3, 3, 1, 1, infer_range, run_range, 0},
    {0},
};
