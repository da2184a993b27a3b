/* SPDX-License-Identifier: Apache-2.0
 * pass_images.c - convolutions over one dimension become convolutions over images, which kernels are made
 * for.
 *
 * A tensor [N,C,L] is the images [N,C,1,L]: the same bytes.  One walk in topological order.  A convolution
 * always reads and writes images, and so do the pools, sums and activations behind one, up to the first layer
 * that cannot.  What somebody else needs in its own shape is restored by one Reshape; between two layers on
 * images there is none, so that chains stay in the blocked layout.
 *
 * Epilogues are fused by now, and go with their layer. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

struct walk {
    struct mo_graph *g;
    int *image; /* of every tensor: the one that holds the same as images, or -1 */
    bool *owed; /* of every tensor: its producer writes images, and nobody has needed itself so far */
    moire_error *err;
};

static bool is_static(const struct mo_graph *g, int id) {
    return id >= 0 && mo_is_f32(g->tensors[id]) && mo_shape_count(&g->tensors[id]->shape) > 0;
}

/* A variable that can be seen as images. */
static bool has_images(const struct mo_graph *g, int id) {
    return is_static(g, id) && !g->tensors[id]->data && g->tensors[id]->shape.rank == 3;
}

static struct mo_shape images_of(const struct mo_shape *s) {
    return (struct mo_shape){.rank = 4, .d = {s->d[0], s->d[1], 1, s->d[2]}};
}

/* --- from tensors to images and back ------------------------------------------------------------------- */

static int add_reshape(struct walk *w, int from, int to) {
    const struct mo_tensor *t = w->g->tensors[to];
    const struct mo_shape length = {.rank = 1, .d = {t->shape.rank}};
    struct mo_tensor *shape = mo_graph_add_const(w->g, t->name, MOIRE_I64, &length);
    struct mo_node *node = shape ? mo_graph_add_node(w->g, t->name, "Reshape", "", 2, 1) : NULL;
    if (!node) return mo_no_memory(w->err);
    memcpy(shape->data, w->g->tensors[to]->shape.d, (size_t)length.d[0] * sizeof(int64_t));
    node->op = mo_op_find("Reshape", "");
    node->opset = w->g->opset;
    node->in[0] = from, node->in[1] = shape->id;
    node->out[0] = to;
    return node->op ? MOIRE_OK : mo_fail(w->err, MOIRE_EINTERNAL, "no operator Reshape");
}

/* The tensor as images; <0: an error. */
static int as_images(struct walk *w, int id) {
    if (w->image[id] >= 0) return w->image[id];
    const struct mo_shape shape = images_of(&w->g->tensors[id]->shape);
    struct mo_tensor *t = mo_graph_add_tensor(w->g, w->g->tensors[id]->name, MOIRE_F32, &shape);
    if (!t) {
        mo_no_memory(w->err);
        return MOIRE_ENOMEM;
    }
    const int rc = add_reshape(w, id, t->id);
    return rc ? rc : (w->image[id] = t->id);
}

static int restore(struct walk *w, int id) {
    if (!w->owed[id]) return MOIRE_OK;
    w->owed[id] = false;
    return add_reshape(w, w->image[id], id);
}

static int read_images(struct walk *w, struct mo_node *node, int k) {
    const int id = as_images(w, node->in[k]);
    if (id < 0) return id;
    node->in[k] = id;
    return MOIRE_OK;
}

/* The node writes images from now on. */
static int write_images(struct walk *w, struct mo_node *node) {
    const int id = node->out[0];
    const struct mo_shape shape = images_of(&w->g->tensors[id]->shape);
    struct mo_tensor *t = mo_graph_add_tensor(w->g, w->g->tensors[id]->name, MOIRE_F32, &shape);
    if (!t) return mo_no_memory(w->err);
    w->image[id] = t->id;
    w->owed[id] = true;
    node->out[0] = t->id;
    return MOIRE_OK;
}

/* --- windows ------------------------------------------------------------------------------------------- */

