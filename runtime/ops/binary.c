/* SPDX-License-Identifier: Apache-2.0
 * binary.c - operators on two or more broadcast operands: arithmetic, comparison, logic, bits, Where.
 *
 * Floats are computed in double, integers in int64 (wrapping; unsigned 64-bit where it matters).  Integer
 * division by zero is an error, never undefined. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

/* What an integer formula may need to know, and how it reports a bad operand. */
struct int_mode {
    bool is_unsigned; /* uint64 operands */
    int bits;         /* width of the type */
    bool fmod;        /* Mod: C remainder instead of the sign of the divisor */
    bool right;       /* BitShift */
    bool failed;
};

static double f_add(double a, double b) {
    return a + b;
}
static double f_sub(double a, double b) {
    return a - b;
}
static double f_mul(double a, double b) {
    return a * b;
}
static double f_div(double a, double b) {
    return a / b;
}
static double f_pow(double a, double b) {
    return pow(a, b);
}
static double f_prelu(double a, double b) {
    return a < 0 ? a * b : a;
}
static double f_min(double a, double b) { /* NaN wins */
    return a < b || a != a ? a : b;
}
static double f_max(double a, double b) {
    return a > b || a != a ? a : b;
}
static double f_equal(double a, double b) {
    return a == b;
}
static double f_less(double a, double b) {
    return a < b;
}
static double f_greater(double a, double b) {
    return a > b;
}
static double f_less_equal(double a, double b) {
    return a <= b;
}
static double f_greater_equal(double a, double b) {
    return a >= b;
}

