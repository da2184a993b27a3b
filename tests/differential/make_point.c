/* SPDX-License-Identifier: Apache-2.0
 * make_point.c - random operators element by element: activations, arithmetic with every kind of
 * broadcasting, comparisons, casts. */
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

static void unary(struct dt_maker *m, int x) {
    static const char *const names[] = {
        "Relu", "Relu",      "Sigmoid", "Tanh", "HardSigmoid", "LeakyRelu", "Elu",      "Softplus",
        "Erf",  "HardSwish", "Mish",    "Gelu", "Selu",        "Celu",      "Softsign", "Abs",
        "Neg",  "Sin",       "Cos",     "Atan", "Identity",    "Dropout",   "Exp",      "ThresholdedRelu"};
    const char *op = DT_OF(m, names);
    struct mo_node *n = dt_node(m, op, 1, &x, 1);
    if (!strcmp(op, "LeakyRelu") && dt_roll(m, 2)) dt_float(m, n, "alpha", 0.1 + 0.1 * dt_roll(m, 4));
    if (!strcmp(op, "HardSigmoid") && dt_roll(m, 2)) {
        dt_float(m, n, "alpha", 1.0 / 6);
        dt_float(m, n, "beta", 0.5);
    }
    if (!strcmp(op, "Gelu") && dt_roll(m, 2)) dt_string(m, n, "approximate", "tanh");
    dt_keep(m, n);
}

static void clip(struct dt_maker *m, int x) {
    moire_dtype type = dt_type(m, x);
    bool six = dt_roll(m, 2);
    double low = six ? 0 : -1, high = six ? 6 : 0.7;
    if (m->g->opset < 11) {
        struct mo_node *n = dt_node(m, "Clip", 1, &x, 1);
        if (dt_roll(m, 4)) dt_float(m, n, "min", low);
        if (dt_roll(m, 4)) dt_float(m, n, "max", high);
        dt_keep(m, n);
        return;
    }
    int in[] = {x, dt_roll(m, 4) ? dt_scalar(m, type, low) : -1,
                dt_roll(m, 4) ? dt_scalar(m, type, high) : -1};
    dt_keep(m, dt_node(m, "Clip", in[2] >= 0 ? 3 : in[1] >= 0 ? 2 : 1, in, 1));
}

static void silu(struct dt_maker *m, int x) {
    int gate = dt_chain(m, dt_roll(m, 3) ? "Sigmoid" : "HardSigmoid", 1, &x);
    int in[] = {x, gate};
    dt_chain(m, "Mul", 2, in);
}

static const char *const arithmetic[] = {"Add", "Add", "Add", "Mul", "Mul",
                                         "Sub", "Max", "Min", "Sum", "Mean"};

/* Two live tensors, of equal shapes mostly. */
static void binary(struct dt_maker *m, int x) {
    const struct mo_shape s = *dt_shape(m, x);
    int other = dt_like(m, dt_type(m, x), dt_roll(m, 4) ? &s : NULL), swap = dt_roll(m, 2);
    if (other < 0) return;
    int in[] = {swap ? other : x, swap ? x : other};
    dt_chain(m, DT_OF(m, arithmetic), 2, in);
}

/* A constant that broadcasts: dimensions of 1 anywhere, lower rank, scalar; sometimes one that widens x. */
static void with_const(struct dt_maker *m, int x) {
    struct mo_shape s = *dt_shape(m, x);
    int drop = dt_roll(m, 3) ? 0 : dt_roll(m, s.rank + 1), rank = s.rank - drop;
    int64_t d[MOIRE_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        d[i] = dt_roll(m, 2) ? s.d[drop + i] : 1;
        if (s.d[drop + i] == 1 && dt_roll(m, 4) == 0) d[i] = 1 + dt_roll(m, 4);
    }
    if (dt_roll(m, 3) == 0)
        for (int i = 0; i < rank; i++) /* by channel */
            d[i] = drop + i == 1 ? s.d[1] : 1;
    bool floats = mo_type_in(dt_type(m, x), MO_FLOATS);
    bool divide = dt_roll(m, 6) == 0;
    int c = dt_const(m, dt_type(m, x), rank, d, divide ? 0.3 : floats ? 1 : 3, divide ? (floats ? 2 : 3) : 1);
    int in[] = {x, c};
    if (!divide && dt_roll(m, 2)) in[0] = c, in[1] = x;
    dt_chain(m, divide ? "Div" : DT_OF(m, arithmetic), 2, in);
}

