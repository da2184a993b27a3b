/* SPDX-License-Identifier: Apache-2.0
 * pass_attention.c - the exported form of attention becomes moire.Attention:
 *
 *   MatMul(Softmax([mask +] [scale *] MatMul([scale *] Q, [scale *] K^T)), V)
 *
 * with rank-4 operands [B,H,S,D] and constant scales.  K^T mostly comes from a Transpose; one that leaves the
 * two last axes in order (or none) takes its place. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/op.h"

struct attention {
    int q, kt, v, mask;
    float scale;
};

static bool rank4(const struct mo_graph *g, int tensor) {
    return tensor >= 0 && mo_is_f32(g->tensors[tensor]) && g->tensors[tensor]->shape.rank == 4;
}

/* Skips a Mul or Div by a scalar constant; returns the tensor below, and the factor is multiplied in. */
static int unscale(const struct mo_graph *g, int tensor, float *scale) {
    const struct mo_node *node = mo_producer(g, tensor);
    float c;
    if (mo_is(node, "Div") && mo_scalar(g, node->in[1], &c) && c != 0) {
        *scale /= c;
        return node->in[0];
    }
    for (int k = 0; k < 2 && mo_is(node, "Mul"); k++) {
        if (!mo_scalar(g, node->in[k], &c)) continue;
        *scale *= c;
        return node->in[1 - k];
    }
    return tensor;
}

/* The scaled scores: a MatMul under an optional factor. */
static bool scores(const struct mo_graph *g, int tensor, struct attention *a) {
    a->scale = 1;
    int below = unscale(g, tensor, &a->scale);
    const struct mo_node *node = mo_producer(g, below);
    if (!mo_is(node, "MatMul") || !rank4(g, below)) return false;
    a->q = unscale(g, node->in[0], &a->scale);
    a->kt = unscale(g, node->in[1], &a->scale);
    return rank4(g, a->q) && rank4(g, a->kt);
}

static bool masked_scores(const struct mo_graph *g, int tensor, struct attention *a) {
    const struct mo_node *add = mo_producer(g, tensor);
    a->mask = -1;
    if (scores(g, tensor, a)) return true;
    for (int k = 0; k < 2 && mo_is(add, "Add"); k++) {
        if (!scores(g, add->in[k], a)) continue;
        const struct mo_tensor *mask = g->tensors[add->in[1 - k]];
        a->mask = mask->id;
        return mo_is_f32(mask) && mask->shape.rank <= 4 &&
               mo_shape_equal(&g->tensors[tensor]->shape, &g->tensors[add->in[k]]->shape);
    }
    return false;
}

static bool matches(const struct mo_graph *g, const struct mo_node *node, struct attention *a) {
    if (!mo_is(node, "MatMul") || !rank4(g, node->out[0])) return false;
    const struct mo_node *softmax = mo_producer(g, node->in[0]);
    a->v = node->in[1];
    if (!mo_is(softmax, "Softmax") || !rank4(g, a->v) || !rank4(g, softmax->in[0])) return false;
    int64_t axis = mo_attr_int(softmax, "axis", softmax->opset >= 13 ? -1 : 1);
    if ((axis != -1 && axis != 3) || !masked_scores(g, softmax->in[0], a)) return false;
    const struct mo_shape *q = &g->tensors[a->q]->shape, *kt = &g->tensors[a->kt]->shape,
                          *v = &g->tensors[a->v]->shape;
    bool fits = q->d[3] == kt->d[2] && kt->d[3] == v->d[2];
    for (int i = 0; i < 2; i++)
        fits = fits && q->d[i] == kt->d[i] && q->d[i] == v->d[i];
    return fits;
}

/* A tensor [B,H,S,D] with what kt [B,H,D,S] holds; <0 is an error. */
static int keys(struct mo_graph *g, int kt, moire_error *err) {
    int64_t perm[4] = {0, 1, 2, 3};
    const struct mo_node *turn = mo_producer(g, kt);
    int from = kt;
    if (mo_is(turn, "Transpose") && rank4(g, turn->in[0]) && mo_attr_ints(turn, "perm", perm, 4) == 4)
        from = turn->in[0];
    else
        for (int i = 0; i < 4; i++)
            perm[i] = i;
    int64_t last = perm[3];
    perm[3] = perm[2];
    perm[2] = last;
    if (perm[0] == 0 && perm[1] == 1 && perm[2] == 2 && perm[3] == 3) return from;
    const struct mo_tensor *t = g->tensors[kt];
    struct mo_shape shape = {.rank = 4, .d = {t->shape.d[0], t->shape.d[1], t->shape.d[3], t->shape.d[2]}};
    struct mo_tensor *k = mo_graph_add_tensor(g, t->name, MOIRE_F32, &shape);
    struct mo_node *node = mo_graph_add_node(g, "keys", "Transpose", "", 1, 1);
    if (!k || !node || !(node->op = mo_op_find("Transpose", ""))) return mo_no_memory(err);
    node->in[0] = from;
    node->out[0] = k->id;
    int rc = mo_set_ints(g, node, "perm", perm, 4, err);
    return rc ? rc : k->id;
}

static int rewrite(struct mo_graph *g, struct mo_node *node, const struct attention *a, moire_error *err) {
    int k = keys(g, a->kt, err);
    if (k < 0) return k;
    int rc = mo_become(g, node, "Attention", a->mask >= 0 ? 4 : 3, err);
    if (rc) return rc;
    node->in[0] = a->q;
    node->in[1] = k;
    node->in[2] = a->v;
    if (a->mask >= 0) node->in[3] = a->mask;
    struct mo_attr *scale = mo_node_add_attr(g, node, "scale", MO_ATTR_FLOAT);
    if (!scale) return mo_no_memory(err);
    scale->f = a->scale;
    return MOIRE_OK;
}

int mo_pass_attention(struct mo_graph *g, moire_error *err) {
    int n = g->n_nodes; /* Transposes are appended behind */
    for (int i = 0; i < n; i++) {
        struct attention a;
        if (!matches(g, g->nodes[i], &a)) continue;
        int rc = rewrite(g, g->nodes[i], &a, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
