/* SPDX-License-Identifier: Apache-2.0
 * rows.c - binds softmax, normalization of rows and reductions over neighbouring dimensions. */
#include <string.h>
#include "variants/generic/bind.h"

/* Plain, gap-free float input and output without a fused epilogue. */
static bool simple(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    return mo_f32(x) && mo_f32(y) && !x->data && node->fuse.act == MO_ACT_NONE && node->fuse.residual < 0;
}

static bool plain(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    return x->layout == MO_PLAIN && y->layout == MO_PLAIN && mo_dense(g, x) && mo_dense(g, y);
}

static unsigned softmax_layouts(const struct mo_graph *g, const struct mo_node *node) {
    if (!mo_node_is(node, "Softmax") && !mo_node_is(node, "LogSoftmax")) return 0;
    return simple(g, node) && mo_node_in(g, node, 0)->shape.rank > 0 ? MO_CAN_PLAIN : 0;
}

static int softmax_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                        moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0);
    struct mo_softmax_params p = {.log = mo_node_is(node, "LogSoftmax")};
    int rank = x->shape.rank, axis = mo_axis_of(mo_attr_int(node, "axis", node->opset < 13 ? 1 : -1), rank);
    if (axis < 0 || !plain(binder->graph, node)) return MOIRE_EUNSUPPORTED;
    bool flat = node->opset < 13; /* all dimensions from axis on form one row */
    p.outer = mo_span(x, 0, axis);
    p.n = mo_span(x, axis, flat ? rank : axis + 1);
    p.inner = flat ? 1 : mo_span(x, axis + 1, rank);
    p.chunks = p.inner == 1 ? 1 : (p.inner + MO_SLICE - 1) / MO_SLICE;
    return mo_bound(step, mo_simd_of(binder->isa)->softmax, "softmax", mo_keep(binder, &p, sizeof p),
                    p.outer * p.chunks, err);
}

const struct mo_family mo_family_softmax = {"softmax", softmax_layouts, softmax_bind};

static unsigned layernorm_layouts(const struct mo_graph *g, const struct mo_node *node) {
    if (!mo_node_is(node, "LayerNormalization") && !mo_node_is_ours(node, "LayerNormalization") &&
        !mo_node_is(node, "RMSNormalization"))
        return 0;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *scale = mo_node_in(g, node, 1),
                           *bias = mo_node_in(g, node, 2);
    if (!simple(g, node) || x->shape.rank < 1 || mo_node_out(g, node, 1) || mo_node_out(g, node, 2)) return 0;
    int axis = mo_axis_of(mo_attr_int(node, "axis", -1), x->shape.rank);
    int64_t n = axis < 0 ? -1 : mo_span(x, axis, x->shape.rank);
    if (n < 1 || !mo_f32(scale) || mo_shape_count(&scale->shape) != n) return 0;
    return !bias || (mo_f32(bias) && mo_shape_count(&bias->shape) == n) ? MO_CAN_PLAIN : 0;
}

static int layernorm_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                          moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0);
    int axis = mo_axis_of(mo_attr_int(node, "axis", -1), x->shape.rank);
    struct mo_layernorm_params p = {.epsilon = mo_attr_float(node, "epsilon", 1e-5f),
                                    .centred = !mo_node_is(node, "RMSNormalization")};
    if (!plain(binder->graph, node)) return MOIRE_EUNSUPPORTED;
    for (int i = 1; i < 3; i++) { /* scale and bias may be activations */
        const struct mo_tensor *row = mo_node_in(binder->graph, node, i);
        if (row && (row->layout != MO_PLAIN || !mo_dense(binder->graph, row))) return MOIRE_EUNSUPPORTED;
    }
    p.n = mo_span(x, axis, x->shape.rank);
    p.rows = mo_span(x, 0, axis);
    return mo_bound(step, mo_simd_of(binder->isa)->layernorm, "layernorm", mo_keep(binder, &p, sizeof p),
                    p.rows, err);
}

const struct mo_family mo_family_layernorm = {"layernorm", layernorm_layouts, layernorm_bind};

static const struct {
    const char *op_type;
    enum mo_reduction op;
} reductions[] = {
    {"ReduceMean", MO_REDUCE_MEAN},
    {"ReduceSum", MO_REDUCE_SUM},
    {"ReduceMax", MO_REDUCE_MAX},
    {"ReduceMin", MO_REDUCE_MIN},
};

/* Without axes all are reduced, unless the node says that then none is. */
static bool takes_all(const struct mo_graph *g, const struct mo_node *node) {
    return !mo_attr_find(node, "axes") && !mo_node_in(g, node, 1) &&
           !mo_attr_int(node, "noop_with_empty_axes", 0);
}

/* The reduced axes are neighbours: [first, last]. */
static bool reduction(const struct mo_graph *g, const struct mo_node *node, enum mo_reduction *op, int *first,
                      int *last) {
    int64_t axes[MOIRE_MAX_RANK];
    bool set[MOIRE_MAX_RANK] = {false}, known = false;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (mo_node_is(node, reductions[i].op_type)) {
            *op = reductions[i].op;
            known = true;
        }
    if (!known || !simple(g, node)) return false;
    int rank = mo_node_in(g, node, 0)->shape.rank, n = mo_ints_of(g, node, "axes", 1, axes, MOIRE_MAX_RANK);
    if (takes_all(g, node))
        for (n = 0; n < rank; n++)
            axes[n] = n;
    if (rank < 1 || n < 1) return false;
    for (int i = 0; i < n; i++) {
        int axis = mo_axis_of(axes[i], rank);
        if (axis < 0) return false;
        set[axis] = true;
    }
    for (*first = 0; !set[*first];)
        ++*first;
    for (*last = rank - 1; !set[*last];)
        --*last;
    for (int i = *first; i <= *last; i++)
        if (!set[i]) return false;
    return true;
}

static unsigned reduce_layouts(const struct mo_graph *g, const struct mo_node *node) {
    enum mo_reduction op;
    int first, last;
    return reduction(g, node, &op, &first, &last) ? MO_CAN_PLAIN : 0;
}

static int reduce_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                       moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0);
    struct mo_reduce_params p;
    int first, last;
    if (!reduction(binder->graph, node, &p.op, &first, &last) || !plain(binder->graph, node))
        return MOIRE_EUNSUPPORTED;
    p.outer = mo_span(x, 0, first);
    p.n = mo_span(x, first, last + 1);
    p.inner = mo_span(x, last + 1, x->shape.rank);
    p.chunks = p.inner == 1 ? 1 : (p.inner + MO_SLICE - 1) / MO_SLICE;
    return mo_bound(step, mo_simd_of(binder->isa)->reduce, "reduce", mo_keep(binder, &p, sizeof p),
                    p.outer * p.chunks, err);
}

const struct mo_family mo_family_reduce = {"reduce", reduce_layouts, reduce_bind};
