/* SPDX-License-Identifier: Apache-2.0
 * attention.c - binds moire.Attention: Q, K, V with or without their heads apart, any mask that broadcasts to
 * [B,H,Sq,Sk]. */
#include <math.h>
#include "variants/generic/attention.h"
#include "variants/simd/attention_halves.h"
#include "variants/simd/attention_room.h"

enum { QUERIES_PER_UNIT = 64, UNIT_QUERIES = 64, FEW_QUERIES = 4 };

bool mo_attention_mask_fits(const struct mo_tensor *mask) {
    if (!mask) return true;
    bool known = mask->dtype == MOIRE_F32 || mask->dtype == MOIRE_BOOL;
    return known && !mask->dynamic && mask->shape.rank <= 4 && mo_shape_count(&mask->shape) > 0;
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    if (!mo_node_is_ours(node, "Attention") || !mo_f32(mo_node_out(g, node, 0)) || node->n_in < 3) return 0;
    for (int i = 0; i < 3; i++)
        if (!mo_f32(mo_node_in(g, node, i)) || mo_node_in(g, node, i)->shape.rank != 4) return 0;
    if (!mo_attention_mask_fits(mo_node_in(g, node, 3))) return 0;
    return node->fuse.act == MO_ACT_NONE && node->fuse.residual < 0 ? MO_CAN_PLAIN : 0;
}

static bool plain(const struct mo_graph *g, const struct mo_tensor *t) {
    return t->layout == MO_PLAIN && mo_dense(g, t);
}

void mo_attention_set_mask(const struct mo_node *node, const struct mo_tensor *mask,
                           struct mo_attention_params *p) {
    p->mask = MO_MASK_NONE;
    if (!mask) return;
    struct mo_value value = mo_tensor_value(mask);
    p->mask = mo_attention_mask_of(node, &value);
    p->fill = mo_attr_float(node, "fill", -INFINITY);
    mo_attention_mask_strides(&mask->shape, p->mask_stride);
}

bool mo_attention_set_unit(const struct mo_binder *binder, const struct mo_matrix_unit *unit, int64_t bytes,
                           struct mo_attention_params *p) {
    int32_t *steps = mo_region_array(binder->region, (size_t)(bytes / MO_MATRIX_STEP), sizeof *steps);
    if (!steps || bytes > INT32_MAX) return false;
    for (int64_t i = 0; i < bytes / MO_MATRIX_STEP; i++)
        steps[i] = (int32_t)(i * MO_MATRIX_STEP);
    p->unit = unit, p->steps = steps;
    p->chunks = (p->view.queries + UNIT_QUERIES - 1) / UNIT_QUERIES;
    p->chunk = UNIT_QUERIES;
    return true;
}

/* By a matrix unit, from bfloat16. */
static int bind_halves(const struct mo_binder *binder, struct mo_attention_params *p, struct mo_step *step,
                       moire_error *err) {
    const struct mo_attention_view *w = &p->view;
    const struct mo_attention_room room = mo_attention_room_of(w);
    const int64_t longest = room.depth_bytes > room.key_bytes ? room.depth_bytes : room.key_bytes;
    if (!mo_attention_set_unit(binder, p->unit, longest, p))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for attention");
    step->scratch_bytes = room.bytes;
    step->joint = p->chunks > 1; /* of one head, packed */
    return mo_bound(step, mo_simd_of(binder->isa)->attention_halves, "attention bf16",
                    mo_keep(binder, p, sizeof *p), w->batch * w->heads * p->chunks, err);
}

/* Without packing what so few queries read once. */
static int bind_few(const struct mo_binder *binder, const struct mo_attention_params *p, struct mo_step *step,
                    moire_error *err) {
    step->scratch_bytes = 4 * p->view.keys;
    return mo_bound(step, mo_simd_of(binder->isa)->attention_few, "attention few",
                    mo_keep(binder, p, sizeof *p), p->view.batch * p->view.heads, err);
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *q = mo_node_in(g, node, 0), *k = mo_node_in(g, node, 1),
                           *v = mo_node_in(g, node, 2);
    const struct mo_tensor *mask = mo_node_in(g, node, 3), *y = mo_node_out(g, node, 0);
    struct mo_attention_params p = {0};
    struct mo_attention_view *w = &p.view;
    if (!plain(g, q) || !plain(g, k) || !plain(g, v) || !plain(g, y) || (mask && !plain(g, mask)))
        return MOIRE_EUNSUPPORTED;
    if (!mo_attention_view_of(node, &q->shape, &k->shape, &v->shape, w)) return MOIRE_EUNSUPPORTED;
    mo_attention_set_mask(node, mask, &p);
    p.unit = g->halves ? binder->unit[MO_MATRIX_HALVES] : NULL;
    if (p.unit) return bind_halves(binder, &p, step, err);
    if (w->queries <= FEW_QUERIES) return bind_few(binder, &p, step, err);
    p.chunks = w->queries < 2 * QUERIES_PER_UNIT ? 1 : w->queries / QUERIES_PER_UNIT;
    step->joint = p.chunks > 1; /* of one head, packed */
    step->scratch_bytes = 4 * mo_attention_places_of(w).floats;
    return mo_bound(step, mo_simd_of(binder->isa)->attention, "attention", mo_keep(binder, &p, sizeof p),
                    w->batch * w->heads * p.chunks, err);
}

const struct mo_family mo_family_attention = {"attention", layouts, bind};
