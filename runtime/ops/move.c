/* SPDX-License-Identifier: Apache-2.0
 * move.c - operators that move elements without changing them: transpose, concat, split, slice, pad, tile,
 * depth/space. */
#include <string.h>
#include "runtime/ops/elements.h"

/* Copies x into y row by row: y in row-major order, x by strides (elements) from `at`.  Dimensions of one
 * stride are one. */
static void gather_strided(const struct mo_value *y, const struct mo_value *x, int64_t at,
                           const int64_t *stride) {
    int64_t index[MOIRE_MAX_RANK] = {0}, d[MOIRE_MAX_RANK] = {1}, step[MOIRE_MAX_RANK] = {0};
    const int64_t n = mo_count(y);
    const size_t bytes = mo_dtype_bytes(y->dtype);
    int rank = 0; /* from the innermost dimension on */
    for (int i = y->shape.rank - 1; i >= 0; i--) {
        if (y->shape.d[i] == 1) continue;
        const bool joins = rank && stride[i] == step[rank - 1] * d[rank - 1];
        d[joins ? rank - 1 : rank] = joins ? d[rank - 1] * y->shape.d[i] : y->shape.d[i];
        if (joins) continue;
        step[rank++] = stride[i];
    }
    for (int64_t i = 0; i < n; i += d[0]) {
        mo_elements_step((char *)y->data + (size_t)i * bytes, (const char *)x->data + at * (int64_t)bytes,
                         step[0], d[0], bytes);
        for (int k = 1; k < rank; k++) {
            at += step[k];
            if (++index[k] < d[k]) break;
            at -= step[k] * d[k];
            index[k] = 0;
        }
    }
}

/* --- Transpose --- */
static int permutation(const struct mo_op_ctx *ctx, int64_t *perm) {
    int rank = ctx->in[0].shape.rank, n = mo_attr_ints(ctx->node, "perm", perm, MOIRE_MAX_RANK);
    if (n < 0)
        for (int i = 0; i < rank; i++)
            perm[i] = rank - 1 - i;
    bool seen[MOIRE_MAX_RANK] = {false};
    for (int i = 0; i < rank; i++) {
        if ((n >= 0 && n != rank) || perm[i] < 0 || perm[i] >= rank || seen[perm[i]])
            return mo_op_fail(ctx, MOIRE_EINVAL, "attribute perm is no permutation of %d axes", rank);
        seen[perm[i]] = true;
    }
    return MOIRE_OK;
}

static int infer_transpose(const struct mo_op_ctx *ctx) {
    int64_t perm[MOIRE_MAX_RANK];
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = permutation(ctx, perm))) return rc;
    struct mo_shape y = {.rank = ctx->in[0].shape.rank};
    for (int i = 0; i < y.rank; i++)
        y.d[i] = ctx->in[0].shape.d[perm[i]];
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_transpose(const struct mo_op_ctx *ctx) {
    int64_t perm[MOIRE_MAX_RANK], own[MOIRE_MAX_RANK] = {0}, stride[MOIRE_MAX_RANK] = {0};
    int rc = permutation(ctx, perm);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    mo_strides(&ctx->in[0].shape, own);
    for (int i = 0; i < ctx->in[0].shape.rank; i++)
        stride[i] = own[perm[i]];
    gather_strided(&ctx->out[0], &ctx->in[0], 0, stride);
    return MOIRE_OK;
}

