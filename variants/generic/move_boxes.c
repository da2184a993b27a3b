/* SPDX-License-Identifier: Apache-2.0
 * move_boxes.c - boxes of strided copies, and those between blocks of channels and channels last; see
 * move_boxes.h. */
#include "variants/generic/move_boxes.h"

void mo_boxes_strides(const struct mo_graph *g, const struct mo_tensor *t, int64_t *stride) {
    int64_t step = (int64_t)mo_dtype_bytes(t->dtype);
    for (int i = t->shape.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= t->shape.d[i];
    }
    if (t->shape.rank > 0 && !mo_dense(g, t)) stride[0] = mo_alias_stride(g, t->id);
}

struct mo_box *mo_boxes_add(struct mo_boxes *b, int in, int out, const struct mo_tensor *shape_of) {
    struct mo_box *box = b->n < MO_MAX_BOXES ? &b->box[b->n++] : NULL;
    if (!box) return NULL;
    *box = (struct mo_box){.in = in, .out = out, .rank = shape_of->shape.rank};
    for (int i = 0; i < box->rank; i++)
        box->dims[i] = shape_of->shape.d[i];
    return box;
}

/* The order of a Transpose of floats that leaves the images in place; its rank, or 0. */
static int order_of(const struct mo_graph *g, const struct mo_node *node, int64_t *perm) {
    const struct mo_tensor *x = mo_node_in(g, node, 0);
    const int rank = x ? x->shape.rank : 0;
    if (!mo_node_is(node, "Transpose") || rank < 3 || !mo_f32(x)) return 0;
    return mo_attr_ints(node, "perm", perm, MOIRE_MAX_RANK) == rank && perm[0] == 0 ? rank : 0;
}

bool mo_channels_go_last(const struct mo_graph *g, const struct mo_node *node) {
    int64_t perm[MOIRE_MAX_RANK];
    const int rank = order_of(g, node, perm);
    for (int i = 1; i < rank - 1; i++)
        if (perm[i] != i + 1) return false;
    return rank && perm[rank - 1] == 1;
}

bool mo_channels_come_first(const struct mo_graph *g, const struct mo_node *node) {
    int64_t perm[MOIRE_MAX_RANK];
    const int rank = order_of(g, node, perm);
    for (int i = 2; i < rank; i++)
        if (perm[i] != i - 1) return false;
    return rank && perm[1] == rank - 1 && mo_node_in(g, node, 0)->shape.d[rank - 1] % 16 == 0;
}

/* The whole blocks, then the channels of the last one. */
bool mo_boxes_leave_blocks(struct mo_boxes *b) {
    const struct mo_tensor *x = mo_node_in(b->g, b->node, 0), *y = mo_node_out(b->g, b->node, 0);
    int64_t channels = x->shape.d[1], area = mo_span(x, 2, x->shape.rank), images[MOIRE_MAX_RANK];
    mo_boxes_strides(b->g, y, images);
    for (int part = 0; part < 2; part++) {
        int64_t first = part ? channels / 16 : 0, blocks = part ? 1 : channels / 16;
        int64_t lanes = part ? channels % 16 : 16;
        if (!blocks || !lanes) continue;
        struct mo_box *box = mo_boxes_add(b, 0, 0, y);
        if (!box) return false;
        *box = (struct mo_box){.rank = 4,
                               .dims = {x->shape.d[0], area, blocks, lanes},
                               .in_stride = {mo_alias_stride(b->g, x->id), 64, area * 64, 4},
                               .out_stride = {images[0], channels * 4, 64, 4},
                               .in_at = first * area * 64,
                               .out_at = first * 64};
    }
    return b->n > 0;
}

bool mo_boxes_enter_blocks(struct mo_boxes *b) {
    const struct mo_tensor *x = mo_node_in(b->g, b->node, 0), *y = mo_node_out(b->g, b->node, 0);
    int64_t channels = y->shape.d[1], area = mo_span(y, 2, y->shape.rank), images[MOIRE_MAX_RANK];
    struct mo_box *box = mo_boxes_add(b, 0, 0, y);
    if (!box) return false;
    mo_boxes_strides(b->g, x, images);
    *box = (struct mo_box){.rank = 4,
                           .dims = {y->shape.d[0], channels / 16, area, 16},
                           .in_stride = {images[0], 64, channels * 4, 4},
                           .out_stride = {mo_alias_stride(b->g, y->id), area * 64, 64, 4}};
    return true;
}
