/* SPDX-License-Identifier: Apache-2.0
 * pass_carry.c - scales and shifts that come after an activation, where the affine pass cannot reach them.
 *
 * back: c * act(z) is act'(c z) for the piecewise linear activations (c > 0) and for hard swish (any c but 0:
 * the slope of its gate is divided by c), so a scalar factor goes into the weights before the activation.
 * forward: a per-channel scale and shift read by one conv only goes into that conv: the scale into its input
 * channels, the shift through the weights into its bias.  The shift needs a conv without padding, since
 * padding is zero after the shift, not before it. */
#include "codegen/passes/affine.h"

/* Activation of c * x, if there is one. */
static bool scale_activation(const struct mo_fuse *from, float c, struct mo_fuse *to) {
    *to = *from;
    switch (from->act) {
    case MO_ACT_NONE:
        return true;
    case MO_ACT_RELU:
    case MO_ACT_LEAKY:
        return c > 0;
    case MO_ACT_CLIP:
        to->a *= c;
        to->b *= c;
        return c > 0;
    case MO_ACT_HSWISH:
        to->a /= c;
        return c != 0;
    default:
        return false;
    }
}

static bool product_layer(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *w = mo_node_in(g, node, 1), *b = mo_node_in(g, node, 2);
    if (!mo_is(node, "Conv") && !mo_is(node, "ConvTranspose") && !mo_is_moire(node, "MatMul")) return false;
    if (!mo_is_f32(w) || !w->data || (mo_is_moire(node, "MatMul") && w->shape.rank != 2)) return false;
    return node->fuse.residual < 0 && (!b || (mo_is_f32(b) && b->data && b->shape.rank == 1));
}

static bool uniform(const struct mo_affine *f) {
    for (int64_t i = 0; i < f->n; i++)
        if (f->s[i] != f->s[0] || f->t[i] != 0) return false;
    return f->n > 0;
}

static bool allocate(struct mo_region *tmp, int64_t n, struct mo_affine *f) {
    f->n = n;
    f->s = mo_region_array(tmp, (size_t)n, sizeof(float));
    f->t = mo_region_array(tmp, (size_t)n, sizeof(float));
    return f->s && f->t;
}

static int carry_back(struct mo_graph *g, struct mo_node *node, struct mo_region *tmp, moire_error *err) {
    struct mo_affine f;
    struct mo_fuse fuse;
    if (!product_layer(g, node)) return MOIRE_OK;
    const struct mo_tensor *y = g->tensors[node->out[0]];
    struct mo_node *next = mo_graph_sole_consumer(g, y->id);
    int axis = mo_is_moire(node, "MatMul") ? y->shape.rank - 1 : 1;
    if (!next || next->n_out != 1 || !mo_is_f32(y) || y->shape.rank < 2) return MOIRE_OK;
    if (!allocate(tmp, y->shape.d[axis], &f)) return mo_no_memory(err);
    if (!mo_affine_of(g, next, y->id, axis, &f) || !uniform(&f) ||
        !scale_activation(&node->fuse, f.s[0], &fuse))
        return MOIRE_OK;
    int rc = mo_scale_weights(g, node, &f, err);
    if (!rc) rc = mo_shift_bias(g, node, &f, err);
    if (rc) return rc;
    node->fuse = fuse;
    node->out[0] = next->out[0];
    g->tensors[node->out[0]]->producer = node->id;
    next->dead = true;
    return MOIRE_OK;
}

/* --- forward ------------------------------------------------------------------------------------------- */

static bool has_pads(const struct mo_node *conv) {
    int64_t pads[2 * MOIRE_MAX_RANK] = {0};
    int n = mo_attr_ints(conv, "pads", pads, 2 * MOIRE_MAX_RANK);
    for (int i = 0; i < n && i < 2 * MOIRE_MAX_RANK; i++)
        if (pads[i]) return true;
    return n > 2 * MOIRE_MAX_RANK;
}

static bool shifts(const struct mo_affine *f) {
    for (int64_t i = 0; i < f->n; i++)
        if (f->t[i] != 0) return true;
    return false;
}

