/* SPDX-License-Identifier: Apache-2.0
 * qattention.c - binds moire.QAttention to a matrix unit.  Passes make it only where there is one; a compiled
 * model that is loaded elsewhere has the model of one. */
#include "variants/generic/bind.h"
#include "variants/simd/attention_bytes.h"

enum { QUERIES_PER_UNIT = 64 };

static bool plain(const struct mo_graph *g, const struct mo_tensor *t, moire_dtype dtype) {
    return t && t->dtype == dtype && t->layout == MO_PLAIN && mo_dense(g, t);
}

static bool good_mask(const struct mo_graph *g, const struct mo_tensor *mask) {
    if (!mask) return true;
    return (plain(g, mask, MOIRE_F32) || plain(g, mask, MOIRE_BOOL)) && !mask->dynamic &&
           mask->shape.rank <= 4 && mo_shape_count(&mask->shape) > 0;
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

static bool set_steps(struct mo_region *region, int64_t bytes, struct mo_attention_params *p) {
    int32_t *steps = mo_region_array(region, (size_t)(bytes / MO_MATRIX_STEP), sizeof *steps);
    for (int64_t i = 0; steps && i < bytes / MO_MATRIX_STEP; i++)
        steps[i] = (int32_t)(i * MO_MATRIX_STEP);
    p->steps = steps;
    return steps;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *x[3], *mask = mo_node_in(g, node, 3);
    struct mo_attention_bytes_params p = {.of.mask = MO_MASK_NONE};
    struct mo_attention_view *w = &p.of.view;
    bool fits = plain(g, mo_node_out(g, node, 0), MOIRE_U8) && good_mask(g, mask);
    for (int i = 0; i < 3; i++)
        fits = plain(g, x[i] = mo_node_in(g, node, i), MOIRE_U8) && fits;
    if (!fits || !mo_attention_view_of(node, &x[0]->shape, &x[1]->shape, &x[2]->shape, w))
        return MOIRE_EUNSUPPORTED;
    if (mask) {
        struct mo_value value = mo_tensor_value(mask);
        p.of.mask = mo_attention_mask_of(node, &value);
        p.of.fill = mo_attr_float(node, "fill", -INFINITY);
        mo_attention_mask_strides(&mask->shape, p.of.mask_stride);
    }
    set_rounding(node, &p);
    const struct mo_matrix_unit *unit = binder->unit[MO_MATRIX_BYTES];
    p.of.unit = unit ? unit : &mo_matrix_model;
    p.of.chunks = (w->queries + QUERIES_PER_UNIT - 1) / QUERIES_PER_UNIT;
    p.of.chunk = QUERIES_PER_UNIT;
    const struct mo_attention_bytes_room room = mo_attention_bytes_room_of(w);
    const int64_t longest = room.depth_bytes > room.key_bytes ? room.depth_bytes : room.key_bytes;
    if (longest > INT32_MAX || !set_steps(binder->region, longest, &p.of))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for attention");
    step->scratch_bytes = room.bytes;
    step->joint = p.of.chunks > 1; /* of one head, packed */
    return mo_bound(step, mo_simd_of(binder->isa)->attention_bytes, "attention of bytes",
                    mo_keep(binder, &p, sizeof p), w->batch * w->heads * p.of.chunks, err);
}

extern const struct mo_family mo_family_qattention;
const struct mo_family mo_family_qattention = {"qattention", layouts, bind};
