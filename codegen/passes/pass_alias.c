/* SPDX-License-Identifier: Apache-2.0
 * pass_alias.c - two passes that let tensors share storage, so that layers which only move bytes vanish.
 *
 * view: Reshape, Flatten, Squeeze, Unsqueeze and the like on plain tensors; a Reorder out of a blocked tensor
 * of one pixel and whole blocks, whose bytes are the same.
 * concat: when every input can lie in its slice of the output, the layers before the Concat write there.  A
 * slice begins at the same place in every image (outermost index), so all axes between the first and the
 * concatenated one must have extent 1, and a blocked channel offset must be a multiple of 16. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

/* A tensor whose storage is its own: produced by a layer, seen by nobody outside. */
static bool is_free(const struct mo_graph *g, int id) {
    const struct mo_tensor *t = g->tensors[id];
    return mo_producer(g, id) && !t->is_input && !t->is_output && !t->data && !t->dynamic && t->alias < 0;
}

/* --- views --------------------------------------------------------------------------------------------- */

/* [N,C,1,1] in whole blocks lies like a plain tensor. */
static bool reorder_is_view(const struct mo_tensor *in) {
    if (in->layout != MO_C16 || in->shape.d[1] % 16) return false;
    for (int i = 2; i < in->shape.rank; i++)
        if (in->shape.d[i] != 1) return false;
    return true;
}

static bool is_view(const struct mo_graph *g, const struct mo_node *node) {
    if (node->n_out != 1 || node->n_in < 1 || node->in[0] < 0 || !(node->op->flags & MO_OP_VIEW))
        return false;
    const struct mo_tensor *in = g->tensors[node->in[0]], *out = g->tensors[node->out[0]];
    if (in->dynamic || out->dynamic || in->data || in->is_input || in->dtype != out->dtype) return false;
    if (mo_shape_count(&in->shape) != mo_shape_count(&out->shape)) return false;
    if (in->layout == MO_PLAIN && out->layout == MO_PLAIN) return true;
    return mo_is_moire(node, "Reorder") && out->layout == MO_PLAIN && reorder_is_view(in);
}

int mo_pass_view(struct mo_graph *g, moire_error *err) {
    (void)err;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        if (!is_view(g, node) || !is_free(g, node->out[0])) continue;
        g->tensors[node->out[0]]->alias = node->in[0];
        g->tensors[node->out[0]]->alias_offset = 0;
    }
    return MOIRE_OK;
}

/* --- concat -------------------------------------------------------------------------------------------- */

/* The tensor that owns the storage of a chain of whole views; -1 when a slice is in the chain. */
static int storage_of(const struct mo_graph *g, int id) {
    while (g->tensors[id]->alias >= 0) {
        if (g->tensors[id]->alias_offset ||
            mo_tensor_bytes(g->tensors[id]) != mo_tensor_bytes(g->tensors[g->tensors[id]->alias]))
            return -1;
        id = g->tensors[id]->alias;
    }
    return id;
}

struct slices {
    struct mo_graph *g;
    bool *odd;  /* of every tensor: some view of it has another number of images */
    int *taken; /* of every tensor: the last Concat that placed it, plus one */
    int *root;  /* of every input of the Concat at hand */
    int64_t *offset;
};

/* Views that exist before any slice; slices later keep the number of images, so this need not be redone. */
static void find_odd_views(struct slices *s) {
    for (int i = 0; i < s->g->n_tensors; i++) {
        const struct mo_shape *view = &s->g->tensors[i]->shape;
        for (int id = i; id >= 0; id = s->g->tensors[id]->alias) {
            const struct mo_shape *base = &s->g->tensors[id]->shape;
            if (view->rank < 1 || base->rank < 1 || view->d[0] != base->d[0]) s->odd[id] = true;
        }
    }
}

/* Where input k of a Concat begins in every image of the output, in bytes; -1 when it cannot lie there. */
static int64_t slice_offset(const struct mo_tensor *in, const struct mo_tensor *out, int axis,
                            int64_t before) {
    int64_t inner = (int64_t)mo_dtype_bytes(in->dtype);
    if (in->layout != out->layout || in->dtype != out->dtype) return -1;
    for (int d = axis + 1; d < out->shape.rank; d++)
        inner *= out->shape.d[d];
    if (out->layout == MO_PLAIN) return before * inner;
    return axis == 1 && before % 16 == 0 ? before * inner : -1;
}

static bool axis_fits(const struct mo_tensor *out, int axis) {
    if (axis == 0) return false;
    for (int d = 1; d < axis; d++)
        if (out->shape.d[d] != 1) return false;
    return true;
}

/* Finds a place for every input, or says no. */
static bool plan_slices(struct slices *s, const struct mo_node *node, int axis) {
    const struct mo_graph *g = s->g;
    const struct mo_tensor *out = g->tensors[node->out[0]];
    int64_t before = 0;
    for (int k = 0; k < node->n_in; k++) {
        const struct mo_tensor *in = node->in[k] < 0 ? NULL : g->tensors[node->in[k]];
        if (!in || in->dynamic || in->data || in->shape.rank != out->shape.rank) return false;
        int root = storage_of(g, in->id);
        if (root < 0 || !is_free(g, root) || s->odd[root] || s->taken[root] == node->id + 1) return false;
        s->offset[k] = slice_offset(in, out, axis, before);
        if (s->offset[k] < 0 || g->tensors[root]->layout != in->layout) return false;
        s->root[k] = root;
        s->taken[root] = node->id + 1;
        before += in->shape.d[axis];
    }
    return true;
}

static void place_slices(struct slices *s, const struct mo_node *node) {
    const struct mo_tensor *out = s->g->tensors[node->out[0]];
    int64_t axis = mo_attr_int(node, "axis", 1);
    if (axis < 0) axis += out->shape.rank;
    if (axis < 0 || axis >= out->shape.rank || !axis_fits(out, (int)axis)) return;
    if (!plan_slices(s, node, (int)axis)) return;
    for (int k = 0; k < node->n_in; k++) {
        s->g->tensors[s->root[k]]->alias = out->id;
        s->g->tensors[s->root[k]]->alias_offset = s->offset[k];
    }
}

static int each_concat(struct slices *s, struct mo_region *tmp, moire_error *err) {
    int most = 0;
    for (int i = 0; i < s->g->n_nodes; i++)
        if (s->g->nodes[i]->n_in > most) most = s->g->nodes[i]->n_in;
    s->odd = mo_region_array(tmp, (size_t)s->g->n_tensors + 1, sizeof *s->odd);
    s->taken = mo_region_array(tmp, (size_t)s->g->n_tensors + 1, sizeof *s->taken);
    s->root = mo_region_array(tmp, (size_t)most + 1, sizeof *s->root);
    s->offset = mo_region_array(tmp, (size_t)most + 1, sizeof *s->offset);
    if (!s->odd || !s->taken || !s->root || !s->offset) return mo_no_memory(err);
    find_odd_views(s);
    for (int i = 0; i < s->g->n_nodes; i++) {
        struct mo_node *node = s->g->nodes[i];
        if (mo_is(node, "Concat") && node->n_out == 1 && !s->g->tensors[node->out[0]]->dynamic)
            place_slices(s, node);
    }
    return MOIRE_OK;
}

int mo_pass_concat(struct mo_graph *g, moire_error *err) {
    struct mo_region *tmp = mo_region_create(g->env);
    struct slices s = {.g = g};
    int rc = tmp ? each_concat(&s, tmp, err) : mo_no_memory(err);
    mo_region_destroy(tmp);
    return rc;
}
