/* SPDX-License-Identifier: Apache-2.0
 * pass_heads.c - attention reads query, key and value where a layer wrote them, often one product for all
 * three: what only takes their heads out of it, by Slice, Split, Gather or Transpose, is passed over.
 *
 * An operand is followed up through such layers and reshapes.  On the way back down its elements are
 * described by strides within the tensor at the top.  Where these are rows of heads side by side, [B,S,H',D],
 * or heads one behind the other, [B,H',S,D], attention takes its heads by number (attributes `order`, `heads`
 * and `first`). */
#include "codegen/passes/passes.h"
#include "runtime/ops/moire/attention.h"
#include "runtime/ops/op.h"
#include "variants/part.h"

enum { MOST_STEPS = 12 };

/* Elements of a tensor within those of `root`. */
struct view {
    int root, rank;
    int64_t d[MOIRE_MAX_RANK], stride[MOIRE_MAX_RANK], at;
    bool copied; /* by a layer between */
};

static void see_whole(const struct mo_graph *g, int tensor, struct view *v) {
    const struct mo_shape *s = &g->tensors[tensor]->shape;
    int64_t step = 1;
    *v = (struct view){.root = tensor, .rank = s->rank};
    for (int i = s->rank - 1; i >= 0; i--) {
        v->d[i] = s->d[i];
        v->stride[i] = step;
        step *= s->d[i];
    }
}

static bool see_transposed(const struct mo_node *node, struct view *v) {
    const struct view from = *v;
    int64_t perm[MOIRE_MAX_RANK];
    if (mo_attr_ints(node, "perm", perm, MOIRE_MAX_RANK) != v->rank) return false;
    for (int i = 0; i < v->rank; i++) {
        if (perm[i] < 0 || perm[i] >= v->rank) return false;
        v->d[i] = from.d[perm[i]];
        v->stride[i] = from.stride[perm[i]];
    }
    return true;
}

/* Slice and Split, by the box that their kernel would copy from a tensor without gaps. */
static bool see_part(const struct mo_graph *g, const struct mo_node *node, int k, struct view *v) {
    struct mo_box box;
    if (!mo_part_box(g, node, k, &box)) return false;
    int64_t step = (int64_t)mo_dtype_bytes(mo_node_in(g, node, 0)->dtype);
    for (int i = v->rank - 1; i >= 0; i--) {
        v->at += box.in_at / step % v->d[i] * v->stride[i];
        v->stride[i] *= box.in_stride[i] / step;
        step *= v->d[i];
        v->d[i] = box.dims[i];
    }
    return true;
}

/* One index along an axis, which is gone then, or has an extent of 1. */
static bool see_picked(const struct mo_graph *g, const struct mo_node *node, struct view *v) {
    const struct mo_tensor *index = mo_node_in(g, node, 1);
    if (!index || !index->data || index->dtype != MOIRE_I64 || mo_shape_count(&index->shape) != 1)
        return false;
    int64_t axis = mo_attr_int(node, "axis", 0), at = *(const int64_t *)index->data;
    if (axis < 0) axis += v->rank;
    if (axis < 0 || axis >= v->rank || index->shape.rank > 1) return false;
    if (at < 0) at += v->d[axis];
    if (at < 0 || at >= v->d[axis]) return false;
    v->at += at * v->stride[axis];
    v->d[axis] = 1;
    if (index->shape.rank == 1) return true;
    v->rank--;
    for (int i = (int)axis; i < v->rank; i++) {
        v->d[i] = v->d[i + 1];
        v->stride[i] = v->stride[i + 1];
    }
    return true;
}

/* Dimensions of 1 go, and those that lie like one become one. */
static void join_dimensions(struct view *v) {
    int n = 0;
    for (int i = 0; i < v->rank; i++) {
        if (v->d[i] == 1) continue;
        if (n && v->stride[n - 1] == v->d[i] * v->stride[i]) {
            v->d[n - 1] *= v->d[i];
            v->stride[n - 1] = v->stride[i];
            continue;
        }
        v->d[n] = v->d[i];
        v->stride[n++] = v->stride[i];
    }
    v->rank = n;
}

/* Each new dimension must lie within one of the joined ones. */
static bool see_reshaped(const struct mo_shape *to, struct view *v) {
    struct view from = *v;
    join_dimensions(&from);
    int run = from.rank - 1;
    v->rank = to->rank;
    for (int i = to->rank - 1; i >= 0; i--) {
        v->d[i] = to->d[i];
        v->stride[i] = 0;
        if (to->d[i] == 1) continue;
        while (run >= 0 && from.d[run] == 1)
            run--;
        if (run < 0 || from.d[run] % to->d[i]) return false;
        v->stride[i] = from.stride[run];
        from.d[run] /= to->d[i];
        from.stride[run] *= to->d[i];
    }
    return true;
}

/* `tensor`, which a node makes of what is seen; false when that has no strides. */
static bool see_through(const struct mo_graph *g, const struct mo_node *node, int tensor, struct view *v) {
    if (node->op->flags & MO_OP_VIEW) return see_reshaped(&g->tensors[tensor]->shape, v);
    v->copied = true;
    if (mo_is(node, "Transpose")) return see_transposed(node, v);
    if (mo_is(node, "Gather")) return see_picked(g, node, v);
    for (int k = 0; k < node->n_out; k++)
        if (node->out[k] == tensor) return see_part(g, node, k, v);
    return false;
}

