/* SPDX-License-Identifier: Apache-2.0
 * make_quant.c - random layers on 8-bit numbers as tools write them: conversions around layers of float32
 * (QDQ), and ranges found at run time.  QLinearConv and QLinearMatMul, whose sums no run can disturb, are in
 * tests/unit/codegen/test_quantized.c. */
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"
#include "tests/differential/make.h"

/* How a tensor is quantized: its scale and zero point as constants. */
struct grid {
    int scale, zero;
};

/* The zero point lies anywhere, at the ends of its type as well; values beyond the other end are clamped. */
static struct grid grid_of(struct dt_maker *m, moire_dtype type) {
    static const double scales[] = {0.0171, 0.0313, 0.0503, 0.25}, zeros[] = {0, 255, 128, 127, 100, 1};
    double zero = DT_OF(m, zeros) - (type == MOIRE_I8 ? 128 : 0);
    return (struct grid){dt_scalar(m, MOIRE_F32, DT_OF(m, scales)), dt_scalar(m, type, zero)};
}

static moire_dtype pick_type(struct dt_maker *m) {
    return dt_roll(m, 3) ? MOIRE_U8 : MOIRE_I8;
}

static int quantize(struct dt_maker *m, int x, struct grid g) {
    int in[] = {x, g.scale, g.zero};
    return dt_chain(m, "QuantizeLinear", 3, in);
}

static int dequantize(struct dt_maker *m, int q, struct grid g) {
    int in[] = {q, g.scale, g.zero};
    return dt_chain(m, "DequantizeLinear", 3, in);
}

/* To integers, mostly back, and sometimes by a second dequantizer that says the same. */
static void there_and_back(struct dt_maker *m, int x) {
    struct grid g = grid_of(m, pick_type(m));
    int q = quantize(m, x, g);
    if (q < 0 || dt_roll(m, 5) == 0) return;
    dequantize(m, q, g);
    if (dt_roll(m, 4) == 0) dequantize(m, q, g);
}

/* Scales of filters or columns: one, or one for each. */
static int weight_scale(struct dt_maker *m, int64_t n, double fan_in, bool *many) {
    double scale = 0.02 / sqrt(fan_in);
    *many = m->g->opset >= 13 && dt_roll(m, 2);
    return *many ? dt_vector(m, MOIRE_F32, n, scale / 8, scale) : dt_scalar(m, MOIRE_F32, scale);
}

static int weight_zero(struct dt_maker *m, moire_dtype type, int64_t n, bool many) {
    double zero = type == MOIRE_U8 ? 120 + dt_roll(m, 17) : dt_roll(m, 2) ? 0 : dt_roll(m, 9) - 4;
    return many ? dt_vector(m, type, n, 0, zero) : dt_scalar(m, type, zero);
}

struct filter {
    int q, scale, zero, bias;
    int64_t kernel, group;
    bool many;
};

static struct filter filter_of(struct dt_maker *m, const struct mo_shape *x) {
    static const int64_t outs[] = {1, 3, 8, 16, 17, 32};
    int64_t c = x->d[1], o = DT_OF(m, outs);
    struct filter f = {.kernel = dt_roll(m, 2) ? 3 : 1, .group = 1, .bias = -1};
    moire_dtype type = dt_roll(m, 4) ? MOIRE_I8 : MOIRE_U8;
    if (dt_roll(m, 5) == 0) f.group = c, o = c;
    int64_t d[] = {o, c / f.group, f.kernel, f.kernel};
    f.q = dt_const(m, type, 4, d, 40, type == MOIRE_U8 ? 128 : 0);
    f.scale = weight_scale(m, o, (double)(d[1] * d[2] * d[3]), &f.many);
    f.zero = weight_zero(m, type, o, f.many);
    if (dt_roll(m, 2)) f.bias = dt_vector(m, MOIRE_F32, o, 0.5, 0);
    return f;
}

static void window(struct dt_maker *m, struct mo_node *n, const struct filter *f) {
    int64_t pad = f->kernel / 2, pads[] = {pad, pad, pad, pad}, strides[] = {1 + dt_roll(m, 2), 1};
    if (pad && dt_roll(m, 3)) dt_ints(m, n, "pads", 4, pads);
    if (dt_roll(m, 3) == 0) dt_ints(m, n, "strides", 2, strides);
    if (f->group > 1) dt_int(m, n, "group", f->group);
}

