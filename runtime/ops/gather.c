/* SPDX-License-Identifier: Apache-2.0
 * gather.c - reading and writing by index: Gather*, Scatter*, OneHot, Compress.
 *
 * Indices come from data, so every one is checked where it is used: out of range is MOIRE_EINVAL. */
#include <math.h>
#include <string.h>
#include "runtime/ops/elements.h"

enum { INDEX_TYPES = MO_TYPE(MOIRE_I32) | MO_TYPE(MOIRE_I64) };

static int axis_of(const struct mo_op_ctx *ctx) {
    return mo_axis(ctx, mo_attr_int(ctx->node, "axis", 0), ctx->in[0].shape.rank);
}

/* --- Gather --- */
static int infer_gather(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = mo_check_type(ctx, 1, INDEX_TYPES))) return rc;
    const struct mo_shape *x = &ctx->in[0].shape, *idx = &ctx->in[1].shape;
    int axis = axis_of(ctx);
    if (axis < 0) return MOIRE_EINVAL;
    if (x->rank - 1 + idx->rank > MOIRE_MAX_RANK) return mo_op_fail(ctx, MOIRE_ESHAPE, "rank over the limit");
    struct mo_shape y = {0};
    for (int i = 0; i < axis; i++)
        y.d[y.rank++] = x->d[i];
    for (int i = 0; i < idx->rank; i++)
        y.d[y.rank++] = idx->d[i];
    for (int i = axis + 1; i < x->rank; i++)
        y.d[y.rank++] = x->d[i];
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_gather(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0], *indices = &ctx->in[1];
    int axis = axis_of(ctx);
    if (axis < 0) return MOIRE_EINVAL;
    if (!mo_wanted(ctx, 0) || !mo_count(&ctx->out[0])) return MOIRE_OK;
    int64_t outer = mo_extent(&x->shape, 0, axis), n = x->shape.d[axis];
    int64_t inner = mo_extent(&x->shape, axis + 1, x->shape.rank), count = mo_count(indices);
    for (int64_t k = 0; k < count; k++) {
        int64_t at = mo_index_at(ctx, indices, k, n);
        if (at < 0) return MOIRE_EINVAL;
        for (int64_t o = 0; o < outer; o++)
            mo_copy_elem(&ctx->out[0], (o * count + k) * inner, x, (o * n + at) * inner, inner);
    }
    return MOIRE_OK;
}

/* --- GatherElements and ScatterElements: one index an element, along one axis --- */

static int check_elements(const struct mo_op_ctx *ctx, const struct mo_shape *idx) {
    const struct mo_shape *x = &ctx->in[0].shape;
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = mo_check_type(ctx, 1, INDEX_TYPES))) return rc;
    int axis = axis_of(ctx);
    if (axis < 0) return MOIRE_EINVAL;
    if (x->rank != idx->rank) return mo_op_fail(ctx, MOIRE_ESHAPE, "data and indices differ in rank");
    for (int i = 0; i < x->rank; i++)
        if (i != axis && idx->d[i] > x->d[i])
            return mo_op_fail(ctx, MOIRE_ESHAPE, "indices are larger than data along axis %d", i);
    return MOIRE_OK;
}

static int infer_gather_elements(const struct mo_op_ctx *ctx) {
    int rc = check_elements(ctx, &ctx->in[1].shape);
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[1].shape);
}

static int run_gather_elements(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    const int axis = axis_of(ctx);
    struct mo_index_walk w;
    int more = 0;
    if (axis < 0) return MOIRE_EINVAL;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const size_t bytes = mo_dtype_bytes(y->dtype);
    mo_index_walk_init(&w, &x->shape, &ctx->in[1], &ctx->in[1].shape, axis);
    while ((more = mo_index_walk_next(ctx, &w)) > 0)
        if (w.joined)
            mo_copy_elem(y, w.first, x, w.at[0], w.count);
        else
            mo_elements_take((char *)y->data + (size_t)w.first * bytes, x->data, w.at, w.count, bytes);
    return more;
}

/* --- Scattering: out[at] = reduction(out[at], update) --- */
static int check_reduction(const struct mo_op_ctx *ctx) {
    static const char *const known[] = {"none", "add", "mul", "min", "max"};
    const char *reduction = mo_attr_string(ctx->node, "reduction", "none");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i], reduction)) return MOIRE_OK;
    return mo_op_fail(ctx, MOIRE_EINVAL, "the reduction is none of none, add, mul, min, max");
}

