/* SPDX-License-Identifier: Apache-2.0
 * pass_qoperators.c - operators on small integers become float32 layers between conversions (QDQ form).
 *
 *   QLinearConv, QLinearMatMul     dequantize, Conv or MatMul, quantize
 *   ConvInteger, MatMulInteger     the same product of what remains above the zero points, where a Cast to
 *                                  float32 is all that reads the sum; products of matrices become
 * moire.QMatMul where this machine's kernels multiply bytes DynamicQuantizeLinear          its definition:
 * the range, then scale, zero point and values
 *
 * Constant operands become float32 constants.  Operands with several scales that are not constant, and sums
 * that are read as integers, stay with the reference.  A float32 sum of products of 8-bit numbers is exact up
 * to 2^24 and beyond that as good as the Cast that follows; a result that is rounded to 8 bits again may
 * differ by one step where it lies between two. */
#include <string.h>
#include "codegen/passes/quantizer.h"
#include "runtime/ops/op.h"
#include "runtime/ops/util.h"
#include "variants/conv_geometry.h"

struct rewrite {
    struct mo_graph *g;
    moire_error *err;
    int rc;
    int n_shifted; /* pairs that were subtracted already: several products read one operand */
    struct shifted {
        int a, zero, result;
    } * shifted;
};

/* A small-integer operand: inputs of the node by place; -1: there is none. */
struct operand {
    int q, scale, zero;
    int axis; /* along which a constant has several scales; < 0: from the end */
};

/* --- pieces -------------------------------------------------------------------------------------------- */

static struct mo_tensor *new_tensor(struct rewrite *w, const char *name, moire_dtype dtype,
                                    const struct mo_shape *shape) {
    struct mo_tensor *t = mo_graph_add_tensor(w->g, name, dtype, shape);
    if (!t) w->rc = mo_no_memory(w->err);
    return t;
}

/* y = op(a, b, c), operands -1 from the end on left out; y's number. */
static int add(struct rewrite *w, const char *op, int a, int b, int c, int y) {
    const int in[3] = {a, b, c}, n = 1 + (b >= 0) + (c >= 0);
    struct mo_node *node = w->rc ? NULL : mo_graph_add_node(w->g, w->g->tensors[y]->name, op, "", n, 1);
    if (!node) {
        if (!w->rc) w->rc = mo_no_memory(w->err);
        return y;
    }
    node->op = mo_op_find(op, "");
    memcpy(node->in, in, (size_t)n * sizeof *in);
    node->out[0] = y;
    return y;
}

/* The same with a new result of float32. */
static int floats(struct rewrite *w, const char *op, int a, int b, int c, const struct mo_shape *shape) {
    const struct mo_tensor *y = w->rc ? NULL : new_tensor(w, w->g->tensors[a]->name, MOIRE_F32, shape);
    return y ? add(w, op, a, b, c, y->id) : a;
}

static void set_type(struct rewrite *w, const char *attribute, int64_t value) {
    if (w->rc) return;
    w->rc = mo_set_int(w->g, w->g->nodes[w->g->n_nodes - 1], attribute, value, w->err);
}

static int cast(struct rewrite *w, int from) {
    int y = floats(w, "Cast", from, -1, -1, &w->g->tensors[from]->shape);
    set_type(w, "to", MOIRE_F32);
    return y;
}

static int number(struct rewrite *w, moire_dtype dtype, float value) {
    struct mo_tensor *t =
        w->rc ? NULL : mo_graph_add_const(w->g, "quantized", dtype, &(struct mo_shape){.rank = 0});
    if (!t) {
        if (!w->rc) w->rc = mo_no_memory(w->err);
        return 0;
    }
    if (dtype == MOIRE_F32) *(float *)t->data = value;
    return t->id;
}

/* --- operands ------------------------------------------------------------------------------------------ */

static bool is_static(const struct mo_tensor *t) {
    return t && !t->dynamic && mo_shape_count(&t->shape) > 0;
}

/* Absent, or constant with one element or (`many`) as many as there are along the axis. */
static bool parameter(const struct mo_tensor *t, int64_t many) {
    int64_t n = t ? mo_shape_count(&t->shape) : 1;
    return !t || (t->data && (n == 1 || (n == many && t->shape.rank == 1)));
}

