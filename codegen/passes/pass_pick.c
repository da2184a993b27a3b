/* SPDX-License-Identifier: Apache-2.0
 * pass_pick.c - a Gather of one known place becomes a Slice, which kernels copy with many cores, and a
 * Reshape, which costs nothing.
 *
 * Of what another one has picked, one Slice takes both places from where that one took it: decoders keep the
 * keys and values of all their layers in one tensor, pick a layer, and then its keys. */
#include <string.h>
#include "codegen/passes/passes.h"

/* Of a tensor that was picked: from which, and at which places of which of its axes. */
struct pick {
    int source; /* -1: it was not */
    int n;
    int64_t axis[MOIRE_MAX_RANK], at[MOIRE_MAX_RANK];
};

/* The one index, on the one axis, of a node that picks; false: it does not. */
static bool picks(const struct mo_graph *g, const struct mo_node *node, int64_t *axis, int64_t *at) {
    if (node->dead || !mo_is(node, "Gather") || node->n_in != 2 || node->n_out != 1) return false;
    const struct mo_tensor *x = g->tensors[node->in[0]], *index = g->tensors[node->in[1]];
    if (!index->data || index->shape.rank != 0 || x->data || x->dynamic || g->tensors[node->out[0]]->dynamic)
        return false;
    *axis = mo_attr_int(node, "axis", 0);
    *axis += *axis < 0 ? x->shape.rank : 0;
    if (*axis < 0 || *axis >= x->shape.rank || mo_shape_count(&x->shape) < 1) return false;
    if (index->dtype != MOIRE_I64 && index->dtype != MOIRE_I32) return false;
    *at = index->dtype == MOIRE_I64 ? *(const int64_t *)index->data : *(const int32_t *)index->data;
    *at += *at < 0 ? x->shape.d[*axis] : 0;
    return *at >= 0 && *at < x->shape.d[*axis];
}

/* Adds a place of axis `axis` of the picked tensor to what is known of it, as one of an axis of its source.
 */
static void add_place(struct pick *p, int64_t axis, int64_t at) {
    bool taken[MOIRE_MAX_RANK] = {false};
    for (int i = 0; i < p->n; i++)
        taken[p->axis[i]] = true;
    int64_t of = 0;
    while (taken[of] || axis > 0) {
        axis -= !taken[of];
        of++;
    }
    p->axis[p->n] = of;
    p->at[p->n++] = at;
}

static int add_list(struct mo_graph *g, struct mo_node *node, int in, const int64_t *values, int n,
                    int64_t more) {
    struct mo_tensor *t = mo_graph_add_const(g, "pick", MOIRE_I64, &(struct mo_shape){.rank = 1, .d = {n}});
    if (!t) return MOIRE_ENOMEM;
    for (int i = 0; i < n; i++)
        ((int64_t *)t->data)[i] = values[i] + more;
    node->in[in] = t->id;
    return MOIRE_OK;
}

/* The Slice and the Reshape of a pick, to tensor `to`. */
static int replace(struct mo_graph *g, const struct pick *p, int to, moire_error *err) {
    struct mo_shape shape = g->tensors[p->source]->shape;
    for (int i = 0; i < p->n; i++)
        shape.d[p->axis[i]] = 1;
    const struct mo_tensor *t = mo_graph_add_tensor(g, g->tensors[to]->name, g->tensors[to]->dtype, &shape);
    struct mo_node *slice = t ? mo_add_node(g, "Slice", 4, p->source, t->id) : NULL;
    if (!slice || add_list(g, slice, 1, p->at, p->n, 0) || add_list(g, slice, 2, p->at, p->n, 1) ||
        add_list(g, slice, 3, p->axis, p->n, 0))
        return mo_no_memory(err);
    return mo_add_reshape(g, t->id, to, err);
}

static int rewrite(struct mo_graph *g, struct pick *known, int n, moire_error *err) {
    for (int i = 0; i < n; i++) {
        struct mo_node *node = g->nodes[i];
        int64_t axis, at;
        if (!picks(g, node, &axis, &at)) continue;
        struct pick *p = &known[node->out[0]];
        *p = known[node->in[0]];
        if (p->source < 0) *p = (struct pick){.source = node->in[0]};
        add_place(p, axis, at);
        node->dead = true;
        const int rc = replace(g, p, node->out[0], err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

int mo_pass_pick(struct mo_graph *g, moire_error *err) {
    struct mo_region *tmp = mo_region_create(g->env);
    struct pick *known = tmp ? mo_region_array(tmp, (size_t)g->n_tensors + 1, sizeof *known) : NULL;
    for (int i = 0; known && i < g->n_tensors; i++)
        known[i].source = -1;
    const int rc = known ? rewrite(g, known, g->n_nodes, err) : mo_no_memory(err);
    mo_region_destroy(tmp);
    return rc;
}
