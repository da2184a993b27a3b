/* SPDX-License-Identifier: Apache-2.0
 * pass_norm.c - the exported forms of normalization over the last axis become LayerNormalization and
 * RMSNormalization:
 *
 *   d = x - mean(x);  y = d / sqrt(mean(d^2) + eps) [* gamma] [+ beta]
 *                     y = x / sqrt(mean(x^2) + eps) [* gamma]
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

/* What the tensor is the square of; -1 = nothing. */
static int squared(const struct mo_graph *g, int tensor) {
    const struct mo_node *node = mo_producer(g, tensor);
    float two;
    if (mo_is(node, "Pow")) return mo_scalar(g, node->in[1], &two) && two == 2 ? node->in[0] : -1;
    return mo_is(node, "Mul") && node->in[0] == node->in[1] ? node->in[0] : -1;
}

/* d when the tensor is sqrt(mean(d^2) + eps); -1 otherwise. */
static int root_mean_square(const struct mo_graph *g, int tensor, float *eps) {
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

/* What is normalized, and how. */
struct normalization {
    int x;
    bool centred; /* by its mean, too: LayerNormalization */
    float eps;
};

static int rewrite(struct mo_graph *g, struct mo_node *div, const struct normalization *norm,
                   moire_error *err) {
    const struct mo_shape *shape = &g->tensors[norm->x]->shape;
    int gamma = -1, beta = -1;
    struct mo_node *last = div, *next = row_step(g, div, "Mul", &gamma);
    if (next)
        last = next;
    else
        gamma = -1;
    next = norm->centred ? row_step(g, last, "Add", &beta) : NULL;
    if (!next) beta = -1;
    if (gamma < 0) {
        const struct mo_tensor *one = ones(g, shape->d[shape->rank - 1]);
        if (!one) return mo_no_memory(err);
        gamma = one->id;
    }
    if (next) last = next;
    int *in = mo_region_array(g->region, 4, sizeof *in);
    if (!in) return mo_no_memory(err);
    in[0] = norm->x;
    in[1] = gamma;
    in[2] = beta;
    in[3] = -1;
    last->in = in;
    last->n_in = beta >= 0 ? 3 : 2;
    last->op_type = norm->centred ? "LayerNormalization" : "RMSNormalization";
    last->opset = norm->centred ? 17 : 23;
    last->op = mo_op_find(last->op_type, "");
    last->n_attrs = 0;
    struct mo_attr *axis = mo_node_add_attr(g, last, "axis", MO_ATTR_INT);
    if (axis) axis->i = -1;
    struct mo_attr *epsilon = mo_node_add_attr(g, last, "epsilon", MO_ATTR_FLOAT);
    if (epsilon) epsilon->f = norm->eps;
    return axis && epsilon && last->op ? MOIRE_OK : mo_no_memory(err);
}

/* What a tensor is the reciprocal of; -1 = nothing. */
static int reciprocal_of(const struct mo_graph *g, int tensor) {
    const struct mo_node *node = mo_producer(g, tensor);
    float one;
    if (mo_is(node, "Reciprocal")) return node->in[0];
    return mo_is(node, "Div") && mo_scalar(g, node->in[0], &one) && one == 1 ? node->in[1] : -1;
}

/* d over sqrt(mean(d^2) + eps), whether d is x itself or its distance from the mean. */
static bool divided(const struct mo_graph *g, int d, int root, struct normalization *norm) {
    const int square = root_mean_square(g, root, &norm->eps), x = centred(g, d);
    norm->centred = x >= 0 && square >= 0 && centred(g, square) == x;
    norm->x = norm->centred ? x : d;
    return square >= 0 && (norm->centred || square == d);
}

static bool normalized(const struct mo_graph *g, const struct mo_node *node, struct normalization *norm) {
    if (node->dead || node->n_in != 2 || !mo_is_f32(g->tensors[node->out[0]])) return false;
    if (mo_is(node, "Div")) return divided(g, node->in[0], node->in[1], norm);
    for (int k = 0; k < 2 && mo_is(node, "Mul"); k++) {
        const int root = reciprocal_of(g, node->in[1 - k]);
        if (root >= 0 && divided(g, node->in[k], root, norm)) return true;
    }
    return false;
}

int mo_pass_norm(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        struct normalization norm = {.x = -1};
        if (!normalized(g, g->nodes[i], &norm)) continue;
        int rc = rewrite(g, g->nodes[i], &norm, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
