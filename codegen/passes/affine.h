/* SPDX-License-Identifier: Apache-2.0
 * affine.h - y = s x + t with one s and t a channel, shared by the affine and carry passes. */
#ifndef MO_AFFINE_H
#define MO_AFFINE_H
#include "codegen/passes/passes.h"

struct mo_affine {
    int64_t n;    /* channels */
    float *s, *t; /* n of each, provided by the caller */
};

/* Is `node` an affine function of tensor x along `axis`?  Fills f; f->n must be x's extent along it. */
bool mo_affine_of(const struct mo_graph *g, const struct mo_node *node, int x, int axis, struct mo_affine *f);
/* Conv, ConvTranspose or moire.MatMul: output channels of the weights times s; input 2 becomes s * bias + t.
 */
int mo_scale_weights(struct mo_graph *g, struct mo_node *node, const struct mo_affine *f, moire_error *err);
int mo_shift_bias(struct mo_graph *g, struct mo_node *node, const struct mo_affine *f, moire_error *err);
#endif
