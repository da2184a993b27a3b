/* SPDX-License-Identifier: Apache-2.0
 * tap_sum.c - the reference of moire.TapSum; see tap_sum.h. */
#include "runtime/ops/moire/tap_sum.h"
#include "runtime/ops/util.h"

static const int64_t MOST = 1 << 24; /* of any number: products of two are far from 2^63 */

bool mo_tap_sum_of(const struct mo_node *node, const struct mo_shape *x, struct mo_tap_sum *t) {
    int64_t v[MO_TAP_SUM_NUMBERS];
    if (mo_attr_ints(node, "window", v, MO_TAP_SUM_NUMBERS) != MO_TAP_SUM_NUMBERS) return false;
    for (int i = 0; i < MO_TAP_SUM_NUMBERS; i++)
        if (v[i] < (i == 4 ? 0 : 1) || v[i] > MOST) return false;
    *t = (struct mo_tap_sum){v[0], v[1], v[2], v[3], v[4], v[5]};
    return t->outputs <= MO_TAP_SUM_OUTPUTS && x->rank == 4 && x->d[3] <= MOST &&
           x->d[1] == mo_tap_sum_channels(t->outputs, t->taps);
}

void mo_tap_sum_range(const struct mo_tap_sum *t, int64_t w, int64_t k, int64_t *first, int64_t *end) {
    const int64_t left = t->pad - k * t->dilation,
                  right = w - 1 + left; /* the last that is inside, times stride */
    *first = left > 0 ? (left + t->stride - 1) / t->stride : 0;
    *end = right < 0 ? 0 : right / t->stride + 1;
    if (*end > t->width) *end = t->width;
    if (*end < *first) *end = *first;
}

static int infer(const struct mo_op_ctx *ctx) {
    struct mo_tap_sum t;
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_F32));
    if (!rc) rc = mo_check_rank(ctx, 0, 4, 4);
    if (!rc && mo_given(ctx, 1)) rc = mo_check_type(ctx, 1, MO_TYPE(MOIRE_F32));
    if (rc) return rc;
    struct mo_shape y = ctx->in[0].shape;
    if (!mo_tap_sum_of(ctx->node, &y, &t))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the window does not fit the images");
    if (mo_given(ctx, 1) && mo_count(&ctx->in[1]) != t.outputs)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "bias must have a value an output");
    y.d[1] = t.outputs, y.d[3] = t.width;
    return mo_set_out(ctx, 0, MOIRE_F32, &y);
}

static int run(const struct mo_op_ctx *ctx) {
    const struct mo_shape *s = &ctx->in[0].shape;
    const float *x = ctx->in[0].data, *bias = mo_given(ctx, 1) ? ctx->in[1].data : NULL;
    struct mo_tap_sum t;
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    if (!mo_tap_sum_of(ctx->node, s, &t)) return mo_op_fail(ctx, MOIRE_EINTERNAL, "the window does not fit");
    float *y = ctx->out[0].data;
    for (int64_t row = 0; row < s->d[0] * t.outputs * s->d[2]; row++, y += t.width) {
        const int64_t n = row / s->d[2] / t.outputs, o = row / s->d[2] % t.outputs, h = row % s->d[2];
        for (int64_t i = 0; i < t.width; i++)
            y[i] = bias ? bias[o] : 0;
        for (int64_t k = 0; k < t.taps; k++) {
            int64_t first, end;
            mo_tap_sum_range(&t, s->d[3], k, &first, &end);
            const int64_t channel = n * s->d[1] + mo_tap_sum_channel(t.outputs, k) + o;
            const float *from = x + (channel * s->d[2] + h) * s->d[3];
            for (int64_t i = first; i < end; i++)
                y[i] += from[i * t.stride + k * t.dilation - t.pad];
        }
    }
    return mo_epilogue(ctx);
}

const struct mo_op mo_ops_tap_sum[] = {
    {"TapSum", "moire", 1, 1, 2, 1, 1, infer, run, 0},
    {0},
};
