/* SPDX-License-Identifier: Apache-2.0
 * operands.c - which operands of an operator may be left out, by its row of the table; the contract in op.h.
 *
 * The rule is ONNX's own, by opset: what its checker refuses is refused here too, when a model is imported or
 * read back.  What it allows reaches the operator as an absent operand, and the operator asks mo_given() and
 * mo_wanted() before it touches one. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "runtime/ops/op.h"

/* Where the number of required inputs changed: from this opset on.  By name, then ascending. */
static const struct {
    const char *name;
    int opset, min_in;
} changes[] = {
    {"Gemm", 1, 3},
    {"Gemm", 11, 2},
    {"OptionalHasElement", 15, 1},
    {"OptionalHasElement", 18, 0},
    {"Pad", 11, 2},
    {"Reshape", 5, 2},
    {"Resize", 10, 2},
    {"Resize", 11, 3},
    {"Resize", 13, 1},
    {"Slice", 10, 3},
    {"TopK", 10, 2},
    {"Unsqueeze", 13, 2},
    {"Upsample", 9, 2},
};

int mo_op_min_in(const struct mo_op *op, int opset) {
    int min_in = op->min_in;
    for (size_t i = 0; !*op->domain && i < sizeof changes / sizeof *changes; i++)
        if (changes[i].opset <= opset && !strcmp(changes[i].name, op->name)) min_in = changes[i].min_in;
    return min_in;
}

bool mo_op_is_listed(const struct mo_op *op, int k) {
    return op->max_out < 0 && k >= op->min_out - 1;
}

/* A residual or a gate that a pass has fused into the layer comes after the operator's own inputs. */
static int own_inputs(const struct mo_node *node) {
    return node->fuse.gated ? MO_GATE_IN - 1 : node->n_in - (node->fuse.residual >= 0);
}

bool mo_op_has_operands(const struct mo_node *node, char *problem, size_t n) {
    const struct mo_op *op = node->op;
    const int n_in = own_inputs(node), min_in = mo_op_min_in(op, node->opset);
    if (n_in < min_in || (op->max_in >= 0 && n_in > op->max_in)) {
        snprintf(problem, n, "has %d inputs, the operator takes %d to %d in opset %d", n_in, min_in,
                 op->max_in < 0 ? INT_MAX : op->max_in, node->opset);
        return false;
    }
    if (node->n_out < op->min_out || (op->max_out >= 0 && node->n_out > op->max_out)) {
        snprintf(problem, n, "has %d outputs, the operator gives %d to %d; name those that nobody reads too",
                 node->n_out, op->min_out, op->max_out);
        return false;
    }
    for (int k = 0; k < n_in; k++) {
        if (node->in[k] >= 0 || (k >= min_in && op->max_in >= 0)) continue;
        snprintf(
            problem, n,
            "input %d is required in opset %d but left out: name a tensor there, or export the model again",
            k, node->opset);
        return false;
    }
    for (int k = 0; k < op->min_out; k++) {
        if (node->out[k] >= 0 || mo_op_is_listed(op, k)) continue;
        snprintf(problem, n, "output %d is required but left out: give it a name, even if nobody reads it",
                 k);
        return false;
    }
    return true;
}
