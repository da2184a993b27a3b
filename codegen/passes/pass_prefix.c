/* SPDX-License-Identifier: Apache-2.0
 * pass_prefix.c - a Concat that begins with the inputs of another one takes that one's output in their place.
 *
 * Dense blocks join all that came before, again and again.  As a chain each joins two, the growing one and
 * what is new, and the concat pass (pass_alias.c) can put the whole chain into one tensor, so that nothing is
 * copied. One of more inputs than kernels take becomes a chain, too. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"
#include "variants/kernel.h"

static bool joins(const struct mo_graph *g, const struct mo_node *node) {
    return !node->dead && mo_is(node, "Concat") && node->n_out == 1 && node->n_in > 1 &&
           node->fuse.act == MO_ACT_NONE && node->fuse.residual < 0 && !g->tensors[node->out[0]]->dynamic;
}

static int64_t axis_of(const struct mo_graph *g, const struct mo_node *node) {
    const int64_t axis = mo_attr_int(node, "axis", 1);
    return axis < 0 ? axis + g->tensors[node->out[0]]->shape.rank : axis;
}

static bool is_prefix(const struct mo_graph *g, const struct mo_node *part, const struct mo_node *whole) {
    return part != whole && joins(g, part) && part->n_in < whole->n_in &&
           axis_of(g, part) == axis_of(g, whole) &&
           !memcmp(part->in, whole->in, (size_t)part->n_in * sizeof *part->in);
}

/* `tensor` in place of the first n inputs. */
static void replace_first(struct mo_node *node, int n, int tensor) {
    node->in[0] = tensor;
    for (int i = n; i < node->n_in; i++)
        node->in[i - n + 1] = node->in[i];
    node->n_in -= n - 1;
}

/* Its first inputs are joined by a node of their own. */
static int split(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    const int64_t axis = axis_of(g, node);
    struct mo_shape shape = g->tensors[node->out[0]]->shape;
    for (shape.d[axis] = 0; node->n_in > MO_KERNEL_IN;) {
        for (int i = 0; i < MO_KERNEL_IN; i++)
            shape.d[axis] += g->tensors[node->in[i]]->shape.d[axis];
        const struct mo_tensor *t =
            mo_graph_add_tensor(g, node->name, g->tensors[node->out[0]]->dtype, &shape);
        struct mo_node *first = t ? mo_graph_add_node(g, node->name, "Concat", "", MO_KERNEL_IN, 1) : NULL;
        if (!first) return mo_no_memory(err);
        first->op = node->op, first->opset = node->opset;
        memcpy(first->in, node->in, MO_KERNEL_IN * sizeof *node->in);
        first->out[0] = t->id;
        const int rc = mo_set_int(g, first, "axis", axis, err);
        if (rc) return rc;
        replace_first(node, MO_KERNEL_IN, t->id);
        shape.d[axis] = 0;
    }
    return MOIRE_OK;
}

/* Every node is compared as it was: from the longest to the shortest, so that prefixes are whole when they
 * are looked for. */
static void chain(struct mo_graph *g, int n) {
    int most = 0;
    for (int i = 0; i < n; i++)
        if (joins(g, g->nodes[i]) && g->nodes[i]->n_in > most) most = g->nodes[i]->n_in;
    for (int inputs = most; inputs > 2; inputs--)
        for (int i = 0; i < n; i++) {
            struct mo_node *node = g->nodes[i], *best = NULL;
            if (!joins(g, node) || node->n_in != inputs) continue;
            for (int k = 0; k < n; k++)
                if (is_prefix(g, g->nodes[k], node) && (!best || g->nodes[k]->n_in > best->n_in))
                    best = g->nodes[k];
            if (best) replace_first(node, best->n_in, best->out[0]);
        }
}

static bool whole(const struct mo_graph *g, const struct mo_node *node) {
    const int64_t axis = axis_of(g, node);
    if (axis < 0 || axis >= g->tensors[node->out[0]]->shape.rank) return false;
    for (int i = 0; i < node->n_in; i++) {
        const struct mo_tensor *x = node->in[i] < 0 ? NULL : g->tensors[node->in[i]];
        if (!x || x->dynamic || x->shape.rank <= axis) return false;
    }
    return true;
}

int mo_pass_prefix(struct mo_graph *g, moire_error *err) {
    const int n = g->n_nodes; /* new ones are appended behind */
    chain(g, n);
    for (int i = 0; i < n; i++) {
        if (!joins(g, g->nodes[i]) || g->nodes[i]->n_in <= MO_KERNEL_IN || !whole(g, g->nodes[i])) continue;
        const int rc = split(g, g->nodes[i], err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
