/* SPDX-License-Identifier: Apache-2.0
 * pass_matmul.c - Gemm and MatMul become moire.MatMul, so that one kernel family serves both.
 *
 * Gemm: transA off, B constant, C absent or a constant row; alpha, beta and transB go into the constants.
 * MatMul: a constant 2-D right operand, or two operands of equal rank and equal leading dimensions. */
#include <string.h>
#include "codegen/passes/passes.h"

struct mo_tensor *mo_right_operand(struct mo_graph *g, const struct mo_tensor *b, int64_t k, int64_t n,
                                   bool transposed, float alpha) {
    const float how[2] = {transposed, alpha};
    struct mo_tensor *out = mo_derive_constant(g, b, b->name, &(struct mo_shape){.rank = 2, .d = {k, n}},
                                               mo_content_of("right", &b->content, 1, how, sizeof how));
    if (!out || mo_packed_elided(g, out)) return out;
    const float *from = b->data;
    float *to = out->data;
    enum { COLUMNS = 16 }; /* at a time: as many rows are read side by side, and whole cache lines written */
    for (int64_t begin = 0; begin < n; begin += COLUMNS) {
        const int64_t end = begin + COLUMNS < n ? begin + COLUMNS : n;
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = begin; j < end; j++)
                to[i * n + j] = alpha * from[transposed ? j * k + i : i * n + j];
    }
    return out;
}

/* alpha * op(B) as a new constant [K,N]; B itself when nothing changes. */
static struct mo_tensor *right_operand(struct mo_graph *g, const struct mo_tensor *b, bool transposed,
                                       float alpha) {
    if (!transposed && alpha == 1) return g->tensors[b->id];
    return mo_right_operand(g, b, b->shape.d[transposed], b->shape.d[!transposed], transposed, alpha);
}

/* beta * C as a constant [N]; false when C is no row. */
static bool row_of(struct mo_graph *g, const struct mo_tensor *c, const struct mo_shape *y, float beta,
                   struct mo_tensor **out) {
    *out = mo_graph_add_const(g, c->name, MOIRE_F32, &(struct mo_shape){.rank = 1, .d = {y->d[1]}});
    if (!*out) return true;
    float *row = (*out)->data;
    if (!mo_per_channel(c, y, 1, row)) return false;
    for (int64_t i = 0; i < y->d[1]; i++)
        row[i] *= beta;
    return true;
}

static int convert_gemm(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1),
                           *c = mo_node_in(g, node, 2);
    const struct mo_tensor *y = g->tensors[node->out[0]];
    bool transposed = mo_attr_int(node, "transB", 0) != 0;
    if (!mo_is_f32(a) || !mo_is_f32(b) || !b->data || b->shape.rank != 2 || mo_attr_int(node, "transA", 0))
        return 0;
    struct mo_tensor *bias = NULL;
    if (c && !row_of(g, c, &y->shape, mo_attr_float(node, "beta", 1), &bias)) return 0;
    struct mo_tensor *w = right_operand(g, b, transposed, mo_attr_float(node, "alpha", 1));
    if (!w || (c && !bias)) return mo_no_memory(err);
    if (w != b) mo_drop_constant(g, b->id);
    node->in[1] = w->id;
    if (c) node->in[2] = bias->id;
    return mo_become(g, node, "MatMul", 3, err);
}

static int convert_matmul(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    const struct mo_tensor *a = mo_node_in(g, node, 0), *b = mo_node_in(g, node, 1);
    if (!mo_is_f32(a) || !mo_is_f32(b) || a->shape.rank < 2 || b->shape.rank < 2) return 0;
    bool simple = b->data && b->shape.rank == 2;
    if (!simple) {
        if (a->shape.rank != b->shape.rank) return 0;
        for (int i = 0; i < a->shape.rank - 2; i++)
            if (a->shape.d[i] != b->shape.d[i]) return 0;
    }
    return mo_become(g, node, "MatMul", 3, err);
}

int mo_pass_matmul(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        struct mo_node *node = g->nodes[i];
        int rc = mo_is(node, "Gemm")     ? convert_gemm(g, node, err)
                 : mo_is(node, "MatMul") ? convert_matmul(g, node, err)
                                         : 0;
        if (rc) return rc;
    }
    return MOIRE_OK;
}