/* W'[o][i] = W[o][i] s[channel of i]; shift[o] = sum of W[o][i] t[channel of i]. */
static int push_through(struct mo_graph *g, struct mo_node *conv, const struct mo_affine *f,
                        struct mo_affine *out, moire_error *err) {
    const struct mo_tensor *w = mo_node_in(g, conv, 1);
    int64_t o = w->shape.d[0], per_group = w->shape.d[1], group = mo_attr_int(conv, "group", 1), taps = 1;
    for (int d = 2; d < w->shape.rank; d++)
        taps *= w->shape.d[d];
    const uint64_t as = mo_content_of("carried", &w->content, 1, &group, sizeof group);
    struct mo_tensor *scaled = mo_derive_constant(
        g, w, w->name, &w->shape, mo_content_of("carried", &as, 1, f->s, (size_t)f->n * sizeof *f->s));
    if (!scaled) return mo_no_memory(err);
    const bool elided = mo_packed_elided(g, w);
    if (elided && shifts(f))
        return mo_fail(err, MOIRE_ESTORE, "a bias is computed from weights that are elided");
    for (int64_t i = 0; i < o && !elided; i++) {
        double shift = 0;
        for (int64_t j = 0; j < per_group * taps; j++) {
            int64_t channel = i / (o / group) * per_group + j / taps, at = i * per_group * taps + j;
            float weight = ((const float *)w->data)[at];
            ((float *)scaled->data)[at] = weight * f->s[channel];
            shift += (double)weight * f->t[channel];
        }
        out->s[i] = 1;
        out->t[i] = (float)shift;
    }
    mo_drop_constant(g, w->id);
    conv->in[1] = scaled->id;
    return MOIRE_OK;
}

static bool takes_forward(const struct mo_graph *g, const struct mo_node *conv, const struct mo_tensor *x) {
    const struct mo_tensor *w = mo_is(conv, "Conv") ? mo_node_in(g, conv, 1) : NULL,
                           *b = w ? mo_node_in(g, conv, 2) : NULL;
    int64_t group = mo_attr_int(conv, "group", 1);
    if (!w || !mo_is_f32(w) || !w->data || x->shape.rank < 3 || w->shape.rank != x->shape.rank) return false;
    if (b && (conv->fuse.residual == 2 || !mo_is_f32(b) || !b->data || b->shape.rank != 1)) return false;
    return group > 0 && w->shape.d[0] >= group && w->shape.d[0] % group == 0 &&
           w->shape.d[1] * group == x->shape.d[1];
}

/* The operand of `node` that is no constant. */
static int variable_input(const struct mo_graph *g, const struct mo_node *node) {
    if (node->n_in < 1 || node->in[0] < 0) return -1;
    return g->tensors[node->in[0]]->data && node->n_in > 1 ? node->in[1] : node->in[0];
}

/* shift_bias() makes room for three inputs only; a fused residual behind them is kept here. */
static int add_bias(struct mo_graph *g, struct mo_node *conv, const struct mo_affine *f, moire_error *err) {
    int residual = conv->fuse.residual >= 0 ? conv->in[conv->fuse.residual] : -1;
    int rc = mo_shift_bias(g, conv, f, err);
    if (rc || residual < 0) return rc;
    int *in = mo_region_array(g->region, 5, sizeof *in);
    if (!in) return mo_no_memory(err);
    for (int k = 0; k < 3; k++)
        in[k] = conv->in[k];
    in[3] = residual;
    in[4] = -1;
    conv->in = in;
    conv->n_in = 4;
    conv->fuse.residual = 3;
    return MOIRE_OK;
}

static int carry_forward(struct mo_graph *g, struct mo_node *node, struct mo_region *tmp, moire_error *err) {
    int id = node->n_out == 1 && node->n_in == 2 ? variable_input(g, node) : -1;
    const struct mo_tensor *x = id < 0 ? NULL : g->tensors[id];
    struct mo_node *conv = x ? mo_graph_sole_consumer(g, node->out[0]) : NULL;
    struct mo_affine f, through;
    if (!mo_is_f32(x) || !conv || conv->in[0] != node->out[0] || !takes_forward(g, conv, x)) return MOIRE_OK;
    if (!allocate(tmp, x->shape.d[1], &f) || !allocate(tmp, g->tensors[conv->in[1]]->shape.d[0], &through))
        return mo_no_memory(err);
    if (!mo_affine_of(g, node, id, 1, &f) || (shifts(&f) && has_pads(conv))) return MOIRE_OK;
    int rc = push_through(g, conv, &f, &through, err);
    if (!rc && shifts(&f)) rc = add_bias(g, conv, &through, err);
    if (rc) return rc;
    conv->in[0] = id;
    node->dead = true;
    return MOIRE_OK;
}

int mo_pass_carry(struct mo_graph *g, moire_error *err) {
    struct mo_region *tmp = mo_region_create(g->env);
    if (!tmp) return mo_no_memory(err);
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) rc = carry_back(g, g->nodes[i], tmp, err);
    /* last to first, so that a scale and a shift behind it both reach the conv */
    for (int i = g->n_nodes - 1; !rc && i >= 0; i--)
        if (!g->nodes[i]->dead) rc = carry_forward(g, g->nodes[i], tmp, err);
    mo_region_destroy(tmp);
    return rc;
}
