/* SPDX-License-Identifier: Apache-2.0
 * pass_excite.c - the last step of squeeze and excite: x * s, with s one value a channel and image, read by
 * one 1x1 convolution only.  The convolution becomes a gated one: its kernel multiplies the weights, not x.
 *
 * That is less to multiply where there are fewer outputs than pixels, and x is not written once more. */
#include "codegen/passes/passes.h"

/* Whether s is [N,C,1,1] to the x of [N,C,H,W]. */
static bool is_gate(const struct mo_tensor *s, const struct mo_tensor *x) {
    return mo_is_f32(s) && mo_is_f32(x) && !s->data && !x->data && s->shape.rank == 4 && x->shape.rank == 4 &&
           s->shape.d[0] == x->shape.d[0] && s->shape.d[1] == x->shape.d[1] &&
           s->shape.d[2] * s->shape.d[3] == 1 && x->shape.d[2] * x->shape.d[3] > 1;
}

/* A 1x1 convolution over all channels of `product`, with fewer outputs than there are pixels. */
static bool takes_gate(const struct mo_graph *g, const struct mo_node *conv, int product) {
    if (!mo_is(conv, "Conv") || conv->n_in < 2 || conv->in[0] != product || conv->fuse.gated) return false;
    const struct mo_tensor *w = g->tensors[conv->in[1]], *x = g->tensors[product];
    return mo_is_f32(w) && w->data && w->shape.rank == 4 && w->shape.d[1] == x->shape.d[1] &&
           w->shape.d[2] * w->shape.d[3] == 1 && w->shape.d[0] < x->shape.d[2] * x->shape.d[3];
}

/* x, weights, bias, residual, gate. */
static int rewrite(struct mo_graph *g, struct mo_node *conv, int x, int s, moire_error *err) {
    int residual = conv->fuse.residual, bias = conv->n_in > 2 && residual != 2 ? conv->in[2] : -1;
    int *in = mo_region_array(g->region, MO_GATE_IN + 2, sizeof *in);
    if (!in) return mo_no_memory(err);
    in[0] = x, in[1] = conv->in[1], in[2] = bias, in[3] = residual >= 0 ? conv->in[residual] : -1;
    in[MO_GATE_IN] = s, in[MO_GATE_IN + 1] = -1;
    conv->in = in;
    conv->n_in = MO_GATE_IN + 1;
    if (residual >= 0) conv->fuse.residual = 3;
    conv->fuse.gated = true;
    return MOIRE_OK;
}

int mo_pass_excite(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *mul = g->nodes[i];
        if (mul->dead || !mo_is(mul, "Mul") || mul->n_in != 2 || mul->fuse.act != MO_ACT_NONE) continue;
        struct mo_node *conv = mo_graph_sole_consumer(g, mul->out[0]);
        if (!conv || !takes_gate(g, conv, mul->out[0])) continue;
        for (int k = 0; k < 2; k++) {
            if (!is_gate(g->tensors[mul->in[1 - k]], g->tensors[mul->in[k]])) continue;
            int rc = rewrite(g, conv, mul->in[k], mul->in[1 - k], err);
            if (rc) return rc;
            mul->dead = true;
            break;
        }
    }
    return MOIRE_OK;
}