static void reduce_into(const struct mo_value *y, int64_t at, const struct mo_value *update, int64_t from,
                        const char *reduction) {
    if (mo_type_in(y->dtype, MO_INTS | MO_BOOLS)) {
        int64_t a = mo_load_int(y, at), b = mo_load_int(update, from);
        bool less = y->dtype == MOIRE_U64 ? (uint64_t)a < (uint64_t)b : a < b;
        mo_store_int(y, at,
                     *reduction == 'a'     ? (int64_t)((uint64_t)a + (uint64_t)b)
                     : reduction[1] == 'u' ? (int64_t)((uint64_t)a * (uint64_t)b)
                     : reduction[1] == 'i' ? (less ? a : b)
                                           : (less ? b : a));
    } else {
        double a = mo_load(y, at), b = mo_load(update, from);
        mo_store(y, at,
                 *reduction == 'a'     ? a + b
                 : reduction[1] == 'u' ? a * b
                 : reduction[1] == 'i' ? fmin(a, b)
                                       : fmax(a, b));
    }
}

/* A span of updates. */
static void update(const struct mo_value *y, const struct mo_index_walk *w, const struct mo_value *updates,
                   const char *reduction) {
    const size_t bytes = mo_dtype_bytes(y->dtype);
    const char *from = (const char *)updates->data + (size_t)w->first * bytes;
    if (!strcmp(reduction, "none") && w->joined)
        mo_copy_elem(y, w->at[0], updates, w->first, w->count);
    else if (!strcmp(reduction, "none"))
        mo_elements_put(y->data, w->at, from, w->count, bytes);
    else
        for (int64_t k = 0; k < w->count; k++)
            reduce_into(y, w->joined ? w->at[0] + k : w->at[k], updates, w->first + k, reduction);
}

/* By indices of this shape. */
static int infer_scatter(const struct mo_op_ctx *ctx, const struct mo_shape *indices) {
    int rc = check_elements(ctx, indices);
    if (rc || (rc = check_reduction(ctx))) return rc;
    if (!mo_shape_equal(indices, &ctx->in[2].shape) || ctx->in[2].dtype != ctx->in[0].dtype)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "updates do not fit data and indices");
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape);
}

static int infer_scatter_elements(const struct mo_op_ctx *ctx) {
    return infer_scatter(ctx, &ctx->in[1].shape);
}

/* The indices are repeated to a shape, which is an operand as Expand has it. */
static int infer_scatter_repeated(const struct mo_op_ctx *ctx) {
    struct mo_shape to = {0}, all;
    bool need = false;
    const int n = mo_read_ints(ctx, 3, to.d, MOIRE_MAX_RANK, &need);
    if (need) return MO_NEED_DATA;
    if (n < 0) return n;
    to.rank = n;
    if (!mo_broadcast(&ctx->in[1].shape, &to, &all))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the indices do not expand to the shape that is asked for");
    return infer_scatter(ctx, &all);
}

static int run_scatter_elements(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0], *updates = &ctx->in[2];
    const char *reduction = mo_attr_string(ctx->node, "reduction", "none");
    const int axis = axis_of(ctx);
    struct mo_index_walk w;
    int more = 0;
    if (axis < 0) return MOIRE_EINVAL;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    mo_copy_elem(y, 0, x, 0, mo_count(x));
    mo_index_walk_init(&w, &x->shape, &ctx->in[1], &updates->shape, axis);
    while ((more = mo_index_walk_next(ctx, &w)) > 0)
        update(y, &w, updates, reduction);
    return more;
}

/* --- GatherND and ScatterND: the last axis of indices addresses the leading axes of data --- */

/* Offset of the slice that index tuple i addresses below dimension `first`; -1 = error. */
static int64_t tuple_offset(const struct mo_op_ctx *ctx, const struct mo_shape *data, int first, int64_t i) {
    const struct mo_value *indices = &ctx->in[1];
    int64_t width = indices->shape.d[indices->shape.rank - 1], at = 0;
    for (int64_t k = 0; k < width; k++) {
        int64_t v = mo_index_at(ctx, indices, i * width + k, data->d[first + k]);
        if (v < 0) return -1;
        at = at * data->d[first + k] + v;
    }
    return at * mo_extent(data, first + (int)width, data->rank);
}