static int axis_of(const struct mo_tensor *t, int axis) {
    return axis < 0 ? axis + t->shape.rank : axis;
}

static bool takes(const struct mo_graph *g, const struct mo_node *node, const struct operand *o) {
    const struct mo_tensor *q = mo_node_in(g, node, o->q);
    if (!is_static(q) || (q->dtype != MOIRE_U8 && q->dtype != MOIRE_I8)) return false;
    int axis = axis_of(q, o->axis);
    int64_t many = q->data && axis >= 0 && axis < q->shape.rank ? q->shape.d[axis] : 1;
    const struct mo_tensor *scale = mo_node_in(g, node, o->scale);
    if (scale && scale->dtype != MOIRE_F32) return false;
    return parameter(scale, many) && parameter(mo_node_in(g, node, o->zero), many);
}

static double at(const struct mo_tensor *t, int64_t i, double absent) {
    if (!t) return absent;
    struct mo_value v = mo_tensor_value(t);
    return mo_load(&v, mo_shape_count(&t->shape) > 1 ? i : 0);
}

/* What a constant stands for, as a new constant of float32. */
static int constant(struct rewrite *w, const struct mo_tensor *q, const struct mo_tensor *scale,
                    const struct mo_tensor *zero, int axis) {
    struct mo_tensor *t = mo_graph_add_const(w->g, q->name, MOIRE_F32, &q->shape);
    if (!t) {
        w->rc = mo_no_memory(w->err);
        return q->id;
    }
    mo_small_floats(&(struct mo_small_weights){q, scale, zero, axis}, t->data);
    return t->id;
}

/* The same as a node, where passes for this machine see to constants (pass_small_weights.c). */
static int unfolded(struct rewrite *w, const struct mo_tensor *q, const struct mo_tensor *scale,
                    const struct mo_tensor *zero, int axis) {
    int y = floats(w, "DequantizeLinear", q->id, scale->id, zero ? zero->id : -1, &q->shape);
    set_type(w, "axis", axis);
    return y;
}

/* The operand in float32. */
static int dequantized(struct rewrite *w, const struct mo_node *node, const struct operand *o) {
    const struct mo_tensor *q = mo_node_in(w->g, node, o->q), *scale = mo_node_in(w->g, node, o->scale),
                           *zero = mo_node_in(w->g, node, o->zero);
    if (w->rc) return q->id;
    if (q->data && w->g->keeps_small && scale && o->axis == 0)
        return unfolded(w, q, scale, zero, axis_of(q, o->axis));
    if (q->data) return constant(w, q, scale, zero, axis_of(q, o->axis));
    return floats(w, "DequantizeLinear", q->id, scale->id, zero ? zero->id : -1, &q->shape);
}

/* --- QLinearConv, QLinearMatMul ------------------------------------------------------------------------ */

static const struct operand linear_a = {0, 1, 2, -2}, linear_w = {3, 4, 5, 0}, linear_b = {3, 4, 5, -1};

static bool one_constant(const struct mo_graph *g, const struct mo_node *node, int i) {
    const struct mo_tensor *t = mo_node_in(g, node, i);
    return t && t->data && mo_shape_count(&t->shape) == 1;
}

/* bias[o] x scale of the input x scale of the filter */
static int bias_of(struct rewrite *w, const struct mo_node *node) {
    const struct mo_tensor *b = mo_node_in(w->g, node, 8), *xs = mo_node_in(w->g, node, 1),
                           *ws = mo_node_in(w->g, node, 4);
    struct mo_tensor *t = !b || w->rc ? NULL : mo_graph_add_const(w->g, b->name, MOIRE_F32, &b->shape);
    if (b && !t && !w->rc) w->rc = mo_no_memory(w->err);
    for (int64_t i = 0; t && i < mo_shape_count(&b->shape); i++)
        ((float *)t->data)[i] = (float)(at(b, i, 0) * (at(xs, 0, 1) * at(ws, i, 1)));
    return t ? t->id : -1;
}

/* The node computes in float32 and writes `y`. */
static void become(struct rewrite *w, struct mo_node *node, const char *op, int a, int b, int c, int y) {
    if (w->rc) return;
    node->op_type = op;
    node->op = mo_op_find(op, "");
    node->in[0] = a;
    node->in[1] = b;
    node->n_in = 2;
    if (c >= 0) node->in[node->n_in++] = c; /* there was room for more */
    node->out[0] = y;
}

