/* SPDX-License-Identifier: Apache-2.0
 * pass_qconv.c - convolutions and products between conversions become moire.QConv and QMatMul, which compute
 * with 8-bit numbers.
 *
 *   DequantizeLinear(x)  -+
 *   DequantizeLinear(w)  -+- Conv, MatMul, Gemm - [Add, of products] - [Activation] - [QuantizeLinear]
 *
 * Without the last the result is float32.  Scales of the filter may differ from channel to channel, its zero
 * points go into the filter; x has one scale.  Filters that no such convolution reads become float32. */
#include "codegen/passes/quantizer.h"
#include "runtime/ops/op.h"
#include "variants/conv_geometry.h"

struct match {
    bool rows; /* a product of matrices */
    struct mo_quantizer x, y;
    struct mo_small_weights w;
    const struct mo_tensor *centred, *bias;
    struct mo_node *add, *act, *after; /* what follows and is taken in, or NULL */
};

static bool is_product(const struct mo_node *node) {
    bool plain = mo_attr_float(node, "alpha", 1) == 1 && mo_attr_float(node, "beta", 1) == 1 &&
                 !mo_attr_int(node, "transA", 0);
    return mo_is(node, "MatMul") || mo_is_moire(node, "MatMul") || (mo_is(node, "Gemm") && plain);
}

static bool constant_bias(const struct mo_tensor *b, int64_t channels) {
    if (!b) return true;
    bool row = b->shape.rank > 0 && b->shape.d[b->shape.rank - 1] == channels;
    return b->data && b->dtype == MOIRE_F32 && row && mo_shape_count(&b->shape) == channels;
}

/* Filters have outputs first; right operands have them last, but for those of a Gemm that transposes them. */
static int output_axis(const struct mo_node *node, bool rows) {
    return rows && !mo_attr_int(node, "transB", 0);
}

static bool fits(const struct mo_graph *g, const struct mo_node *node, struct match *m) {
    struct mo_conv c = {.x = g->tensors[m->x.from], .weights = m->w.q, .y = mo_node_out(g, node, 0)};
    int axis = output_axis(node, m->rows);
    bool one =
        mo_shape_count(&m->w.scale->shape) == 1 && (!m->w.zero || mo_shape_count(&m->w.zero->shape) == 1);
    if ((!one && m->w.axis != axis) || !c.y) return false;
    m->bias = mo_node_in(g, node, 2);
    if (!m->rows) return mo_qconv_shapes(node, &c) && constant_bias(m->bias, c.o);
    struct mo_tensor turned = *c.weights;
    if (turned.shape.rank != 2) return false;
    turned.shape.d[0] = c.weights->shape.d[axis], turned.shape.d[1] = c.weights->shape.d[!axis];
    c.weights = &turned;
    return mo_qmatmul_shapes(&c) && constant_bias(m->bias, c.o);
}

static bool find(const struct mo_graph *g, const struct mo_node *node, struct match *m) {
    m->rows = is_product(node);
    if (node->dead || !(m->rows || mo_is(node, "Conv")) || node->n_in < 2 || node->n_out != 1 ||
        node->in[0] < 0 || node->in[1] < 0 || node->fuse.gated || node->fuse.residual >= 0 ||
        node->fuse.act != MO_ACT_NONE)
        return false;
    return mo_quantizer_of(g, mo_producer(g, node->in[0]), "DequantizeLinear", &m->x) &&
           m->x.dtype == MOIRE_U8 && mo_small_weights_of(g, mo_producer(g, node->in[1]), &m->w) &&
           fits(g, node, m);
}

