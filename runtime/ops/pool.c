/* SPDX-License-Identifier: Apache-2.0
 * pool.c - MaxPool (with indices), AveragePool, LpPool, their global forms, and MaxUnpool. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

enum kind { POOL_MAX, POOL_AVERAGE, POOL_LP };

static enum kind kind_of(const struct mo_op_ctx *ctx) {
    const char *type = ctx->node->op_type;
    return strstr(type, "Max") ? POOL_MAX : strstr(type, "Lp") ? POOL_LP : POOL_AVERAGE;
}

static int window_of(const struct mo_op_ctx *ctx, struct mo_window *w) {
    const struct mo_shape *x = &ctx->in[0].shape;
    if (strncmp(ctx->node->op_type, "Global", 6)) return mo_window_init(ctx, x, NULL, w);
    /* any rank: the window is everything after the channels */
    *w = (struct mo_window){.nd = 1};
    for (int i = 0; i < 3; i++)
        w->in[i] = w->out[i] = w->k[i] = w->stride[i] = w->dilation[i] = 1;
    w->in[2] = w->k[2] = mo_extent(x, 2, x->rank);
    return w->in[2] > 0 ? MOIRE_OK : mo_op_fail(ctx, MOIRE_ESHAPE, "the input has no elements");
}

static int infer_pool(const struct mo_op_ctx *ctx) {
    unsigned types = kind_of(ctx) == POOL_MAX ? (unsigned)MO_NUMBERS : (unsigned)MO_FLOATS;
    int rc = mo_check_type(ctx, 0, types);
    if (rc || (rc = mo_check_rank(ctx, 0, 3, 5))) return rc;
    struct mo_window w;
    if ((rc = window_of(ctx, &w))) return rc;
    struct mo_shape y = mo_window_shape(&w, ctx->in[0].shape.d[0], ctx->in[0].shape.d[1]);
    rc = mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
    return rc ? rc : mo_set_out(ctx, 1, MOIRE_I64, &y);
}

