/* SPDX-License-Identifier: Apache-2.0
 * qattention.c - binds moire.QAttention to a matrix unit.  Passes make it only where there is one; a compiled
 * model that is loaded elsewhere has the model of one. */
#include "variants/generic/attention.h"
#include "variants/simd/attention_bytes.h"

static bool plain(const struct mo_graph *g, const struct mo_tensor *t, moire_dtype dtype) {
    return t && t->dtype == dtype && t->layout == MO_PLAIN && mo_dense(g, t);
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    if (!mo_node_is_ours(node, "QAttention") || node->n_in < 3) return 0;
    for (int i = 0; i < 3; i++)
        if (mo_node_in(g, node, i)->shape.rank != 4) return 0;
    return node->fuse.act == MO_ACT_NONE && node->fuse.residual < 0 ? MO_CAN_PLAIN : 0;
}

static void set_rounding(const struct mo_node *node, struct mo_attention_bytes_params *p) {
    struct mo_attention_rounding r;
    mo_attention_rounding_of(node, &r);
    const float *scale = r.scale;
    p->q_zero = r.zero[MO_ATTENTION_Q], p->k_zero = r.zero[MO_ATTENTION_K] - 128;
    p->v_zero = r.zero[MO_ATTENTION_V] - 128, p->scores_zero = r.zero[MO_ATTENTION_SCORES];
    p->weights_zero = r.zero[MO_ATTENTION_WEIGHTS], p->y_zero = r.zero[MO_ATTENTION_Y];
    p->rounds = scale[MO_ATTENTION_SCORES] > 0;
    p->to_scores = scale[MO_ATTENTION_Q] * scale[MO_ATTENTION_K] * r.inner;
    if (p->rounds) {
        p->to_scores /= scale[MO_ATTENTION_SCORES];
        p->of.view.scale *= scale[MO_ATTENTION_SCORES];
    }
    p->to_weights = 1 / scale[MO_ATTENTION_WEIGHTS];
    p->to_y = scale[MO_ATTENTION_WEIGHTS] * scale[MO_ATTENTION_V] / scale[MO_ATTENTION_Y];
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *x[3], *mask = mo_node_in(g, node, 3);
    struct mo_attention_bytes_params p = {0};
    struct mo_attention_view *w = &p.of.view;
    bool fits = plain(g, mo_node_out(g, node, 0), MOIRE_U8) && mo_attention_mask_fits(mask) &&
                (!mask || plain(g, mask, mask->dtype));
    for (int i = 0; i < 3; i++)
        fits = plain(g, x[i] = mo_node_in(g, node, i), MOIRE_U8) && fits;
    if (!fits || !mo_attention_view_of(node, &x[0]->shape, &x[1]->shape, &x[2]->shape, w))
        return MOIRE_EUNSUPPORTED;
    mo_attention_set_mask(node, mask, &p.of);
    set_rounding(node, &p);
    const struct mo_matrix_unit *unit = binder->unit[MO_MATRIX_BYTES];
    const struct mo_attention_bytes_room room = mo_attention_bytes_room_of(w);
    const int64_t longest = room.depth_bytes > room.key_bytes ? room.depth_bytes : room.key_bytes;
    if (!mo_attention_set_unit(binder, unit ? unit : &mo_matrix_model, longest, &p.of))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for attention");
    step->scratch_bytes = room.bytes;
    step->joint = p.of.chunks > 1; /* of one head, packed */
    return mo_bound(step, mo_simd_of(binder->isa)->attention_bytes, "attention of bytes",
                    mo_keep(binder, &p, sizeof p), w->batch * w->heads * p.of.chunks, err);
}

extern const struct mo_family mo_family_qattention;
const struct mo_family mo_family_qattention = {"qattention", layouts, bind};
