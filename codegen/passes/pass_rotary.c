/* SPDX-License-Identifier: Apache-2.0
 * pass_rotary.c - RotaryEmbedding by positions becomes one by the angles of its rows, which a Gather looks
 * up: a kernel cannot say that a position is wrong.  Queries and keys of all layers that name the same
 * positions share it. */
#include "codegen/passes/passes.h"

enum { X, COS, SIN, IDS };

static bool matches(const struct mo_graph *g, const struct mo_node *node) {
    if (node->dead || !mo_is(node, "RotaryEmbedding") || node->n_in <= IDS || node->in[IDS] < 0) return false;
    for (int i = X; i <= SIN; i++)
        if (!mo_is_f32(g->tensors[node->in[i]])) return false;
    return !g->tensors[node->in[IDS]]->dynamic && g->tensors[node->in[COS]]->shape.rank == 2;
}

/* A Gather that is there already, from node `first` on; or -1. */
static int found(const struct mo_graph *g, int first, int cache, int ids) {
    for (int i = first; i < g->n_nodes; i++)
        if (mo_is(g->nodes[i], "Gather") && g->nodes[i]->in[0] == cache && g->nodes[i]->in[1] == ids)
            return g->nodes[i]->out[0];
    return -1;
}

/* Rows `ids` of a cache; -1: no memory. */
static int looked_up(struct mo_graph *g, int first, int cache, int ids) {
    const int there = found(g, first, cache, ids);
    if (there >= 0) return there;
    const int64_t *rows = g->tensors[ids]->shape.d, columns = g->tensors[cache]->shape.d[1];
    const struct mo_shape shape = {.rank = 3, .d = {rows[0], rows[1], columns}};
    const struct mo_tensor *t = mo_graph_add_tensor(g, g->tensors[cache]->name, MOIRE_F32, &shape);
    struct mo_node *node = t ? mo_add_node(g, "Gather", 2, cache, t->id) : NULL;
    if (!node) return -1;
    node->in[1] = ids;
    return t->id;
}

int mo_pass_rotary(struct mo_graph *g, moire_error *err) {
    const int n = g->n_nodes;
    for (int i = 0; i < n; i++) {
        struct mo_node *node = g->nodes[i];
        if (!matches(g, node)) continue;
        for (int k = COS; k <= SIN; k++)
            if ((node->in[k] = looked_up(g, n, node->in[k], node->in[IDS])) < 0) return mo_no_memory(err);
        node->n_in = IDS;
    }
    return MOIRE_OK;
}
