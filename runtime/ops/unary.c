/* SPDX-License-Identifier: Apache-2.0
 * unary.c - operators that map every element by itself: one row of formulas an operator. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

/* Parameters of a formula: its attributes, or the bounds of Clip. */
struct param {
    double a, b;
};

static double f_abs(double x, const struct param *p) {
    (void)p;
    return fabs(x);
}
static double f_neg(double x, const struct param *p) {
    (void)p;
    return -x;
}
static double f_relu(double x, const struct param *p) {
    (void)p;
    return x < 0 ? 0 : x;
}
static double f_sqrt(double x, const struct param *p) {
    (void)p;
    return sqrt(x);
}
static double f_exp(double x, const struct param *p) {
    (void)p;
    return exp(x);
}
static double f_log(double x, const struct param *p) {
    (void)p;
    return log(x);
}
static double f_erf(double x, const struct param *p) {
    (void)p;
    return erf(x);
}
static double f_ceil(double x, const struct param *p) {
    (void)p;
    return ceil(x);
}
static double f_floor(double x, const struct param *p) {
    (void)p;
    return floor(x);
}
static double f_round(double x, const struct param *p) { /* ties to even */
    (void)p;
    return nearbyint(x);
}
static double f_sin(double x, const struct param *p) {
    (void)p;
    return sin(x);
}
static double f_cos(double x, const struct param *p) {
    (void)p;
    return cos(x);
}
static double f_tan(double x, const struct param *p) {
    (void)p;
    return tan(x);
}
static double f_asin(double x, const struct param *p) {
    (void)p;
    return asin(x);
}
static double f_acos(double x, const struct param *p) {
    (void)p;
    return acos(x);
}
static double f_atan(double x, const struct param *p) {
    (void)p;
    return atan(x);
}
static double f_sinh(double x, const struct param *p) {
    (void)p;
    return sinh(x);
}
static double f_cosh(double x, const struct param *p) {
    (void)p;
    return cosh(x);
}
static double f_tanh(double x, const struct param *p) {
    (void)p;
    return tanh(x);
}
static double f_asinh(double x, const struct param *p) {
    (void)p;
    return asinh(x);
}
static double f_acosh(double x, const struct param *p) {
    (void)p;
    return acosh(x);
}
static double f_atanh(double x, const struct param *p) {
    (void)p;
    return atanh(x);
}
static double f_sign(double x, const struct param *p) {
    (void)p;
    return (x > 0) - (x < 0);
}
static double f_reciprocal(double x, const struct param *p) {
    (void)p;
    return 1 / x;
}
static double f_sigmoid(double x, const struct param *p) {
    (void)p;
    return 1 / (1 + exp(-x));
}
static double f_softplus(double x, const struct param *p) {
    (void)p;
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double f_softsign(double x, const struct param *p) {
    (void)p;
    return x / (1 + fabs(x));
}
static double f_unit(double x) { /* into [0, 1]; a NaN stays one */
    return x < 0 ? 0 : x > 1 ? 1 : x;
}
static double f_hard_swish(double x, const struct param *p) {
    (void)p;
    return x * f_unit(x / 6 + 0.5);
}
static double f_mish(double x, const struct param *p) {
    return x * tanh(f_softplus(x, p));
}
static double f_hard_sigmoid(double x, const struct param *p) {
    return f_unit(p->a * x + p->b);
}
static double f_leaky(double x, const struct param *p) {
    return x < 0 ? p->a * x : x;
}
static double f_elu(double x, const struct param *p) {
    return x < 0 ? p->a * expm1(x) : x;
}
static double f_selu(double x, const struct param *p) {
    return p->b * (x > 0 ? x : p->a * expm1(x));
}
static double f_celu(double x, const struct param *p) {
    double below = p->a * expm1(x / p->a);
    return (x < 0 ? 0 : x) + (below > 0 ? 0 : below);
}
static double f_thresholded(double x, const struct param *p) {
    return x > p->a ? x : 0;
}
static double f_shrink(double x, const struct param *p) { /* a = lambd, b = bias */
    return x < -p->a ? x + p->b : x > p->a ? x - p->b : 0;
}
static double f_clip(double x, const struct param *p) {
    x = x < p->a ? p->a : x;
    return x > p->b ? p->b : x;
}
static double f_gelu(double x, const struct param *p) {
    (void)p;
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
static double f_gelu_tanh(double x, const struct param *p) {
    (void)p;
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double f_swish(double x, const struct param *p) {
    return x / (1 + exp(-p->a * x));
}
static double f_isnan(double x, const struct param *p) {
    (void)p;
    return isnan(x);
}
static double f_isinf(double x, const struct param *p) { /* a: negative counts, b: positive counts */
    return isinf(x) && (x < 0 ? p->a != 0 : p->b != 0);
}
static double f_not(double x, const struct param *p) {
    (void)p;
    return x == 0;
}

/* op, formula, names and defaults of its attributes */
static const struct formula {
    const char *op;
    double (*f)(double, const struct param *);
    const char *a, *b;
    float a_default, b_default;
} formulas[] = {
    {"Abs", f_abs, 0, 0, 0, 0},
    {"Neg", f_neg, 0, 0, 0, 0},
    {"Relu", f_relu, 0, 0, 0, 0},
    {"Sqrt", f_sqrt, 0, 0, 0, 0},
    {"Exp", f_exp, 0, 0, 0, 0},
    {"Log", f_log, 0, 0, 0, 0},
    {"Erf", f_erf, 0, 0, 0, 0},
    {"Ceil", f_ceil, 0, 0, 0, 0},
    {"Floor", f_floor, 0, 0, 0, 0},
    {"Round", f_round, 0, 0, 0, 0},
    {"Sin", f_sin, 0, 0, 0, 0},
    {"Cos", f_cos, 0, 0, 0, 0},
    {"Tan", f_tan, 0, 0, 0, 0},
    {"Asin", f_asin, 0, 0, 0, 0},
    {"Acos", f_acos, 0, 0, 0, 0},
    {"Atan", f_atan, 0, 0, 0, 0},
    {"Sinh", f_sinh, 0, 0, 0, 0},
    {"Cosh", f_cosh, 0, 0, 0, 0},
    {"Tanh", f_tanh, 0, 0, 0, 0},
    {"Asinh", f_asinh, 0, 0, 0, 0},
    {"Acosh", f_acosh, 0, 0, 0, 0},
    {"Atanh", f_atanh, 0, 0, 0, 0},
    {"Sign", f_sign, 0, 0, 0, 0},
    {"Reciprocal", f_reciprocal, 0, 0, 0, 0},
    {"Sigmoid", f_sigmoid, 0, 0, 0, 0},
    {"Softplus", f_softplus, 0, 0, 0, 0},
    {"Softsign", f_softsign, 0, 0, 0, 0},
    {"HardSwish", f_hard_swish, 0, 0, 0, 0},
    {"Mish", f_mish, 0, 0, 0, 0},
    {"HardSigmoid", f_hard_sigmoid, "alpha", "beta", 0.2f, 0.5f},
    {"LeakyRelu", f_leaky, "alpha", 0, 0.01f, 0},
    {"Elu", f_elu, "alpha", 0, 1, 0},
    {"Selu", f_selu, "alpha", "gamma", 1.67326319217681884765625f, 1.05070102214813232421875f},
    {"Celu", f_celu, "alpha", 0, 1, 0},
    {"ThresholdedRelu", f_thresholded, "alpha", 0, 1, 0},
    {"Shrink", f_shrink, "lambd", "bias", 0.5f, 0},
    {"Clip", f_clip, "min", "max", -INFINITY, INFINITY},
    {"Gelu", f_gelu, 0, 0, 0, 0},
    {"Swish", f_swish, "alpha", 0, 1, 0},
    {"IsNaN", f_isnan, 0, 0, 0, 0},
    {"IsInf", f_isinf, 0, 0, 0, 0},
    {"Not", f_not, 0, 0, 0, 0},
};

static struct formula formula_of(const struct mo_op_ctx *ctx, struct param *p) {
    struct formula row = {0};
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (!strcmp(formulas[i].op, ctx->node->op_type)) row = formulas[i];
    if (row.a) p->a = (double)mo_attr_float(ctx->node, row.a, row.a_default);
    if (row.b) p->b = (double)mo_attr_float(ctx->node, row.b, row.b_default);
    if (row.f == f_isinf) {
        p->a = (double)mo_attr_int(ctx->node, "detect_negative", 1);
        p->b = (double)mo_attr_int(ctx->node, "detect_positive", 1);
    }
    if (row.f == f_gelu && !strcmp(mo_attr_string(ctx->node, "approximate", "none"), "tanh"))
        row.f = f_gelu_tanh;
    if (row.f == f_clip && mo_given(ctx, 1)) p->a = mo_load(&ctx->in[1], 0);
    if (row.f == f_clip && mo_given(ctx, 2)) p->b = mo_load(&ctx->in[2], 0);
    return row;
}

/* 64-bit integers, which a double may not hold exactly.  False: the formula has no integer form. */
static bool run_int64(const struct mo_op_ctx *ctx, const struct formula *row) {
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    bool is_unsigned = x->dtype == MOIRE_U64, clip = row->f == f_clip;
    if (!clip && row->f != f_abs && row->f != f_neg && row->f != f_relu && row->f != f_sign) return false;
    const uint64_t flip = is_unsigned ? 0 : 1ull << 63; /* makes signed order unsigned */
    uint64_t low = clip && mo_given(ctx, 1) ? (uint64_t)mo_load_int(&ctx->in[1], 0) ^ flip : 0;
    uint64_t high = clip && mo_given(ctx, 2) ? (uint64_t)mo_load_int(&ctx->in[2], 0) ^ flip : UINT64_MAX;
    int64_t n = mo_count(x);
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)mo_load_int(x, i);
        bool negative = !is_unsigned && v >> 63;
        if (row->f == f_neg || (row->f == f_abs && negative)) v = 0 - v;
        if (row->f == f_relu && negative) v = 0;
        if (row->f == f_sign) v = negative ? UINT64_MAX : v != 0;
        if (clip && (v ^ flip) < low) v = low ^ flip;
        if (clip && (v ^ flip) > high) v = high ^ flip;
        mo_store_int(y, i, (int64_t)v);
    }
    return true;
}

static int run_bitwise_not(const struct mo_op_ctx *ctx) {
    int64_t n = mo_count(&ctx->in[0]);
    for (int64_t i = 0; mo_wanted(ctx, 0) && i < n; i++)
        mo_store_int(&ctx->out[0], i, ~mo_load_int(&ctx->in[0], i));
    return MOIRE_OK;
}

static int run_unary(const struct mo_op_ctx *ctx) {
    enum { SPAN = 256 };
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    struct param p = {0};
    const struct formula row = formula_of(ctx, &p);
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    bool wide = y->dtype == x->dtype && (x->dtype == MOIRE_I64 || x->dtype == MOIRE_U64);
    if (wide && run_int64(ctx, &row)) return MOIRE_OK;
    double span[SPAN];
    int64_t n = mo_count(x);
    for (int64_t i = 0; i < n; i += SPAN) {
        int64_t m = n - i < SPAN ? n - i : SPAN;
        mo_load_span(x, i, 1, m, span);
        for (int64_t k = 0; k < m; k++)
            span[k] = row.f(span[k], &p);
        mo_store_span(y, i, 1, m, span);
    }
    return MOIRE_OK;
}

static int infer_clip(const struct mo_op_ctx *ctx) {
    int rc = mo_check_same(ctx, MO_NUMBERS);
    for (int i = 1; !rc && i < 3; i++)
        if (mo_given(ctx, i) && mo_count(&ctx->in[i]) != 1)
            rc = mo_op_fail(ctx, MOIRE_ESHAPE, "the bounds must be scalars");
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape);
}

