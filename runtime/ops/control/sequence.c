/* SPDX-License-Identifier: Apache-2.0
 * sequence.c - sequences: made, changed, taken apart, and mapped by a body.  Each result is a bundle of its
 * own, so that an insertion copies the whole sequence. */
#include <string.h>
#include "runtime/ops/control/body.h"
#include "runtime/ops/control/bundle.h"
#include "runtime/ops/util.h"

static int infer_later(const struct mo_op_ctx *ctx) {
    (void)ctx;
    return MO_NEED_DATA;
}

static int no_memory(const struct mo_op_ctx *ctx) {
    mo_op_fail(ctx, MOIRE_ENOMEM, "out of memory");
    return MOIRE_ENOMEM;
}

static int make(const struct mo_op_ctx *ctx, moire_dtype type, const struct mo_value *items, int64_t n,
                struct mo_value *out) {
    int rc = mo_bundle_make(ctx->env, MO_SEQUENCE, type, items, n, out, ctx->err);
    return rc ? mo_fail_context(ctx->err, rc, "node '%.64s' (%.40s)", ctx->node->name, ctx->node->op_type)
              : MOIRE_OK;
}

/* Elements of input 0, and room for one more; *n = how many there are. */
static struct mo_value *elements(const struct mo_op_ctx *ctx, int64_t *n) {
    *n = mo_bundle_count(&ctx->in[0], MO_SEQUENCE);
    if (*n < 0) {
        mo_op_fail(ctx, MOIRE_EINVAL, "input 0 is no sequence");
        return NULL;
    }
    struct mo_value *items = mo_scratch(ctx, *n + 1, sizeof *items);
    for (int64_t i = 0; items && i < *n; i++)
        items[i] = mo_bundle_at(&ctx->in[0], i);
    return items;
}

/* A position among n; one that is not given is n. */
static int position(const struct mo_op_ctx *ctx, int input, int64_t n, bool behind, int64_t *out) {
    *out = behind ? n : n - 1;
    if (!mo_given(ctx, input)) return MOIRE_OK;
    const struct mo_value *v = &ctx->in[input];
    if ((v->dtype != MOIRE_I32 && v->dtype != MOIRE_I64) || mo_shape_count(&v->shape) != 1)
        return mo_op_fail(ctx, MOIRE_EINVAL, "the position (input %d) must be one int32 or int64", input);
    const int64_t given = mo_load_int(v, 0);
    *out = given < 0 ? given + n : given;
    if (*out >= 0 && *out < n + behind) return MOIRE_OK;
    return mo_op_fail(ctx, MOIRE_EINVAL, "position %lld is outside a sequence of %lld", (long long)given,
                      (long long)n);
}

static int run_empty(const struct mo_op_ctx *ctx) {
    return make(ctx, (moire_dtype)mo_attr_int(ctx->node, "dtype", MOIRE_F32), NULL, 0, &ctx->out[0]);
}

static int run_construct(const struct mo_op_ctx *ctx) {
    for (int i = 1; i < ctx->n_in; i++)
        if (ctx->in[i].dtype != ctx->in[0].dtype)
            return mo_op_fail(ctx, MOIRE_EINVAL, "input %d is %s but input 0 is %s", i,
                              mo_dtype_name(ctx->in[i].dtype), mo_dtype_name(ctx->in[0].dtype));
    return make(ctx, ctx->in[0].dtype, ctx->in, ctx->n_in, &ctx->out[0]);
}

static int run_insert(const struct mo_op_ctx *ctx) {
    int64_t n, at = 0;
    struct mo_value *items = elements(ctx, &n);
    if (!items) return n < 0 ? MOIRE_EINVAL : MOIRE_ENOMEM;
    const moire_dtype type = mo_bundle_type(&ctx->in[0]), added = ctx->in[1].dtype;
    int rc = position(ctx, 2, n, true, &at);
    if (!rc && n && type != added)
        rc = mo_op_fail(ctx, MOIRE_EINVAL, "a tensor of %s does not go into a sequence of %s",
                        mo_dtype_name(added), mo_dtype_name(type));
    if (!rc) {
        memmove(items + at + 1, items + at, (size_t)(n - at) * sizeof *items);
        items[at] = ctx->in[1];
        rc = make(ctx, added, items, n + 1, &ctx->out[0]);
    }
    mo_free(ctx->env, items);
    return rc;
}

static int run_erase(const struct mo_op_ctx *ctx) {
    int64_t n, at = 0;
    struct mo_value *items = elements(ctx, &n);
    if (!items) return n < 0 ? MOIRE_EINVAL : MOIRE_ENOMEM;
    int rc = n ? position(ctx, 1, n, false, &at) : mo_op_fail(ctx, MOIRE_EINVAL, "the sequence is empty");
    if (!rc) {
        memmove(items + at, items + at + 1, (size_t)(n - at) * sizeof *items);
        rc = make(ctx, mo_bundle_type(&ctx->in[0]), items, n - 1, &ctx->out[0]);
    }
    mo_free(ctx->env, items);
    return rc;
}

