/* SPDX-License-Identifier: Apache-2.0
 * pass_own_quantizers.c - every pointwise reader of a dequantized tensor gets a DequantizeLinear of its own.
 *
 * It becomes a step of the layer that reads it, so that what lies in memory, and is read once for each
 * reader, is the tensor of 8 bits.  Other readers share one. */
#include <string.h>
#include "codegen/passes/quantizer.h"

static int clone(struct mo_graph *g, const struct mo_node *node, moire_error *err) {
    const struct mo_tensor *t = g->tensors[node->out[0]];
    struct mo_tensor *y = mo_graph_add_tensor(g, t->name, t->dtype, &t->shape);
    struct mo_node *copy = y ? mo_graph_add_node(g, node->name, "DequantizeLinear", "", node->n_in, 1) : NULL;
    if (!copy) return mo_no_memory(err);
    copy->op = node->op;
    copy->opset = node->opset;
    memcpy(copy->in, node->in, (size_t)node->n_in * sizeof *copy->in);
    copy->out[0] = y->id;
    return y->id;
}

static int count_reads(const struct mo_node *node, int tensor) {
    int n = 0;
    for (int k = 0; k < node->n_in; k++)
        n += node->in[k] == tensor;
    return n;
}

static int divide(struct mo_graph *g, int tensor, int n, moire_error *err) {
    const struct mo_node *node = mo_producer(g, tensor);
    int left = g->tensors[tensor]->n_uses;
    for (int i = 0; i < n; i++) {
        struct mo_node *reader = g->nodes[i];
        int reads = reader->dead ? 0 : count_reads(reader, tensor);
        if (!reads || left == reads || !mo_is_pointwise(g, reader)) continue;
        int id = clone(g, node, err);
        if (id < 0) return id;
        for (int k = 0; k < reader->n_in; k++)
            if (reader->in[k] == tensor) reader->in[k] = id;
        left -= reads;
    }
    return MOIRE_OK;
}

int mo_pass_own_quantizers(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0, n = g->n_nodes; !rc && i < n; i++) {
        struct mo_quantizer q;
        if (mo_quantizer_of(g, g->nodes[i], "DequantizeLinear", &q) && !g->tensors[q.from]->data &&
            g->tensors[q.to]->n_uses > 1)
            rc = divide(g, q.to, n, err);
    }
    return rc;
}
