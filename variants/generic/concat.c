/* SPDX-License-Identifier: Apache-2.0
 * concat.c - binds concatenation of channels between blocked tensors.  Inputs that already lie in their slice
 * of the output (the concat pass put them there) are left alone. */
#include "variants/generic/bind.h"

enum { PIXELS_PER_UNIT = 256 };

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *y = mo_node_out(g, node, 0);
    if (!mo_node_is(node, "Concat") || !(mo_f32(y) || mo_eight_bits(y)) || y->shape.rank < 3 ||
        node->n_in > MO_KERNEL_IN)
        return 0;
    if (mo_axis_of(mo_attr_int(node, "axis", 0), y->shape.rank) != 1) return 0;
    if (node->fuse.act != MO_ACT_NONE || node->fuse.residual >= 0) return 0;
    for (int i = 0; i < node->n_in; i++) {
        const struct mo_tensor *x = mo_node_in(g, node, i);
        if (!x || x->dynamic || x->dtype != y->dtype || x->data || x->shape.rank != y->shape.rank) return 0;
    }
    return MO_CAN_C16;
}

/* Cuts channel ranges at the block borders of both sides; at most two runs a block and one more an input. */
static int cut(const struct mo_graph *g, const struct mo_node *node, int64_t blocks, int *first,
               struct mo_lanes *runs) {
    const struct mo_tensor *y = mo_node_out(g, node, 0);
    int64_t channel = 0, area = mo_span(y, 2, y->shape.rank);
    int n = 0;
    for (int i = 0; i <= node->n_in; i++) {
        const struct mo_tensor *x = i < node->n_in ? mo_node_in(g, node, i) : NULL;
        int64_t own = x ? x->shape.d[1] : blocks * 16 - y->shape.d[1];
        bool placed = x && x->alias >= 0 && channel % 16 == 0 &&
                      mo_alias_lies_at(g, x->id, y->id, channel * area * (int64_t)mo_dtype_bytes(y->dtype));
        for (int64_t c = 0; c < own;) {
            int from = (int)(c % 16), to = (int)(channel % 16), count = 16 - (from > to ? from : to);
            if (count > own - c) count = (int)(own - c);
            if (!placed) {
                runs[n++] = (struct mo_lanes){
                    .in = x ? i : -1, .block = c / 16, .from = from, .to = to, .count = count};
                first[channel / 16 + 1] = n;
            }
            c += count;
            channel += count;
        }
    }
    for (int64_t b = 0; b < blocks; b++) /* blocks without a run end where the one before ends */
        if (first[b + 1] < first[b]) first[b + 1] = first[b];
    return n;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *y = mo_node_out(g, node, 0);
    if (y->layout != MO_C16) return MOIRE_EUNSUPPORTED;
    for (int i = 0; i < node->n_in; i++)
        if (mo_node_in(g, node, i)->layout != MO_C16) return MOIRE_EUNSUPPORTED;
    struct mo_concat_params p = {.area = mo_span(y, 2, y->shape.rank),
                                 .blocks = (y->shape.d[1] + 15) / 16,
                                 .element = (int64_t)mo_dtype_bytes(y->dtype)};
    int *first = mo_region_array(binder->region, (size_t)p.blocks + 1, sizeof *first);
    struct mo_lanes *runs =
        mo_region_array(binder->region, (size_t)(2 * p.blocks + 2 * node->n_in + 2), sizeof *runs);
    if (!first || !runs)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory while binding node '%s'", node->name);
    cut(g, node, p.blocks, first, runs);
    p.first = first;
    p.runs = runs;
    p.chunk = p.area < PIXELS_PER_UNIT ? p.area : PIXELS_PER_UNIT;
    p.chunks = (p.area + p.chunk - 1) / p.chunk;
    return mo_bound(step, mo_simd_of(binder->isa)->concat, "concat", mo_keep(binder, &p, sizeof p),
                    y->shape.d[0] * p.blocks * p.chunks, err);
}

const struct mo_family mo_family_concat = {"concat", layouts, bind};
