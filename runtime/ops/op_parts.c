/* SPDX-License-Identifier: Apache-2.0
 * op_parts.c - operators whose work is independent parts; see op_parts.h. */
#include "runtime/ops/op_parts.h"
#include <string.h>
#include "runtime/ops/image/roi_align.h"

static const struct mo_op_parts *const known[] = {&mo_roi_align_parts};

const struct mo_op_parts *mo_op_parts_of(const struct mo_op *op) {
    if (!(op->flags & MO_OP_PARTS)) return NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i]->name, op->name)) return known[i];
    return NULL;
}

int mo_op_run_parts(const struct mo_op_ctx *ctx, const struct mo_op_parts *parts) {
    const int64_t n = parts->count(ctx);
    if (n > 0) parts->run(ctx, 0, n);
    return n < 0 ? (int)n : MOIRE_OK;
}