static int64_t i_add(int64_t a, int64_t b, struct int_mode *m) {
    (void)m;
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t i_sub(int64_t a, int64_t b, struct int_mode *m) {
    (void)m;
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static int64_t i_mul(int64_t a, int64_t b, struct int_mode *m) {
    (void)m;
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
static int64_t i_div(int64_t a, int64_t b, struct int_mode *m) {
    if (!b) m->failed = true;
    if (!b) return 0;
    if (m->is_unsigned) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static int64_t i_mod(int64_t a, int64_t b, struct int_mode *m) {
    if (!b) m->failed = true;
    if (!b || b == -1) return 0;
    if (m->is_unsigned) return (int64_t)((uint64_t)a % (uint64_t)b);
    int64_t r = a % b;
    return !m->fmod && r && (r < 0) != (b < 0) ? r + b : r;
}
static int64_t i_pow(int64_t a, int64_t b, struct int_mode *m) {
    uint64_t result = 1, base = (uint64_t)a;
    if (b < 0 && !m->is_unsigned) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (uint64_t e = (uint64_t)b; e; e >>= 1, base *= base)
        if (e & 1) result *= base;
    return (int64_t)result;
}
static bool i_before(int64_t a, int64_t b, const struct int_mode *m) {
    return m->is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
}
static int64_t i_min(int64_t a, int64_t b, struct int_mode *m) {
    return i_before(a, b, m) ? a : b;
}
static int64_t i_max(int64_t a, int64_t b, struct int_mode *m) {
    return i_before(a, b, m) ? b : a;
}
static int64_t i_equal(int64_t a, int64_t b, struct int_mode *m) {
    (void)m;
    return a == b;
}
static int64_t i_less(int64_t a, int64_t b, struct int_mode *m) {
    return i_before(a, b, m);
}
static int64_t i_greater(int64_t a, int64_t b, struct int_mode *m) {
    return i_before(b, a, m);
}
static int64_t i_less_equal(int64_t a, int64_t b, struct int_mode *m) {
    return !i_before(b, a, m);
}
static int64_t i_greater_equal(int64_t a, int64_t b, struct int_mode *m) {
    return !i_before(a, b, m);
}
static int64_t i_and(int64_t a, int64_t b, struct int_mode *m) {
    (void)m;
    return a & b;
}
static int64_t i_or(int64_t a, int64_t b, struct int_mode *m) {
    (void)m;
    return a | b;
}
static int64_t i_xor(int64_t a, int64_t b, struct int_mode *m) {
    (void)m;
    return a ^ b;
}
static int64_t i_shift(int64_t a, int64_t b, struct int_mode *m) {
    const bool sign = m->right && a < 0 && !m->is_unsigned; /* the bits that come in from the left */
    if (b < 0 || b >= m->bits) return sign ? -1 : 0;
    if (sign) return (int64_t) ~(~(uint64_t)a >> b);
    return (int64_t)(m->right ? (uint64_t)a >> b : (uint64_t)a << b);
}
static int64_t i_prelu(int64_t a, int64_t b, struct int_mode *m) {
    return a < 0 && !m->is_unsigned ? i_mul(a, b, m) : a;
}
static double f_fmod(double a, double b) {
    return fmod(a, b);
}

static const struct formula {
    const char *op;
    double (*f)(double, double);
    int64_t (*i)(int64_t, int64_t, struct int_mode *);
} formulas[] = {
    {"Add", f_add, i_add},
    {"Sub", f_sub, i_sub},
    {"Mul", f_mul, i_mul},
    {"Div", f_div, i_div},
    {"Pow", f_pow, i_pow},
    {"PRelu", f_prelu, i_prelu},
    {"Mod", f_fmod, i_mod},
    {"Min", f_min, i_min},
    {"Max", f_max, i_max},
    {"Sum", f_add, i_add},
    {"Mean", f_add, i_add},
    {"Equal", f_equal, i_equal},
    {"Less", f_less, i_less},
    {"Greater", f_greater, i_greater},
    {"LessOrEqual", f_less_equal, i_less_equal},
    {"GreaterOrEqual", f_greater_equal, i_greater_equal},
    {"And", NULL, i_and},
    {"Or", NULL, i_or},
    {"Xor", NULL, i_xor},
    {"BitwiseAnd", NULL, i_and},
    {"BitwiseOr", NULL, i_or},
    {"BitwiseXor", NULL, i_xor},
    {"BitShift", NULL, i_shift},
};

static const struct formula *formula_of(const struct mo_op_ctx *ctx) {
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (!strcmp(formulas[i].op, ctx->node->op_type)) return &formulas[i];
    return &formulas[0];
}

/* --- shapes --- */

/* What attributes said of it before opset 7 is settled before (codegen/old_broadcast.c). */
static int common_shape(const struct mo_op_ctx *ctx, struct mo_shape *out) {
    *out = ctx->in[0].shape;
    if (ctx->node->opset >= 7 && mo_attr_int(ctx->node, "broadcast", 0))
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "the attribute broadcast is of opsets before 7");
    for (int i = 1; i < ctx->n_in; i++) {
        char a[120], b[120];
        if (mo_given(ctx, i) && !mo_broadcast(out, &ctx->in[i].shape, out))
            return mo_op_fail(ctx, MOIRE_ESHAPE, "shapes %s and %s do not broadcast",
                              mo_shape_text(out, a, sizeof a), mo_shape_text(&ctx->in[i].shape, b, sizeof b));
    }
    return MOIRE_OK;
}

static int infer_with(const struct mo_op_ctx *ctx, unsigned types, moire_dtype result) {
    struct mo_shape out;
    int rc = mo_check_same(ctx, types);
    if (rc || (rc = common_shape(ctx, &out))) return rc;
    return mo_set_out(ctx, 0, result ? result : ctx->in[0].dtype, &out);
}

static int infer_arithmetic(const struct mo_op_ctx *ctx) {
    return infer_with(ctx, MO_NUMBERS, MOIRE_NONE);
}
static int infer_floats(const struct mo_op_ctx *ctx) {
    return infer_with(ctx, MO_FLOATS, MOIRE_NONE);
}
static int infer_ints(const struct mo_op_ctx *ctx) {
    return infer_with(ctx, MO_INTS, MOIRE_NONE);
}
static int infer_compare(const struct mo_op_ctx *ctx) {
    return infer_with(ctx, MO_ANY, MOIRE_BOOL);
}
static int infer_logic(const struct mo_op_ctx *ctx) {
    return infer_with(ctx, MO_BOOLS, MOIRE_BOOL);
}

static int infer_mod(const struct mo_op_ctx *ctx) {
    if (mo_type_in(ctx->in[0].dtype, MO_FLOATS) && !mo_attr_int(ctx->node, "fmod", 0)) /* floor since 28 */
        return mo_op_fail(ctx, ctx->node->opset < 28 ? MOIRE_EINVAL : MOIRE_EUNSUPPORTED,
                          "floating-point operands need the attribute fmod = 1");
    return infer_with(ctx, MO_NUMBERS, MOIRE_NONE);
}

static int infer_pow(const struct mo_op_ctx *ctx) { /* the exponent may have another type */
    struct mo_shape out;
    int rc = mo_check_type(ctx, 0, MO_NUMBERS);
    if (rc || (rc = mo_check_type(ctx, 1, MO_NUMBERS)) || (rc = common_shape(ctx, &out))) return rc;
    return mo_set_out(ctx, 0, ctx->in[0].dtype, &out);
}

static int infer_prelu(const struct mo_op_ctx *ctx) { /* the slope broadcasts to the input only */
    int rc = infer_with(ctx, MO_NUMBERS, MOIRE_NONE);
    if (!rc && !mo_shape_equal(&ctx->out[0].shape, &ctx->in[0].shape))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the slope does not broadcast to the input");
    return rc;
}

/* --- values --- */

static void float_rows(const struct formula *row, const struct mo_value *out, const struct mo_value *a,
                       const struct mo_value *b) {
    enum { SPAN = 256 };
    double x[SPAN], y[SPAN];
    struct mo_row_walk w;
    const struct mo_shape *operands[] = {&out->shape, &a->shape, &b->shape};
    for (mo_row_walk_init(&w, &out->shape, operands, 3); w.more; mo_row_walk_next(&w))
        for (int64_t at = 0; at < w.row; at += SPAN) {
            int64_t m = w.row - at < SPAN ? w.row - at : SPAN;
            mo_load_span(a, w.off[1] + at * w.step[1], w.step[1], m, x);
            mo_load_span(b, w.off[2] + at * w.step[2], w.step[2], m, y);
            for (int64_t k = 0; k < m; k++)
                x[k] = row->f(x[k], y[k]);
            mo_store_span(out, w.off[0] + at * w.step[0], w.step[0], m, x);
        }
}

static void int_rows(const struct formula *row, const struct mo_value *out, const struct mo_value *a,
                     const struct mo_value *b, struct int_mode *mode) {
    struct mo_row_walk w;
    const struct mo_shape *operands[] = {&out->shape, &a->shape, &b->shape};
    for (mo_row_walk_init(&w, &out->shape, operands, 3); w.more; mo_row_walk_next(&w))
        for (int64_t k = 0; k < w.row; k++) {
            int64_t x = mo_load_int(a, w.off[1] + k * w.step[1]),
                    y = mo_load_int(b, w.off[2] + k * w.step[2]);
            mo_store_int(out, w.off[0] + k * w.step[0], row->i(x, y, mode));
        }
}

static int combine(const struct mo_op_ctx *ctx, const struct mo_value *a, const struct mo_value *b) {
    const struct formula *row = formula_of(ctx);
    bool ints = mo_type_in(a->dtype, MO_INTS | MO_BOOLS) && mo_type_in(b->dtype, MO_INTS | MO_BOOLS);
    if (!ints) {
        float_rows(row, &ctx->out[0], a, b);
        return MOIRE_OK;
    }
    struct int_mode mode = {.is_unsigned = a->dtype == MOIRE_U64,
                            .bits = (int)mo_dtype_bytes(a->dtype) * 8,
                            .fmod = mo_attr_int(ctx->node, "fmod", 0) != 0,
                            .right = !strcmp(mo_attr_string(ctx->node, "direction", ""), "RIGHT")};
    int_rows(row, &ctx->out[0], a, b, &mode);
    return mode.failed ? mo_op_fail(ctx, MOIRE_EINVAL, "integer division by zero") : MOIRE_OK;
}

static int run_binary(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    int rc = combine(ctx, &ctx->in[0], &ctx->in[1]);
    return rc ? rc : mo_epilogue(ctx);
}

/* Min, Max, Sum, Mean of any number of operands: the output is the accumulator. */
static int run_variadic(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_shape *operands[] = {&ctx->out[0].shape, &ctx->in[0].shape};
    struct mo_row_walk w;
    int count = 1, rc = MOIRE_OK;
    for (mo_row_walk_init(&w, &ctx->out[0].shape, operands, 2); w.more; mo_row_walk_next(&w))
        for (int64_t k = 0; k < w.row; k++)
            mo_copy_elem(&ctx->out[0], w.off[0] + k * w.step[0], &ctx->in[0], w.off[1] + k * w.step[1], 1);
    for (int i = 1; i < ctx->n_in && !rc; i++) {
        if (!mo_given(ctx, i)) continue;
        rc = combine(ctx, &ctx->out[0], &ctx->in[i]);
        count++;
    }
    int64_t n = mo_count(&ctx->out[0]);
    if (!strcmp(ctx->node->op_type, "Mean"))
        for (int64_t i = 0; i < n; i++)
            mo_store(&ctx->out[0], i, mo_load(&ctx->out[0], i) / count);
    return rc ? rc : mo_epilogue(ctx);
}

/* --- Where --- */
static int infer_where(const struct mo_op_ctx *ctx) {
    struct mo_shape out;
    int rc = mo_check_type(ctx, 0, MO_BOOLS);
    if (rc || (rc = mo_check_type(ctx, 1, MO_ANY)) || (rc = common_shape(ctx, &out))) return rc;
    if (ctx->in[1].dtype != ctx->in[2].dtype)
        return mo_op_fail(ctx, MOIRE_EINVAL, "the two values have different types");
    return mo_set_out(ctx, 0, ctx->in[1].dtype, &out);
}

static int run_where(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *in = ctx->in, *out = &ctx->out[0];
    const struct mo_shape *operands[] = {&out->shape, &in[0].shape, &in[1].shape, &in[2].shape};
    struct mo_row_walk w;
    for (mo_row_walk_init(&w, &out->shape, operands, 4); w.more; mo_row_walk_next(&w))
        for (int64_t k = 0; k < w.row; k++) {
            int from = ((const uint8_t *)in[0].data)[w.off[1] + k * w.step[1]] ? 1 : 2;
            mo_copy_elem(out, w.off[0] + k * w.step[0], &in[from], w.off[from + 1] + k * w.step[from + 1], 1);
        }
    return MOIRE_OK;
}

const struct mo_op mo_ops_binary[] = {
    {"Add", "", 1, 2, 2, 1, 1, infer_arithmetic, run_binary, 0},
    {"Sub", "", 1, 2, 2, 1, 1, infer_arithmetic, run_binary, 0},
    {"Mul", "", 1, 2, 2, 1, 1, infer_arithmetic, run_binary, 0},
    {"Div", "", 1, 2, 2, 1, 1, infer_arithmetic, run_binary, 0},
    {"Pow", "", 1, 2, 2, 1, 1, infer_pow, run_binary, 0},
    {"PRelu", "", 1, 2, 2, 1, 1, infer_prelu, run_binary, 0},
    {"Mod", "", 10, 2, 2, 1, 1, infer_mod, run_binary, 0},
    {"Min", "", 1, 1, -1, 1, 1, infer_arithmetic, run_variadic, 0},
    {"Max", "", 1, 1, -1, 1, 1, infer_arithmetic, run_variadic, 0},
    {"Sum", "", 1, 1, -1, 1, 1, infer_floats, run_variadic, 0},
    {"Mean", "", 1, 1, -1, 1, 1, infer_floats, run_variadic, 0},
    {"Equal", "", 1, 2, 2, 1, 1, infer_compare, run_binary, 0},
    {"Less", "", 1, 2, 2, 1, 1, infer_compare, run_binary, 0},
    {"Greater", "", 1, 2, 2, 1, 1, infer_compare, run_binary, 0},
    {"LessOrEqual", "", 12, 2, 2, 1, 1, infer_compare, run_binary, 0},
    {"GreaterOrEqual", "", 12, 2, 2, 1, 1, infer_compare, run_binary, 0},
    {"And", "", 1, 2, 2, 1, 1, infer_logic, run_binary, 0},
    {"Or", "", 1, 2, 2, 1, 1, infer_logic, run_binary, 0},
    {"Xor", "", 1, 2, 2, 1, 1, infer_logic, run_binary, 0},
    {"BitwiseAnd", "", 18, 2, 2, 1, 1, infer_ints, run_binary, 0},
    {"BitwiseOr", "", 18, 2, 2, 1, 1, infer_ints, run_binary, 0},
    {"BitwiseXor", "", 18, 2, 2, 1, 1, infer_ints, run_binary, 0},
    {"BitShift", "", 11, 2, 2, 1, 1, infer_ints, run_binary, 0},
    {"Where", "", 9, 3, 3, 1, 1, infer_where, run_where, 0},
    {0},
};