/* A list with a number for each dimension, `sides` times, gets one for the height in front. */
static int widen_list(struct walk *w, struct mo_node *node, const char *name, int sides, int64_t height) {
    int64_t v[2], wide[4];
    const int n = mo_attr_ints(node, name, v, 2);
    if (n < 0) return MOIRE_OK;
    for (int i = 0; i < sides; i++) {
        wide[2 * i] = height;
        wide[2 * i + 1] = v[i];
    }
    return mo_set_ints(w->g, node, name, wide, 2 * sides, w->err);
}

static int widen_window(struct walk *w, struct mo_node *node) {
    int rc = widen_list(w, node, "kernel_shape", 1, 1);
    if (!rc) rc = widen_list(w, node, "strides", 1, 1);
    if (!rc) rc = widen_list(w, node, "dilations", 1, 1);
    if (!rc) rc = widen_list(w, node, "output_padding", 1, 0);
    return rc ? rc : widen_list(w, node, "pads", 2, 0);
}

static bool fits(const struct mo_node *node, const char *name, int want) {
    int64_t v[4];
    const int n = mo_attr_ints(node, name, v, 4);
    return n == -1 || n == want;
}

/* Pads are explicit, and every list has a number for each dimension. */
static bool plain_window(const struct mo_node *node) {
    const char *mode = mo_attr_string(node, "auto_pad", "NOTSET");
    return !strcmp(mode, "NOTSET") && fits(node, "kernel_shape", 1) && fits(node, "strides", 1) &&
           fits(node, "dilations", 1) && fits(node, "output_padding", 1) && fits(node, "pads", 2) &&
           !mo_attr_find(node, "output_shape");
}

/* --- layers -------------------------------------------------------------------------------------------- */

static bool takes_conv(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *w = mo_node_in(g, node, 1);
    const int residual = node->fuse.residual;
    if (!mo_is(node, "Conv") && !mo_is(node, "ConvTranspose")) return false;
    if (!mo_is_f32(w) || !w->data || w->shape.rank != 3 || node->fuse.gated || !plain_window(node))
        return false;
    return residual < 0 || has_images(g, node->in[residual]);
}

static int lift_conv(struct walk *w, struct mo_node *node) {
    const int id = node->in[1];
    const struct mo_tensor *from = w->g->tensors[id];
    const struct mo_shape shape = images_of(&from->shape);
    struct mo_tensor *to = mo_derive_constant(w->g, from, from->name, &shape,
                                              mo_content_of("filters of images", &from->content, 1, NULL, 0));
    if (!to) return mo_no_memory(w->err);
    if (!mo_packed_elided(w->g, from)) memcpy(to->data, from->data, (size_t)mo_tensor_bytes(from));
    mo_drop_constant(w->g, id);
    node->in[1] = to->id;
    int rc = read_images(w, node, 0);
    if (!rc && node->fuse.residual >= 0) rc = read_images(w, node, node->fuse.residual);
    return rc ? rc : widen_window(w, node);
}

/* A pool behind a layer on images; others have kernels for one dimension. */
static bool takes_pool(const struct walk *w, const struct mo_node *node) {
    if (w->image[node->in[0]] < 0 || node->fuse.residual >= 0) return false;
    if (mo_is(node, "GlobalAveragePool") || mo_is(node, "GlobalMaxPool")) return true;
    if (!mo_is(node, "MaxPool") && !mo_is(node, "AveragePool")) return false;
    return plain_window(node) && (node->n_out < 2 || node->out[1] < 0) &&
           !mo_attr_int(node, "storage_order", 0);
}

static int lift_pool(struct walk *w, struct mo_node *node) {
    const int rc = read_images(w, node, 0);
    return rc ? rc : widen_window(w, node);
}

/* A constant that the layer's other operand is joined with: one number, or up to three dimensions. */
static bool takes_constant(const struct mo_tensor *t) {
    return t->data && t->shape.rank <= 3;
}

