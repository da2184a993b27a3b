/* SPDX-License-Identifier: Apache-2.0
 * pass_fuse.c - activations and residual adds go into the epilogue (struct mo_fuse) of the layer before them.
 *
 * A layer takes, in turn, its only reader: an Activation while it has none, an Add with a tensor of the same
 * shape while it has no residual.  After an activation the residual comes last, and nothing follows it.
 * The other operand of the Add cannot depend on the layer, whose only reader the Add is; where two layers
 * could take the Add, the later one does, so that the other is ready. */
#include "codegen/passes/passes.h"

static bool takes_epilogue(const struct mo_graph *g, const struct mo_node *node) {
    bool product = mo_is(node, "Conv") || mo_is(node, "ConvTranspose") || mo_is_moire(node, "MatMul");
    return (product || mo_is(node, "Add")) && node->n_out == 1 && mo_is_f32(g->tensors[node->out[0]]);
}

static void take_output(struct mo_graph *g, struct mo_node *node, struct mo_node *next) {
    node->out[0] = next->out[0];
    g->tensors[node->out[0]]->producer = node->id;
    next->dead = true;
}

static bool take_activation(struct mo_graph *g, struct mo_node *node, struct mo_node *next) {
    if (!mo_is_moire(next, "Activation") || node->fuse.act != MO_ACT_NONE || node->fuse.residual_last)
        return false;
    node->fuse.act = next->fuse.act;
    node->fuse.a = next->fuse.a;
    node->fuse.b = next->fuse.b;
    take_output(g, node, next);
    return true;
}

/* The tensor is there when `node` runs. */
static bool ready_before(const struct mo_graph *g, int tensor, const struct mo_node *node) {
    return g->tensors[tensor]->producer < node->id;
}

static bool is_sum(const struct mo_node *node) {
    return mo_is(node, "Add") || (mo_is(node, "Sum") && node->n_in == 2);
}

static bool take_residual(struct mo_graph *g, struct mo_node *node, struct mo_node *next, moire_error *err,
                          int *rc) {
    if (!is_sum(next) || mo_is(node, "Add") || node->fuse.residual >= 0 || next->fuse.act != MO_ACT_NONE)
        return false;
    int other = next->in[0] == node->out[0] ? next->in[1] : next->in[0];
    const struct mo_tensor *r = g->tensors[other], *y = g->tensors[next->out[0]];
    if (other == node->out[0] || !mo_is_f32(r) || r->data || !mo_shape_equal(&r->shape, &y->shape))
        return false;
    if (!mo_shape_equal(&y->shape, &g->tensors[node->out[0]]->shape) || !ready_before(g, other, node))
        return false;
    int at = node->n_in < 3 ? 3 : node->n_in; /* behind the bias, given or not */
    int *in = mo_region_array(g->region, (size_t)at + 2, sizeof *in);
    if (!in) {
        *rc = mo_no_memory(err);
        return false;
    }
    for (int k = 0; k <= at + 1; k++)
        in[k] = k < node->n_in ? node->in[k] : -1;
    in[at] = other;
    node->in = in;
    node->n_in = at + 1;
    node->fuse.residual = at;
    node->fuse.residual_last = node->fuse.act != MO_ACT_NONE;
    take_output(g, node, next);
    return true;
}

int mo_pass_fuse(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        if (node->dead || !takes_epilogue(g, node)) continue;
        for (bool more = true; more && !rc;) {
            struct mo_node *next = mo_graph_sole_consumer(g, node->out[0]);
            more = next && (take_activation(g, node, next) || take_residual(g, node, next, err, &rc));
        }
    }
    return rc;
}
