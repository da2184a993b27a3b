/* SPDX-License-Identifier: Apache-2.0
 * pad.c - Pad (constant, reflect, edge, wrap; negative pads crop), Trilu, EyeLike, ReverseSequence. */
#include <string.h>
#include "runtime/ops/util.h"

struct pads {
    int64_t begin[MOIRE_MAX_RANK], end[MOIRE_MAX_RANK];
};

/* Pads as attribute (before 11) or input; with `axes` (18) they name only some dimensions. */
static int read_pads(const struct mo_op_ctx *ctx, struct pads *p) {
    int64_t v[2 * MOIRE_MAX_RANK], axes[MOIRE_MAX_RANK];
    int rank = ctx->in[0].shape.rank, n_axes = rank;
    bool need = false;
    int n = mo_given(ctx, 1) ? mo_read_ints(ctx, 1, v, 2 * MOIRE_MAX_RANK, &need)
                             : mo_attr_sizes(ctx, mo_attr_find(ctx->node, "pads") ? "pads" : "paddings", v,
                                             2 * MOIRE_MAX_RANK);
    if (n < 0) return n;
    for (int i = 0; i < MOIRE_MAX_RANK; i++)
        axes[i] = i;
    if (mo_given(ctx, 3) && (n_axes = mo_read_ints(ctx, 3, axes, MOIRE_MAX_RANK, &need)) < 0) return n_axes;
    if (need) return MO_NEED_DATA;
    if (n != 2 * n_axes) return mo_op_fail(ctx, MOIRE_EINVAL, "%d pads, needs %d", n, 2 * n_axes);
    memset(p, 0, sizeof *p);
    for (int i = 0; i < n_axes; i++) {
        int axis = mo_axis(ctx, axes[i], rank);
        if (axis < 0) return MOIRE_EINVAL;
        p->begin[axis] = v[i];
        p->end[axis] = v[i + n_axes];
        if (v[i] < -INT32_MAX || v[i] > INT32_MAX || v[i + n_axes] < -INT32_MAX || v[i + n_axes] > INT32_MAX)
            return mo_op_fail(ctx, MOIRE_EINVAL, "a pad is out of range");
    }
    return MOIRE_OK;
}

static int infer_pad(const struct mo_op_ctx *ctx) {
    struct pads p;
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc) return rc;
    ctx->out[0].dtype = ctx->in[0].dtype;
    if (mo_given(ctx, 2) && (mo_count(&ctx->in[2]) != 1 || ctx->in[2].dtype != ctx->in[0].dtype))
        return mo_op_fail(ctx, MOIRE_EINVAL, "the constant must be one number of the input's type");
    if ((rc = read_pads(ctx, &p))) return rc;
    struct mo_shape y = ctx->in[0].shape;
    const char *mode = mo_attr_string(ctx->node, "mode", "constant");
    bool constant = !strcmp(mode, "constant"), reflect = !strcmp(mode, "reflect");
    if (!constant && !reflect && strcmp(mode, "edge") && strcmp(mode, "wrap"))
        return mo_op_fail(ctx, MOIRE_EINVAL, "the mode is none of constant, reflect, edge, wrap");
    for (int i = 0; i < y.rank; i++) {
        if (!constant && y.d[i] < 1 && (p.begin[i] > 0 || p.end[i] > 0))
            return mo_op_fail(ctx, MOIRE_ESHAPE, "axis %d is empty: nothing to repeat", i);
        if (__builtin_add_overflow(y.d[i], p.begin[i] + p.end[i], &y.d[i]) || y.d[i] < 0)
            return mo_op_fail(ctx, MOIRE_ESHAPE, "the pads of axis %d leave no output", i);
    }
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

/* Input coordinate for output coordinate `at - begin` along an axis of n; -1: the constant. */
static int64_t source(int64_t at, int64_t n, char mode) {
    if (at >= 0 && at < n) return at;
    if (mode == 'c') return -1;
    if (mode == 'e') return at < 0 ? 0 : n - 1;
    int64_t period = mode == 'w' ? n : n > 1 ? 2 * n - 2 : 1;
    at = (at % period + period) % period;
    return at < n ? at : period - at;
}

/* Element i of the output from element `at` of the input; -1: the constant. */
static void put(const struct mo_op_ctx *ctx, int64_t i, int64_t at) {
    if (at >= 0)
        mo_copy_elem(&ctx->out[0], i, &ctx->in[0], at, 1);
    else if (mo_given(ctx, 2))
        mo_copy_elem(&ctx->out[0], i, &ctx->in[2], 0, 1);
    else
        mo_store(&ctx->out[0], i, (double)mo_attr_float(ctx->node, "value", 0));
}

/* The row of the output that begins at element i, from the row of n at `at`; -1: constants. */
static void pad_row(const struct mo_op_ctx *ctx, int64_t i, int64_t width, int64_t at, int64_t n,
                    int64_t begin, char mode) {
    const int64_t last = at < 0 ? 0 : begin + n; /* [begin, last) of the output is as it is in the input */
    for (int64_t k = 0; k < width; k++) {
        if (k >= begin && k < last) {
            const int64_t run = (last < width ? last : width) - k;
            mo_copy_elem(&ctx->out[0], i + k, &ctx->in[0], at + k - begin, run);
            k += run - 1;
            continue;
        }
        const int64_t from = at < 0 ? -1 : source(k - begin, n, mode);
        put(ctx, i + k, from < 0 ? -1 : at + from);
    }
}

