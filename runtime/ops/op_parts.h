/* SPDX-License-Identifier: Apache-2.0
 * op_parts.h - operators whose work is independent parts, which a team may share: those with MO_OP_PARTS. */
#ifndef MO_OP_PARTS_H
#define MO_OP_PARTS_H
#include "runtime/ops/op.h"

/* Parts [from, to); any number of threads at once, each with parts of its own.  Writes no error. */
typedef void mo_parts_fn(const struct mo_op_ctx *ctx, int64_t from, int64_t to);

struct mo_op_parts {
    const char *name;
    /* How many there are, when shapes are inferred and outputs have their memory.  Below 0: the code of what
     * is wrong with the contents of inputs. */
    int64_t (*count)(const struct mo_op_ctx *ctx);
    mo_parts_fn *run;
};

/* NULL: the operator has none. */
const struct mo_op_parts *mo_op_parts_of(const struct mo_op *op);
/* All of them, on this thread. */
int mo_op_run_parts(const struct mo_op_ctx *ctx, const struct mo_op_parts *parts);
#endif