/* dequantize, Conv, quantize, dequantize */
static void conv_between(struct dt_maker *m, int x) {
    const struct mo_shape s = *dt_shape(m, x);
    if (s.rank != 4) return;
    struct grid in = grid_of(m, pick_type(m)), out = grid_of(m, pick_type(m));
    int q = quantize(m, x, in), real = dequantize(m, q, in);
    if (real < 0) return;
    struct filter f = filter_of(m, &s);
    int weights[] = {f.q, f.scale, f.zero};
    struct mo_node *w = dt_node(m, "DequantizeLinear", 3, weights, 1);
    if (f.many) dt_int(m, w, "axis", 0);
    if (!dt_keep(m, w)) return;
    m->n_live--; /* a constant: what others made of it, no run would disturb */
    int operands[] = {real, w->out[0], f.bias};
    struct mo_node *conv = dt_node(m, "Conv", f.bias < 0 ? 2 : 3, operands, 1);
    window(m, conv, &f);
    if (!dt_keep(m, conv)) return;
    int y = conv->out[0];
    if (dt_roll(m, 2)) y = dt_chain(m, "Relu", 1, &y);
    dequantize(m, quantize(m, y, out), out);
}

/* Columns as weights: its constant, scale and zero point. */
static struct filter columns_of(struct dt_maker *m, const struct mo_shape *x) {
    static const int64_t widths[] = {1, 5, 16, 17, 32, 48};
    int64_t d[] = {x->d[x->rank - 1], DT_OF(m, widths)};
    moire_dtype type = dt_roll(m, 4) ? MOIRE_I8 : MOIRE_U8;
    struct filter f = {.q = dt_const(m, type, 2, d, 40, type == MOIRE_U8 ? 128 : 0)};
    f.scale = weight_scale(m, d[1], (double)d[0], &f.many);
    f.zero = weight_zero(m, type, d[1], f.many);
    return f;
}

/* dequantize, MatMul, quantize, dequantize; the weights are dequantized, too */
static void product_between(struct dt_maker *m, int x) {
    const struct mo_shape s = *dt_shape(m, x);
    if (s.rank < 2) return;
    struct grid in = grid_of(m, pick_type(m)), out = grid_of(m, pick_type(m));
    int real = dequantize(m, quantize(m, x, in), in);
    if (real < 0) return;
    struct filter f = columns_of(m, &s);
    int weights[] = {f.q, f.scale, f.zero};
    struct mo_node *w = dt_node(m, "DequantizeLinear", 3, weights, 1);
    if (f.many) dt_int(m, w, "axis", 1);
    if (!dt_keep(m, w)) return;
    m->n_live--;
    int operands[] = {real, w->out[0]}, y = dt_chain(m, "MatMul", 2, operands);
    if (y < 0) return;
    int shifted[] = {y, dt_vector(m, MOIRE_F32, dt_shape(m, y)->d[s.rank - 1], 0.5, 0)};
    if (dt_roll(m, 2)) y = dt_chain(m, "Add", 2, shifted);
    if (dt_roll(m, 3) == 0) y = dt_chain(m, "Relu", 1, &y);
    if (dt_roll(m, 4)) dequantize(m, quantize(m, y, out), out);
}

/* Two tensors of 8 bits, made of one, and the operator between conversions. */
static void pair_between(struct dt_maker *m, int x, const char *op) {
    struct grid a = grid_of(m, pick_type(m)), b = grid_of(m, pick_type(m)), out = grid_of(m, pick_type(m));
    int other = dt_chain(m, "Neg", 1, &x);
    if (other < 0) return;
    int in[] = {dequantize(m, quantize(m, x, a), a), dequantize(m, quantize(m, other, b), b)};
    if (in[0] < 0 || in[1] < 0) return;
    struct mo_node *node = dt_node(m, op, 2, in, 1);
    if (!strcmp(op, "Concat")) dt_int(m, node, "axis", 1);
    if (!dt_keep(m, node)) return;
    int y = node->out[0];
    if (dt_roll(m, 2) && strcmp(op, "Concat")) y = dt_chain(m, "Relu", 1, &y);
    dequantize(m, quantize(m, y, out), out);
}

