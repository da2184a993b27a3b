/* SPDX-License-Identifier: Apache-2.0
 * instance_norm.c - binds instance normalization, of plain tensors and of blocked ones. */
#include "variants/generic/bind.h"

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0);
    if (!mo_node_is(node, "InstanceNormalization") || node->fuse.act != MO_ACT_NONE ||
        node->fuse.residual >= 0)
        return 0;
    if (!mo_f32(x) || x->data || !mo_f32(mo_node_out(g, node, 0)) || x->shape.rank < 3) return 0;
    for (int i = 1; i < 3; i++) {
        const struct mo_tensor *t = mo_node_in(g, node, i);
        if (!mo_f32(t) || t->shape.rank != 1 || t->shape.d[0] != x->shape.d[1]) return 0;
    }
    return MO_CAN_PLAIN | MO_CAN_C16;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    if (x->layout != y->layout) return MOIRE_EUNSUPPORTED;
    for (int i = 1; i < 3; i++) { /* scale and shift may be activations */
        const struct mo_tensor *row = mo_node_in(g, node, i);
        if (row->layout != MO_PLAIN || !mo_dense(g, row)) return MOIRE_EUNSUPPORTED;
    }
    const struct mo_instance_params p = {.channels = x->shape.d[1],
                                         .area = mo_span(x, 2, x->shape.rank),
                                         .lanes = x->layout == MO_C16 ? 16 : 1,
                                         .epsilon = mo_attr_float(node, "epsilon", 1e-5f)};
    return mo_bound(step, mo_simd_of(binder->isa)->instance, "instance norm", mo_keep(binder, &p, sizeof p),
                    x->shape.d[0] * ((p.channels + p.lanes - 1) / p.lanes), err);
}

const struct mo_family mo_family_instance = {"instance", layouts, bind};
