/* SPDX-License-Identifier: Apache-2.0
 * region_graph.c - see region_graph.h.
 *
 * As mo_imported_bind() does for a model, and with the same sharing of packed weights: the body stays as the
 * pass has made it, a shallow copy gets the shapes, and then all that a graph with these shapes gets.
 * Captured constants are no longer inputs of the copy. */
#include "codegen/region_graph.h"

#include "codegen/imported.h"
#include "codegen/passes/passes.h"
#include "codegen/prepare.h"
#include "runtime/graph/copy.h"

static void give(struct mo_graph *g, const struct mo_value *in) {
    const int n_own = g->n_inputs - g->n_captured;
    for (int i = n_own; i < g->n_inputs; i++)
        g->tensors[g->inputs[i]]->is_input = false;
    g->n_inputs = n_own;
    g->n_captured = 0;
    for (int i = 0; i < n_own; i++) {
        struct mo_tensor *t = g->tensors[g->inputs[i]];
        t->dtype = in[i].dtype;
        t->shape = in[i].shape;
        t->dynamic = false;
    }
}

static int prepare(struct mo_graph *g, moire_error *err) {
    static const struct mo_frontend_options options;
    int rc = mo_infer_and_fold(g, err);
    if (!rc) rc = mo_run_passes(g, &options, err);
    return rc ? rc : mo_graph_check(g, err);
}

int mo_region_graph(const struct mo_graph *body, const struct mo_value *in, struct mo_weights *weights,
                    const void *elided, struct mo_graph **out, moire_error *err) {
    struct mo_graph *g = mo_graph_copy(body, false);
    *out = NULL;
    if (!g) return mo_fail(err, MOIRE_ENOMEM, "out of memory shaping a region");
    give(g, in);
    int rc = mo_number_weights(g, err);
    if (!rc && elided) mo_elide_weights(g, elided);
    if (!rc) rc = mo_use_weights(g, weights, elided, err);
    if (!rc) g->packed->obtainable = elided != NULL;
    if (!rc) rc = prepare(g, err);
    if (rc)
        mo_graph_destroy(g);
    else
        *out = g;
    return rc;
}
