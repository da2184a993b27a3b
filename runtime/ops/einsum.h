/* SPDX-License-Identifier: Apache-2.0
 * einsum.h - an Einsum node as labels: every letter, and every axis of the ellipsis, is one label with a
 * size. */
#ifndef MO_OPS_EINSUM_H
#define MO_OPS_EINSUM_H
#include "runtime/ops/util.h"

enum { MO_EINSUM_OPERANDS = 8, MO_EINSUM_LABELS = 24 };

struct mo_einsum {
    int n_labels, n_out; /* labels [0, n_out) are the output's in order, the others are summed */
    char label[MO_EINSUM_LABELS];
    int64_t size[MO_EINSUM_LABELS];
    int axis[MO_EINSUM_OPERANDS][MOIRE_MAX_RANK]; /* the label of every axis of an operand */
};

/* Reads equation and shapes; 0 or an error. */
int mo_einsum_describe(const struct mo_op_ctx *ctx, struct mo_einsum *out);
#endif