static int run_at(const struct mo_op_ctx *ctx) {
    const int64_t n = mo_bundle_count(&ctx->in[0], MO_SEQUENCE);
    int64_t at = 0;
    if (n < 0) return mo_op_fail(ctx, MOIRE_EINVAL, "input 0 is no sequence");
    int rc = position(ctx, 1, n, false, &at);
    if (rc) return rc;
    const struct mo_value item = mo_bundle_at(&ctx->in[0], at);
    return mo_value_copy(ctx, &item, &ctx->out[0]);
}

static int infer_length(const struct mo_op_ctx *ctx) {
    const struct mo_shape scalar = {.rank = 0};
    return mo_set_out(ctx, 0, MOIRE_I64, &scalar);
}

static int run_length(const struct mo_op_ctx *ctx) {
    const int64_t n = mo_bundle_count(&ctx->in[0], MO_SEQUENCE);
    if (n < 0) return mo_op_fail(ctx, MOIRE_EINVAL, "input 0 is no sequence");
    if (mo_wanted(ctx, 0)) mo_store_int(&ctx->out[0], 0, n);
    return MOIRE_OK;
}

/* --- joined and cut ------------------------------------------------------------------------------------- */

/* Rows of a part, `along` elements of an axis, to or from their place in the whole, `at` elements from its
 * start. */
static void move_part(const struct mo_value *whole, int axis, int64_t at, const struct mo_value *part,
                      int64_t along, bool join) {
    const int64_t row =
        mo_extent(&whole->shape, axis + 1, whole->shape.rank) * (int64_t)mo_dtype_bytes(whole->dtype);
    for (int64_t i = 0; i < mo_extent(&whole->shape, 0, axis) && row > 0 && along > 0; i++) {
        char *there = (char *)whole->data + (i * whole->shape.d[axis] + at) * row;
        char *here = (char *)part->data + i * along * row;
        memcpy(join ? there : here, join ? here : there, (size_t)(along * row));
    }
}

/* Shape of the joined whole. */
static int join_shape(const struct mo_op_ctx *ctx, int64_t n, bool stacks, int *axis, struct mo_value *out) {
    const struct mo_value first = mo_bundle_at(&ctx->in[0], 0);
    const int rank = first.shape.rank + stacks;
    if (first.dtype == MO_BUNDLE) return mo_op_fail(ctx, MOIRE_EINVAL, "the elements are no tensors");
    if (!mo_attr_find(ctx->node, "axis")) return mo_op_fail(ctx, MOIRE_EINVAL, "attribute axis is required");
    if (rank > MOIRE_MAX_RANK) return mo_op_fail(ctx, MOIRE_ELIMIT, "the output would have rank %d", rank);
    *axis = mo_axis(ctx, mo_attr_int(ctx->node, "axis", 0), rank);
    if (*axis < 0) return MOIRE_EINVAL;
    *out = (struct mo_value){.dtype = first.dtype, .shape = {.rank = rank}};
    for (int d = 0; d < rank; d++)
        out->shape.d[d] = !stacks ? first.shape.d[d] : d == *axis ? n : first.shape.d[d < *axis ? d : d - 1];
    for (int64_t i = 1; i < n; i++) {
        struct mo_value item = mo_bundle_at(&ctx->in[0], i);
        const int64_t along = !stacks && item.shape.rank > *axis ? item.shape.d[*axis] : 0;
        if (!stacks && item.shape.rank > *axis) item.shape.d[*axis] = first.shape.d[*axis];
        if (item.dtype != first.dtype || !mo_shape_equal(&item.shape, &first.shape))
            return mo_op_fail(ctx, MOIRE_ESHAPE, "element %lld does not fit the first", (long long)i);
        if (!stacks && __builtin_add_overflow(out->shape.d[*axis], along, &out->shape.d[*axis]))
            return mo_op_fail(ctx, MOIRE_ELIMIT, "the output is too long");
    }
    return MOIRE_OK;
}

static int run_join(const struct mo_op_ctx *ctx) {
    const int64_t n = mo_bundle_count(&ctx->in[0], MO_SEQUENCE);
    const bool stacks = mo_attr_int(ctx->node, "new_axis", 0) != 0;
    int axis = 0;
    if (n < 1) return mo_op_fail(ctx, MOIRE_EINVAL, "input 0 is %s", n ? "no sequence" : "empty");
    int rc = join_shape(ctx, n, stacks, &axis, &ctx->out[0]);
    if (!rc) rc = mo_value_allocate(ctx, &ctx->out[0]);
    for (int64_t i = 0, at = 0; i < n && !rc; i++) {
        const struct mo_value item = mo_bundle_at(&ctx->in[0], i);
        const int64_t along = stacks ? 1 : item.shape.d[axis];
        move_part(&ctx->out[0], axis, at, &item, along, true);
        at += along;
    }
    return rc;
}

