/* SPDX-License-Identifier: Apache-2.0
 * pass_layer.c - gives a graph without layers one.
 *
 * Outputs that are inputs or constants need no work, but queries run as blocks of at least one layer, and
 * profiles have at least one. An Identity that nobody reads is that layer. */
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

int mo_pass_layer(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->dead) return MOIRE_OK;
    const struct mo_tensor *from = g->n_outputs ? g->tensors[g->outputs[0]] : NULL;
    if (!from) return MOIRE_OK;
    struct mo_node *node = mo_graph_add_node(g, "no layers", "Identity", "", 1, 1);
    struct mo_tensor *to = node ? mo_graph_add_tensor(g, "unread", from->dtype, &from->shape) : NULL;
    if (!to) return mo_no_memory(err);
    node->op = mo_op_find("Identity", "");
    node->opset = g->opset;
    node->in[0] = from->id;
    node->out[0] = to->id;
    return node->op ? MOIRE_OK : mo_fail(err, MOIRE_EINTERNAL, "no operator Identity");
}
