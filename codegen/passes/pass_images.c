/* SPDX-License-Identifier: Apache-2.0
 * pass_images.c - convolutions over one and three dimensions become convolutions over images, which kernels
 * are made for; see images.h.
 *
 * One walk in topological order.  A convolution always reads and writes images, and so do the pools, sums and
 * activations behind one, up to the first layer that cannot.  What somebody else needs in its own shape is
 * restored for them: by a Reshape, and for clips of several frames by a Transpose, too.  Between two layers
 * on images there is nothing, so that chains stay in the blocked layout.
 *
 * Epilogues are fused by now, and go with their layer. */
#include <string.h>
#include "codegen/passes/images.h"
#include "runtime/ops/op.h"

static bool is_static(const struct mo_graph *g, int id) {
    return id >= 0 && mo_is_f32(g->tensors[id]) && mo_shape_count(&g->tensors[id]->shape) > 0;
}

bool mo_has_images(const struct mo_graph *g, int id) {
    if (!is_static(g, id) || g->tensors[id]->data) return false;
    return g->tensors[id]->shape.rank == 3 || g->tensors[id]->shape.rank == 5;
}

struct mo_shape mo_shape_of_images(const struct mo_shape *s) {
    if (s->rank == 3) return (struct mo_shape){.rank = 4, .d = {s->d[0], s->d[1], 1, s->d[2]}};
    return (struct mo_shape){.rank = 4, .d = {s->d[0] * s->d[2], s->d[1], s->d[3], s->d[4]}};
}

/* --- from tensors to images and back ------------------------------------------------------------------- */

/* Between a tensor and its images, in either direction. */
static int add_moves(struct mo_images *w, int tensor, int images, bool back) {
    static const int64_t swap[] = {0, 2, 1, 3, 4};
    const struct mo_tensor *t = w->g->tensors[tensor];
    const int from = back ? images : tensor, to = back ? tensor : images;
    struct mo_shape turned = t->shape;
    if (t->shape.rank == 3 || t->shape.d[1] == 1 || t->shape.d[2] == 1)
        return mo_add_reshape(w->g, from, to, w->err);
    turned.d[1] = t->shape.d[2];
    turned.d[2] = t->shape.d[1];
    const struct mo_tensor *between = mo_graph_add_tensor(w->g, t->name, MOIRE_F32, &turned);
    if (!between) return mo_no_memory(w->err);
    const int rc = back ? mo_add_reshape(w->g, from, between->id, w->err)
                        : mo_add_transpose(w->g, from, between->id, swap, w->err);
    if (rc) return rc;
    return back ? mo_add_transpose(w->g, between->id, to, swap, w->err)
                : mo_add_reshape(w->g, between->id, to, w->err);
}

static int new_images(struct mo_images *w, int id) {
    const struct mo_shape shape = mo_shape_of_images(&w->g->tensors[id]->shape);
    const struct mo_tensor *t = mo_graph_add_tensor(w->g, w->g->tensors[id]->name, MOIRE_F32, &shape);
    if (t) return w->image[id] = t->id;
    mo_no_memory(w->err);
    return MOIRE_ENOMEM;
}

int mo_new_images(struct mo_images *w, const struct mo_node *node) {
    w->owed[node->out[0]] = true;
    return new_images(w, node->out[0]);
}

int mo_read_images(struct mo_images *w, struct mo_node *node, int k) {
    const int id = node->in[k];
    int rc = MOIRE_OK;
    if (w->image[id] < 0) {
        if (new_images(w, id) < 0) return MOIRE_ENOMEM;
        rc = add_moves(w, id, w->image[id], false);
    }
    node->in[k] = w->image[id];
    return rc;
}

static int restore(struct mo_images *w, int id) {
    if (!w->owed[id]) return MOIRE_OK;
    w->owed[id] = false;
    return add_moves(w, id, w->image[id], true);
}

/* --- layers behind a convolution ----------------------------------------------------------------------- */

/* A constant that is joined with tensors of this rank, as one that is joined with their images; false when it
 * differs from clip to clip or frame to frame. */
static bool constant_shape(const struct mo_tensor *t, int rank, struct mo_shape *out) {
    struct mo_shape s = {.rank = rank, .d = {1, 1, 1, 1, 1}};
    if (t->shape.rank > rank) return false;
    for (int i = 0; i < t->shape.rank; i++)
        s.d[rank - t->shape.rank + i] = t->shape.d[i];
    *out = mo_shape_of_images(&s);
    return rank == 3 || (s.d[0] == 1 && s.d[2] == 1);
}

/* Operand k of a pointwise layer with result y. */
static bool takes_operand(const struct mo_graph *g, const struct mo_tensor *t, const struct mo_tensor *y) {
    struct mo_shape shape;
    if (t->data) return constant_shape(t, y->shape.rank, &shape);
    if (!mo_has_images(g, t->id) || t->shape.rank != y->shape.rank) return false;
    return y->shape.rank == 3 || mo_shape_equal(&t->shape, &y->shape);
}

/* Something is there as images, and the rest can be. */
static bool takes_pointwise(const struct mo_images *w, const struct mo_node *node) {
    bool any = false;
    if (!mo_is_pointwise(w->g, node)) return false;
    for (int k = 0; k < node->n_in; k++) {
        if (!is_static(w->g, node->in[k]) ||
            !takes_operand(w->g, w->g->tensors[node->in[k]], w->g->tensors[node->out[0]]))
            return false;
        any = any || w->image[node->in[k]] >= 0;
    }
    return any;
}

