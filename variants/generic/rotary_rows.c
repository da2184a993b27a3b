/* SPDX-License-Identifier: Apache-2.0
 * rotary_rows.c - binds RotaryEmbedding whose caches are those of its rows; positions are looked up before
 * (codegen/passes/pass_rotary.c), where a wrong one is an error. */
#include "runtime/ops/decoder/rotary.h"
#include "variants/generic/bind.h"

static bool is_dense(const struct mo_graph *g, const struct mo_tensor *t) {
    return t->layout == MO_PLAIN && mo_dense(g, t);
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    if (!mo_node_is(node, "RotaryEmbedding") || mo_node_in(g, node, 3)) return 0;
    for (int i = 0; i < 3; i++)
        if (!mo_f32(mo_node_in(g, node, i))) return 0;
    return mo_f32(mo_node_out(g, node, 0)) && node->fuse.act == MO_ACT_NONE && node->fuse.residual < 0
               ? MO_CAN_PLAIN
               : 0;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    struct mo_rotary r;
    if (mo_rotary_of(node, &mo_node_in(binder->graph, node, 0)->shape, &r)) return MOIRE_EUNSUPPORTED;
    for (int i = 0; i < 3; i++)
        if (!is_dense(binder->graph, mo_node_in(binder->graph, node, i))) return MOIRE_EUNSUPPORTED;
    if (!is_dense(binder->graph, mo_node_out(binder->graph, node, 0))) return MOIRE_EUNSUPPORTED;
    const struct mo_rotate_params p = {.heads = r.heads,
                                       .inner = r.rows_first ? r.heads : r.rows,
                                       .columns = r.columns,
                                       .turned = r.turned,
                                       .heads_inner = r.rows_first,
                                       .interleaved = r.interleaved};
    return mo_bound(step, mo_simd_of(binder->isa)->rotate, "rotate", mo_keep(binder, &p, sizeof p),
                    r.batch * r.heads * r.rows, err);
}

const struct mo_family mo_family_rotary = {"rotary", layouts, bind};