/* Something already read as images, and the rest can be. */
static bool takes_pointwise(const struct walk *w, const struct mo_node *node) {
    const struct mo_graph *g = w->g;
    bool any = false;
    if (!mo_is_pointwise(g, node)) return false;
    for (int k = 0; k < node->n_in; k++) {
        if (!is_static(g, node->in[k])) return false;
        if (!has_images(g, node->in[k]) && !takes_constant(g->tensors[node->in[k]])) return false;
        any = any || w->image[node->in[k]] >= 0;
    }
    return any;
}

static int read_constant(struct walk *w, struct mo_node *node, int k) {
    const struct mo_tensor *from = w->g->tensors[node->in[k]];
    struct mo_shape shape = {.rank = 3, .d = {1, 1, 1}};
    if (mo_shape_count(&from->shape) == 1) return MOIRE_OK;
    for (int i = 0; i < from->shape.rank; i++)
        shape.d[3 - from->shape.rank + i] = from->shape.d[i];
    shape = images_of(&shape);
    struct mo_tensor *to = mo_derive_constant(w->g, from, from->name, &shape,
                                              mo_content_of("of images", &from->content, 1, NULL, 0));
    if (!to) return mo_no_memory(w->err);
    if (!mo_packed_elided(w->g, from)) memcpy(to->data, from->data, (size_t)mo_tensor_bytes(from));
    node->in[k] = to->id;
    return MOIRE_OK;
}

static int lift_pointwise(struct walk *w, struct mo_node *node) {
    int rc = MOIRE_OK;
    for (int k = 0; !rc && k < node->n_in; k++)
        rc = w->g->tensors[node->in[k]]->data ? read_constant(w, node, k) : read_images(w, node, k);
    return rc;
}

static bool takes_concat(const struct walk *w, const struct mo_node *node) {
    const int64_t axis = mo_attr_int(node, "axis", 0);
    bool any = false;
    if (!mo_is(node, "Concat") || (axis != 1 && axis != -2)) return false;
    for (int k = 0; k < node->n_in; k++) {
        if (!has_images(w->g, node->in[k])) return false;
        any = any || w->image[node->in[k]] >= 0;
    }
    return any;
}

static int lift_concat(struct walk *w, struct mo_node *node) {
    int rc = mo_set_int(w->g, node, "axis", 1, w->err);
    for (int k = 0; !rc && k < node->n_in; k++)
        rc = read_images(w, node, k);
    return rc;
}

/* --- the walk ------------------------------------------------------------------------------------------ */

static int lift(struct walk *w, struct mo_node *node) {
    const bool single =
        node->n_in > 0 && node->n_out > 0 && node->in[0] >= 0 && has_images(w->g, node->out[0]);
    int rc;
    if (single && has_images(w->g, node->in[0]) && takes_conv(w->g, node))
        rc = lift_conv(w, node);
    else if (single && has_images(w->g, node->in[0]) && takes_pool(w, node))
        rc = lift_pool(w, node);
    else if (single && takes_pointwise(w, node))
        rc = lift_pointwise(w, node);
    else if (single && takes_concat(w, node))
        rc = lift_concat(w, node);
    else {
        rc = MOIRE_OK;
        for (int k = 0; !rc && k < node->n_in; k++)
            if (node->in[k] >= 0) rc = restore(w, node->in[k]);
        return rc;
    }
    return rc ? rc : write_images(w, node);
}

int mo_pass_images(struct mo_graph *g, moire_error *err) {
    const int tensors = g->n_tensors, nodes = g->n_nodes;
    struct walk w = {.g = g, .err = err};
    w.image = mo_region_array(g->region, (size_t)tensors + 1, sizeof *w.image);
    w.owed = mo_region_array(g->region, (size_t)tensors + 1, sizeof *w.owed);
    if (!w.image || !w.owed) return mo_no_memory(err);
    for (int i = 0; i < tensors; i++)
        w.image[i] = -1;
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < nodes; i++)
        if (!g->nodes[i]->dead) rc = lift(&w, g->nodes[i]);
    for (int i = 0; !rc && i < g->n_outputs; i++)
        rc = restore(&w, g->outputs[i]);
    return rc;
}
