/* SPDX-License-Identifier: Apache-2.0
 * pass_small_weights.c - constants of 8 bits become float32, but for filters that may stay as they are.
 *
 * Inference leaves DequantizeLinear of constants alone where passes for this machine follow
 * (graph->keeps_small).  What a convolution of 8-bit numbers could read waits for pass_qconv.c, which turns
 * what is left over into float32, too. */
#include "codegen/passes/quantizer.h"

/* The filter of one convolution, or the right operand of one product, whose input is dequantized. */
static bool may_stay(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_node *reader = mo_graph_sole_consumer(g, node->out[0]);
    struct mo_quantizer x;
    bool product = reader && (mo_is(reader, "Conv") || mo_is(reader, "MatMul") || mo_is(reader, "Gemm"));
    return product && reader->n_in > 1 && reader->in[1] == node->out[0] && reader->in[0] != node->out[0] &&
           mo_quantizer_of(g, mo_producer(g, reader->in[0]), "DequantizeLinear", &x);
}

int mo_small_weights_unfold(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    struct mo_small_weights w;
    if (!mo_small_weights_of(g, node, &w)) return MOIRE_OK;
    struct mo_tensor *y = g->tensors[node->out[0]];
    y->data = mo_region_alloc(g->region, (size_t)mo_tensor_bytes(y));
    if (!y->data) return mo_no_memory(err);
    mo_small_floats(&w, y->data);
    node->dead = true;
    return MOIRE_OK;
}

int mo_pass_small_weights(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < g->n_nodes; i++)
        if (!g->nodes[i]->dead && mo_is(g->nodes[i], "DequantizeLinear") && !may_stay(g, g->nodes[i]))
            rc = mo_small_weights_unfold(g, g->nodes[i], err);
    return rc;
}
