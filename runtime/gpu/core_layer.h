/* SPDX-License-Identifier: Apache-2.0
 * core_layer.h - a layer of a GPU's program that a core computes, by the operator's reference.
 *
 * The process that drives a GPU has no graph.  So lowering packs such a layer (operator, attributes, constant
 * operands, types and shapes of all others) into one piece of memory without pointers, which travels with the
 * program; whoever runs the program gives it back with the contents of the operands.  The layer is only read:
 * any number of threads may run it at once. */
#ifndef MO_GPU_CORE_LAYER_H
#define MO_GPU_CORE_LAYER_H
#include "runtime/ops/op.h"

/* The operator can be one at all: it has no bodies, takes and makes tensors only, and knows its outputs'
 * shapes before it runs. */
bool mo_core_layer_takes(const struct mo_op *op);
/* NULL: out of memory, or an attribute or operand that cannot be packed (mo_core_layer_takes(), strings). */
void *mo_core_layer_pack(const struct mo_graph *graph, const struct mo_node *node, struct mo_region *region,
                         size_t *bytes);
/* operands: the contents of the inputs that are given and not constant, in their order, then of the outputs
 * that are wanted; dense, in the model's types. */
int mo_core_layer_run(const struct mo_env *env, const void *layer, void *const *operands, moire_error *err);
#endif
