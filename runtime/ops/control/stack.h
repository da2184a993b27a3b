/* SPDX-License-Identifier: Apache-2.0
 * stack.h - an output that grows by one slice in every run of a body. */
#ifndef MO_STACK_H
#define MO_STACK_H
#include "runtime/ops/op.h"

/* Zeroed before the first slice, which says what all are like; freed with mo_free(data). */
struct mo_stack {
    struct mo_value slice; /* type and shape of each */
    int64_t n, room;       /* slices that there are, and that there is memory for */
    void *data;
};

/* Appends a copy of a slice; `output` is its number in messages. */
int mo_stack_append(const struct mo_op_ctx *ctx, struct mo_stack *stack, const struct mo_value *slice,
                    int output);
/* The slices as one value, which takes the memory over.  Of no slices: empty, with type and shape of `like`.
 */
int mo_stack_finish(const struct mo_op_ctx *ctx, struct mo_stack *stack, const struct mo_tensor *like,
                    int output, struct mo_value *out);
#endif
