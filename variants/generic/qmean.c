/* SPDX-License-Identifier: Apache-2.0
 * qmean.c - binds moire.QGlobalAveragePool. */
#include "variants/generic/bind.h"

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    if (!mo_node_is_ours(node, "QGlobalAveragePool") || !mo_eight_bits(x) || x->dtype != MOIRE_U8 ||
        !mo_f32(y))
        return 0;
    /* sums of bytes are kept in 32 bits */
    return x->shape.rank >= 3 && mo_span(x, 2, x->shape.rank) < 1 << 23 ? MO_CAN_PLAIN | MO_CAN_C16 : 0;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0), *y = mo_node_out(binder->graph, node, 0);
    if (x->layout != y->layout) return MOIRE_EUNSUPPORTED;
    struct mo_mean_params p = {.area = mo_span(x, 2, x->shape.rank),
                               .zero = (float)mo_attr_int(node, "x_zero", 0),
                               .scale = mo_attr_float(node, "x_scale", 1),
                               .lanes = x->layout == MO_C16 ? 16 : 1};
    p.planes = (x->shape.d[1] + p.lanes - 1) / p.lanes;
    return mo_bound(step, mo_simd_of(binder->isa)->mean_bytes, "mean of bytes", mo_keep(binder, &p, sizeof p),
                    x->shape.d[0] * p.planes, err);
}

extern const struct mo_family mo_family_qmean;
const struct mo_family mo_family_qmean = {"qmean", layouts, bind};
