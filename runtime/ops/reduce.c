/* SPDX-License-Identifier: Apache-2.0
 * reduce.c - Reduce*, ArgMax, ArgMin, CumSum.
 *
 * Axes are an attribute in old versions and an input from 13 (ReduceSum) or 18 on; without axes all are
 * reduced, unless noop_with_empty_axes. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

/* --- accumulation: state, next value --- */
static double a_sum(double s, double x) {
    return s + x;
}
static double a_abs(double s, double x) {
    return s + fabs(x);
}
static double a_square(double s, double x) {
    return s + x * x;
}
static double a_prod(double s, double x) {
    return s * x;
}
static double a_max(double s, double x) {
    return x > s || x != x ? x : s;
}
static double a_min(double s, double x) {
    return x < s || x != x ? x : s;
}
static uint64_t u_sum(uint64_t s, uint64_t x) {
    return s + x;
}
static uint64_t u_abs(uint64_t s, uint64_t x) {
    return s + ((int64_t)x < 0 ? 0 - x : x);
}
static uint64_t u_square(uint64_t s, uint64_t x) {
    return s + x * x;
}
static uint64_t u_prod(uint64_t s, uint64_t x) {
    return s * x;
}
static uint64_t u_max(uint64_t s, uint64_t x) {
    return (int64_t)x > (int64_t)s ? x : s;
}
static uint64_t u_min(uint64_t s, uint64_t x) {
    return (int64_t)x < (int64_t)s ? x : s;
}
/* --- last step: state, number of elements --- */
static double e_keep(double s, int64_t n) {
    (void)n;
    return s;
}
static double e_mean(double s, int64_t n) {
    return s / (double)n;
}
static double e_sqrt(double s, int64_t n) {
    (void)n;
    return sqrt(s);
}
static double e_log(double s, int64_t n) {
    (void)n;
    return log(s);
}

static const struct reduction {
    const char *op;
    double start;
    double (*step)(double, double);
    double (*end)(double, int64_t);
    uint64_t (*whole)(uint64_t, uint64_t); /* exact form for int64; NULL: through double */
    uint64_t whole_start;
} reductions[] = {
    {"ReduceSum", 0, a_sum, e_keep, u_sum, 0},
    {"ReduceMean", 0, a_sum, e_mean, NULL, 0},
    {"ReduceMax", -INFINITY, a_max, e_keep, u_max, (uint64_t)INT64_MIN},
    {"ReduceMin", INFINITY, a_min, e_keep, u_min, INT64_MAX},
    {"ReduceProd", 1, a_prod, e_keep, u_prod, 1},
    {"ReduceL1", 0, a_abs, e_keep, u_abs, 0},
    {"ReduceL2", 0, a_square, e_sqrt, NULL, 0},
    {"ReduceSumSquare", 0, a_square, e_keep, u_square, 0},
    {"ReduceLogSum", 0, a_sum, e_log, NULL, 0},
    {"ReduceLogSumExp", 0, a_sum, e_log, NULL, 0},
};

static const struct reduction *reduction_of(const struct mo_op_ctx *ctx) {
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (!strcmp(reductions[i].op, ctx->node->op_type)) return &reductions[i];
    return &reductions[0];
}

/* Which axes are reduced; 0, MO_NEED_DATA or an error. */
static int reduced_axes(const struct mo_op_ctx *ctx, bool *reduced) {
    int rank = ctx->in[0].shape.rank;
    int64_t axes[MOIRE_MAX_RANK];
    bool need = false;
    int n = mo_given(ctx, 1) ? mo_read_ints(ctx, 1, axes, MOIRE_MAX_RANK, &need)
                             : mo_attr_sizes(ctx, "axes", axes, MOIRE_MAX_RANK);
    if (n < 0) return n;
    if (need) return MO_NEED_DATA;
    bool all = !n && !mo_attr_int(ctx->node, "noop_with_empty_axes", 0);
    for (int i = 0; i < rank; i++)
        reduced[i] = all;
    for (int i = 0; i < n; i++) {
        int axis = mo_axis(ctx, axes[i], rank);
        if (axis < 0) return MOIRE_EINVAL;
        reduced[axis] = true;
    }
    return MOIRE_OK;
}

