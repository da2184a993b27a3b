/* SPDX-License-Identifier: Apache-2.0
 * pool.c - binds pooling: windows, whole planes, and a mean over the spatial dimensions, which is the same.
 */
#include <string.h>
#include "variants/generic/bind.h"
#include "variants/halves.h"

/* ReduceMean over exactly the spatial dimensions of an image. */
static bool spatial_mean(const struct mo_graph *g, const struct mo_node *node) {
    int64_t axes[4];
    const struct mo_tensor *x = mo_node_in(g, node, 0);
    if (!mo_node_is(node, "ReduceMean") || !mo_f32(x) || x->shape.rank != 4) return false;
    if (mo_ints_of(g, node, "axes", 1, axes, 4) != 2) return false;
    int a = mo_axis_of(axes[0], 4), b = mo_axis_of(axes[1], 4);
    return (a == 2 && b == 3) || (a == 3 && b == 2);
}

static bool is_global(const struct mo_graph *g, const struct mo_node *node) {
    return mo_node_is(node, "GlobalAveragePool") || mo_node_is(node, "GlobalMaxPool") ||
           spatial_mean(g, node);
}

/* A maximum of bytes. */
static bool of_bytes(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    return mo_node_is(node, "MaxPool") && mo_eight_bits(x) && x->dtype == MOIRE_U8 && y &&
           node->fuse.act == MO_ACT_NONE;
}

static unsigned layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    struct mo_window2 window;
    if (!((mo_f32(x) && mo_f32(y)) || of_bytes(g, node)) || mo_shape_count(&y->shape) < 1 ||
        x->shape.rank < 3 || x->shape.rank > 4 || node->fuse.residual >= 0)
        return 0;
    if (is_global(g, node)) {
        if (node->fuse.act != MO_ACT_NONE) return 0;
        return MO_CAN_PLAIN | MO_CAN_LEAVE | (y->shape.rank == x->shape.rank ? MO_CAN_C16 : 0);
    }
    if (!mo_node_is(node, "MaxPool") && !mo_node_is(node, "AveragePool")) return 0;
    if (mo_node_out(g, node, 1) || mo_attr_int(node, "storage_order", 0)) return 0;
    return mo_window_of(node, x, y, NULL, false, &window) ? MO_CAN_PLAIN | MO_CAN_C16 : 0;
}

/* Averages over windows and maxima over planes are rare. */
enum mo_halves mo_pool_halves(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    if (!x || !y || !mo_f32(x) || x->layout == MO_PLAIN || !layouts(g, node)) return MO_HALVES_NONE;
    if (is_global(g, node)) return mo_node_is(node, "GlobalMaxPool") ? MO_HALVES_NONE : MO_HALVES_READER;
    bool max = mo_node_is(node, "MaxPool") && node->fuse.act == MO_ACT_NONE && y->layout != MO_PLAIN;
    return max ? MO_HALVES_BOTH : MO_HALVES_NONE;
}

static int bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    struct mo_pool_params p = {.channels = x->shape.d[1], .fuse = node->fuse, .padding = mo_padding_of(y)};
    struct mo_window2 w;
    p.max = mo_node_is(node, "MaxPool") || mo_node_is(node, "GlobalMaxPool");
    p.include_pad = mo_attr_int(node, "count_include_pad", 0) != 0;
    p.lanes = x->layout != MO_PLAIN ? 16 : 1;
    p.out_lanes = y->layout != MO_PLAIN ? 16 : 1;
    const bool halves = x->layout == MO_C16_HALVES;
    if (halves != (y->layout == MO_C16_HALVES) && (!halves || mo_pool_halves(g, node) != MO_HALVES_READER))
        return MOIRE_EUNSUPPORTED;
    p.planes = (p.channels + p.lanes - 1) / p.lanes;
    if (is_global(g, node)) {
        if (p.lanes < p.out_lanes || (x->data && p.lanes > 1)) return MOIRE_EUNSUPPORTED;
        w = (struct mo_window2){.oh = 1, .ow = 1, .sh = 1, .sw = 1, .dh = 1, .dw = 1};
        w.w = w.kw = x->shape.d[x->shape.rank - 1];
        w.h = w.kh = x->shape.rank == 4 ? x->shape.d[2] : 1;
    } else if (p.lanes != p.out_lanes || !mo_window_of(node, x, y, NULL, false, &w)) {
        return MOIRE_EUNSUPPORTED;
    }
    p.h = w.h, p.w = w.w, p.oh = w.oh, p.ow = w.ow, p.kh = w.kh, p.kw = w.kw, p.sh = w.sh, p.sw = w.sw;
    p.dh = w.dh, p.dw = w.dw, p.pt = w.pt, p.pl = w.pl, p.pb = w.pb, p.pr = w.pr;
    const int64_t end = (p.ow - 1) * p.sw - p.pl + (p.kw - 1) * p.dw + 1;
    p.left = p.pl > 0 ? p.pl : 0, p.right = end > p.w ? end - p.w : 0;
    step->scratch_bytes = (p.left + p.w * 4 + p.right) * p.lanes;
    const struct mo_simd_table *simd = mo_simd_of(binder->isa);
    mo_kernel *run = x->dtype == MOIRE_U8 ? simd->pool_bytes : halves ? simd->pool_halves : simd->pool;
    return mo_bound(step, run, "pool", mo_keep(binder, &p, sizeof p), x->shape.d[0] * p.planes * p.oh, err);
}

const struct mo_family mo_family_pool = {"pool", layouts, bind};
