/* SPDX-License-Identifier: Apache-2.0
 * pass_recurrent.c - RNN, GRU and LSTM become a product and a recurrence:
 *
 *   moire.MatMul      all steps' inputs by W of both directions, plus both biases
 *   moire.RNN, ...    steps through what that gives (runtime/ops/recurrent.c)
 *
 * Weights, biases and peepholes must be constant, activations such as fused epilogues have, and lengths in
 * range: constant ones are looked at here, those of a query by a moire.Lengths.  Else the node stays as it
 * is, for the reference.  A GRU whose reset gate comes after its product (linear_before_reset) keeps the bias
 * of that product; all others are sums only. */
#include <string.h>
#include "codegen/passes/passes.h"
#include "runtime/ops/recurrent.h"

/* Operand i is a constant of floats, or absent where it may be. */
static bool is_constant(const struct mo_graph *g, const struct mo_node *node, int i, bool optional) {
    const struct mo_tensor *t = mo_node_in(g, node, i);
    return t ? mo_is_f32(t) && t->data : optional;
}

/* Constant lengths are in range. */
static bool are_lengths(const struct mo_tensor *t, int64_t most) {
    if (!t) return true;
    if (t->dtype != MOIRE_I32 || t->dynamic) return false;
    for (int64_t i = 0; t->data && i < mo_shape_count(&t->shape); i++)
        if (((const int32_t *)t->data)[i] < 0 || ((const int32_t *)t->data)[i] > most) return false;
    return true;
}

static bool fits(const struct mo_graph *g, const struct mo_node *node, struct mo_recurrent *l) {
    if (!mo_is(node, "LSTM") && !mo_is(node, "GRU") && !mo_is(node, "RNN")) return false;
    const struct mo_tensor *x = mo_node_in(g, node, MO_RECURRENT_X);
    if (!mo_is_f32(x) || mo_shape_count(&x->shape) < 1) return false;
    for (int i = MO_RECURRENT_W; i <= MO_RECURRENT_BIAS; i++)
        if (!is_constant(g, node, i, i == MO_RECURRENT_BIAS)) return false;
    if (!is_constant(g, node, MO_RECURRENT_PEEPHOLES, true)) return false;
    for (int i = MO_RECURRENT_INITIAL_H; i <= MO_RECURRENT_INITIAL_C; i++)
        if (mo_node_in(g, node, i) && !mo_is_f32(mo_node_in(g, node, i))) return false;
    if (!mo_recurrent_of(g, node, l) || !mo_recurrent_is_fused(node) || l->hidden < 1) return false;
    if (!are_lengths(mo_node_in(g, node, MO_RECURRENT_LENGTHS), l->seq)) return false;
    const int64_t columns = l->directions * l->gates * l->hidden;
    return l->seq * l->batch <= g->env->limits.tensor_bytes / (int64_t)sizeof(float) / columns;
}

static bool keeps_bias(const struct mo_recurrent *l) {
    return l->cell == MO_CELL_GRU && l->before_reset;
}

/* Biases as the model has them: of the inputs' product and of the states', for each direction.  The first
 * becomes the product's, with the second where that is only added; the rest stays with the recurrence. */
static void split_bias(const struct mo_recurrent *l, const float *bias, float *product, float *rest) {
    const int64_t rows = l->gates * l->hidden, summed = rest ? rows - l->hidden : rows;
    for (int d = 0; d < l->directions; d++, bias += 2 * rows, product += rows) {
        for (int64_t i = 0; i < rows; i++)
            product[i] = i < summed ? bias[i] + bias[rows + i] : bias[i];
        if (rest) memcpy(rest + d * l->hidden, bias + rows + summed, (size_t)l->hidden * sizeof *rest);
    }
}