/* How long part i is; 0 parts: an error. */
static int64_t parts_of(const struct mo_op_ctx *ctx, int64_t length) {
    const struct mo_value *split = &ctx->in[1];
    if (!mo_given(ctx, 1)) return length;
    if (split->shape.rank) return mo_shape_count(&split->shape);
    const int64_t each = mo_load_int(split, 0);
    return each > 0 ? length / each + (length % each != 0) : -1;
}

static int64_t part_length(const struct mo_op_ctx *ctx, int64_t i, int64_t left) {
    if (!mo_given(ctx, 1)) return 1;
    const int64_t each = mo_load_int(&ctx->in[1], ctx->in[1].shape.rank ? i : 0);
    return !ctx->in[1].shape.rank && each > left ? left : each;
}

/* Cuts the input into parts of its own memory: items[0..n). */
static int cut(const struct mo_op_ctx *ctx, int axis, struct mo_value *items, int64_t n) {
    const struct mo_value *x = &ctx->in[0];
    const bool drops = !mo_given(ctx, 1) && !mo_attr_int(ctx->node, "keepdims", 1);
    int64_t at = 0;
    int rc = MOIRE_OK;
    for (int64_t i = 0; i < n && !rc; i++) {
        const int64_t along = part_length(ctx, i, x->shape.d[axis] - at);
        if (along < 0 || along > x->shape.d[axis] - at)
            return mo_op_fail(ctx, MOIRE_EINVAL, "part %lld is %lld long", (long long)i, (long long)along);
        items[i] = (struct mo_value){.dtype = x->dtype, .shape = x->shape};
        items[i].shape.d[axis] = along;
        rc = mo_value_allocate(ctx, &items[i]);
        if (!rc) move_part(x, axis, at, &items[i], along, false);
        for (int d = axis; drops && d + 1 < x->shape.rank; d++)
            items[i].shape.d[d] = items[i].shape.d[d + 1];
        items[i].shape.rank -= drops;
        at += along;
    }
    if (!rc && at != x->shape.d[axis])
        rc = mo_op_fail(ctx, MOIRE_EINVAL, "the parts have %lld of %lld elements", (long long)at,
                        (long long)x->shape.d[axis]);
    return rc;
}

static int run_split(const struct mo_op_ctx *ctx) {
    const struct mo_value *x = &ctx->in[0];
    int rc = mo_check_type(ctx, 0, MO_ANY);
    const int axis = rc ? -1 : mo_axis(ctx, mo_attr_int(ctx->node, "axis", 0), x->shape.rank);
    if (axis < 0) return rc ? rc : MOIRE_EINVAL;
    if (mo_given(ctx, 1) && ((rc = mo_check_type(ctx, 1, MO_TYPE(MOIRE_I32) | MO_TYPE(MOIRE_I64))) ||
                             (rc = mo_check_rank(ctx, 1, 0, 1))))
        return rc;
    const int64_t n = parts_of(ctx, x->shape.d[axis]);
    if (n < 0) return mo_op_fail(ctx, MOIRE_EINVAL, "parts must be longer than 0");
    struct mo_value *items = mo_scratch(ctx, n, sizeof *items);
    if (!items) return no_memory(ctx);
    memset(items, 0, (size_t)n * sizeof *items);
    rc = cut(ctx, axis, items, n);
    if (!rc) rc = make(ctx, x->dtype, items, n, &ctx->out[0]);
    for (int64_t i = 0; i < n; i++)
        mo_free(ctx->env, items[i].data);
    mo_free(ctx->env, items);
    return rc;
}

const struct mo_op mo_ops_sequence[] = {
    {"SequenceEmpty", "", 11, 0, 0, 1, 1, infer_later, run_empty, MO_OP_MAKES},
    {"SequenceConstruct", "", 11, 1, -1, 1, 1, infer_later, run_construct, MO_OP_MAKES},
    {"SequenceInsert", "", 11, 2, 3, 1, 1, infer_later, run_insert, MO_OP_MAKES},
    {"SequenceErase", "", 11, 1, 2, 1, 1, infer_later, run_erase, MO_OP_MAKES},
    {"SequenceAt", "", 11, 2, 2, 1, 1, infer_later, run_at, MO_OP_MAKES},
    {"SequenceLength", "", 11, 1, 1, 1, 1, infer_length, run_length, MO_OP_BUNDLES},
    {"ConcatFromSequence", "", 11, 1, 1, 1, 1, infer_later, run_join, MO_OP_MAKES},
    {"SplitToSequence", "", 11, 1, 2, 1, 1, infer_later, run_split, MO_OP_MAKES},
    {0},
};
