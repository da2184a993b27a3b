/* SPDX-License-Identifier: Apache-2.0
 * pass_norm.c - the exported form of layer normalization over the last axis becomes LayerNormalization:
 *
 *   d = x - mean(x);  y = d / sqrt(mean(d^2) + eps) [* gamma] [+ beta]
 *
 * The division may be a product with the reciprocal; d may be computed once or twice; d^2 is Pow(d, 2) or
 * Mul(d, d); gamma and beta are constants [D]. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

/* ReduceMean over the last axis that keeps it; axes are an attribute or, since opset 18, an input. */
static bool is_row_mean(const struct mo_graph *g, const struct mo_node *node) {
    if (!mo_is(node, "ReduceMean") || mo_attr_int(node, "keepdims", 1) != 1) return false;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *axes = mo_node_in(g, node, 1);
    int64_t axis;
    if (!mo_is_f32(x) || x->shape.rank < 1) return false;
    if (axes) {
        if (!axes->data || axes->dtype != MOIRE_I64 || mo_shape_count(&axes->shape) != 1) return false;
        axis = *(const int64_t *)axes->data;
    } else if (mo_attr_ints(node, "axes", &axis, 1) != 1) {
        return false;
    }
    return axis == -1 || axis == x->shape.rank - 1;
}

/* x when the tensor is x - mean(x); -1 otherwise. */
static int centred(const struct mo_graph *g, int tensor) {
    const struct mo_node *sub = mo_producer(g, tensor);
    if (!mo_is(sub, "Sub")) return -1;
    const struct mo_node *mean = mo_producer(g, sub->in[1]);
    return is_row_mean(g, mean) && mean->in[0] == sub->in[0] ? sub->in[0] : -1;
}

/* x when the tensor is the square of x - mean(x). */
static int squared(const struct mo_graph *g, int tensor) {
    const struct mo_node *node = mo_producer(g, tensor);
    float two;
    if (mo_is(node, "Pow")) return mo_scalar(g, node->in[1], &two) && two == 2 ? centred(g, node->in[0]) : -1;
    return mo_is(node, "Mul") && node->in[0] == node->in[1] ? centred(g, node->in[0]) : -1;
}

/* x when the tensor is sqrt(mean((x - mean x)^2) + eps). */
static int deviation(const struct mo_graph *g, int tensor, float *eps) {
    const struct mo_node *root = mo_producer(g, tensor),
                         *add = mo_is(root, "Sqrt") ? mo_producer(g, root->in[0]) : NULL;
    if (!add || !mo_is(add, "Add")) return -1;
    int k = mo_scalar(g, add->in[1], eps) ? 0 : 1;
    if (!mo_scalar(g, add->in[1 - k], eps)) return -1;
    const struct mo_node *mean = mo_producer(g, add->in[k]);
    return is_row_mean(g, mean) ? squared(g, mean->in[0]) : -1;
}

/* The sole reader of node's output when it is `op` with a constant row of the last axis; *row gets the
 * constant. */
static struct mo_node *row_step(const struct mo_graph *g, const struct mo_node *node, const char *op,
                                int *row) {
    const struct mo_shape *shape = &g->tensors[node->out[0]]->shape;
    struct mo_node *next = mo_graph_sole_consumer(g, node->out[0]);
    if (!mo_is(next, op) || next->n_in != 2) return NULL;
    *row = next->in[next->in[0] == node->out[0] ? 1 : 0];
    const struct mo_tensor *c = *row < 0 ? NULL : g->tensors[*row];
    bool fits =
        c && mo_is_f32(c) && c->data && c->shape.rank == 1 && c->shape.d[0] == shape->d[shape->rank - 1];
    return fits ? next : NULL;
}

static struct mo_tensor *ones(struct mo_graph *g, int64_t n) {
    struct mo_tensor *t = mo_graph_add_const(g, "one", MOIRE_F32, &(struct mo_shape){.rank = 1, .d = {n}});
    for (int64_t i = 0; t && i < n; i++)
        ((float *)t->data)[i] = 1;
    return t;
}

static int rewrite(struct mo_graph *g, struct mo_node *div, int x, float eps, moire_error *err) {
    const struct mo_shape *shape = &g->tensors[x]->shape;
    int gamma = -1, beta = -1;
    struct mo_node *last = div, *next = row_step(g, div, "Mul", &gamma);
    if (next)
        last = next;
    else
        gamma = -1;
    next = row_step(g, last, "Add", &beta);
    if (!next) beta = -1;
    if (gamma < 0) {
        const struct mo_tensor *one = ones(g, shape->d[shape->rank - 1]);
        if (!one) return mo_no_memory(err);
        gamma = one->id;
    }
    if (next) last = next;
    int *in = mo_region_array(g->region, 4, sizeof *in);
    if (!in) return mo_no_memory(err);
    in[0] = x;
    in[1] = gamma;
    in[2] = beta;
    in[3] = -1;
    last->in = in;
    last->n_in = beta >= 0 ? 3 : 2;
    last->op_type = "LayerNormalization";
    last->opset = 17;
    last->op = mo_op_find("LayerNormalization", "");
    last->n_attrs = 0;
    struct mo_attr *axis = mo_node_add_attr(g, last, "axis", MO_ATTR_INT);
    if (axis) axis->i = -1;
    struct mo_attr *epsilon = mo_node_add_attr(g, last, "epsilon", MO_ATTR_FLOAT);
    if (epsilon) epsilon->f = eps;
    return axis && epsilon && last->op ? MOIRE_OK : mo_no_memory(err);
}

/* What a tensor is the reciprocal of; -1 = nothing. */
static int reciprocal_of(const struct mo_graph *g, int tensor) {
    const struct mo_node *node = mo_producer(g, tensor);
    float one;
    if (mo_is(node, "Reciprocal")) return node->in[0];
    return mo_is(node, "Div") && mo_scalar(g, node->in[0], &one) && one == 1 ? node->in[1] : -1;
}

/* x when the node is (x - mean x) over its deviation. */
static int normalized(const struct mo_graph *g, const struct mo_node *node, float *eps) {
    int x, root;
    if (node->dead || node->n_in != 2 || !mo_is_f32(g->tensors[node->out[0]])) return -1;
    if (mo_is(node, "Div")) {
        x = centred(g, node->in[0]);
        return x >= 0 && deviation(g, node->in[1], eps) == x ? x : -1;
    }
    for (int k = 0; k < 2 && mo_is(node, "Mul"); k++) {
        x = centred(g, node->in[k]);
        root = x < 0 ? -1 : reciprocal_of(g, node->in[1 - k]);
        if (root >= 0 && deviation(g, root, eps) == x) return x;
    }
    return -1;
}

int mo_pass_norm(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        float eps = 0;
        int x = normalized(g, g->nodes[i], &eps);
        if (x < 0) continue;
        int rc = rewrite(g, g->nodes[i], x, eps, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
