/* SPDX-License-Identifier: Apache-2.0
 * tensor_scatter.c - TensorScatter: new rows written into a cache of keys or values.
 *
 *   cache [B,..,M,..], update [B,..,S,..] with S <= M along the axis; write_indices [B], 0 when absent: where
 * the first row of each of the batch goes.  `circular`: behind the last row comes the first one. */
#include <string.h>
#include "runtime/ops/util.h"

static bool is_circular(const struct mo_op_ctx *ctx) {
    return !strcmp(mo_attr_string(ctx->node, "mode", "linear"), "circular");
}

/* -1 and an error. */
static int axis_of(const struct mo_op_ctx *ctx) {
    const int axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", -2), ctx->in[0].shape.rank);
    if (axis) return axis;
    (void)mo_op_fail(ctx, MOIRE_EINVAL, "the axis must not be that of the batch");
    return -1;
}

static int infer(const struct mo_op_ctx *ctx) {
    const struct mo_shape *cache = &ctx->in[0].shape, *update = &ctx->in[1].shape, *at = &ctx->in[2].shape;
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc || (rc = mo_check_type(ctx, 1, MO_TYPE(ctx->in[0].dtype)))) return rc;
    if (mo_given(ctx, 2) && (rc = mo_check_type(ctx, 2, MO_TYPE(MOIRE_I64)))) return rc;
    const int axis = axis_of(ctx);
    if (axis < 0) return MOIRE_EINVAL;
    bool fits = update->rank == cache->rank && update->d[axis] <= cache->d[axis];
    for (int i = 0; i < cache->rank && fits; i++)
        fits = i == axis || update->d[i] == cache->d[i];
    if (!fits) return mo_op_fail(ctx, MOIRE_ESHAPE, "the update does not fit the cache");
    if (mo_given(ctx, 2) && (at->rank != 1 || at->d[0] != cache->d[0]))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "write_indices must have a number for each of the batch");
    return mo_set_out(ctx, 0, ctx->in[0].dtype, cache);
}

/* The row for the first one of a batch's update. */
static int first_row(const struct mo_op_ctx *ctx, int64_t b, int64_t rows, int64_t most, int64_t *first) {
    *first = mo_given(ctx, 2) ? mo_load_int(&ctx->in[2], b) : 0;
    if (*first >= 0 && (is_circular(ctx) || *first <= most - rows)) return MOIRE_OK;
    return mo_op_fail(ctx, MOIRE_EINVAL, "the write index %lld is outside of the cache", (long long)*first);
}

static int run(const struct mo_op_ctx *ctx) {
    const struct mo_value *cache = &ctx->in[0], *update = &ctx->in[1];
    const int axis = axis_of(ctx);
    if (axis < 0) return MOIRE_EINVAL;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    mo_copy_elem(&ctx->out[0], 0, cache, 0, mo_count(cache));
    const int64_t batch = cache->shape.d[0], most = cache->shape.d[axis], rows = update->shape.d[axis];
    const int64_t outer = mo_extent(&cache->shape, 1, axis);
    const int64_t inner = mo_extent(&cache->shape, axis + 1, cache->shape.rank);
    for (int64_t b = 0; b < batch && rows; b++) {
        int64_t first;
        const int rc = first_row(ctx, b, rows, most, &first);
        if (rc) return rc;
        for (int64_t n = 0; n < outer * rows; n++) {
            const int64_t o = b * outer + n / rows, to = (first % most + n % rows) % most;
            mo_copy_elem(&ctx->out[0], (o * most + to) * inner, update, (o * rows + n % rows) * inner, inner);
        }
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_tensor_scatter[] = {
    {"TensorScatter", "", 24, 2, 3, 1, 1, infer, run, 0},
    {0},
};