/* --- Concat --- */
static int infer_concat(const struct mo_op_ctx *ctx) {
    int rc = mo_check_same(ctx, MO_ANY);
    if (rc) return rc;
    if (ctx->node->opset >= 4 && !mo_attr_find(ctx->node, "axis"))
        return mo_op_fail(ctx, MOIRE_EINVAL, "attribute axis is required");
    struct mo_shape y = ctx->in[0].shape;
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 1), y.rank);
    if (axis < 0) return MOIRE_EINVAL;
    for (int i = 1; i < ctx->n_in; i++) {
        struct mo_shape other = ctx->in[i].shape;
        int64_t along = other.rank == y.rank ? other.d[axis] : -1;
        if (along >= 0) other.d[axis] = y.d[axis];
        if (along < 0 || !mo_shape_equal(&other, &y) || __builtin_add_overflow(y.d[axis], along, &y.d[axis]))
            return mo_op_fail(ctx, MOIRE_ESHAPE, "input %d does not fit the others along axis %d", i, axis);
    }
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_concat(const struct mo_op_ctx *ctx) {
    const struct mo_value *y = &ctx->out[0];
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 1), y->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    int64_t outer = mo_extent(&y->shape, 0, axis), row = mo_extent(&y->shape, axis, y->shape.rank), at = 0;
    for (int i = 0; i < ctx->n_in; i++) {
        int64_t part = mo_extent(&ctx->in[i].shape, axis, y->shape.rank);
        for (int64_t o = 0; o < outer; o++)
            mo_copy_elem(y, o * row + at, &ctx->in[i], o * part, part);
        at += part;
    }
    return MOIRE_OK;
}

/* --- Split: sizes given (attribute before 13, input from then), or equal parts, the last may be smaller - */
static int infer_split(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc) return rc;
    const struct mo_shape *x = &ctx->in[0].shape;
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 0), x->rank);
    if (axis < 0) return MOIRE_EINVAL;
    for (int i = 0; i < ctx->n_out; i++)
        ctx->out[i].dtype = ctx->in[0].dtype;
    bool listed = mo_given(ctx, 1) || mo_attr_find(ctx->node, "split");
    const struct mo_attr *attr = mo_given(ctx, 1) ? NULL : mo_attr_find(ctx->node, "split");
    if (mo_given(ctx, 1) && !ctx->in[1].data) return MO_NEED_DATA;
    if (mo_given(ctx, 1) && (rc = mo_check_type(ctx, 1, MO_TYPE(MOIRE_I64)))) return rc;
    int64_t n = mo_given(ctx, 1) ? mo_count(&ctx->in[1]) : attr ? attr->n : ctx->n_out, left = x->d[axis];
    if (!listed) n = mo_attr_int(ctx->node, "num_outputs", n);
    if (n != ctx->n_out || (attr && attr->type != MO_ATTR_INTS))
        return mo_op_fail(ctx, MOIRE_EINVAL, "%lld sizes for %d outputs", (long long)n, ctx->n_out);
    int64_t even = (x->d[axis] + n - 1) / n;
    for (int i = 0; i < ctx->n_out && !rc; i++) {
        int64_t part = !listed ? (left < even ? left : even)
                       : attr  ? attr->ints[i]
                               : mo_load_int(&ctx->in[1], i);
        if (part < 0 || part > left)
            return mo_op_fail(ctx, MOIRE_ESHAPE, "the sizes do not add up to %lld", (long long)x->d[axis]);
        struct mo_shape y = *x;
        y.d[axis] = part;
        left -= part;
        rc = mo_set_out(ctx, i, ctx->in[0].dtype, &y);
    }
    return !rc && left ? mo_op_fail(ctx, MOIRE_ESHAPE, "the sizes leave %lld over", (long long)left) : rc;
}

static int run_split(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 0), x->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    int64_t outer = mo_extent(&x->shape, 0, axis), row = mo_extent(&x->shape, axis, x->shape.rank), at = 0;
    for (int i = 0; i < ctx->n_out; i++) {
        if (ctx->out[i].dtype == MOIRE_NONE) continue;
        int64_t part = mo_extent(&ctx->out[i].shape, axis, x->shape.rank);
        for (int64_t o = 0; mo_wanted(ctx, i) && o < outer; o++)
            mo_copy_elem(&ctx->out[i], o * part, x, o * row + at, part);
        at += part;
    }
    return MOIRE_OK;
}

/* --- Slice --- */
struct slice {
    int64_t start[MOIRE_MAX_RANK], step[MOIRE_MAX_RANK];
    struct mo_shape y;
};

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

