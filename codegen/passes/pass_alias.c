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

/* Every view of `root` (slices of it included) has the same number of images. */
static bool views_keep_images(const struct mo_graph *g, int root) {
    const struct mo_shape *r = &g->tensors[root]->shape;
    for (int i = 0; i < g->n_tensors; i++) {
        int id = i;
        while (g->tensors[id]->alias >= 0 && id != root)
            id = g->tensors[id]->alias;
        if (id != root) continue;
        const struct mo_shape *s = &g->tensors[i]->shape;
        if (s->rank < 1 || r->rank < 1 || s->d[0] != r->d[0]) return false;
    }
    return true;
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

/* Fills root[] and offset[] for every input, or says no. */
static bool plan_slices(const struct mo_graph *g, const struct mo_node *node, int axis, int *root,
                        int64_t *offset) {
    const struct mo_tensor *out = g->tensors[node->out[0]];
    int64_t before = 0;
    for (int k = 0; k < node->n_in; k++) {
        const struct mo_tensor *in = node->in[k] < 0 ? NULL : g->tensors[node->in[k]];
        if (!in || in->dynamic || in->data || in->shape.rank != out->shape.rank) return false;
        root[k] = storage_of(g, in->id);
        if (root[k] < 0 || !is_free(g, root[k])) return false;
        offset[k] = slice_offset(in, out, axis, before);
        if (offset[k] < 0 || g->tensors[root[k]]->layout != in->layout || !views_keep_images(g, root[k]))
            return false;
        for (int j = 0; j < k; j++)
            if (root[j] == root[k]) return false;
        before += in->shape.d[axis];
    }
    return true;
}

static int place_slices(struct mo_graph *g, struct mo_node *node, struct mo_region *tmp, moire_error *err) {
    const struct mo_tensor *out = g->tensors[node->out[0]];
    int *root = mo_region_array(tmp, (size_t)node->n_in, sizeof *root);
    int64_t *offset = mo_region_array(tmp, (size_t)node->n_in, sizeof *offset);
    if (!root || !offset) return mo_no_memory(err);
    int64_t axis = mo_attr_int(node, "axis", 1);
    if (axis < 0) axis += out->shape.rank;
    if (axis < 0 || axis >= out->shape.rank || !axis_fits(out, (int)axis)) return MOIRE_OK;
    if (!plan_slices(g, node, (int)axis, root, offset)) return MOIRE_OK;
    for (int k = 0; k < node->n_in; k++) {
        g->tensors[root[k]]->alias = out->id;
        g->tensors[root[k]]->alias_offset = offset[k];
    }
    return MOIRE_OK;
}

int mo_pass_concat(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    struct mo_region *tmp = mo_region_create(g->env);
    if (!tmp) return mo_no_memory(err);
    for (int i = 0; !rc && i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        if (!mo_is(node, "Concat") || node->n_out != 1 || g->tensors[node->out[0]]->dynamic) continue;
        rc = place_slices(g, node, tmp, err);
    }
    mo_region_destroy(tmp);
    return rc;
}