static void rewrite_linear(struct rewrite *w, struct mo_node *node, bool conv) {
    const struct mo_graph *g = w->g;
    const struct operand *right = conv ? &linear_w : &linear_b;
    const struct mo_tensor *bias = conv ? mo_node_in(g, node, 8) : NULL;
    if (!takes(g, node, &linear_a) || !takes(g, node, right) || (conv && !mo_node_in(g, node, 3)->data))
        return;
    if (!one_constant(g, node, 6) || !one_constant(g, node, 7) || (bias && !bias->data)) return;
    if (!is_static(g->tensors[node->out[0]]) || mo_node_in(g, node, 6)->dtype != MOIRE_F32) return;
    const int q = node->out[0], scale = node->in[6], zero = node->in[7];
    const int a = dequantized(w, node, &linear_a), b = dequantized(w, node, right), c = bias_of(w, node);
    const struct mo_tensor *y = new_tensor(w, g->tensors[q]->name, MOIRE_F32, &g->tensors[q]->shape);
    if (y) become(w, node, conv ? "Conv" : "MatMul", a, b, bias ? c : -1, y->id);
    if (y) add(w, "QuantizeLinear", y->id, scale, zero, q);
}

/* --- ConvInteger, MatMulInteger ------------------------------------------------------------------------ */

/* An operand that is known at run time, less its zero point; once for all that read them. */
static int shifted(struct rewrite *w, const struct mo_tensor *a, const struct mo_tensor *zero) {
    for (int i = 0; i < w->n_shifted; i++)
        if (w->shifted[i].a == a->id && w->shifted[i].zero == (zero ? zero->id : -1))
            return w->shifted[i].result;
    int y = cast(w, a->id);
    int from = !zero ? -1 : zero->data ? number(w, MOIRE_F32, (float)at(zero, 0, 0)) : cast(w, zero->id);
    if (zero) y = floats(w, "Sub", y, from, -1, &a->shape);
    w->shifted[w->n_shifted++] = (struct shifted){a->id, zero ? zero->id : -1, y};
    return y;
}

/* The node as moire.QMatMul, where 8-bit numbers are what this machine multiplies: sums as float32. */
static bool small_product(struct rewrite *w, struct mo_node *node, const struct mo_tensor *a,
                          const struct mo_tensor *b, const struct mo_tensor *zero, int result) {
    struct mo_graph *g = w->g;
    struct mo_small_weights small = {b, NULL, mo_node_in(g, node, 3), 1};
    struct mo_tensor turned = *b;
    struct mo_conv c = {.x = a, .weights = &turned, .y = g->tensors[result]};
    if (!g->keeps_small || a->dtype != MOIRE_U8 || b->shape.rank != 2) return false;
    turned.shape.d[0] = b->shape.d[1], turned.shape.d[1] = b->shape.d[0];
    if (!mo_qmatmul_shapes(&c)) return false;
    const struct mo_tensor *centred = mo_small_centred(g, &small, &w->rc, w->err);
    if (!centred) return w->rc != MOIRE_OK;
    const struct mo_tensor *weights = mo_small_turned(g, centred);
    struct mo_tensor *ones =
        mo_graph_add_const(g, "factor", MOIRE_F32, &(struct mo_shape){.rank = 1, .d = {c.o}});
    int *in = mo_region_array(g->region, MO_QCONV_INPUTS + 1, sizeof *in);
    if (!weights || !ones || !in) {
        w->rc = mo_no_memory(w->err);
        return true;
    }
    for (int64_t i = 0; i < c.o; i++)
        ((float *)ones->data)[i] = 1;
    in[MO_QCONV_X] = a->id, in[MO_QCONV_WEIGHTS] = weights->id, in[MO_QCONV_FACTOR] = ones->id;
    in[MO_QCONV_BIAS] = in[MO_QCONV_INPUTS] = -1;
    in[MO_QCONV_X_ZERO] = zero ? zero->id : -1;
    node->in = in;
    node->n_in = zero ? MO_QCONV_INPUTS : MO_QCONV_BIAS;
    node->op_type = "QMatMul", node->domain = "moire", node->op = mo_op_find("QMatMul", "moire");
    node->out[0] = result;
    w->rc = mo_set_int(g, node, "x_zero", 0, w->err); /* queries bring it */
    if (!w->rc) w->rc = mo_set_int(g, node, "to", MOIRE_F32, w->err);
    return true;
}

