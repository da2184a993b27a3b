/* SPDX-License-Identifier: Apache-2.0
 * pass_shared_quantizers.c - of several DequantizeLinear of one tensor that say the same, one is left.
 *
 * Quantizing tools put one in front of every reader.  With a single one the tensor of small integers has one
 * reader, so that quantizing and dequantizing can become one layer, and nothing is dequantized twice. */
#include <string.h>
#include "codegen/passes/passes.h"

/* The same tensor, or constants of the same type, shape and contents; -1: not given. */
static bool same_operand(const struct mo_graph *g, int a, int b) {
    if (a == b) return true;
    if (a < 0 || b < 0) return false;
    const struct mo_tensor *x = g->tensors[a], *y = g->tensors[b];
    return x->data && y->data && x->dtype == y->dtype && mo_shape_equal(&x->shape, &y->shape) &&
           !memcmp(x->data, y->data, (size_t)mo_tensor_bytes(x));
}

static bool same_node(const struct mo_graph *g, const struct mo_node *a, const struct mo_node *b) {
    for (int k = 0; k < 3; k++)
        if (!same_operand(g, k < a->n_in ? a->in[k] : -1, k < b->n_in ? b->in[k] : -1)) return false;
    return mo_attr_int(a, "axis", 1) == mo_attr_int(b, "axis", 1) &&
           mo_attr_int(a, "block_size", 0) == mo_attr_int(b, "block_size", 0);
}

int mo_pass_shared_quantizers(struct mo_graph *g, moire_error *err) {
    /* the first of each tensor; nodes that say something else than it stay as they are */
    int *first = mo_region_array(g->region, (size_t)g->n_tensors, sizeof *first);
    if (!first) return mo_no_memory(err);
    for (int i = 0; i < g->n_tensors; i++)
        first[i] = -1;
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        if (node->dead || !mo_is(node, "DequantizeLinear") || node->in[0] < 0 || node->in[1] < 0) continue;
        int *at = &first[node->in[0]];
        if (*at < 0) {
            *at = i;
        } else if (same_node(g, g->nodes[*at], node) && !g->tensors[node->out[0]]->is_output) {
            mo_read_instead(g, node->out[0], g->nodes[*at]->out[0]);
            node->dead = true;
        }
    }
    return MOIRE_OK;
}