static void slice_axis(struct slice *s, int axis, int64_t start, int64_t end, int64_t step) {
    int64_t n = s->y.d[axis];
    if (start < 0) start += n;
    if (end < 0) end = end < -n ? -1 : end + n; /* INT64_MIN must not wrap */
    start = step > 0 ? clamp(start, 0, n) : clamp(start, 0, n - 1);
    end = step > 0 ? clamp(end, 0, n) : clamp(end, -1, n);
    int64_t span = step > 0 ? end - start : start - end;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    s->start[axis] = start;
    s->step[axis] = step;
    s->y.d[axis] = span > 0 && n ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0;
    if (s->y.d[axis] <= 1) s->step[axis] = 0; /* never used; may be huge */
}

static int resolve_slice(const struct mo_op_ctx *ctx, struct slice *s) {
    int64_t starts[MOIRE_MAX_RANK], ends[MOIRE_MAX_RANK], axes[MOIRE_MAX_RANK], steps[MOIRE_MAX_RANK];
    bool need = false, seen[MOIRE_MAX_RANK] = {false};
    int n = mo_read_list(ctx, 1, "starts", starts, &need), n_end = mo_read_list(ctx, 2, "ends", ends, &need);
    int n_axes = mo_read_list(ctx, 3, "axes", axes, &need),
        n_steps = mo_read_list(ctx, 4, "steps", steps, &need);
    if (n < 0 || n_end < 0 || n_axes < 0 || n_steps < 0) return MOIRE_EINVAL;
    if (need) return MO_NEED_DATA;
    s->y = ctx->in[0].shape;
    for (int i = 0; i < s->y.rank; i++)
        s->start[i] = 0, s->step[i] = 1;
    if (n != n_end || (n_axes && n_axes != n) || (n_steps && n_steps != n) || n > s->y.rank)
        return mo_op_fail(ctx, MOIRE_EINVAL, "starts, ends, axes and steps differ in length");
    for (int i = 0; i < n; i++) {
        int axis = n_axes ? mo_axis(ctx, axes[i], s->y.rank) : i;
        if (axis < 0) return MOIRE_EINVAL;
        if (seen[axis]) return mo_op_fail(ctx, MOIRE_EINVAL, "axis %d is named twice", axis);
        if (n_steps && !steps[i]) return mo_op_fail(ctx, MOIRE_EINVAL, "a step is 0");
        seen[axis] = true;
        slice_axis(s, axis, starts[i], ends[i], n_steps ? steps[i] : 1);
    }
    return MOIRE_OK;
}

static int infer_slice(const struct mo_op_ctx *ctx) {
    struct slice s;
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc) return rc;
    ctx->out[0].dtype = ctx->in[0].dtype;
    return (rc = resolve_slice(ctx, &s)) ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, &s.y);
}

static int run_slice(const struct mo_op_ctx *ctx) {
    struct slice s;
    int64_t own[MOIRE_MAX_RANK] = {0}, stride[MOIRE_MAX_RANK] = {0}, at = 0;
    int rc = resolve_slice(ctx, &s);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    mo_strides(&ctx->in[0].shape, own);
    for (int i = 0; i < s.y.rank; i++) {
        at += s.start[i] * own[i];
        stride[i] = s.step[i] * own[i];
    }
    gather_strided(&ctx->out[0], &ctx->in[0], at, stride);
    return MOIRE_OK;
}

/* --- Tile --- */
static int infer_tile(const struct mo_op_ctx *ctx) {
    int64_t repeats[MOIRE_MAX_RANK];
    bool need = false;
    int rc = mo_check_type(ctx, 0, MO_ANY), n = mo_read_ints(ctx, 1, repeats, MOIRE_MAX_RANK, &need);
    if (rc || n < 0) return rc ? rc : n;
    ctx->out[0].dtype = ctx->in[0].dtype;
    if (need) return MO_NEED_DATA;
    struct mo_shape y = ctx->in[0].shape;
    if (n != y.rank) return mo_op_fail(ctx, MOIRE_EINVAL, "%d repeats for rank %d", n, y.rank);
    for (int i = 0; i < n; i++)
        if (repeats[i] < 0 || __builtin_mul_overflow(y.d[i], repeats[i], &y.d[i]))
            return mo_op_fail(ctx, MOIRE_EINVAL, "repeat %lld is out of range", (long long)repeats[i]);
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_tile(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    int64_t own[MOIRE_MAX_RANK], n = mo_count(y);
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    mo_strides(&x->shape, own);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = 0;
        for (int d = y->shape.rank - 1; d >= 0; d--) {
            at += rest % y->shape.d[d] % x->shape.d[d] * own[d];
            rest /= y->shape.d[d];
        }
        mo_copy_elem(y, i, x, at, 1);
    }
    return MOIRE_OK;
}