static int read_constant(struct mo_images *w, struct mo_node *node, int k, int rank) {
    const struct mo_tensor *from = w->g->tensors[node->in[k]];
    struct mo_shape shape;
    constant_shape(from, rank, &shape);
    struct mo_tensor *to = mo_derive_constant(w->g, from, from->name, &shape,
                                              mo_content_of("operand of images", &from->content, 1, NULL, 0));
    if (!to) return mo_no_memory(w->err);
    if (!mo_packed_elided(w->g, from)) memcpy(to->data, from->data, (size_t)mo_tensor_bytes(from));
    node->in[k] = to->id;
    return MOIRE_OK;
}

static int lift_pointwise(struct mo_images *w, struct mo_node *node) {
    const int rank = w->g->tensors[node->out[0]]->shape.rank;
    int rc = MOIRE_OK;
    for (int k = 0; !rc && k < node->n_in; k++)
        rc = w->g->tensors[node->in[k]]->data ? read_constant(w, node, k, rank) : mo_read_images(w, node, k);
    return rc;
}

static bool takes_norm(const struct mo_images *w, const struct mo_node *node) {
    return mo_is(node, "BatchNormalization") && node->n_out == 1 && !mo_attr_int(node, "training_mode", 0) &&
           mo_attr_int(node, "spatial", 1) == 1 && w->image[node->in[0]] >= 0;
}

/* Along the channels. */
static bool takes_concat(const struct mo_images *w, const struct mo_node *node) {
    const int64_t axis = mo_attr_int(node, "axis", 0), rank = w->g->tensors[node->out[0]]->shape.rank;
    bool any = false;
    if (!mo_is(node, "Concat") || (axis != 1 && axis != 1 - rank)) return false;
    for (int k = 0; k < node->n_in; k++) {
        if (!mo_has_images(w->g, node->in[k])) return false;
        any = any || w->image[node->in[k]] >= 0;
    }
    return any;
}

static int lift_concat(struct mo_images *w, struct mo_node *node) {
    int rc = mo_set_int(w->g, node, "axis", 1, w->err);
    for (int k = 0; !rc && k < node->n_in; k++)
        rc = mo_read_images(w, node, k);
    return rc;
}

/* --- the walk ------------------------------------------------------------------------------------------ */

/* The inputs themselves are needed. */
static int restore_inputs(struct mo_images *w, const struct mo_node *node) {
    int rc = MOIRE_OK;
    for (int k = 0; !rc && k < node->n_in; k++)
        if (node->in[k] >= 0) rc = restore(w, node->in[k]);
    return rc;
}

static int visit(struct mo_images *w, struct mo_node *node) {
    if (node->n_in < 1 || node->n_out < 1 || node->in[0] < 0 || !mo_has_images(w->g, node->out[0]))
        return restore_inputs(w, node);
    if (mo_takes_window(w, node)) return mo_lift_window(w, node);
    int rc;
    if (takes_pointwise(w, node))
        rc = lift_pointwise(w, node);
    else if (takes_norm(w, node))
        rc = mo_read_images(w, node, 0);
    else if (takes_concat(w, node))
        rc = lift_concat(w, node);
    else
        return restore_inputs(w, node);
    const int images = rc ? rc : mo_new_images(w, node);
    if (images < 0) return images;
    node->out[0] = images;
    return MOIRE_OK;
}

/* Chains in their order: sorted by operands alone, all images would be there before the first sum. */
static int order_chains(struct mo_images *w, int nodes) {
    struct mo_graph *g = w->g;
    const int n = g->n_nodes;
    if (n == nodes) return MOIRE_OK;
    struct mo_node **order = mo_region_array(g->region, (size_t)n + 1, sizeof *order);
    char *moved = mo_region_array(g->region, (size_t)n + 1, 1);
    int at = 0;
    if (!order || !moved) return mo_no_memory(w->err);
    for (int i = 0; i < nodes; i++) {
        for (int k = w->chain[i]; k < w->chain_end[i]; k++) {
            order[at++] = g->nodes[k];
            moved[k] = 1;
        }
        order[at++] = g->nodes[i];
    }
    for (int i = nodes; i < n; i++)
        if (!moved[i]) order[at++] = g->nodes[i];
    memcpy(g->nodes, order, (size_t)n * sizeof *order);
    return MOIRE_OK;
}

int mo_pass_images(struct mo_graph *g, moire_error *err) {
    const int tensors = g->n_tensors, nodes = g->n_nodes;
    struct mo_images w = {.g = g, .err = err};
    w.image = mo_region_array(g->region, (size_t)tensors + 1, sizeof *w.image);
    w.owed = mo_region_array(g->region, (size_t)tensors + 1, sizeof *w.owed);
    w.chain = mo_region_array(g->region, (size_t)nodes + 1, sizeof *w.chain);
    w.chain_end = mo_region_array(g->region, (size_t)nodes + 1, sizeof *w.chain_end);
    if (!w.image || !w.owed || !w.chain || !w.chain_end) return mo_no_memory(err);
    for (int i = 0; i < tensors; i++)
        w.image[i] = -1;
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < nodes; i++)
        if (!g->nodes[i]->dead) rc = visit(&w, g->nodes[i]);
    for (int i = 0; !rc && i < g->n_outputs; i++)
        rc = restore(&w, g->outputs[i]);
    return rc ? rc : order_chains(&w, nodes);
}