static int infer_reduce(const struct mo_op_ctx *ctx) {
    bool reduced[MOIRE_MAX_RANK] = {false}, keep = mo_attr_int(ctx->node, "keepdims", 1) != 0;
    int rc = mo_check_type(ctx, 0, MO_NUMBERS);
    if (rc) return rc;
    ctx->out[0].dtype = ctx->in[0].dtype;
    if ((rc = reduced_axes(ctx, reduced))) return rc;
    struct mo_shape y = {0};
    for (int i = 0; i < ctx->in[0].shape.rank; i++)
        if (!reduced[i])
            y.d[y.rank++] = ctx->in[0].shape.d[i];
        else if (keep)
            y.d[y.rank++] = 1;
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &y);
}

/* Visits every input element (operand 0) with its output element (operand 1). */
static void walk_reduced(struct mo_row_walk *w, const struct mo_shape *x, const bool *reduced) {
    struct mo_shape kept = *x;
    for (int i = 0; i < x->rank; i++)
        if (reduced[i]) kept.d[i] = 1;
    const struct mo_shape *operands[] = {x, &kept};
    mo_row_walk_init(w, x, operands, 2);
}

/* ReduceLogSumExp: exp(x - max) keeps large inputs finite. */
static void log_sum_exp(const struct mo_value *x, const bool *reduced, double *acc, double *top,
                        int64_t n_out) {
    struct mo_row_walk w;
    for (int64_t i = 0; i < n_out; i++)
        top[i] = -INFINITY;
    for (walk_reduced(&w, &x->shape, reduced); w.more; mo_row_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++) {
            int64_t at = w.off[1] + i * w.step[1];
            top[at] = fmax(top[at], mo_load(x, w.off[0] + i * w.step[0]));
        }
    for (walk_reduced(&w, &x->shape, reduced); w.more; mo_row_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++) {
            int64_t at = w.off[1] + i * w.step[1];
            double base = isinf(top[at]) ? 0 : top[at];
            acc[at] += exp(mo_load(x, w.off[0] + i * w.step[0]) - base);
        }
    for (int64_t i = 0; i < n_out; i++)
        acc[i] = log(acc[i]) + (isinf(top[i]) ? 0 : top[i]);
}

static void accumulate(const struct reduction *r, const struct mo_value *x, const bool *reduced,
                       double *acc) {
    enum { SPAN = 256 };
    double span[SPAN];
    struct mo_row_walk w;
    for (walk_reduced(&w, &x->shape, reduced); w.more; mo_row_walk_next(&w))
        for (int64_t i = 0; i < w.row; i += SPAN) {
            int64_t m = w.row - i < SPAN ? w.row - i : SPAN;
            double *out = acc + w.off[1] + i * w.step[1];
            mo_load_span(x, w.off[0] + i * w.step[0], w.step[0], m, span);
            for (int64_t k = 0; k < m; k++)
                out[k * w.step[1]] = r->step(out[k * w.step[1]], span[k]);
        }
}

static void accumulate_whole(const struct reduction *r, const struct mo_value *x, const bool *reduced,
                             const struct mo_value *y) {
    struct mo_row_walk w;
    for (int64_t i = 0; i < mo_count(y); i++)
        mo_store_int(y, i, (int64_t)r->whole_start);
    for (walk_reduced(&w, &x->shape, reduced); w.more; mo_row_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++) {
            int64_t at = w.off[1] + i * w.step[1];
            uint64_t v = (uint64_t)mo_load_int(x, w.off[0] + i * w.step[0]);
            mo_store_int(y, at, (int64_t)r->whole((uint64_t)mo_load_int(y, at), v));
        }
}

static int run_reduce(const struct mo_op_ctx *ctx) {
    bool reduced[MOIRE_MAX_RANK] = {false};
    int rc = reduced_axes(ctx, reduced);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    const struct reduction *r = reduction_of(ctx);
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    if (x->dtype == MOIRE_I64 && r->whole) {
        accumulate_whole(r, x, reduced, y);
        return MOIRE_OK;
    }
    int64_t n = mo_count(y), elements = mo_count(x);
    double *acc = mo_scratch(ctx, 2 * n, sizeof *acc);
    if (!acc) return MOIRE_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        acc[i] = r->start;
    if (!strcmp(r->op, "ReduceLogSumExp")) {
        log_sum_exp(x, reduced, acc, acc + n, n);
    } else {
        accumulate(r, x, reduced, acc);
        for (int64_t i = 0; i < n; i++)
            acc[i] = r->end(acc[i], elements / n);
    }
    mo_store_span(y, 0, 1, n, acc);
    mo_free(ctx->env, acc);
    return MOIRE_OK;
}

