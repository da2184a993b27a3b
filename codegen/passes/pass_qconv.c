/* SPDX-License-Identifier: Apache-2.0
 * pass_qconv.c - convolutions between conversions become moire.QConv, which computes with 8-bit numbers.
 *
 *   DequantizeLinear(x)  -+
 *   DequantizeLinear(w)  -+- Conv - [Activation] - [QuantizeLinear]
 *
 * Without the last the result is float32.  Scales of the filter may differ from channel to channel, its zero
 * points go into the filter; x has one scale.  Filters that no such convolution reads become float32. */
#include "codegen/passes/quantizer.h"
#include "runtime/ops/op.h"
#include "variants/conv_geometry.h"

struct match {
    struct mo_quantizer x, y;
    struct mo_small_weights w;
    const struct mo_tensor *centred, *bias;
    struct mo_node *act, *after; /* what follows and is taken in, or NULL */
};

static bool constant_bias(const struct mo_tensor *b, int64_t channels) {
    return !b || (b->data && b->dtype == MOIRE_F32 && mo_shape_count(&b->shape) == channels);
}

static bool find(const struct mo_graph *g, const struct mo_node *conv, struct match *m) {
    struct mo_conv c = {.x = mo_node_in(g, conv, 0), .weights = mo_node_in(g, conv, 1)};
    if (conv->dead || !mo_is(conv, "Conv") || conv->n_in < 2 || conv->n_out != 1 || conv->fuse.gated ||
        conv->fuse.residual >= 0 || conv->fuse.act != MO_ACT_NONE)
        return false;
    c.y = mo_node_out(g, conv, 0);
    if (!mo_quantizer_of(g, mo_producer(g, conv->in[0]), "DequantizeLinear", &m->x) ||
        m->x.dtype != MOIRE_U8 || !mo_small_weights_of(g, mo_producer(g, conv->in[1]), &m->w))
        return false;
    m->bias = mo_node_in(g, conv, 2);
    bool one = mo_shape_count(&m->w.scale->shape) == 1 && (!m->w.zero || mo_shape_count(&m->w.zero->shape) == 1);
    return mo_qconv_shapes(conv, &c) && (one || m->w.axis == 0) && constant_bias(m->bias, c.o);
}

/* The nodes behind it that it takes in. */
static void find_next(const struct mo_graph *g, const struct mo_node *conv, struct match *m) {
    struct mo_node *next = mo_graph_sole_consumer(g, conv->out[0]);
    m->act = next && mo_is_moire(next, "Activation") ? next : NULL;
    if (m->act) next = mo_graph_sole_consumer(g, m->act->out[0]);
    m->after = next && mo_quantizer_of(g, next, "QuantizeLinear", &m->y) ? next : NULL;
}

static int set_number(struct mo_graph *g, struct mo_node *node, const char *name, int64_t i, moire_error *err) {
    struct mo_attr *attr = mo_node_add_attr(g, node, name, MO_ATTR_INT);
    if (!attr) return mo_no_memory(err);
    attr->i = i;
    return MOIRE_OK;
}

static int set_attributes(struct mo_graph *g, struct mo_node *node, const struct match *m, moire_error *err) {
    int rc = set_number(g, node, "x_zero", m->x.zero, err);
    if (!rc) rc = set_number(g, node, "to", m->after ? m->y.dtype : MOIRE_F32, err);
    if (rc || !m->after) return rc;
    struct mo_attr *scale = mo_node_add_attr(g, node, "y_scale", MO_ATTR_FLOAT);
    if (!scale) return mo_no_memory(err);
    scale->f = m->y.scale;
    return set_number(g, node, "y_zero", m->y.zero, err);
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
    in[MO_QCONV_BIAS] = m->bias ? m->bias->id : -1, in[MO_QCONV_INPUTS] = -1;
    conv->in = in;
    conv->n_in = m->bias ? MO_QCONV_INPUTS : MO_QCONV_BIAS;
    conv->op_type = "QConv", conv->domain = "moire";
    conv->op = mo_op_find("QConv", "moire");
    if (!conv->op) return mo_fail(err, MOIRE_EINTERNAL, "no operator moire.QConv");
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
        struct mo_node *weights = mo_producer(g, g->nodes[i]->in[1]);
        rc = rewrite(g, g->nodes[i], &m, err);
        weights->dead = true; /* nobody else reads it: pass_small_weights.c left it for that */
    }
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) rc = mo_small_weights_unfold(g, g->nodes[i], err);
    return rc;
}
