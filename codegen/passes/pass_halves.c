/* SPDX-License-Identifier: Apache-2.0
 * pass_halves.c - tensors between layers that compute from bfloat16 are bfloat16 in memory too.
 *
 * Readers round them to that as they read, add them as a residual, or pool them; half the bytes move.  Where
 * all readers only multiply, the results are the same bit for bit. */
#include "codegen/passes/passes.h"
#include "variants/halves.h"

static enum mo_halves halves_of(const struct mo_graph *g, const struct mo_node *node) {
    const enum mo_halves matrix = mo_matrix_halves(g, node);
    return matrix ? matrix : mo_pool_halves(g, node);
}

/* Reads tensor `id` as image or residual, and as nothing else. */
static bool reads_well(const struct mo_graph *g, const struct mo_node *node, int id) {
    if (!halves_of(g, node)) return false;
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] == id && k != 0 && k != node->fuse.residual) return false;
    return true;
}

static bool writes_well(const struct mo_graph *g, int id) {
    const struct mo_node *from = mo_producer(g, id);
    const enum mo_halves by = from ? halves_of(g, from) : MO_HALVES_NONE;
    return by == MO_HALVES_FREE || by == MO_HALVES_BOTH;
}

/* Marks those that stay as they are. */
static void exclude(const struct mo_graph *g, bool *no) {
    for (int i = 0; i < g->n_tensors; i++) {
        const struct mo_tensor *t = g->tensors[i];
        no[i] = no[i] || t->layout != MO_C16 || t->is_input || t->is_output || t->data || t->dynamic ||
                t->alias >= 0 || !writes_well(g, i);
        if (t->alias >= 0) no[t->alias] = true;
    }
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            int id = g->nodes[i]->in[k];
            if (id >= 0 && !no[id]) no[id] = !reads_well(g, g->nodes[i], id);
        }
}

/* Image and output of some layers are alike; true: something had to be marked. */
static bool level(const struct mo_graph *g, bool *no) {
    bool changed = false;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        if (halves_of(g, node) != MO_HALVES_BOTH || no[node->in[0]] == no[node->out[0]]) continue;
        no[node->in[0]] = no[node->out[0]] = changed = true;
    }
    return changed;
}

int mo_pass_halves(struct mo_graph *g, moire_error *err) {
    if (!g->halves) return MOIRE_OK;
    bool *no = mo_region_array(g->region, (size_t)g->n_tensors, sizeof *no);
    if (!no) return mo_no_memory(err);
    exclude(g, no);
    while (level(g, no)) {
    }
    for (int i = 0; i < g->n_tensors; i++)
        if (!no[i]) g->tensors[i]->layout = MO_C16_HALVES;
    return MOIRE_OK;
}