static int infer_gather_nd(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = mo_check_type(ctx, 1, MO_TYPE(MOIRE_I64))) ||
        (rc = mo_check_rank(ctx, 1, 1, MOIRE_MAX_RANK)))
        return rc;
    const struct mo_shape *x = &ctx->in[0].shape, *idx = &ctx->in[1].shape;
    int64_t batch = mo_attr_int(ctx->node, "batch_dims", 0), width = idx->d[idx->rank - 1];
    if (batch < 0 || batch >= x->rank || batch >= idx->rank || width < 1 || width > x->rank - batch)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "indices of width %lld do not fit the data", (long long)width);
    struct mo_shape y = {0};
    for (int i = 0; i < idx->rank - 1; i++) {
        if (i < batch && idx->d[i] != x->d[i])
            return mo_op_fail(ctx, MOIRE_ESHAPE, "batch dimensions differ");
        y.d[y.rank++] = idx->d[i];
    }
    if (y.rank + x->rank - batch - width > MOIRE_MAX_RANK)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "rank over the limit");
    for (int i = (int)(batch + width); i < x->rank; i++)
        y.d[y.rank++] = x->d[i];
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_gather_nd(const struct mo_op_ctx *ctx) {
    const struct mo_shape *x = &ctx->in[0].shape, *idx = &ctx->in[1].shape;
    int batch = (int)mo_attr_int(ctx->node, "batch_dims", 0);
    int64_t width = idx->d[idx->rank - 1], batches = mo_extent(x, 0, batch),
            tuples = mo_extent(idx, 0, idx->rank - 1);
    int64_t slice = mo_extent(x, batch + (int)width, x->rank), image = mo_extent(x, batch, x->rank);
    if (!mo_wanted(ctx, 0) || !mo_count(&ctx->out[0])) return MOIRE_OK;
    for (int64_t i = 0; i < tuples; i++) {
        int64_t at = tuple_offset(ctx, x, batch, i);
        if (at < 0) return MOIRE_EINVAL;
        mo_copy_elem(&ctx->out[0], i * slice, &ctx->in[0], i / (tuples / batches) * image + at, slice);
    }
    return MOIRE_OK;
}

static int infer_scatter_nd(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = mo_check_type(ctx, 1, MO_TYPE(MOIRE_I64))) ||
        (rc = mo_check_rank(ctx, 1, 1, MOIRE_MAX_RANK)) || (rc = check_reduction(ctx)))
        return rc;
    const struct mo_shape *x = &ctx->in[0].shape, *idx = &ctx->in[1].shape;
    int64_t width = idx->d[idx->rank - 1];
    if (width < 1 || width > x->rank)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "indices are wider than the data's rank");
    int64_t want = mo_extent(idx, 0, idx->rank - 1) * mo_extent(x, (int)width, x->rank);
    if (mo_count(&ctx->in[2]) != want || ctx->in[2].dtype != ctx->in[0].dtype)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "updates do not fit data and indices");
    return mo_set_out(ctx, 0, ctx->in[0].dtype, x);
}

static int run_scatter_nd(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_shape *x = &ctx->in[0].shape, *idx = &ctx->in[1].shape;
    const char *reduction = mo_attr_string(ctx->node, "reduction", "none");
    int64_t width = idx->d[idx->rank - 1], tuples = mo_extent(idx, 0, idx->rank - 1);
    int64_t slice = mo_extent(x, (int)width, x->rank);
    mo_copy_elem(&ctx->out[0], 0, &ctx->in[0], 0, mo_count(&ctx->in[0]));
    for (int64_t i = 0; i < tuples; i++) {
        int64_t at = tuple_offset(ctx, x, 0, i);
        if (at < 0) return MOIRE_EINVAL;
        if (!strcmp(reduction, "none"))
            mo_copy_elem(&ctx->out[0], at, &ctx->in[2], i * slice, slice);
        else
            for (int64_t k = 0; k < slice; k++)
                reduce_into(&ctx->out[0], at + k, &ctx->in[2], i * slice + k, reduction);
    }
    return MOIRE_OK;
}

