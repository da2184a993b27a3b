/* SPDX-License-Identifier: Apache-2.0
 * pass_taps.c - a convolution loses outer rows and columns of its filter that only ever meet padding.
 *
 * Wide dilations over small images have such: of a 3x3 filter with a dilation of 24 over 16x16 the centre
 * alone meets the image.  A tap goes only where the padding that is left is no less than 0, and where all
 * weights are finite: then its products with padding are nothing. */
#include <math.h>
#include <string.h>
#include "codegen/passes/passes.h"

enum { SPATIAL = MOIRE_MAX_RANK - 2 };

/* One axis of a filter; taps [first, end) of k stay. */
struct axis {
    int64_t k, stride, dilation, before, behind, in, out;
    int64_t first, end;
};

/* Tap `first` reads out * stride - before, and tap `end` - 1 lies (end - 1 - first) dilations behind it. */
static void cut(struct axis *a) {
    a->first = 0, a->end = a->k;
    for (; a->end - a->first > 1 && (a->out - 1) * a->stride < a->before && a->before >= a->dilation;
         a->first++)
        a->before -= a->dilation;
    for (; a->end - a->first > 1 && (a->end - 1 - a->first) * a->dilation - a->before >= a->in &&
           a->behind >= a->dilation;
         a->end--)
        a->behind -= a->dilation;
}

/* False: nothing is to be cut. */
static bool find(const struct mo_graph *g, const struct mo_node *node, struct axis axis[SPATIAL], int *n) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *w = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    int64_t stride[SPATIAL], dilation[SPATIAL], pads[2 * SPATIAL];
    bool any = false;
    if (!mo_is(node, "Conv") || !mo_is_f32(x) || !mo_is_f32(w) || !mo_is_f32(y) || !w->data) return false;
    *n = x->shape.rank - 2;
    if (*n < 1 || w->shape.rank != *n + 2 || y->shape.rank != *n + 2) return false;
    if (strcmp(mo_attr_string(node, "auto_pad", "NOTSET"), "NOTSET") ||
        !mo_ints_or(node, "strides", 1, stride, *n) || !mo_ints_or(node, "dilations", 1, dilation, *n) ||
        !mo_ints_or(node, "pads", 0, pads, 2 * *n))
        return false;
    for (int i = 0; i < *n; i++) {
        axis[i] = (struct axis){.k = w->shape.d[2 + i],
                                .stride = stride[i],
                                .dilation = dilation[i],
                                .before = pads[i],
                                .behind = pads[*n + i],
                                .in = x->shape.d[2 + i],
                                .out = y->shape.d[2 + i]};
        cut(&axis[i]);
        any = any || axis[i].end - axis[i].first < axis[i].k;
    }
    return any;
}

static bool all_finite(const struct mo_tensor *w) {
    const int64_t n = mo_shape_count(&w->shape);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(((const float *)w->data)[i])) return false;
    return true;
}

/* The filters with the taps that stay. */
static void copy_taps(const struct mo_tensor *from, const struct axis *axis, int n, struct mo_tensor *to) {
    const int64_t filters = from->shape.d[0] * from->shape.d[1], left = mo_shape_count(&to->shape) / filters;
    int64_t all = 1;
    for (int i = 0; i < n; i++)
        all *= axis[i].k;
    for (int64_t f = 0; f < filters; f++)
        for (int64_t t = 0; t < left; t++) {
            int64_t at = 0, rest = t, step = 1;
            for (int i = n - 1; i >= 0; i--) {
                const int64_t size = axis[i].end - axis[i].first;
                at += (axis[i].first + rest % size) * step;
                rest /= size;
                step *= axis[i].k;
            }
            ((float *)to->data)[f * left + t] = ((const float *)from->data)[f * all + at];
        }
}

static int convert(struct mo_graph *g, struct mo_node *node, const struct axis *axis, int n,
                   moire_error *err) {
    struct mo_tensor *w = g->tensors[node->in[1]];
    int64_t bounds[2 * SPATIAL], kernel[SPATIAL], pads[2 * SPATIAL];
    struct mo_shape shape = w->shape;
    for (int i = 0; i < n; i++) {
        bounds[2 * i] = axis[i].first, bounds[2 * i + 1] = axis[i].end;
        shape.d[2 + i] = kernel[i] = axis[i].end - axis[i].first;
        pads[i] = axis[i].before, pads[n + i] = axis[i].behind;
    }
    struct mo_tensor *t = mo_derive_constant(
        g, w, w->name, &shape, mo_content_of("taps", &w->content, 1, bounds, 2 * (size_t)n * sizeof *bounds));
    if (!t) return mo_no_memory(err);
    if (!mo_packed_elided(g, t)) copy_taps(w, axis, n, t);
    node->in[1] = t->id;
    mo_drop_constant(g, w->id);
    const int rc = mo_set_ints(g, node, "kernel_shape", kernel, n, err);
    return rc ? rc : mo_set_ints(g, node, "pads", pads, 2 * n, err);
}

int mo_pass_taps(struct mo_graph *g, moire_error *err) {
    for (int i = 0; i < g->n_nodes; i++) {
        struct axis axis[SPATIAL];
        int n;
        if (g->nodes[i]->dead || !find(g, g->nodes[i], axis, &n)) continue;
        const struct mo_tensor *w = g->tensors[g->nodes[i]->in[1]];
        if (!mo_packed_elided(g, w) && !all_finite(w)) continue;
        const int rc = convert(g, g->nodes[i], axis, n, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}