static void prelu(struct dt_maker *m, int x) {
    const struct mo_shape s = *dt_shape(m, x);
    int64_t d[] = {s.rank > 1 ? s.d[1] : 1, 1, 1, 1, 1};
    int in[] = {x, dt_const(m, dt_type(m, x), s.rank > 2 ? s.rank - 1 : 1, d, 0.3, 0.1)};
    if (s.rank <= 2) m->g->tensors[in[1]]->shape.d[0] = 1;
    dt_chain(m, "PRelu", 2, in);
}

static const moire_dtype targets[] = {MOIRE_F32, MOIRE_F32, MOIRE_F16, MOIRE_F64,  MOIRE_I32, MOIRE_I64,
                                      MOIRE_I8,  MOIRE_U8,  MOIRE_I16, MOIRE_BOOL, MOIRE_BF16};

/* Between floats, between integers, from integers to floats; floats become integers where noise cannot turn
 * one into another: from graph inputs. */
static void cast(struct dt_maker *m, int x) {
    moire_dtype to = DT_OF(m, targets);
    bool from_float = mo_type_in(dt_type(m, x), MO_FLOATS), to_float = mo_type_in(to, MO_FLOATS);
    bool narrow = mo_type_in(to, MO_UNSIGNED); /* negative numbers have no place there */
    if (from_float && !to_float && (narrow || !m->g->tensors[x]->is_input)) return;
    if (to == MOIRE_BF16 && m->g->opset < 13) return;
    if (mo_type_in(dt_type(m, x), MO_INTS) && to != MOIRE_BOOL &&
        mo_dtype_bytes(to) < mo_dtype_bytes(dt_type(m, x)))
        return; /* out of range is not defined */
    struct mo_node *n = dt_node(m, "Cast", 1, &x, 1);
    dt_int(m, n, "to", to);
    dt_keep(m, n);
}

/* Comparison and selection; floats only where both sides are exact. */
static void compare(struct dt_maker *m, int x) {
    static const char *const names[] = {"Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"};
    moire_dtype type = dt_type(m, x);
    const struct mo_shape s = *dt_shape(m, x);
    int probe = mo_type_in(type, MO_FLOATS) ? m->g->inputs[0] : x;
    if (dt_type(m, probe) != type) return;
    int in[] = {probe, dt_scalar(m, type, mo_type_in(type, MO_FLOATS) ? 0.123 : 1)};
    int mask = dt_chain(m, DT_OF(m, names), 2, in);
    if (mask >= 0 && dt_roll(m, 2)) mask = dt_chain(m, "Not", 1, &mask);
    if (mask < 0) return;
    int other = dt_like(m, type, &s);
    int which[] = {mask, x, dt_roll(m, 2) && other >= 0 ? other : dt_scalar(m, type, 0)};
    dt_chain(m, "Where", 3, which);
}

static void logic(struct dt_maker *m, int x) {
    static const char *const names[] = {"And", "Or", "Xor"};
    int in[] = {x, dt_like(m, MOIRE_BOOL, NULL)};
    if (dt_roll(m, 3))
        dt_chain(m, DT_OF(m, names), 2, in);
    else
        dt_chain(m, "Not", 1, &x);
}

static void variadic(struct dt_maker *m, int x) {
    static const char *const names[] = {"Sum", "Max", "Min", "Mean"};
    const struct mo_shape s = *dt_shape(m, x);
    int in[4] = {x}, n = 1 + dt_roll(m, 4);
    for (int i = 1; i < n; i++)
        in[i] = dt_like(m, dt_type(m, x), &s);
    dt_chain(m, DT_OF(m, names), n, in);
}

const struct dt_kind dt_kinds_point[] = {
    {"unary", 14, MO_NUMBERS, unary},
    {"clip", 4, MO_NUMBERS, clip},
    {"silu", 3, MO_FLOATS, silu},
    {"binary", 10, MO_NUMBERS, binary},
    {"with const", 10, MO_NUMBERS, with_const},
    {"prelu", 2, MO_FLOATS, prelu},
    {"cast", 3, MO_ANY, cast},
    {"compare", 2, MO_NUMBERS, compare},
    {"logic", 6, MO_BOOLS, logic},
    {"variadic", 3, MO_NUMBERS, variadic},
    {0},
};