/* --- OneHot --- */
static int infer_one_hot(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_NUMBERS);
    if (rc || (rc = mo_check_type(ctx, 1, MO_NUMBERS)) || (rc = mo_check_type(ctx, 2, MO_ANY))) return rc;
    if (mo_count(&ctx->in[1]) != 1 || mo_count(&ctx->in[2]) != 2)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "depth must be one number and values two");
    struct mo_shape y = ctx->in[0].shape;
    ctx->out[0].dtype = ctx->in[2].dtype;
    if (!ctx->in[1].data) return MO_NEED_DATA;
    int64_t depth = mo_load_int(&ctx->in[1], 0);
    if (y.rank == MOIRE_MAX_RANK || depth < 1)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "depth or rank is out of range");
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", -1), y.rank + 1);
    if (axis < 0) return MOIRE_EINVAL;
    memmove(&y.d[axis + 1], &y.d[axis], (size_t)(y.rank - axis) * sizeof *y.d);
    y.d[axis] = depth;
    y.rank++;
    return mo_set_out(ctx, 0, ctx->in[2].dtype, &y);
}

/* An index out of range sets nothing (as specified). */
static int run_one_hot(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *y = &ctx->out[0], *indices = &ctx->in[0];
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", -1), y->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    int64_t depth = y->shape.d[axis], inner = mo_extent(&y->shape, axis + 1, y->shape.rank),
            n = mo_count(indices);
    for (int64_t i = 0; i < n * depth; i++)
        mo_copy_elem(y, i, &ctx->in[2], 0, 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = mo_load_int(indices, i);
        if (v >= -depth && v < depth)
            mo_copy_elem(y, (i / inner * depth + (v < 0 ? v + depth : v)) * inner + i % inner, &ctx->in[2], 1,
                         1);
    }
    return MOIRE_OK;
}

/* --- Compress: keeps the slices whose condition is true --- */
static bool has_axis(const struct mo_op_ctx *ctx) {
    return mo_attr_find(ctx->node, "axis") != NULL;
}

static int infer_compress(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = mo_check_type(ctx, 1, MO_BOOLS))) return rc;
    struct mo_shape y = {.rank = 1, .d = {mo_count(&ctx->in[0])}};
    int axis = 0;
    if (has_axis(ctx)) {
        y = ctx->in[0].shape;
        if ((axis = axis_of(ctx)) < 0) return MOIRE_EINVAL;
    }
    ctx->out[0].dtype = ctx->in[0].dtype;
    int64_t n = mo_count(&ctx->in[1]), kept = 0;
    if (n > y.d[axis]) return mo_op_fail(ctx, MOIRE_ESHAPE, "the condition is longer than the axis");
    if (n && !ctx->in[1].data) return MO_NEED_DATA;
    for (int64_t i = 0; i < n; i++)
        kept += mo_load_int(&ctx->in[1], i);
    y.d[axis] = kept;
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_compress(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *x = &ctx->in[0];
    struct mo_shape view = {.rank = 1, .d = {mo_count(x)}};
    int axis = 0;
    if (has_axis(ctx)) {
        view = x->shape;
        if ((axis = axis_of(ctx)) < 0) return MOIRE_EINVAL;
    }
    int64_t outer = mo_extent(&view, 0, axis), inner = mo_extent(&view, axis + 1, view.rank), at = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < mo_count(&ctx->in[1]); k++)
            if (mo_load_int(&ctx->in[1], k)) {
                mo_copy_elem(&ctx->out[0], at, x, (o * view.d[axis] + k) * inner, inner);
                at += inner;
            }
    return MOIRE_OK;
}

const struct mo_op mo_ops_gather[] = {
    {"Gather", "", 1, 2, 2, 1, 1, infer_gather, run_gather, 0},
    {"GatherElements", "", 11, 2, 2, 1, 1, infer_gather_elements, run_gather_elements, 0},
    {"GatherND", "", 11, 2, 2, 1, 1, infer_gather_nd, run_gather_nd, 0},
    {"Scatter", "", 9, 3, 3, 1, 1, infer_scatter_elements, run_scatter_elements, 0},
    {"ScatterElements", "", 11, 3, 3, 1, 1, infer_scatter_elements, run_scatter_elements, 0},
    {"ScatterElements", "moire", 1, 4, 4, 1, 1, infer_scatter_repeated, run_scatter_elements, 0},
    {"ScatterND", "", 11, 3, 3, 1, 1, infer_scatter_nd, run_scatter_nd, 0},
    {"OneHot", "", 9, 3, 3, 1, 1, infer_one_hot, run_one_hot, 0},
    {"Compress", "", 9, 2, 2, 1, 1, infer_compress, run_compress, 0},
    {0},
};