static int infer_test(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_FLOATS);
    return rc ? rc : mo_set_out(ctx, 0, MOIRE_BOOL, &ctx->in[0].shape);
}

static int infer_not(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_BOOLS);
    return rc ? rc : mo_set_out(ctx, 0, MOIRE_BOOL, &ctx->in[0].shape);
}

static int infer_bits(const struct mo_op_ctx *ctx) {
    int rc = mo_check_type(ctx, 0, MO_INTS);
    return rc ? rc : mo_set_out(ctx, 0, ctx->in[0].dtype, &ctx->in[0].shape);
}

static int infer_celu(const struct mo_op_ctx *ctx) {
    if (mo_attr_float(ctx->node, "alpha", 1) == 0)
        return mo_op_fail(ctx, MOIRE_EINVAL, "alpha must not be 0");
    return mo_infer_float(ctx);
}

#define FLOAT_ROW(name, since)                                                                               \
    { name, "", since, 1, 1, 1, 1, mo_infer_float, run_unary, MO_OP_POINTWISE }
#define NUMBER_ROW(name, since)                                                                              \
    { name, "", since, 1, 1, 1, 1, mo_infer_number, run_unary, MO_OP_POINTWISE }
const struct mo_op mo_ops_unary[] = {
    NUMBER_ROW("Abs", 1),
    NUMBER_ROW("Neg", 1),
    NUMBER_ROW("Relu", 1),
    NUMBER_ROW("Sign", 9),
    NUMBER_ROW("Erf", 9),
    NUMBER_ROW("Shrink", 9),
    FLOAT_ROW("Sqrt", 1),
    FLOAT_ROW("Exp", 1),
    FLOAT_ROW("Log", 1),
    FLOAT_ROW("Ceil", 1),
    FLOAT_ROW("Floor", 1),
    FLOAT_ROW("Round", 11),
    FLOAT_ROW("Sin", 7),
    FLOAT_ROW("Cos", 7),
    FLOAT_ROW("Tan", 7),
    FLOAT_ROW("Asin", 7),
    FLOAT_ROW("Acos", 7),
    FLOAT_ROW("Atan", 7),
    FLOAT_ROW("Sinh", 9),
    FLOAT_ROW("Cosh", 9),
    FLOAT_ROW("Tanh", 1),
    FLOAT_ROW("Asinh", 9),
    FLOAT_ROW("Acosh", 9),
    FLOAT_ROW("Atanh", 9),
    FLOAT_ROW("Reciprocal", 1),
    FLOAT_ROW("Sigmoid", 1),
    FLOAT_ROW("Softplus", 1),
    FLOAT_ROW("Softsign", 1),
    FLOAT_ROW("HardSwish", 14),
    FLOAT_ROW("Mish", 18),
    FLOAT_ROW("HardSigmoid", 1),
    FLOAT_ROW("LeakyRelu", 1),
    FLOAT_ROW("Elu", 1),
    FLOAT_ROW("Selu", 1),
    FLOAT_ROW("ThresholdedRelu", 10),
    FLOAT_ROW("Gelu", 20),
    FLOAT_ROW("Swish", 24),
    {"Celu", "", 12, 1, 1, 1, 1, infer_celu, run_unary, MO_OP_POINTWISE},
    {"Clip", "", 1, 1, 3, 1, 1, infer_clip, run_unary, MO_OP_POINTWISE},
    {"BitwiseNot", "", 18, 1, 1, 1, 1, infer_bits, run_bitwise_not, 0},
    {"IsNaN", "", 9, 1, 1, 1, 1, infer_test, run_unary, 0},
    {"IsInf", "", 10, 1, 1, 1, 1, infer_test, run_unary, 0},
    {"Not", "", 1, 1, 1, 1, 1, infer_not, run_unary, 0},
    {0},
};