static int infer_global(const struct mo_op_ctx *ctx) {
    unsigned types = kind_of(ctx) == POOL_MAX ? (unsigned)MO_NUMBERS : (unsigned)MO_FLOATS;
    int rc = mo_check_type(ctx, 0, types);
    if (rc || (rc = mo_check_rank(ctx, 0, 3, MOIRE_MAX_RANK))) return rc;
    struct mo_shape y = ctx->in[0].shape;
    struct mo_window w;
    if ((rc = window_of(ctx, &w))) return rc;
    for (int i = 2; i < y.rank; i++)
        y.d[i] = 1;
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

/* What one window yields: value, and for max the position inside the plane. */
struct pooled {
    double value;
    int64_t at;
};

/* Taps [*lo, *hi) of dimension i whose position for output o lies in [low, high). */
static void tap_range(const struct mo_window *w, int i, int64_t o, int64_t low, int64_t high, int64_t *lo,
                      int64_t *hi) {
    int64_t start = o * w->stride[i] - w->pad[i], step = w->dilation[i];
    int64_t first = start < low ? (low - start + step - 1) / step : 0;
    int64_t end = high > start ? (high - start + step - 1) / step : 0;
    *hi = end < w->k[i] ? end : w->k[i];
    *lo = first < *hi ? first : *hi;
}

/* Positions the average divides by: inside the input, or inside input and padding. */
static int64_t divisor(const struct mo_window *w, const int64_t *o, bool with_pads) {
    int64_t count = 1, lo, hi;
    for (int i = 0; i < 3; i++) {
        int64_t low = with_pads ? -w->pad[i] : 0, high = w->in[i] + (with_pads ? w->pad_end[i] : 0);
        tap_range(w, i, o[i], low, high, &lo, &hi);
        if (__builtin_mul_overflow(count, hi - lo, &count)) return INT64_MAX;
    }
    return count ? count : 1;
}

static struct pooled pool_one(const struct mo_window *w, const double *x, const int64_t *o, enum kind kind,
                              double p) {
    struct pooled r = {.value = kind == POOL_MAX ? -INFINITY : 0, .at = -1};
    int64_t lo[3], hi[3], start[3];
    for (int i = 0; i < 3; i++) {
        tap_range(w, i, o[i], 0, w->in[i], &lo[i], &hi[i]);
        start[i] = o[i] * w->stride[i] - w->pad[i];
    }
    for (int64_t kd = lo[0]; kd < hi[0]; kd++)
        for (int64_t kh = lo[1]; kh < hi[1]; kh++)
            for (int64_t kw = lo[2]; kw < hi[2]; kw++) {
                int64_t d = start[0] + kd * w->dilation[0], h = start[1] + kh * w->dilation[1];
                int64_t at = (d * w->in[1] + h) * w->in[2] + start[2] + kw * w->dilation[2];
                if (kind == POOL_AVERAGE) r.value += x[at];
                if (kind == POOL_LP) r.value += pow(fabs(x[at]), p);
                if (kind == POOL_MAX && (r.at < 0 || x[at] > r.value || x[at] != x[at]))
                    r = (struct pooled){x[at], at};
            }
    return r;
}

/* Index as MaxPool reports it: over the whole tensor, row-major or (storage_order 1) column-major planes. */
static int64_t report_index(const struct mo_window *w, int64_t at, int64_t plane, bool column_major) {
    int64_t size = w->in[0] * w->in[1] * w->in[2];
    if (column_major) {
        int64_t d = at / (w->in[1] * w->in[2]), h = at / w->in[2] % w->in[1], c = at % w->in[2];
        at = (c * w->in[1] + h) * w->in[0] + d;
    }
    return plane * size + at;
}

static int run_pool(const struct mo_op_ctx *ctx) {
    struct mo_window w;
    int rc = window_of(ctx, &w);
    if (rc) return rc;
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    enum kind kind = kind_of(ctx);
    bool with_pads = mo_attr_int(ctx->node, "count_include_pad", 0) != 0;
    bool column_major = mo_attr_int(ctx->node, "storage_order", 0) == 1;
    double p = (double)mo_attr_int(ctx->node, "p", 2);
    int64_t planes = x->shape.d[0] * x->shape.d[1], size = mo_extent(&x->shape, 2, x->shape.rank);
    double *plane = mo_scratch(ctx, size, sizeof *plane);
    if (!plane) return MOIRE_ENOMEM;
    int64_t at = 0;
    for (int64_t c = 0; c < planes; c++) {
        mo_load_span(x, c * size, 1, size, plane);
        for (int64_t d = 0; d < w.out[0]; d++)
            for (int64_t h = 0; h < w.out[1]; h++)
                for (int64_t o = 0; o < w.out[2]; o++, at++) {
                    const int64_t where[3] = {d, h, o};
                    struct pooled r = pool_one(&w, plane, where, kind, p);
                    if (kind == POOL_AVERAGE) r.value /= (double)divisor(&w, where, with_pads);
                    if (kind == POOL_LP) r.value = pow(r.value, 1 / p);
                    if (mo_wanted(ctx, 0)) mo_store(y, at, r.value);
                    if (mo_wanted(ctx, 1))
                        mo_store_int(&ctx->out[1], at,
                                     report_index(&w, r.at < 0 ? 0 : r.at, c, column_major));
                }
    }
    mo_free(ctx->env, plane);
    return mo_wanted(ctx, 0) ? mo_epilogue(ctx) : MOIRE_OK;
}

/* --- MaxUnpool --- */

int mo_unpool_shape(const struct mo_op_ctx *ctx, struct mo_shape *y) {
    const struct mo_shape *x = &ctx->in[0].shape;
    int64_t k[8], stride[8] = {1, 1, 1}, pads[16] = {0};
    int nd = x->rank - 2, n_k = mo_attr_sizes(ctx, "kernel_shape", k, 8);
    int n_s = mo_attr_sizes(ctx, "strides", stride, 8), n_p = mo_attr_sizes(ctx, "pads", pads, 16);
    if (n_k != nd || (n_s != nd && n_s != 0) || (n_p != 2 * nd && n_p != 0))
        return mo_op_fail(ctx, MOIRE_EINVAL, "kernel_shape, strides and pads must fit %d dimensions", nd);
    *y = *x;
    for (int i = 0; i < nd; i++)
        if (__builtin_mul_overflow(x->d[2 + i] - 1, stride[i], &y->d[2 + i]) ||
            __builtin_add_overflow(y->d[2 + i], k[i] - pads[i] - pads[i + nd], &y->d[2 + i]) ||
            y->d[2 + i] < 1)
            return mo_op_fail(ctx, MOIRE_ESHAPE, "the output is empty or too large");
    return MOIRE_OK;
}

static int infer_unpool(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_NUMBERS);
    if (rc || (rc = mo_check_type(ctx, 1, MO_TYPE(MOIRE_I64))) || (rc = mo_check_rank(ctx, 0, 3, 5)))
        return rc;
    if (!mo_shape_equal(&ctx->in[0].shape, &ctx->in[1].shape))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "values and indices differ in shape");
    struct mo_shape y, given = {0};
    if ((rc = mo_unpool_shape(ctx, &y))) return rc;
    if (mo_given(ctx, 2)) {
        bool need = false;
        ctx->out[0].dtype = ctx->in[0].dtype;
        given.rank = mo_read_ints(ctx, 2, given.d, MOIRE_MAX_RANK, &need);
        if (given.rank < 0 || need) return need ? MO_NEED_DATA : given.rank;
        for (int i = 0; i < y.rank; i++)
            if (given.rank != y.rank || given.d[i] < y.d[i])
                return mo_op_fail(ctx, MOIRE_ESHAPE, "output_shape is smaller than the unpooled input");
        y = given;
    }
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

/* The place in `large` of element `at` of `small`. */
static int64_t relocate(int64_t at, const struct mo_shape *small, const struct mo_shape *large) {
    int64_t to = 0, stride = 1;
    for (int i = small->rank - 1; i >= 0; i--) {
        to += at % small->d[i] * stride;
        at /= small->d[i];
        stride *= large->d[i];
    }
    return to;
}

static int run_unpool(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    struct mo_shape natural;
    int rc = mo_unpool_shape(ctx, &natural);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    int64_t n = mo_count(x), places = mo_shape_count(&natural);
    memset(y->data, 0, (size_t)mo_count(y) * mo_dtype_bytes(y->dtype));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = ((const int64_t *)ctx->in[1].data)[i];
        if (at < 0 || at >= places)
            return mo_op_fail(ctx, MOIRE_EINVAL, "index %lld is outside the output", (long long)at);
        mo_copy_elem(y, relocate(at, &natural, &y->shape), x, i, 1);
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_pool[] = {
    {"MaxPool", "", 1, 1, 1, 1, 2, infer_pool, run_pool, 0},
    {"AveragePool", "", 1, 1, 1, 1, 1, infer_pool, run_pool, 0},
    {"LpPool", "", 2, 1, 1, 1, 1, infer_pool, run_pool, 0},
    {"GlobalMaxPool", "", 1, 1, 1, 1, 1, infer_global, run_pool, 0},
    {"GlobalAveragePool", "", 1, 1, 1, 1, 1, infer_global, run_pool, 0},
    {"GlobalLpPool", "", 2, 1, 1, 1, 1, infer_global, run_pool, 0},
    {"MaxUnpool", "", 9, 2, 3, 1, 1, infer_unpool, run_unpool, 0},
    {0},
};
