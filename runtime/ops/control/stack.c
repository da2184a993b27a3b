/* SPDX-License-Identifier: Apache-2.0
 * stack.c - see stack.h.  Memory doubles, so that n slices are copied twice at most. */
#include "runtime/ops/control/stack.h"

#include <string.h>
#include "runtime/ops/control/body.h"

/* The value of so many slices; no contents. */
static int value_of(const struct mo_op_ctx *ctx, const struct mo_value *slice, int64_t n, int output,
                    struct mo_value *out) {
    *out = (struct mo_value){.dtype = slice->dtype, .shape = {.rank = slice->shape.rank + 1, .d = {n}}};
    if (out->shape.rank > MOIRE_MAX_RANK)
        return mo_op_fail(ctx, MOIRE_ELIMIT, "scan output %d would have rank %d; at most %d is supported",
                          output, out->shape.rank, MOIRE_MAX_RANK);
    for (int i = 0; i < slice->shape.rank; i++)
        out->shape.d[i + 1] = slice->shape.d[i];
    return MOIRE_OK;
}

static int make_room(const struct mo_op_ctx *ctx, struct mo_stack *s, int output) {
    struct mo_value now, wider;
    if (s->n < s->room) return MOIRE_OK;
    const int64_t room = s->room ? 2 * s->room : 8;
    int rc = value_of(ctx, &s->slice, s->n, output, &now);
    if (!rc) rc = value_of(ctx, &s->slice, room, output, &wider);
    if (!rc) rc = mo_value_allocate(ctx, &wider);
    if (rc) return rc;
    const int64_t bytes = mo_value_bytes(&now);
    if (bytes && s->data) memcpy(wider.data, s->data, (size_t)bytes);
    mo_free(ctx->env, s->data);
    s->data = wider.data;
    s->room = room;
    return MOIRE_OK;
}

int mo_stack_append(const struct mo_op_ctx *ctx, struct mo_stack *s, const struct mo_value *slice,
                    int output) {
    if (slice->dtype == MO_BUNDLE)
        return mo_op_fail(ctx, MOIRE_EINVAL, "scan output %d is a sequence or an optional, no tensor",
                          output);
    if (!s->n) s->slice = (struct mo_value){.dtype = slice->dtype, .shape = slice->shape};
    if (slice->dtype != s->slice.dtype || !mo_shape_equal(&slice->shape, &s->slice.shape)) {
        char was[120], is[120];
        return mo_op_fail(ctx, MOIRE_ESHAPE,
                          "scan output %d is %s%s in the first trip and %s%s in trip %lld: all must be alike",
                          output, mo_dtype_name(s->slice.dtype),
                          mo_shape_text(&s->slice.shape, was, sizeof was), mo_dtype_name(slice->dtype),
                          mo_shape_text(&slice->shape, is, sizeof is), (long long)s->n + 1);
    }
    int rc = make_room(ctx, s, output);
    const int64_t bytes = rc ? 0 : mo_value_bytes(slice);
    if (bytes > 0) memcpy((char *)s->data + s->n * bytes, slice->data, (size_t)bytes);
    if (!rc) s->n++;
    return rc;
}

int mo_stack_finish(const struct mo_op_ctx *ctx, struct mo_stack *s, const struct mo_tensor *like, int output,
                    struct mo_value *out) {
    if (!s->n) {
        if (!mo_dtype_bytes(like->dtype))
            return mo_op_fail(ctx, MOIRE_EUNSUPPORTED,
                              "scan output %d has no slice, and the file does not declare its type", output);
        s->slice = (struct mo_value){.dtype = like->dtype, .shape = {.rank = 0}};
        if (mo_shape_count(&like->shape) >= 0) s->slice.shape = like->shape;
    }
    int rc = value_of(ctx, &s->slice, s->n, output, out);
    if (!rc && !s->data) return mo_value_allocate(ctx, out);
    out->data = s->data;
    s->data = NULL;
    return rc;
}