/* A layer that only moves elements of its first input, without any that are not there. */
static bool moves(const struct mo_graph *g, const struct mo_node *node, int tensor) {
    if (!node || node->n_in < 1 || node->in[0] < 0 || node->fuse.residual >= 0 ||
        node->fuse.act != MO_ACT_NONE)
        return false;
    const struct mo_tensor *in = g->tensors[node->in[0]], *out = g->tensors[tensor];
    if (in->dynamic || in->data || in->dtype != out->dtype || in->layout != MO_PLAIN) return false;
    if (mo_shape_count(&in->shape) < 1 || mo_shape_count(&out->shape) < 1) return false;
    if (node->op->flags & MO_OP_VIEW) return mo_shape_count(&in->shape) == mo_shape_count(&out->shape);
    return mo_is(node, "Transpose") || mo_is(node, "Gather") || mo_is(node, "Slice") || mo_is(node, "Split");
}

static void find_view(const struct mo_graph *g, int tensor, struct view *v) {
    int chain[MOST_STEPS + 1] = {tensor}, n = 0;
    while (n < MOST_STEPS && moves(g, mo_producer(g, chain[n]), chain[n])) {
        chain[n + 1] = mo_producer(g, chain[n])->in[0];
        n++;
    }
    see_whole(g, chain[n], v);
    for (; n > 0; n--)
        if (!see_through(g, mo_producer(g, chain[n - 1]), chain[n - 1], v)) see_whole(g, chain[n - 1], v);
}

/* Where an operand's heads lie in the view's root. */
struct heads {
    struct mo_shape shape; /* of the root for attention */
    int64_t order, first;
};

static bool lies(int64_t n, int64_t stride, int64_t wanted) {
    return n == 1 || stride == wanted;
}

static bool find_heads(const struct mo_graph *g, const struct view *v, bool rows_first, struct heads *out) {
    const int s = rows_first ? 1 : 2, h = rows_first ? 2 : 1;
    const int64_t batch = v->d[0], rows = v->d[s], heads = v->d[h], columns = v->d[3];
    const int64_t count = mo_shape_count(&g->tensors[v->root]->shape), one = batch * rows * columns;
    if (!v->copied || count % one || !lies(columns, v->stride[3], 1)) return false;
    const int64_t all = count / one;
    if (!lies(batch, v->stride[0], rows * all * columns)) return false;
    out->order = lies(rows, v->stride[s], all * columns) && lies(heads, v->stride[h], columns);
    if (!out->order && !(lies(rows, v->stride[s], columns) && lies(heads, v->stride[h], rows * columns)))
        return false;
    const int64_t step = out->order ? columns : rows * columns;
    out->first = v->at / step;
    out->shape = (struct mo_shape){.rank = 4, .d = {batch, all, rows, columns}};
    if (out->order) {
        out->shape.d[1] = rows;
        out->shape.d[2] = all;
    }
    return v->at % step == 0 && out->first + heads <= all;
}

/* The root in this shape: what another operand reads already, or a new tensor.  <0 is an error. */
static int read_root(struct mo_graph *g, struct mo_node *node, int k, int root, const struct mo_shape *shape,
                     moire_error *err) {
    for (int i = 0; i < k; i++) {
        const struct mo_node *from = mo_producer(g, node->in[i]);
        if (mo_is(from, "Reshape") && from->in[0] == root &&
            mo_shape_equal(&g->tensors[node->in[i]]->shape, shape))
            return node->in[i];
    }
    if (mo_shape_equal(&g->tensors[root]->shape, shape)) return root;
    const struct mo_tensor *t = mo_graph_add_tensor(g, "heads", g->tensors[root]->dtype, shape);
    if (!t) return mo_no_memory(err);
    const int rc = mo_add_reshape(g, root, t->id, err);
    return rc ? rc : t->id;
}

static int read_in_place(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    int64_t order[4] = {0}, first[3] = {0};
    bool any = false;
    mo_attr_ints(node, "order", order, 4);
    const int64_t heads = g->tensors[node->in[0]]->shape.d[order[0] ? 2 : 1];
    for (int k = 0; k < 3; k++) {
        struct view v;
        struct heads found;
        find_view(g, node->in[k], &v);
        if (!find_heads(g, &v, order[k], &found)) continue;
        const int id = read_root(g, node, k, v.root, &found.shape, err);
        if (id < 0) return id;
        node->in[k] = id;
        order[k] = found.order;
        first[k] = found.first;
        any = true;
    }
    if (!any) return MOIRE_OK;
    int rc = mo_set_ints(g, node, "order", order, 4, err);
    if (!rc) rc = mo_set_int(g, node, "heads", heads, err);
    return rc ? rc : mo_set_ints(g, node, "first", first, 3, err);
}

int mo_pass_heads(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    const int n = g->n_nodes; /* Reshapes are appended behind */
    for (int i = 0; !rc && i < n; i++) {
        struct mo_node *node = g->nodes[i];
        const bool attends = mo_is_moire(node, "Attention") || mo_is_moire(node, "QAttention");
        if (!node->dead && attends && !mo_attr_find(node, "heads")) rc = read_in_place(g, node, err);
    }
    return rc;
}
