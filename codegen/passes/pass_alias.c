/* SPDX-License-Identifier: Apache-2.0
 * pass_alias.c - two passes that let tensors share storage, so that layers which only move bytes vanish.
 *
 * view: Reshape, Flatten, Squeeze, Unsqueeze and the like on plain tensors; a Reorder out of a blocked tensor
 * of one pixel and whole blocks, whose bytes are the same; a Slice, Split or Transpose whose results lie in
 * the input as they are, one run of bytes each.
 *
 * concat: when every input can lie in its place in the output, the layers before the Concat write there. With
 * nothing but extents of 1 before the concatenated axis the places lie one behind the other, each a run. Else
 * a place begins at the same byte of every image (outermost index), so all axes between the first and the
 * concatenated one must have extent 1, and a blocked channel offset must be a multiple of 16. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"
#include "variants/part.h"

/* A tensor whose storage is its own: produced by a layer, seen by nobody outside. */
static bool is_free(const struct mo_graph *g, int id) {
    const struct mo_tensor *t = g->tensors[id];
    return mo_producer(g, id) && !t->is_input && !t->is_output && !t->data && !t->dynamic && t->alias < 0;
}

/* Where the inputs of a Concat can lie in its output. */
enum places { NOWHERE, IN_IMAGES, IN_ONE_RUN };

static int concat_axis(const struct mo_graph *g, const struct mo_node *node) {
    const int64_t axis = mo_attr_int(node, "axis", 1);
    return (int)(axis < 0 ? axis + g->tensors[node->out[0]]->shape.rank : axis);
}

static enum places concat_places(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *out = mo_node_out(g, node, 0);
    if (!out) return NOWHERE;
    const int axis = concat_axis(g, node);
    if (out->dynamic || axis < 0 || axis >= out->shape.rank) return NOWHERE;
    for (int d = 1; d < axis; d++)
        if (out->shape.d[d] != 1) return NOWHERE;
    return axis == 0 || out->shape.d[0] == 1 ? IN_ONE_RUN : IN_IMAGES;
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
    if (in->dynamic || out->dynamic || in->data || in->dtype != out->dtype) return false;
    if (mo_shape_count(&in->shape) != mo_shape_count(&out->shape)) return false;
    if (in->layout == MO_PLAIN && out->layout == MO_PLAIN) return true;
    return mo_is_moire(node, "Reorder") && out->layout == MO_PLAIN && reorder_is_view(in);
}

/* What a Concat could place if it had bytes of its own: a view of less than all of a layer's result takes
 * that from it, and then it copies all its inputs. */
static void find_placeable(const struct mo_graph *g, bool *placeable) {
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const struct mo_node *node = g->nodes[i];
        const bool all = node->n_out == 1 && mo_is(node, "Concat") && concat_places(g, node) != NOWHERE;
        const bool through = is_view(g, node) && placeable[node->out[0]];
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0 && (all || (through && k == 0))) placeable[node->in[k]] = true;
    }
}

/* Whether output k can lie in the input, and where. */
static bool lies_inside(const struct mo_graph *g, const struct mo_node *node, int k, const bool *placeable,
                        int64_t *offset) {
    const struct mo_tensor *in = mo_node_in(g, node, 0), *out = mo_node_out(g, node, k);
    *offset = 0;
    if (!in || !out || !is_free(g, out->id)) return false;
    if (!is_view(g, node) && !mo_is_part(g, node, k, offset)) return false;
    const bool whole = mo_tensor_bytes(in) == mo_tensor_bytes(out);
    return (whole && !in->is_input) || !placeable[out->id];
}

/* All outputs or none: a kernel writes every output of its layer, and nobody writes to an input. */
static void lie_inside(struct mo_graph *g, const struct mo_node *node, const bool *placeable) {
    int64_t offset;
    for (int k = 0; k < node->n_out; k++)
        if (!lies_inside(g, node, k, placeable, &offset)) return;
    for (int k = 0; k < node->n_out; k++) {
        struct mo_tensor *out = g->tensors[node->out[k]];
        if (!lies_inside(g, node, k, placeable, &offset)) return;
        out->alias = node->in[0];
        out->alias_offset = offset;
        out->alias_run = mo_tensor_bytes(g->tensors[node->in[0]]) != mo_tensor_bytes(out);
    }
}

int mo_pass_view(struct mo_graph *g, moire_error *err) {
    struct mo_region *tmp = mo_region_create(g->env);
    bool *placeable = tmp ? mo_region_array(tmp, (size_t)g->n_tensors + 1, sizeof *placeable) : NULL;
    if (placeable) find_placeable(g, placeable);
    for (int i = 0; placeable && i < g->n_nodes; i++)
        lie_inside(g, g->nodes[i], placeable);
    mo_region_destroy(tmp);
    return placeable ? MOIRE_OK : mo_no_memory(err);
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
        bool run = false; /* it lies without gaps only where its base does */
        for (int id = i; id >= 0; id = s->g->tensors[id]->alias) {
            const struct mo_shape *base = &s->g->tensors[id]->shape;
            if (run || view->rank < 1 || base->rank < 1 || view->d[0] != base->d[0]) s->odd[id] = true;
            run = run || s->g->tensors[id]->alias_run;
        }
    }
}

/* Where input k of a Concat begins in the output, or in every image of it, in bytes; -1 when it cannot lie
 * there. */
static int64_t slice_offset(const struct mo_tensor *in, const struct mo_tensor *out, int axis,
                            int64_t before) {
    int64_t inner = (int64_t)mo_dtype_bytes(in->dtype);
    if (in->layout != out->layout || in->dtype != out->dtype) return -1;
    for (int d = axis + 1; d < out->shape.rank; d++)
        inner *= out->shape.d[d];
    if (out->layout == MO_PLAIN) return before * inner;
    return axis == 1 && before % 16 == 0 ? before * inner : -1;
}

/* Finds a place for every input, or says no. */
static bool plan_slices(struct slices *s, const struct mo_node *node, int axis, enum places places) {
    const struct mo_graph *g = s->g;
    const struct mo_tensor *out = g->tensors[node->out[0]];
    int64_t before = 0;
    for (int k = 0; k < node->n_in; k++) {
        const struct mo_tensor *in = node->in[k] < 0 ? NULL : g->tensors[node->in[k]];
        if (!in || in->dynamic || in->data || in->shape.rank != out->shape.rank) return false;
        int root = storage_of(g, in->id);
        if (root < 0 || !is_free(g, root) || s->taken[root] == node->id + 1) return false;
        if (places == IN_IMAGES && s->odd[root]) return false;
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
    const enum places places = concat_places(s->g, node);
    if (places == NOWHERE || !plan_slices(s, node, concat_axis(s->g, node), places)) return;
    for (int k = 0; k < node->n_in; k++) {
        struct mo_tensor *root = s->g->tensors[s->root[k]];
        root->alias = out->id;
        root->alias_offset = s->offset[k];
        root->alias_run = places == IN_ONE_RUN;
    }
    s->odd[out->id] = s->odd[out->id] || places == IN_ONE_RUN; /* runs of it have images of their own */
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
        if (mo_is(node, "Concat") && node->n_out == 1 && node->out[0] >= 0) place_slices(s, node);
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
