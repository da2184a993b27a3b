/* SPDX-License-Identifier: Apache-2.0
 * old_broadcast.c - how operands met before opset 7: where an attribute said so.
 *
 * With `broadcast` the second operand's axes lie from `axis` of the first on, or at its end; a PRelu's slope
 * lies along the channels.  Today's rule aligns operands at the end.  So the second operand gets axes of
 * length 1 behind its own, and all that follows, kernels included, needs to know of nothing else. */
#include <string.h>
#include "codegen/prepare.h"
#include "runtime/ops/op.h"

/* Axes to put behind those of the second operand: those of the first that it does not reach.  Below 0: none.
 */
static int64_t axes_behind(const struct mo_node *node, const struct mo_tensor *a, const struct mo_tensor *b) {
    if (!strcmp(node->op_type, "PRelu")) return b->shape.rank == 1 ? a->shape.rank - 2 : 0;
    int64_t axis = mo_attr_int(node, "axis", 0);
    if (axis < 0) axis += a->shape.rank;
    return a->shape.rank - axis - b->shape.rank;
}

static bool is_aligned(const struct mo_node *node) {
    if (*node->domain || node->opset >= MO_OPSET_BROADCAST || node->n_in != 2) return false;
    if (node->in[0] < 0 || node->in[1] < 0) return false;
    return !strcmp(node->op_type, "PRelu") ||
           (mo_attr_int(node, "broadcast", 0) && mo_attr_find(node, "axis"));
}

/* The same contents under another shape: a constant at once, anything else by a node. */
static struct mo_tensor *reshaped(struct mo_graph *g, struct mo_tensor *b, const struct mo_shape *shape) {
    struct mo_tensor *t = mo_graph_add_tensor(g, b->name, b->dtype, shape);
    if (!t || b->data) {
        if (t) t->data = b->data;
        if (t) t->shared = true;
        return t;
    }
    struct mo_node *node = mo_graph_add_node(g, b->name, "Unsqueeze", "", 1, 1);
    struct mo_attr *axes = node ? mo_node_add_attr(g, node, "axes", MO_ATTR_INTS) : NULL;
    const int n = shape->rank - b->shape.rank;
    int64_t *list = axes ? mo_region_array(g->region, (size_t)n, sizeof *list) : NULL;
    if (!list) return NULL;
    for (int i = 0; i < n; i++)
        list[i] = b->shape.rank + i;
    axes->ints = list;
    axes->n = n;
    node->in[0] = b->id;
    node->out[0] = t->id;
    node->op = mo_op_find("Unsqueeze", "");
    return t;
}

int mo_align_broadcast(struct mo_graph *g, struct mo_node *node, bool *added, moire_error *err) {
    if (!is_aligned(node)) return MOIRE_OK;
    const struct mo_tensor *a = g->tensors[node->in[0]];
    struct mo_tensor *b = g->tensors[node->in[1]];
    if (a->dynamic || b->dynamic || a->shape.rank < 0 || b->shape.rank < 0)
        return mo_fail(
            err, MOIRE_EUNSUPPORTED,
            "node '%.100s' (%.60s): broadcasting as before opset 7 needs shapes that are known when the "
            "model is loaded; convert the model",
            node->name, node->op_type);
    const int64_t n = axes_behind(node, a, b);
    if (n < 0 && !strcmp(node->op_type, "PRelu")) return MOIRE_OK;
    if (n < 0 || b->shape.rank + n > a->shape.rank)
        return mo_fail(
            err, MOIRE_EFORMAT,
            "node '%.100s' (%.60s): attribute axis (%lld) puts the second operand outside the first",
            node->name, node->op_type, (long long)mo_attr_int(node, "axis", 0));
    if (!n) return MOIRE_OK;
    struct mo_shape shape = b->shape;
    for (int64_t i = 0; i < n; i++)
        shape.d[shape.rank++] = 1;
    const struct mo_tensor *t = reshaped(g, b, &shape);
    if (!t) return mo_fail(err, MOIRE_ENOMEM, "out of memory inferring node '%.100s'", node->name);
    *added = *added || !t->data;
    node->in[1] = t->id;
    return MOIRE_OK;
}
