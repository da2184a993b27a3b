/* SPDX-License-Identifier: Apache-2.0
 * imported.c - imported models that several plans share; see imported.h. */
#include "codegen/imported.h"

#include <string.h>
#include "codegen/prepare.h"
#include "runtime/graph/content.h"
#include "runtime/graph/copy.h"
#include "runtime/ops/recurrent.h"

/* Constants below ELIDED_FROM are copied, larger ones that are not elided move. */
enum { ELIDED_FROM = 4096, MOVED_FROM = 32 << 10, LEAST_HOLLOW = 128 << 10 };

struct mo_imported {
    struct mo_graph *graph;
    struct mo_symbols *symbols; /* of every input */
    const void *hollow;         /* what elided constants point to */
    int64_t untouched;          /* bytes there, which take no memory */
};

void mo_imported_destroy(struct mo_imported *m) {
    if (m) mo_graph_destroy(m->graph); /* its region has the rest */
}

int64_t mo_imported_bytes(const struct mo_imported *m) {
    return (int64_t)mo_region_bytes(m->graph->region) - m->untouched;
}

const struct mo_graph *mo_imported_graph(const struct mo_imported *m) {
    return m->graph;
}

/* --- which constants are weights ------------------------------------------------------------------------ */

/* Kernels pack input k of these, and passes only scale, turn and join it. */
static bool packs(const struct mo_node *node, int k, int rank) {
    const char *op = node->op_type;
    if (*node->domain) return false;
    if (!strcmp(op, "LSTM") || !strcmp(op, "GRU") || !strcmp(op, "RNN"))
        return (k == MO_RECURRENT_W || k == MO_RECURRENT_R) && rank == 3 && mo_recurrent_is_fused(node);
    if (k != 1) return false;
    if (!strcmp(op, "Conv") || !strcmp(op, "ConvTranspose")) return rank == 4;
    return (!strcmp(op, "MatMul") || !strcmp(op, "Gemm")) && rank == 2;
}

int mo_number_weights(struct mo_graph *g, moire_error *err) {
    char *use = mo_alloc(g->env, (size_t)g->n_tensors + 1); /* 1: as a weight, 2: as anything else */
    if (!use) return mo_fail(err, MOIRE_ENOMEM, "out of memory importing the model");
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0)
                use[node->in[k]] |= packs(node, k, g->tensors[node->in[k]]->shape.rank) ? 1 : 2;
    }
    for (int i = 0; i < g->n_tensors; i++) {
        struct mo_tensor *t = g->tensors[i];
        if (use[i] == 1 && t->data && t->dtype == MOIRE_F32 && !t->is_input && !t->is_output)
            t->content = mo_content_of("initializer", NULL, 0, &i, sizeof i);
    }
    mo_free(g->env, use);
    return MOIRE_OK;
}

static bool is_elided(const struct mo_tensor *t) {
    return t->content && mo_tensor_bytes(t) >= ELIDED_FROM;
}

void mo_elide_weights(struct mo_graph *g, const void *elided) {
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->data && is_elided(g->tensors[i])) g->tensors[i]->data = (void *)(uintptr_t)elided;
}

/* --- making one ----------------------------------------------------------------------------------------- */

/* The imported model gets the constants: what is large leaves the graph, which keeps using it. */
static bool settle(struct mo_imported *m, struct mo_graph *g) {
    struct mo_copier c = {.to = m->graph, .deep = true};
    int64_t most = LEAST_HOLLOW;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i]->data && is_elided(g->tensors[i]) && mo_tensor_bytes(g->tensors[i]) > most)
            most = mo_tensor_bytes(g->tensors[i]);
    m->hollow = mo_region_reserve(m->graph->region, (size_t)most);
    m->untouched = most;
    for (int i = 0; i < g->n_tensors && m->hollow && !c.failed; i++) {
        struct mo_tensor *own = m->graph->tensors[i], *t = g->tensors[i];
        const int64_t bytes = mo_tensor_bytes(t);
        if (!t->data) continue;
        if (is_elided(t)) {
            own->data = (void *)(uintptr_t)m->hollow;
        } else if (bytes >= MOVED_FROM && mo_region_move(g->region, m->graph->region, t->data)) {
            t->shared = true;
        } else {
            own->data = mo_copy_bytes(&c, t->data, bytes > 0 ? (size_t)bytes : 0);
        }
    }
    return m->hollow && !c.failed && mo_graph_take_bodies(m->graph, g);
}

