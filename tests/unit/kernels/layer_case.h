/* SPDX-License-Identifier: Apache-2.0
 * layer_case.h - one layer to test against its reference, described by text.
 *
 * inputs: tokens by blanks.  "2x24x7x5" activation; "c24x3" constant of noise; "p24" constant of positive
 * noise; "b2x3" constant of random bools; "i:1,-1" int64 constant; "f:1,2" float constant; "-" absent.
 * attributes: tokens "name:i=1", "name:f=0.5", "name:s=linear", "name:v=1,1,2,2" (list of ints);
 * "act:i=1" sets the fused activation (enum mo_act), "residual:i=2" the fused residual. */
#ifndef LAYER_CASE_H
#define LAYER_CASE_H
#include "runtime/plan/plan_impl.h"

enum layer_layout { LAYER_PLAIN, LAYER_C16, LAYER_LEAVE, LAYER_ENTER };

struct layer_case {
    const char *op_type, *domain;
    int opset;
    const char *inputs, *attributes;
    enum layer_layout layout;
    int n_out; /* 0 = 1 */
};

/* Compares generic kernels of one ISA level, whole and unit by unit, with the reference: on tensors of their
 * own, then with all activations of more than one image, and with each alone, in slices of larger tensors
 * (where a kernel that does not take slices may leave the layer to the reference).  NULL when all is well;
 * otherwise what is wrong (valid until the next call). */
const char *layer_case_check(const struct layer_case *c, enum mo_isa isa);
/* The same on inputs with NaN, infinities, zeros of both signs, denormal and very large numbers among them.
 */
const char *layer_case_check_special(const struct layer_case *c, enum mo_isa isa);
/* Builds the graph of a case; NULL and a message in `why` when it cannot be.  Bit i of `slices`: input i lies
 * in a slice, bit LAYER_OUTPUT + i: output i. */
enum { LAYER_OUTPUT = 16 };
struct mo_graph *layer_case_graph(const struct mo_env *env, const struct layer_case *c, unsigned slices,
                                  char *why, size_t n);
#endif
