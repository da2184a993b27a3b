/* SPDX-License-Identifier: Apache-2.0
 * broadcast.h - the dimensions that an elementwise layer walks, with the strides of its operands, folded into
 * as few as possible.
 *
 * In MO_C16 the dimensions are [N][blocks][spatial...][16]; a constant per channel is padded and blocked by
 * the binder, a scalar stays. */
#ifndef MO_GENERIC_BROADCAST_H
#define MO_GENERIC_BROADCAST_H
#include "variants/generic/bind.h"

/* All dimensions of the output in its layout, and an operand's stride along each; 0 = broadcast. */
struct mo_broadcast {
    int rank, operands;
    int64_t d[MO_MAX_DIMS], stride[MO_KERNEL_IN][MO_MAX_DIMS];
};

bool mo_is_scalar(const struct mo_tensor *t);
/* A constant of one number a channel: [C,1,...,1] or [1,C,1,...,1] against `y`. */
bool mo_is_per_channel(const struct mo_tensor *t, const struct mo_tensor *y);
/* The shape of t broadcasts to that of y. */
bool mo_broadcasts(const struct mo_tensor *t, const struct mo_tensor *y);
void mo_broadcast_output(struct mo_broadcast *s, const struct mo_tensor *y);
/* Strides of operand k.  A slice's images lie its own stride apart, also where they are no images of y. */
void mo_broadcast_operand(const struct mo_graph *g, struct mo_broadcast *s, int k, const struct mo_tensor *t,
                          const struct mo_tensor *y);
/* Folds dimensions [from, rank) that advance together: their number; innermost first in d and stride.  -1: an
 * operand (a slice of columns) has gaps along the innermost, which kernels walk in steps of 0 or 1. */
int mo_broadcast_fold(const struct mo_broadcast *s, int from, int64_t *d, int64_t stride[][MO_MAX_DIMS]);
#endif