/* --- ArgMax, ArgMin --- */
static int infer_arg(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_NUMBERS);
    if (rc) return rc;
    const struct mo_shape *x = &ctx->in[0].shape;
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 0), x->rank);
    if (axis < 0) return MOIRE_EINVAL;
    if (!x->d[axis]) return mo_op_fail(ctx, MOIRE_ESHAPE, "axis %d is empty", axis);
    struct mo_shape y = {0};
    bool keep = mo_attr_int(ctx->node, "keepdims", 1) != 0;
    for (int i = 0; i < x->rank; i++)
        if (i != axis || keep) y.d[y.rank++] = i == axis ? 1 : x->d[i];
    return mo_set_out(ctx, 0, MOIRE_I64, &y);
}

static int run_arg(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 0), x->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    bool smallest = !strcmp(ctx->node->op_type, "ArgMin");
    bool last = mo_attr_int(ctx->node, "select_last_index", 0) != 0;
    int64_t outer = mo_extent(&x->shape, 0, axis), n = x->shape.d[axis];
    int64_t inner = mo_extent(&x->shape, axis + 1, x->shape.rank);
    for (int64_t row = 0; row < outer * inner; row++) {
        int64_t at = row / inner * n * inner + row % inner, best = 0;
        double value = mo_load(x, at);
        for (int64_t k = 1; k < n; k++) {
            double v = mo_load(x, at + k * inner);
            if (!(smallest ? v < value : v > value) && !(last && v == value)) continue;
            best = k;
            value = v;
        }
        ((int64_t *)ctx->out[0].data)[row] = best;
    }
    return MOIRE_OK;
}

/* --- CumSum --- */
static int infer_cumsum(const struct mo_op_ctx *ctx) {
    if (mo_count(&ctx->in[1]) != 1) return mo_op_fail(ctx, MOIRE_ESHAPE, "the axis must be a scalar");
    return mo_infer_number(ctx);
}

static int run_cumsum(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    int axis = mo_axis(ctx, mo_load_int(&ctx->in[1], 0), x->shape.rank);
    if (axis < 0) return MOIRE_EINVAL;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    bool exclusive = mo_attr_int(ctx->node, "exclusive", 0) != 0,
         reverse = mo_attr_int(ctx->node, "reverse", 0) != 0;
    bool ints = mo_type_in(x->dtype, MO_INTS);
    int64_t outer = mo_extent(&x->shape, 0, axis), n = x->shape.d[axis];
    int64_t inner = mo_extent(&x->shape, axis + 1, x->shape.rank);
    for (int64_t row = 0; row < outer * inner; row++) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t at = (row / inner * n + (reverse ? n - 1 - k : k)) * inner + row % inner;
            double v = ints ? 0 : mo_load(x, at);
            uint64_t u = ints ? (uint64_t)mo_load_int(x, at) : 0;
            if (ints)
                mo_store_int(y, at, (int64_t)(exclusive ? whole : whole + u));
            else
                mo_store(y, at, exclusive ? sum : sum + v);
            sum += v;
            whole += u;
        }
    }
    return MOIRE_OK;
}

#define REDUCE_ROW(name)                                                                                     \
    { name, "", 1, 1, 2, 1, 1, infer_reduce, run_reduce, 0 }
const struct mo_op mo_ops_reduce[] = {
    REDUCE_ROW("ReduceSum"),
    REDUCE_ROW("ReduceMean"),
    REDUCE_ROW("ReduceMax"),
    REDUCE_ROW("ReduceMin"),
    REDUCE_ROW("ReduceProd"),
    REDUCE_ROW("ReduceL1"),
    REDUCE_ROW("ReduceL2"),
    REDUCE_ROW("ReduceSumSquare"),
    REDUCE_ROW("ReduceLogSum"),
    REDUCE_ROW("ReduceLogSumExp"),
    {"ArgMax", "", 1, 1, 1, 1, 1, infer_arg, run_arg, 0},
    {"ArgMin", "", 1, 1, 1, 1, 1, infer_arg, run_arg, 0},
    {"CumSum", "", 11, 2, 2, 1, 1, infer_cumsum, run_cumsum, 0},
    {0},
};
