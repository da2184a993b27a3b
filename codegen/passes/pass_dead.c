/* SPDX-License-Identifier: Apache-2.0
 * pass_dead.c - drops nodes that nobody reads, and optional trailing outputs that nobody reads (the mask of
 * Dropout, the indices of MaxPool), so that later passes see plain one-output nodes. */
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

static bool unread(const struct mo_graph *g, int tensor) {
    return tensor < 0 || !g->tensors[tensor]->n_uses;
}

static void drop_node(struct mo_graph *g, struct mo_node *node) {
    node->dead = true;
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0) g->tensors[node->in[k]]->n_uses--;
}

int mo_pass_dead(struct mo_graph *g, moire_error *err) {
    (void)err;
    mo_graph_index(g);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        struct mo_node *node = g->nodes[i];
        if (node->dead) continue;
        int last = node->n_out;
        while (last > 0 && unread(g, node->out[last - 1]))
            last--;
        if (last == 0)
            drop_node(g, node);
        else if (node->op->max_out > 0 && last >= node->op->min_out)
            node->n_out = last;
    }
    return MOIRE_OK;
}
