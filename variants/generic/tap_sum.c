/* SPDX-License-Identifier: Apache-2.0
 * tap_sum.c - binds moire.TapSum, from blocks to plain rows. */
#include "runtime/ops/moire/tap_sum.h"
#include "variants/generic/bind.h"

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    struct mo_tap_sum t;
    if (!mo_node_is_ours(node, "TapSum") || !mo_f32(x) || !mo_f32(y) || x->data || node->fuse.residual >= 0 ||
        !mo_tap_sum_of(node, &x->shape, &t))
        return 0;
    return MO_CAN_LEAVE;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0),
                           *bias = mo_node_in(g, node, 1);
    struct mo_tap_sum_params p = {.h = x->shape.d[2], .w = x->shape.d[3], .fuse = node->fuse};
    if (!layouts(g, node) || x->layout != MO_C16 || y->layout != MO_PLAIN || (bias && !bias->data) ||
        !mo_tap_sum_of(node, &x->shape, &p.of))
        return MOIRE_EUNSUPPORTED;
    for (int64_t o = 0; bias && o < p.of.outputs; o++)
        p.bias[o] = ((const float *)bias->data)[o];
    step->scratch_bytes = p.of.width * (MO_TAP_SUM_OUTPUTS + 1) * 4;
    step->flops = x->shape.d[0] * p.h * p.of.width * p.of.outputs * p.of.taps;
    return mo_bound(step, mo_simd_of(binder->isa)->tap_sum, "sum of taps", mo_keep(binder, &p, sizeof p),
                    x->shape.d[0] * p.h, err);
}

extern const struct mo_family mo_family_tap_sum;
const struct mo_family mo_family_tap_sum = {"tap sum", layouts, bind};
