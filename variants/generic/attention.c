/* SPDX-License-Identifier: Apache-2.0
 * attention.c - binds moire.Attention: Q, K, V [B,H,S,D], optional mask that broadcasts to [B,H,Sq,Sk]. */
#include "variants/generic/bind.h"

enum { TILE = 14, SLACK = 16, QUERIES_PER_UNIT = 140 };

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    if (!mo_node_is_ours(node, "Attention") || !mo_f32(mo_result(g, node, 0)) || node->n_in < 3) return 0;
    for (int i = 0; i < 3; i++)
        if (!mo_f32(mo_arg(g, node, i)) || mo_arg(g, node, i)->shape.rank != 4) return 0;
    const struct mo_tensor *mask = mo_arg(g, node, 3);
    if (mask && (!mo_f32(mask) || mask->shape.rank > 4)) return 0;
    return node->fuse.act == MO_ACT_NONE && node->fuse.residual < 0 ? MO_CAN_PLAIN : 0;
}

/* Strides of the mask along batch, head, query and key. */
static void mask_strides(const struct mo_tensor *mask, int64_t *stride) {
    int64_t step = 1;
    for (int i = 1; i <= 4; i++) {
        int64_t d = i <= mask->shape.rank ? mask->shape.d[mask->shape.rank - i] : 1;
        stride[4 - i] = d == 1 ? 0 : step;
        step *= d;
    }
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *q = mo_arg(g, node, 0), *k = mo_arg(g, node, 1), *v = mo_arg(g, node, 2);
    const struct mo_tensor *mask = mo_arg(g, node, 3), *y = mo_result(g, node, 0);
    int64_t stride[4] = {0};
    if (!mo_dense(g, q) || !mo_dense(g, k) || !mo_dense(g, v) || !mo_dense(g, y) ||
        (mask && !mo_dense(g, mask)))
        return MOIRE_EUNSUPPORTED;
    if (q->layout || k->layout || v->layout || y->layout || (mask && mask->layout)) return MOIRE_EUNSUPPORTED;
    for (int i = 0; i < 2; i++)
        if (k->shape.d[i] != q->shape.d[i] || v->shape.d[i] != q->shape.d[i]) return MOIRE_EUNSUPPORTED;
    if (mask) mask_strides(mask, stride);
    struct mo_attention_params p = {.heads = q->shape.d[1],
                                    .queries = q->shape.d[2],
                                    .keys = k->shape.d[2],
                                    .depth = q->shape.d[3],
                                    .width = v->shape.d[3],
                                    .masked = mask != NULL,
                                    .scale = mo_attr_float(node, "scale", 1.0f),
                                    .mask_batch = stride[0],
                                    .mask_head = stride[1],
                                    .mask_query = stride[2],
                                    .mask_key = stride[3]};
    if (v->shape.d[2] != p.keys || k->shape.d[3] != p.depth) return MOIRE_EUNSUPPORTED;
    p.chunks = (p.queries + QUERIES_PER_UNIT - 1) / QUERIES_PER_UNIT;
    p.chunk = (p.queries + p.chunks - 1) / p.chunks;
    int64_t keys = (p.keys + 15) / 16 * 16, width = (p.width + 15) / 16 * 16;
    int64_t longest = p.depth > p.keys ? p.depth : p.keys;
    step->scratch_bytes = 4 * (keys * p.depth + width * p.keys + TILE * (longest + keys + width) + SLACK);
    return mo_bound(step, mo_simd_of(binder->isa)->attention, "attention", mo_keep(binder, &p, sizeof p),
                    q->shape.d[0] * p.heads * p.chunks, err);
}

const struct mo_family mo_family_attention = {"attention", layouts, bind};