/* The nodes behind it that it takes in. */
static void find_next(const struct mo_graph *g, const struct mo_node *node, struct match *m) {
    struct mo_node *next = mo_graph_sole_consumer(g, node->out[0]);
    const struct mo_shape *y = &g->tensors[node->out[0]]->shape;
    if (m->rows && !m->bias && next && mo_is(next, "Add") && next->fuse.act == MO_ACT_NONE) {
        const struct mo_tensor *b = g->tensors[next->in[next->in[0] == node->out[0]]];
        if (constant_bias(b, y->d[y->rank - 1]) && b->shape.rank <= y->rank) m->bias = b, m->add = next;
    }
    if (m->add) next = mo_graph_sole_consumer(g, m->add->out[0]);
    m->act = next && mo_is_moire(next, "Activation") ? next : NULL;
    if (m->act) next = mo_graph_sole_consumer(g, m->act->out[0]);
    m->after = next && mo_quantizer_of(g, next, "QuantizeLinear", &m->y) ? next : NULL;
}

static int set_attributes(struct mo_graph *g, struct mo_node *node, const struct match *m, moire_error *err) {
    int rc = mo_set_int(g, node, "x_zero", m->x.zero, err);
    if (!rc) rc = mo_set_int(g, node, "to", m->after ? m->y.dtype : MOIRE_F32, err);
    if (!rc && m->after) rc = mo_set_float(g, node, "y_scale", m->y.scale, err);
    if (!rc && m->after) rc = mo_set_int(g, node, "y_zero", m->y.zero, err);
    return rc;
}

static int rewrite(struct mo_graph *g, struct mo_node *conv, const struct match *m, moire_error *err) {
    const int64_t channels = m->centred->shape.d[0];
    struct mo_tensor *factor =
        mo_graph_add_const(g, "factor", MOIRE_F32, &(struct mo_shape){.rank = 1, .d = {channels}});
    int *in = mo_region_array(g->region, MO_QCONV_INPUTS + 1, sizeof *in);
    if (!factor || !in) return mo_no_memory(err);
    for (int64_t i = 0; i < channels; i++)
        ((float *)factor->data)[i] = m->x.scale * mo_small_scale(&m->w, i);
    in[MO_QCONV_X] = m->x.from, in[MO_QCONV_WEIGHTS] = m->centred->id, in[MO_QCONV_FACTOR] = factor->id;
    in[MO_QCONV_BIAS] = m->bias ? m->bias->id : -1, in[MO_QCONV_INPUTS] = in[MO_QCONV_X_ZERO] = -1;
    conv->in = in;
    conv->n_in = m->bias ? MO_QCONV_X_ZERO : MO_QCONV_BIAS;
    conv->op_type = m->rows ? "QMatMul" : "QConv", conv->domain = "moire";
    conv->op = mo_op_find(conv->op_type, "moire");
    if (!conv->op) return mo_fail(err, MOIRE_EINTERNAL, "no operator moire.QConv");
    if (m->add) {
        conv->out[0] = m->add->out[0];
        m->add->dead = true;
    }
    if (m->act) {
        conv->fuse.act = m->act->fuse.act, conv->fuse.a = m->act->fuse.a, conv->fuse.b = m->act->fuse.b;
        conv->out[0] = m->act->out[0];
        m->act->dead = true;
    }
    if (m->after) {
        conv->out[0] = m->after->out[0];
        m->after->dead = true;
    }
    return set_attributes(g, conv, m, err);
}

int mo_pass_qconv(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0, n = g->n_nodes; !rc && i < n; i++) {
        struct match m = {0};
        if (!find(g, g->nodes[i], &m)) continue;
        m.centred = mo_small_centred(g, &m.w, &rc, err);
        if (!m.centred) continue;
        find_next(g, g->nodes[i], &m);
        if (output_axis(g->nodes[i], m.rows)) m.centred = mo_small_turned(g, m.centred);
        if (!m.centred) return mo_no_memory(err);
        struct mo_node *weights = mo_producer(g, g->nodes[i]->in[1]);
        rc = rewrite(g, g->nodes[i], &m, err);
        weights->dead = true; /* nobody else reads it: pass_small_weights.c left it for that */
    }
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) rc = mo_small_weights_unfold(g, g->nodes[i], err);
    return rc;
}
