/* SPDX-License-Identifier: Apache-2.0
 * pass_halves.c - tensors between layers that compute from bfloat16 are bfloat16 in memory too.
 *
 * Every reader rounds them to that as it reads, or adds them as a residual; half the bytes move.  Where all
 * readers only multiply, the results are the same bit for bit. */
#include "codegen/passes/passes.h"
#include "variants/matrix/matrix_walk.h"

/* Reads tensor `id` as image or residual, and as nothing else. */
static bool reads_well(const struct mo_graph *g, const struct mo_node *node, int id) {
    if (!mo_matrix_takes_halves(g, node)) return false;
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] == id && k != 0 && k != node->fuse.residual) return false;
    return true;
}

int mo_pass_halves(struct mo_graph *g, moire_error *err) {
    bool *no = g->halves ? mo_region_array(g->region, (size_t)g->n_tensors, sizeof *no) : NULL;
    if (!g->halves) return MOIRE_OK;
    if (!no) return mo_no_memory(err);
    for (int i = 0; i < g->n_tensors; i++) {
        const struct mo_tensor *t = g->tensors[i];
        const struct mo_node *from = mo_producer(g, i);
        no[i] = no[i] || t->layout != MO_C16 || t->is_input || t->is_output || t->data || t->dynamic ||
                t->alias >= 0 || !from || !mo_matrix_takes_halves(g, from);
        if (t->alias >= 0) no[t->alias] = true;
    }
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            int id = g->nodes[i]->in[k];
            if (id >= 0 && !no[id]) no[id] = !reads_well(g, g->nodes[i], id);
        }
    for (int i = 0; i < g->n_tensors; i++)
        if (!no[i]) g->tensors[i]->layout = MO_C16_HALVES;
    return MOIRE_OK;
}