static int run_pad(const struct mo_op_ctx *ctx) {
    struct pads p;
    int rc = read_pads(ctx, &p);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    const struct mo_shape *x = &ctx->in[0].shape, *y = &ctx->out[0].shape;
    const int last = y->rank - 1;
    const char mode = *mo_attr_string(ctx->node, "mode", "constant");
    const int64_t n = mo_count(&ctx->out[0]), width = last < 0 ? 1 : y->d[last];
    int64_t stride[MOIRE_MAX_RANK];
    mo_strides(x, stride);
    for (int64_t i = 0; i < n; i += width) {
        int64_t rest = i / width, at = 0;
        for (int d = last - 1; d >= 0; d--) {
            const int64_t from = source(rest % y->d[d] - p.begin[d], x->d[d], mode);
            rest /= y->d[d];
            at = from < 0 || at < 0 ? -1 : at + from * stride[d];
        }
        pad_row(ctx, i, width, at, last < 0 ? 1 : x->d[last], last < 0 ? 0 : p.begin[last], mode);
    }
    return MOIRE_OK;
}

/* --- Trilu --- */
static int infer_trilu(const struct mo_op_ctx *ctx) {
    int rc = mo_check_rank(ctx, 0, 2, MOIRE_MAX_RANK);
    if (!rc && mo_given(ctx, 1) && (mo_count(&ctx->in[1]) != 1 || ctx->in[1].dtype != MOIRE_I64))
        rc = mo_op_fail(ctx, MOIRE_EINVAL, "k must be one int64");
    return rc ? rc : mo_infer_same(ctx);
}

static int run_trilu(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *x = &ctx->in[0];
    int64_t k = mo_given(ctx, 1) ? mo_load_int(&ctx->in[1], 0) : 0, n = mo_count(x);
    bool upper = mo_attr_int(ctx->node, "upper", 1) != 0;
    int64_t rows = x->shape.d[x->shape.rank - 2], cols = x->shape.d[x->shape.rank - 1];
    int64_t bound = rows + cols; /* any k beyond it means the same */
    k = k < -bound ? -bound : k > bound ? bound : k;
    for (int64_t i = 0; i < n; i++) {
        int64_t distance = i % cols - i / cols % rows;
        if (upper ? distance >= k : distance <= k)
            mo_copy_elem(&ctx->out[0], i, x, i, 1);
        else
            mo_store_int(&ctx->out[0], i, 0);
    }
    return MOIRE_OK;
}

/* --- EyeLike --- */
static int infer_eye(const struct mo_op_ctx *ctx) {
    int64_t dtype = mo_attr_int(ctx->node, "dtype", (int64_t)ctx->in[0].dtype);
    int rc = mo_check_rank(ctx, 0, 2, 2);
    if (!rc && (dtype < 1 || dtype > 31 || !mo_type_in((moire_dtype)dtype, MO_ANY)))
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "the type is not supported");
    return rc ? rc : mo_set_out(ctx, 0, (moire_dtype)dtype, &ctx->in[0].shape);
}

static int run_eye(const struct mo_op_ctx *ctx) {
    const struct mo_value *y = &ctx->out[0];
    int64_t k = mo_attr_int(ctx->node, "k", 0), cols = y->shape.d[1], n = mo_count(y);
    for (int64_t i = 0; mo_wanted(ctx, 0) && i < n; i++)
        mo_store_int(y, i, i % cols - i / cols == k);
    return MOIRE_OK;
}

/* --- ReverseSequence --- */
static int infer_reverse(const struct mo_op_ctx *ctx) {
    int64_t batch = mo_attr_int(ctx->node, "batch_axis", 1), time = mo_attr_int(ctx->node, "time_axis", 0);
    int rc = mo_check_rank(ctx, 0, 2, MOIRE_MAX_RANK);
    if (rc || (rc = mo_check_type(ctx, 1, MO_TYPE(MOIRE_I64)))) return rc;
    if (batch + time != 1 || batch * time != 0)
        return mo_op_fail(ctx, MOIRE_EINVAL, "batch_axis and time_axis must be 0 and 1");
    if (mo_count(&ctx->in[1]) != ctx->in[0].shape.d[batch])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "one length a batch entry is needed");
    return mo_infer_same(ctx);
}

static int run_reverse(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    bool time_first = mo_attr_int(ctx->node, "time_axis", 0) == 0;
    int64_t times = x->shape.d[time_first ? 0 : 1], batches = x->shape.d[time_first ? 1 : 0];
    int64_t inner = mo_extent(&x->shape, 2, x->shape.rank);
    for (int64_t b = 0; mo_wanted(ctx, 0) && b < batches; b++) {
        int64_t length = mo_load_int(&ctx->in[1], b);
        if (length < 0 || length > times)
            return mo_op_fail(ctx, MOIRE_EINVAL, "length %lld is outside [0, %lld]", (long long)length,
                              (long long)times);
        for (int64_t t = 0; t < times; t++) {
            int64_t from = t < length ? length - 1 - t : t;
            int64_t to_row = time_first ? t * batches + b : b * times + t;
            int64_t from_row = time_first ? from * batches + b : b * times + from;
            mo_copy_elem(&ctx->out[0], to_row * inner, x, from_row * inner, inner);
        }
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_pad[] = {
    {"Pad", "", 1, 1, 4, 1, 1, infer_pad, run_pad, 0},
    {"Trilu", "", 14, 1, 2, 1, 1, infer_trilu, run_trilu, 0},
    {"EyeLike", "", 9, 1, 1, 1, 1, infer_eye, run_eye, 0},
    {"ReverseSequence", "", 10, 2, 2, 1, 1, infer_reverse, run_reverse, 0},
    {0},
};
