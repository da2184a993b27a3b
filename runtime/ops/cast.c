/* SPDX-License-Identifier: Apache-2.0
 * cast.c - Cast and CastLike.  Floats to integers truncate and saturate; integers to integers wrap. */
#include "runtime/ops/util.h"

static int infer_cast(const struct mo_op_ctx *ctx) {
    int64_t to = ctx->n_in > 1 ? (int64_t)ctx->in[1].dtype : mo_attr_int(ctx->node, "to", 0);
    int rc = mo_check_type(ctx, 0, MO_ANY);
    if (rc) return rc;
    if (!to) return mo_op_fail(ctx, MOIRE_EINVAL, "attribute to is required");
    if (to < 1 || to > 31 || !mo_type_in((moire_dtype)to, MO_ANY))
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "a cast to %s is not supported",
                          mo_dtype_name((moire_dtype)to));
    return mo_set_out(ctx, 0, (moire_dtype)to, &ctx->in[0].shape);
}

static int run_cast(const struct mo_op_ctx *ctx) {
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const struct mo_value *x = &ctx->in[0], *y = &ctx->out[0];
    int64_t n = mo_count(x);
    bool ints = mo_type_in(x->dtype, MO_INTS | MO_BOOLS) && mo_type_in(y->dtype, MO_INTS | MO_BOOLS);
    if (x->dtype == y->dtype)
        mo_copy_elem(y, 0, x, 0, n);
    else if (ints)
        for (int64_t i = 0; i < n; i++)
            mo_store_int(y, i, mo_load_int(x, i));
    else
        for (int64_t i = 0; i < n; i++)
            mo_store(y, i, mo_load(x, i));
    return MOIRE_OK;
}

const struct mo_op mo_ops_cast[] = {
    {"Cast", "", 1, 1, 1, 1, 1, infer_cast, run_cast, 0},
    {"CastLike", "", 15, 2, 2, 1, 1, infer_cast, run_cast, 0},
    {0},
};
