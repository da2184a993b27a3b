/* SPDX-License-Identifier: Apache-2.0
 * pass_scatter.c - a ScatterElements whose indices an Expand repeats takes them as they were before:
 * detectors put the rows of each level where they belong so, with an index of eight bytes for every number
 * that is moved.
 *
 * Of shapes that are known at run time only; others may run on a device whose kernels take indices in full.
 */
#include "codegen/passes/passes.h"

/* The Expand that makes its indices, and nothing else; or NULL. */
static struct mo_node *expand_of(const struct mo_graph *g, const struct mo_node *node) {
    if (node->dead || !mo_is(node, "ScatterElements") || !g->tensors[node->out[0]]->dynamic) return NULL;
    struct mo_node *expand = mo_producer(g, node->in[1]);
    if (!expand || !mo_is(expand, "Expand") || !mo_graph_sole_consumer(g, node->in[1])) return NULL;
    return expand;
}

int mo_pass_scatter(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i], *expand = expand_of(g, node);
        if (!expand) continue;
        const int attributes = node->n_attrs, rc = mo_become(g, node, "ScatterElements", 4, err);
        if (rc) return rc;
        node->n_attrs = attributes; /* its axis and reduction */
        node->in[1] = expand->in[0];
        node->in[3] = expand->in[1];
        expand->dead = true;
    }
    return MOIRE_OK;
}