static void sum_between(struct dt_maker *m, int x) {
    pair_between(m, x, "Add");
}

static void join_between(struct dt_maker *m, int x) {
    if (dt_shape(m, x)->rank >= 2) pair_between(m, x, "Concat");
}

/* A pool, or a function of one number, with what it reads and writes in the same 8 bits. */
static void same_between(struct dt_maker *m, int x) {
    static const char *const ops[] = {"MaxPool", "Sigmoid", "LeakyRelu"};
    struct grid g = grid_of(m, pick_type(m));
    const char *op = DT_OF(m, ops);
    int64_t kernel[] = {2, 3}, strides[] = {2, 1}, pads[] = {1, 1, 0, 1};
    if (dt_shape(m, x)->rank != 4 && !strcmp(op, "MaxPool")) op = "Sigmoid";
    int real = dequantize(m, quantize(m, x, g), g);
    if (real < 0) return;
    struct mo_node *node = dt_node(m, op, 1, &real, 1);
    if (!strcmp(op, "MaxPool")) {
        dt_ints(m, node, "kernel_shape", 2, kernel);
        if (dt_roll(m, 2)) dt_ints(m, node, "strides", 2, strides);
        if (dt_roll(m, 2)) dt_ints(m, node, "pads", 4, pads);
    }
    if (dt_keep(m, node)) dequantize(m, quantize(m, node->out[0], g), g);
}

/* The mean over a plane is a factor of all that was averaged. */
static void excite(struct dt_maker *m, int x) {
    if (dt_shape(m, x)->rank != 4) return;
    struct grid in = grid_of(m, pick_type(m)), out = grid_of(m, pick_type(m));
    int real = dequantize(m, quantize(m, x, in), in), mean = dt_chain(m, "GlobalAveragePool", 1, &real);
    if (mean < 0) return;
    int gate = dt_chain(m, "Sigmoid", 1, &mean), factors[] = {real, gate};
    if (gate >= 0) dequantize(m, quantize(m, dt_chain(m, "Mul", 2, factors), out), out);
}

/* DynamicQuantizeLinear, MatMulInteger, Cast, Mul: as transformers are quantized without data.  Of zeros
 * alone ONNX Runtime says another scale than the operator's definition. */
static void dynamic(struct dt_maker *m, int x) {
    const struct mo_shape s = *dt_shape(m, x);
    int away[] = {x, dt_scalar(m, MOIRE_F32, 0.75)};
    if (s.rank < 2 || (x = dt_chain(m, "Add", 2, away)) < 0) return;
    struct mo_node *range = dt_node(m, "DynamicQuantizeLinear", 1, &x, 3);
    if (!dt_keep(m, range)) return;
    struct filter f = columns_of(m, &s);
    int operands[] = {range->out[0], f.q, range->out[2], f.zero};
    int sum = dt_chain(m, "MatMulInteger", 4, operands);
    if (sum < 0) return;
    struct mo_node *cast = dt_node(m, "Cast", 1, &sum, 1);
    dt_int(m, cast, "to", MOIRE_F32);
    if (!dt_keep(m, cast)) return;
    int scales[] = {range->out[1], f.scale}, both = dt_chain(m, "Mul", 2, scales);
    int product[] = {cast->out[0], both};
    dt_chain(m, "Mul", 2, product);
}

const struct dt_kind dt_kinds_quant[] = {
    {"there and back", 4, MO_TYPE(MOIRE_F32), there_and_back},
    {"conv between", 3, MO_TYPE(MOIRE_F32), conv_between},
    {"product between", 3, MO_TYPE(MOIRE_F32), product_between},
    {"sum between", 2, MO_TYPE(MOIRE_F32), sum_between},
    {"join between", 2, MO_TYPE(MOIRE_F32), join_between},
    {"same between", 2, MO_TYPE(MOIRE_F32), same_between},
    {"excite", 2, MO_TYPE(MOIRE_F32), excite},
    {"dynamic", 2, MO_TYPE(MOIRE_F32), dynamic},
    {0},
};
