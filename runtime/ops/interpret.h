/* SPDX-License-Identifier: Apache-2.0
 * interpret.h - runs a graph node by node with the references: the oracle that every other way of running a
 * model is compared with.  Shapes are inferred again with the data at hand, so everything that has a
 * reference runs, also where shapes depend on data.  Layouts and aliases of tensors play no role: operators
 * see plain values. */
#ifndef MO_INTERPRET_H
#define MO_INTERPRET_H
#include "runtime/ops/op.h"

/* inputs: one for each graph input, in order.  outputs: n_outputs of the graph; on success outputs[i].data
 * belongs to the caller (mo_interpret_free).  Errors name the node. */
int mo_interpret(const struct mo_graph *graph, const moire_tensor *inputs, int n_inputs,
                 struct mo_value *outputs, moire_error *err);
/* The same, and made() sees what every node has computed, and from what, before anything reads it; it may
 * change the outputs: to record all values, or to see how far a small error spreads. */
struct mo_interpret_watch {
    int (*made)(void *ctx, const struct mo_op_ctx *op); /* 0 or an error code */
    void *ctx;
};
int mo_interpret_watched(const struct mo_graph *graph, const moire_tensor *inputs, int n_inputs,
                         const struct mo_interpret_watch *watch, struct mo_value *outputs, moire_error *err);
/* A body, with a value for every input as operators see it; their types and shapes are the caller's to know.
 */
int mo_interpret_body(const struct mo_graph *body, const struct mo_value *inputs,
                      const struct mo_body_host *host, struct mo_value *outputs, moire_error *err);
void mo_interpret_free(const struct mo_env *env, struct mo_value *outputs, int n);
#endif
