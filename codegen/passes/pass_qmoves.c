/* SPDX-License-Identifier: Apache-2.0
 * pass_qmoves.c - operators that only move or compare numbers work on those of 8 bits, not on what these
 * stand for: dequantize, move, quantize becomes the move, where both conversions say the same.
 *
 * What is moved and then quantized is quantized first: a fourth of the bytes moves.  What is dequantized and
 * quantized as it was stays as it is.
 *
 * A Concat takes its inputs with different scales: those that are not the output's are converted first.  A
 * mean over whole planes reads bytes, too, and says what their mean stands for (moire.QGlobalAveragePool). */
#include <string.h>
#include "codegen/passes/quantizer.h"
#include "runtime/ops/op.h"

/* Operators whose input 0 is all that they move: all of it, and Slice. */
static bool moves_all(const struct mo_node *node) {
    static const char *const ops[] = {"MaxPool",   "Reshape",      "Flatten",      "Squeeze",
                                      "Unsqueeze", "DepthToSpace", "SpaceToDepth", "Transpose"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (mo_is(node, ops[i])) return node->n_out == 1 || node->out[1] < 0;
    return false;
}

static bool moves(const struct mo_node *node) {
    return moves_all(node) || (mo_is(node, "Slice") && node->n_out == 1);
}

/* A QuantizeLinear is all that reads the node. */
static struct mo_node *quantizer_after(const struct mo_graph *g, const struct mo_node *node,
                                       struct mo_quantizer *q) {
    struct mo_node *next = mo_graph_sole_consumer(g, node->out[0]);
    return mo_quantizer_of(g, next, "QuantizeLinear", q) && next->in[0] == node->out[0] ? next : NULL;
}

static void take_output(struct mo_node *node, struct mo_node *next) {
    node->out[0] = next->out[0];
    next->dead = true;
}

/* What the input stands for, in the output's 8 bits: a new tensor, or <0. */
static int converted(struct mo_graph *g, int real, const struct mo_node *like, moire_error *err) {
    const struct mo_tensor *t = g->tensors[real];
    struct mo_tensor *y = mo_graph_add_tensor(g, t->name, g->tensors[like->out[0]]->dtype, &t->shape);
    struct mo_node *node = y ? mo_graph_add_node(g, t->name, "QuantizeLinear", "", like->n_in, 1) : NULL;
    if (!node) return mo_no_memory(err);
    node->op = like->op;
    node->opset = like->opset;
    memcpy(node->in, like->in, (size_t)like->n_in * sizeof *node->in);
    node->in[0] = real;
    node->out[0] = y->id;
    return y->id;
}

/* Concat of what is dequantized. */
static int concat(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    struct mo_quantizer x, y;
    struct mo_node *next = quantizer_after(g, node, &y);
    for (int k = 0; next && k < node->n_in; k++)
        if (!mo_quantizer_of(g, mo_producer(g, node->in[k]), "DequantizeLinear", &x)) return MOIRE_OK;
    for (int k = 0; next && k < node->n_in; k++) {
        mo_quantizer_of(g, mo_producer(g, node->in[k]), "DequantizeLinear", &x);
        int id = mo_quantizers_agree(&x, &y) ? x.from : converted(g, node->in[k], next, err);
        if (id < 0) return id;
        node->in[k] = id;
    }
    if (next) take_output(node, next);
    return MOIRE_OK;
}

static int mean(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    struct mo_quantizer x;
    const struct mo_op *op = mo_op_find("QGlobalAveragePool", "moire");
    if (!mo_quantizer_of(g, mo_producer(g, node->in[0]), "DequantizeLinear", &x) || x.dtype != MOIRE_U8)
        return MOIRE_OK;
    if (!op || node->n_out != 1 || g->tensors[node->out[0]]->dynamic || g->tensors[x.from]->shape.rank < 3)
        return MOIRE_OK;
    int rc = mo_set_int(g, node, "x_zero", x.zero, err);
    if (!rc) rc = mo_set_float(g, node, "x_scale", x.scale, err);
    node->op_type = op->name, node->domain = op->domain, node->op = op;
    node->in[0] = x.from;
    return rc;
}

/* Move, then quantize: the other way round.  1: done, 0: nothing to do; <0 is an error. */
static int exchange(struct mo_graph *g, struct mo_node *node, moire_error *err) {
    struct mo_quantizer q;
    if (node->dead || node->n_in < 1 || node->n_out < 1 || node->in[0] < 0 || node->out[0] < 0) return 0;
    const struct mo_tensor *x = g->tensors[node->in[0]];
    if (!moves_all(node) || x->dtype != MOIRE_F32 || x->data || x->dynamic) return 0;
    struct mo_node *next = quantizer_after(g, node, &q);
    if (!next) return 0;
    struct mo_tensor *small = mo_graph_add_tensor(g, x->name, q.dtype, &x->shape);
    if (!small) return mo_no_memory(err);
    struct mo_tensor *y = g->tensors[next->out[0]];
    next->in[0] = node->in[0], next->out[0] = small->id;
    node->in[0] = small->id, node->out[0] = y->id;
    small->producer = next->id, small->consumer = node->id, small->n_uses = 1;
    y->producer = node->id;
    return 1;
}

/* Dequantized, and quantized as it was. */
static void cancel(struct mo_graph *g, struct mo_node *node) {
    struct mo_quantizer x, y;
    if (node->dead || !mo_quantizer_of(g, node, "QuantizeLinear", &y) || g->tensors[y.to]->is_output ||
        !mo_quantizer_of(g, mo_producer(g, y.from), "DequantizeLinear", &x) || !mo_quantizers_agree(&x, &y))
        return;
    g->tensors[x.from]->n_uses += mo_read_instead(g, y.to, x.from);
    node->dead = true;
    if (g->tensors[y.from]->n_uses != 1 || g->tensors[y.from]->is_output) return;
    mo_producer(g, y.from)->dead = true;
    g->tensors[x.from]->n_uses--;
}

/* Of several moves the last is exchanged first. */
static int quantize_first(struct mo_graph *g, moire_error *err) {
    for (int changed = 1; changed;) {
        changed = 0;
        for (int i = 0; i < g->n_nodes; i++) {
            const int rc = exchange(g, g->nodes[i], err);
            if (rc < 0) return rc;
            changed |= rc;
        }
    }
    for (int i = 0; i < g->n_nodes; i++)
        cancel(g, g->nodes[i]);
    return MOIRE_OK;
}

int mo_pass_quantized_moves(struct mo_graph *g, moire_error *err) {
    int rc = quantize_first(g, err);
    if (rc) return rc;
    for (int i = 0, n = g->n_nodes; i < n; i++) {
        struct mo_node *node = g->nodes[i];
        struct mo_quantizer x, y;
        if (node->dead || node->n_in < 1 || node->n_out < 1 || node->out[0] < 0) continue;
        rc = mo_is(node, "Concat")              ? concat(g, node, err)
             : mo_is(node, "GlobalAveragePool") ? mean(g, node, err)
                                                : MOIRE_OK;
        if (rc) return rc;
        if (!moves(node) || !mo_quantizer_of(g, mo_producer(g, node->in[0]), "DequantizeLinear", &x))
            continue;
        struct mo_node *next = quantizer_after(g, node, &y);
        if (!next || !mo_quantizers_agree(&x, &y)) continue;
        node->in[0] = x.from;
        take_output(node, next);
        g->tensors[node->out[0]]->producer = node->id;
    }
    return MOIRE_OK;
}
