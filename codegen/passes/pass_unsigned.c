/* SPDX-License-Identifier: Apache-2.0
 * pass_unsigned.c - activations of int8 become uint8: 128 is added to them and to their zero points.
 *
 * Processors multiply unsigned activations with signed weights.  A tensor changes where it is made by a
 * QuantizeLinear and read by DequantizeLinear only, all with one zero point for the tensor. */
#include "codegen/passes/quantizer.h"

static bool all_read_it(const struct mo_graph *g, int tensor) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            struct mo_quantizer reader;
            if (g->nodes[i]->dead || g->nodes[i]->in[k] != tensor) continue;
            if (k || !mo_quantizer_of(g, g->nodes[i], "DequantizeLinear", &reader)) return false;
            n++;
        }
    return n == g->tensors[tensor]->n_uses;
}

static int shift(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    const struct mo_tensor *old = mo_node_in(g, node, 2);
    struct mo_tensor *zero = mo_graph_add_const(g, "zero", MOIRE_U8, &(struct mo_shape){.rank = 0});
    int *in = mo_region_array(g->region, 4, sizeof *in);
    if (!zero || !in) return mo_no_memory(err);
    *(uint8_t *)zero->data = (uint8_t)((old ? *(const int8_t *)old->data : 0) + 128);
    in[0] = node->in[0], in[1] = node->in[1], in[2] = zero->id, in[3] = -1;
    node->in = in;
    node->n_in = 3;
    return MOIRE_OK;
}

static int change(struct mo_graph *g, struct mo_node *node, int tensor, moire_error *err) {
    int rc = shift(g, node, err);
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead && g->nodes[i]->n_in && g->nodes[i]->in[0] == tensor)
            rc = shift(g, g->nodes[i], err);
    g->tensors[tensor]->dtype = MOIRE_U8;
    return rc;
}

int mo_pass_unsigned(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < g->n_nodes; i++) {
        struct mo_quantizer q;
        if (!mo_quantizer_of(g, g->nodes[i], "QuantizeLinear", &q) || q.dtype != MOIRE_I8) continue;
        bool told = mo_attr_int(g->nodes[i], "output_dtype", 0) != 0; /* the type is an attribute, too */
        if (told || g->tensors[q.to]->is_output || !all_read_it(g, q.to)) continue;
        rc = change(g, g->nodes[i], q.to, err);
    }
    return rc;
}