/* The product of all steps, and its bias; `node` gets what is left of that. */
static int add_product(struct mo_graph *g, struct mo_node *node, const struct mo_recurrent *l,
                       moire_error *err) {
    const int64_t columns = l->directions * l->gates * l->hidden;
    const struct mo_tensor *w = mo_node_in(g, node, MO_RECURRENT_W),
                           *bias = mo_node_in(g, node, MO_RECURRENT_BIAS);
    struct mo_shape shape = mo_node_in(g, node, MO_RECURRENT_X)->shape, row = {.rank = 1, .d = {columns}},
                    rest = {.rank = 2, .d = {l->directions, l->hidden}};
    shape.d[2] = columns;
    struct mo_tensor *right = mo_right_operand(g, w, l->in, columns, true, 1);
    struct mo_tensor *sums = bias ? mo_graph_add_const(g, bias->name, MOIRE_F32, &row) : NULL;
    struct mo_tensor *kept =
        bias && keeps_bias(l) ? mo_graph_add_const(g, bias->name, MOIRE_F32, &rest) : NULL;
    struct mo_tensor *y = mo_graph_add_tensor(g, "products", MOIRE_F32, &shape);
    struct mo_node *product = mo_graph_add_node(g, node->name, "MatMul", "moire", 3, 1);
    if (!right || !y || !product || (bias && !sums) || (bias && keeps_bias(l) && !kept))
        return mo_no_memory(err);
    if (bias) split_bias(l, bias->data, sums->data, kept ? kept->data : NULL);
    product->op = mo_op_find("MatMul", "moire");
    product->in[0] = node->in[MO_RECURRENT_X];
    product->in[1] = right->id;
    product->in[2] = sums ? sums->id : -1;
    product->out[0] = y->id;
    mo_drop_constant(g, w->id);
    node->in[MO_RECURRENT_X] = y->id;
    node->in[MO_RECURRENT_BIAS] = kept ? kept->id : -1;
    return product->op ? MOIRE_OK : mo_fail(err, MOIRE_EINTERNAL, "no operator moire.MatMul");
}

/* Lengths of a query go through a check. */
static int check_lengths(struct mo_graph *g, struct mo_node *node, const struct mo_recurrent *l,
                         moire_error *err) {
    const struct mo_tensor *lengths = mo_node_in(g, node, MO_RECURRENT_LENGTHS);
    if (!lengths || lengths->data) return MOIRE_OK;
    struct mo_tensor *checked = mo_graph_add_tensor(g, "lengths", MOIRE_I32, &lengths->shape);
    struct mo_node *check = mo_graph_add_node(g, node->name, "Lengths", "moire", 1, 1);
    if (!checked || !check) return mo_no_memory(err);
    check->op = mo_op_find("Lengths", "moire");
    check->in[0] = lengths->id;
    check->out[0] = checked->id;
    node->in[MO_RECURRENT_LENGTHS] = checked->id;
    return mo_set_int(g, check, "most", l->seq, err);
}

static int rewrite(struct mo_graph *g, struct mo_node *node, const struct mo_recurrent *l, moire_error *err) {
    int *in = mo_region_array(g->region, MO_RECURRENT_INPUTS + 1, sizeof *in);
    if (!in) return mo_no_memory(err);
    for (int i = 0; i <= MO_RECURRENT_INPUTS; i++)
        in[i] = i < node->n_in ? node->in[i] : -1;
    node->in = in;
    int rc = add_product(g, node, l, err);
    if (!rc) rc = check_lengths(g, node, l, err);
    in[MO_RECURRENT_W] = in[MO_RECURRENT_R]; /* where packed weights are looked for */
    in[MO_RECURRENT_R] = -1;
    node->domain = "moire";
    node->opset = 1;
    node->op = mo_op_find(node->op_type, "moire");
    if (!node->op) return mo_fail(err, MOIRE_EINTERNAL, "no operator moire.%s", node->op_type);
    node->n_in = node->op->max_in;
    return rc;
}

int mo_pass_recurrent(struct mo_graph *g, moire_error *err) {
    int rc = MOIRE_OK;
    const int n = g->n_nodes; /* what it adds needs no pass */
    for (int i = 0; !rc && i < n; i++) {
        struct mo_recurrent l = {0};
        if (!g->nodes[i]->dead && fits(g, g->nodes[i], &l)) rc = rewrite(g, g->nodes[i], &l, err);
    }
    return rc;
}