static void rewrite_integer(struct rewrite *w, struct mo_node *node, bool conv) {
    const struct mo_graph *g = w->g;
    const struct operand right = {1, -1, 3, conv ? 0 : -1};
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1),
                           *zero = mo_node_in(g, node, 2);
    struct mo_node *reader = mo_graph_sole_consumer(g, node->out[0]);
    if (!reader || !mo_is(reader, "Cast") || mo_attr_int(reader, "to", 0) != MOIRE_F32) return;
    if (!is_static(a) || a->data || !b->data || !takes(g, node, &right)) return;
    if (zero && mo_shape_count(&zero->shape) != 1) return;
    if (!is_static(g->tensors[reader->out[0]])) return;
    if (conv || !small_product(w, node, a, b, zero, reader->out[0])) {
        const int x = shifted(w, a, zero), weights = dequantized(w, node, &right);
        become(w, node, conv ? "Conv" : "MatMul", x, weights, -1, reader->out[0]);
    }
    if (!w->rc) reader->dead = true;
}

/* --- DynamicQuantizeLinear ----------------------------------------------------------------------------- */

/* The range holds 0; a tensor of zeros has scale and zero point 0, which makes NaN, and NaN becomes 0. */
static void rewrite_dynamic(struct rewrite *w, struct mo_node *node) {
    const struct mo_shape scalar = {.rank = 0};
    const struct mo_tensor *x = mo_node_in(w->g, node, 0);
    if (!is_static(x) || x->dtype != MOIRE_F32 || node->n_out != 3) return;
    for (int k = 0; k < 3; k++)
        if (node->out[k] < 0) return;
    const int none = number(w, MOIRE_F32, 0), one = number(w, MOIRE_F32, 1), u8 = number(w, MOIRE_U8, 0);
    int low = floats(w, "ReduceMin", x->id, -1, -1, &scalar);
    set_type(w, "keepdims", 0);
    int high = floats(w, "ReduceMax", x->id, -1, -1, &scalar);
    set_type(w, "keepdims", 0);
    low = floats(w, "Min", low, none, -1, &scalar);
    high = floats(w, "Max", high, none, -1, &scalar);
    const int span = floats(w, "Sub", high, low, -1, &scalar), scale = node->out[1];
    add(w, "Div", span, number(w, MOIRE_F32, 255), -1, scale);
    const int zero = floats(w, "Div", floats(w, "Neg", low, -1, -1, &scalar), scale, -1, &scalar);
    add(w, "QuantizeLinear", zero, one, u8, node->out[2]);
    int y = floats(w, "Round", floats(w, "Div", x->id, scale, -1, &x->shape), -1, -1, &x->shape);
    y = floats(w, "Add", y, cast(w, node->out[2]), -1, &x->shape);
    add(w, "QuantizeLinear", y, one, u8, node->out[0]);
    if (!w->rc) node->dead = true;
}

int mo_pass_qoperators(struct mo_graph *g, moire_error *err) {
    struct rewrite w = {.g = g, .err = err};
    const int n = g->n_nodes;
    w.shifted = mo_region_array(g->region, (size_t)n + 1, sizeof *w.shifted);
    if (!w.shifted) return mo_no_memory(err);
    for (int i = 0; i < n && !w.rc; i++) {
        struct mo_node *node = g->nodes[i];
        if (node->dead) continue;
        bool conv = mo_is(node, "QLinearConv") || mo_is(node, "ConvInteger");
        if (mo_is(node, "QLinearConv") || mo_is(node, "QLinearMatMul")) rewrite_linear(&w, node, conv);
        if (mo_is(node, "ConvInteger") || mo_is(node, "MatMulInteger")) rewrite_integer(&w, node, conv);
        if (mo_is(node, "DynamicQuantizeLinear")) rewrite_dynamic(&w, node);
    }
    return w.rc;
}