static struct mo_imported *make(struct mo_graph *g, const struct mo_symbols *symbols) {
    struct mo_graph *graph = mo_graph_copy(g, true);
    struct mo_imported *m = graph ? mo_region_alloc(graph->region, sizeof *m) : NULL;
    if (!m) {
        mo_graph_destroy(graph);
        return NULL;
    }
    struct mo_copier c = {.to = graph, .deep = true};
    *m = (struct mo_imported){.graph = graph};
    m->symbols = mo_copy_bytes(&c, symbols, (size_t)(g->n_inputs + 1) * sizeof *symbols);
    for (int i = 0; i < g->n_inputs && !c.failed; i++)
        for (int k = 0; k < MOIRE_MAX_RANK; k++)
            m->symbols[i].dim[k] = mo_copy_text(&c, symbols[i].dim[k]);
    if (!c.failed && settle(m, g)) return m;
    mo_graph_destroy(graph);
    return NULL;
}

/* A graph of the same file uses the constants that are here; its own go. */
static int adopt(const struct mo_imported *m, struct mo_graph *g, moire_error *err) {
    bool same = g->n_tensors == m->graph->n_tensors && g->n_nodes == m->graph->n_nodes;
    for (int i = 0; i < g->n_tensors && same; i++)
        same = !strcmp(g->tensors[i]->name, m->graph->tensors[i]->name) &&
               mo_tensor_bytes(g->tensors[i]) == mo_tensor_bytes(m->graph->tensors[i]) &&
               !g->tensors[i]->data == !m->graph->tensors[i]->data;
    if (!same) return mo_fail(err, MOIRE_ESTORE, "the file has changed");
    for (int i = 0; i < g->n_tensors; i++) {
        struct mo_tensor *t = g->tensors[i];
        if (!t->data || is_elided(t) || !mo_region_release(g->region, t->data)) continue;
        t->data = m->graph->tensors[i]->data;
        t->shared = true;
    }
    return MOIRE_OK;
}

int mo_use_weights(struct mo_graph *g, struct mo_weights *weights, const void *elided, moire_error *err) {
    g->packed = mo_region_alloc(g->region, sizeof *g->packed);
    if (!g->packed) return mo_fail(err, MOIRE_ENOMEM, "out of memory importing the model");
    g->packed->weights = weights;
    g->packed->elided = elided;
    return MOIRE_OK;
}

int mo_imported_share(struct mo_frontend_share *share, struct mo_graph *g, const struct mo_symbols *symbols,
                      moire_error *err) {
    int rc = mo_number_weights(g, err);
    if (!rc && share->imported) rc = adopt(share->imported, g, err);
    if (!rc && !share->imported && !(share->imported = make(g, symbols)))
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory importing the model");
    return rc ? rc : mo_use_weights(g, share->weights, NULL, err);
}

int mo_imported_bind(const struct mo_imported *m, struct mo_weights *weights,
                     const struct mo_frontend_options *options, struct mo_graph **out, moire_error *err) {
    struct mo_graph *g = mo_graph_copy(m->graph, false);
    *out = NULL;
    int rc = g ? mo_use_weights(g, weights, m->hollow, err)
               : mo_fail(err, MOIRE_ENOMEM, "out of memory binding shapes");
    if (g) g->exact = options->exact;
    if (!rc) rc = mo_bind_shapes(g, m->symbols, options, err);
    if (!rc) rc = mo_prepare(g, options, err);
    if (!rc) rc = mo_graph_squeeze(&g, err);
    if (!rc) rc = mo_use_weights(g, weights, m->hollow, err);
    if (rc)
        mo_graph_destroy(g);
    else
        *out = g;
    return rc;
}
