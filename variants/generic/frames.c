/* SPDX-License-Identifier: Apache-2.0
 * frames.c - binds moire.Frames.  In blocks, gathered frames begin with a block of their own. */
#include "runtime/ops/moire/frames.h"
#include "variants/generic/bind.h"

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    struct mo_clip_window f;
    if (!mo_node_is_ours(node, "Frames") || !mo_f32(x) || !mo_f32(y) || x->data ||
        !mo_frames_of(node, &x->shape, &f))
        return 0;
    const bool blocks =
        f.mode != MO_FRAMES_GATHER || f.channels % 16 == 0 || (f.kernel == 1 && f.channels == x->shape.d[1]);
    return MO_CAN_PLAIN | (blocks ? MO_CAN_C16 : 0);
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0), *y = mo_node_out(binder->graph, node, 0);
    struct mo_frames_params p = {.padding = mo_padding_of(x)};
    const int64_t lanes = x->layout == MO_C16 ? 16 : 1, area = mo_span(x, 2, 4) * lanes;
    if (x->layout != y->layout || (x->layout != MO_PLAIN && x->layout != MO_C16) ||
        !mo_frames_of(node, &x->shape, &p.window))
        return MOIRE_EUNSUPPORTED;
    const bool gathers = p.window.mode == MO_FRAMES_GATHER;
    p.size = (x->shape.d[1] + lanes - 1) / lanes * area;
    p.part = gathers ? (p.window.channels + lanes - 1) / lanes * area : p.size;
    p.parts = gathers ? p.window.kernel : 1;
    p.chunks = (p.part + MO_FRAMES_CHUNK - 1) / MO_FRAMES_CHUNK;
    return mo_bound(step, mo_simd_of(binder->isa)->frames, "frames", mo_keep(binder, &p, sizeof p),
                    y->shape.d[0] * p.parts * p.chunks, err);
}

extern const struct mo_family mo_family_frames;
const struct mo_family mo_family_frames = {"frames", layouts, bind};