/* --- DepthToSpace and SpaceToDepth: a transpose of a rank-6 view --- */
static int infer_blocks(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = mo_check_rank(ctx, 0, 4, 4))) return rc;
    int64_t b = mo_attr_int(ctx->node, "blocksize", 0);
    struct mo_shape y = ctx->in[0].shape;
    bool to_space = !strcmp(ctx->node->op_type, "DepthToSpace");
    if (b < 1 || b > INT16_MAX || (to_space ? y.d[1] % (b * b) : y.d[2] % b || y.d[3] % b))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "blocksize %lld does not divide the input", (long long)b);
    if (to_space)
        y = (struct mo_shape){.rank = 4, .d = {y.d[0], y.d[1] / (b * b), y.d[2] * b, y.d[3] * b}};
    else
        y = (struct mo_shape){.rank = 4, .d = {y.d[0], y.d[1] * b * b, y.d[2] / b, y.d[3] / b}};
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

static int run_blocks(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *x = &ctx->in[0];
    struct mo_value y = ctx->out[0];
    int64_t b = mo_attr_int(ctx->node, "blocksize", 1), own[MOIRE_MAX_RANK], stride[6];
    const int64_t *d = x->shape.d;
    bool to_space = !strcmp(ctx->node->op_type, "DepthToSpace");
    bool crd = !strcmp(mo_attr_string(ctx->node, "mode", "DCR"), "CRD");
    struct mo_shape view = {.rank = 6, .d = {d[0], b, b, d[1] / (b * b), d[2], d[3]}}; /* DCR */
    int order[6] = {0, 3, 4, 1, 5, 2};
    if (to_space && crd) view = (struct mo_shape){.rank = 6, .d = {d[0], d[1] / (b * b), b, b, d[2], d[3]}};
    if (to_space && crd) memcpy(order, (int[]){0, 1, 4, 2, 5, 3}, sizeof order);
    if (!to_space) view = (struct mo_shape){.rank = 6, .d = {d[0], d[1], d[2] / b, b, d[3] / b, b}};
    if (!to_space) memcpy(order, (int[]){0, 3, 5, 1, 2, 4}, sizeof order);
    if (!to_space && crd) memcpy(order, (int[]){0, 1, 3, 5, 2, 4}, sizeof order);
    mo_strides(&view, own);
    y.shape.rank = 6;
    for (int i = 0; i < 6; i++) {
        y.shape.d[i] = view.d[order[i]];
        stride[i] = own[order[i]];
    }
    gather_strided(&y, x, 0, stride);
    return MOIRE_OK;
}

const struct mo_op mo_ops_move[] = {
    {"Transpose", "", 1, 1, 1, 1, 1, infer_transpose, run_transpose, 0},
    {"Concat", "", 1, 1, -1, 1, 1, infer_concat, run_concat, 0},
    {"Split", "", 1, 1, 2, 1, -1, infer_split, run_split, 0},
    {"Slice", "", 1, 1, 5, 1, 1, infer_slice, run_slice, 0},
    {"Tile", "", 6, 2, 2, 1, 1, infer_tile, run_tile, 0},
    {"DepthToSpace", "", 1, 1, 1, 1, 1, infer_blocks, run_blocks, 0},
    {"SpaceToDepth", "", 1, 1, 1, 1, 1, infer_blocks, run_blocks, 0},
    {0},
};
