/* SPDX-License-Identifier: Apache-2.0
 * quantizer.h - what passes read of QuantizeLinear and DequantizeLinear, and constants that stand for others.
 */
#ifndef MO_QUANTIZER_H
#define MO_QUANTIZER_H
#include "codegen/passes/passes.h"

/* A conversion with one scale and zero point for the tensor, both constant. */
struct mo_quantizer {
    int from, to; /* tensors; one of them holds 8-bit numbers */
    float scale;
    int zero;
    moire_dtype dtype; /* of these numbers */
};
/* The node is `op`, QuantizeLinear or DequantizeLinear, of that kind. */
bool mo_quantizer_of(const struct mo_graph *g, const struct mo_node *node, const char *op,
                     struct mo_quantizer *out);
/* Both stand for the same numbers by the same bytes. */
bool mo_quantizers_agree(const struct mo_quantizer *a, const struct mo_quantizer *b);

/* Constant 8-bit weights with one scale, or one for each index along the axis, and zero points likewise. */
struct mo_small_weights {
    const struct mo_tensor *q, *scale, *zero; /* scale NULL: 1; zero NULL: 0 */
    int axis;
};
/* The node is a DequantizeLinear of such weights of rank 2 or more. */
bool mo_small_weights_of(const struct mo_graph *g, const struct mo_node *node, struct mo_small_weights *out);
float mo_small_scale(const struct mo_small_weights *w, int64_t i);
int mo_small_zero(const struct mo_small_weights *w, int64_t i);
/* What they stand for, to as many floats. */
void mo_small_floats(const struct mo_small_weights *w, float *to);
/* Less their zero points, as a constant of int8 (their own where nothing changes); NULL: they do not fit, or
 * out of memory (*rc). */
const struct mo_tensor *mo_small_centred(struct mo_graph *g, const struct mo_small_weights *w, int *rc,
                                         moire_error *err);
/* A right operand [K,N] of int8 as a new constant, outputs first: [N,K]; NULL: out of memory. */
const struct mo_tensor *mo_small_turned(struct mo_graph *g, const struct mo_tensor *w);
/* Its node becomes the constant that it makes (pass_small_weights.c). */
int mo_small_weights_unfold(struct mo_graph *g, struct mo_node *node, moire_error *err);
#endif
