/* SPDX-License-Identifier: Apache-2.0
 * pass_layout.c - layout propagation: from the first conv to the last, activations stay in MO_C16.
 *
 * One walk in topological order.  A layer runs blocked when a family can and it pays: a conv always, anything
 * else when an input is blocked already, and a Transpose to channels first when its readers run so.  Inputs
 * in the other layout are converted by a moire.Reorder, one a tensor at most.  Graph inputs, graph outputs
 * and constants are plain; a layer whose blocked result is a graph output writes a new tensor, and a Reorder
 * writes the output. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"
#include "variants/kernel.h"

struct walk {
    struct mo_graph *g;
    int *converted; /* of every tensor: the same contents in the other layout, or -1 */
    int n_converted;
    moire_error *err;
};

static bool can_block(const struct mo_tensor *t) {
    return (mo_is_f32(t) || mo_is_bytes(t)) && !t->data && t->shape.rank >= 3;
}

static bool is_conv(const struct mo_node *node) {
    return mo_is(node, "Conv") || mo_is(node, "ConvTranspose") || mo_is_moire(node, "QConv");
}

/* A new node that converts tensor `from` into tensor `to`; appended, sorted into place after the pass. */
static int add_reorder(struct walk *w, int from, int to) {
    struct mo_node *node = mo_graph_add_node(w->g, "reorder", "Reorder", "moire", 1, 1);
    if (!node) return mo_no_memory(w->err);
    node->op = mo_op_find("Reorder", "moire");
    if (!node->op) return mo_fail(w->err, MOIRE_EINTERNAL, "no operator moire.Reorder");
    node->in[0] = from;
    node->out[0] = to;
    return MOIRE_OK;
}

/* The tensor that holds what `id` holds, in `layout`; <0 when out of memory. */
static int in_layout(struct walk *w, int id, enum mo_layout layout) {
    const struct mo_tensor *t = w->g->tensors[id];
    if (t->layout == layout || !can_block(t)) return id;
    if (w->converted[id] >= 0) return w->converted[id];
    struct mo_tensor *copy = mo_graph_add_tensor(w->g, t->name, t->dtype, &t->shape);
    if (!copy) {
        mo_no_memory(w->err);
        return MOIRE_ENOMEM;
    }
    copy->layout = layout;
    int rc = add_reorder(w, id, copy->id);
    if (rc) return rc;
    w->converted[id] = copy->id;
    return copy->id;
}

static bool blocked_input(const struct mo_graph *g, const struct mo_node *node) {
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0 && g->tensors[node->in[k]]->layout == MO_C16) return true;
    return false;
}

static bool outputs_block(const struct mo_graph *g, const struct mo_node *node) {
    for (int k = 0; k < node->n_out; k++)
        if (node->out[k] >= 0 && !can_block(g->tensors[node->out[k]])) return false;
    return node->n_out > 0;
}

/* A concat of whole channel blocks is the same in blocks; mostly its inputs will lie in place. */
static bool concats_blocks(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *y = g->tensors[node->out[0]];
    int64_t axis = mo_attr_int(node, "axis", 1);
    if (!mo_is(node, "Concat") || y->shape.rank < 3 || (axis != 1 && axis != 1 - y->shape.rank)) return false;
    for (int k = 0; k < node->n_in; k++) {
        const struct mo_tensor *x = mo_node_in(g, node, k);
        if (!x || !can_block(x) || (k + 1 < node->n_in && x->shape.d[1] % 16)) return false;
    }
    return true;
}

struct choice {
    enum mo_layout in, out;
};

/* An image that only a convolution of 8-bit numbers reads. */
static bool is_image(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_node *next = mo_graph_sole_consumer(g, node->out[0]);
    return mo_is_moire(node, "Fused") && next && mo_is_moire(next, "QConv");
}

/* Whether a tensor that a Transpose could as well write in blocks is read in blocks by all, and by one that
 * would not take it plain. */
static bool read_in_blocks(const struct mo_graph *g, int id) {
    bool wanted = false;
    if (g->tensors[id]->is_output) return false;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_node *node = g->nodes[i];
        bool reads = false;
        for (int k = 0; k < node->n_in && !node->dead; k++)
            reads = reads || node->in[k] == id;
        if (!reads) continue;
        if (!(mo_layouts_of(g, node) & MO_CAN_C16) || !outputs_block(g, node)) return false;
        wanted = wanted || is_conv(node) || blocked_input(g, node);
    }
    return wanted;
}

static struct choice choose(const struct mo_graph *g, const struct mo_node *node) {
    unsigned can = mo_layouts_of(g, node) | (concats_blocks(g, node) ? MO_CAN_C16 : 0);
    bool blocked = blocked_input(g, node), room = outputs_block(g, node);
    if (room && !blocked && can & MO_CAN_ENTER &&
        (is_conv(node) || is_image(g, node) || (mo_is(node, "Transpose") && read_in_blocks(g, node->out[0]))))
        return (struct choice){MO_PLAIN, MO_C16};
    if (room && can & MO_CAN_C16 && (blocked || is_conv(node))) return (struct choice){MO_C16, MO_C16};
    if (blocked && can & MO_CAN_LEAVE) return (struct choice){MO_C16, MO_PLAIN};
    return (struct choice){MO_PLAIN, MO_PLAIN};
}

static int set_output(struct walk *w, struct mo_node *node, int k) {
    struct mo_tensor *t = w->g->tensors[node->out[k]];
    if (!t->is_output) {
        t->layout = MO_C16;
        return MOIRE_OK;
    }
    struct mo_tensor *inner = mo_graph_add_tensor(w->g, t->name, t->dtype, &t->shape);
    if (!inner) return mo_no_memory(w->err);
    inner->layout = MO_C16;
    node->out[k] = inner->id;
    w->converted[t->id] = inner->id; /* blocked readers of the output take the inner tensor */
    return add_reorder(w, inner->id, t->id);
}

static int place(struct walk *w, struct mo_node *node) {
    struct choice c = choose(w->g, node);
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0 || w->g->tensors[node->in[k]]->data) continue;
        /* the residual is added where the result is written, so it has the layout of the output */
        int id = in_layout(w, node->in[k], k == node->fuse.residual ? c.out : c.in);
        if (id < 0) return id;
        node->in[k] = id;
    }
    for (int k = 0; c.out == MO_C16 && k < node->n_out; k++) {
        int rc = node->out[k] >= 0 ? set_output(w, node, k) : MOIRE_OK;
        if (rc) return rc;
    }
    return MOIRE_OK;
}

int mo_pass_layout(struct mo_graph *g, moire_error *err) {
    struct walk w = {.g = g, .err = err, .n_converted = g->n_tensors};
    w.converted = mo_region_array(g->region, (size_t)w.n_converted, sizeof *w.converted);
    if (!w.converted) return mo_no_memory(err);
    for (int i = 0; i < w.n_converted; i++)
        w.converted[i] = -1;
    int n = g->n_nodes; /* Reorders are appended behind */
    for (int i = 0; i < n; i++) {
        int rc = g->nodes[i]->dead ? MOIRE_OK : place(&w, g->nodes[i]);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
