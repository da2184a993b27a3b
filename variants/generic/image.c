/* SPDX-License-Identifier: Apache-2.0
 * image.c - binds what works on images and is neither convolution nor pooling: Resize, LRN, ConvTranspose. */
#include <math.h>
#include <string.h>
#include "variants/generic/bind.h"
#include "variants/packed.h"

enum { PIXELS_PER_UNIT = 256, LRN_REACH = 16 };

/* --- Resize and Upsample ----------------------------------------------------------------------------- */

/* How one dimension is sampled. */
struct sampling {
    const char *coordinates, *nearest;
    bool linear;
};

static bool sampling_of(const struct mo_node *node, struct sampling *s) {
    bool old = mo_node_is(node, "Upsample") || (mo_node_is(node, "Resize") && node->opset < 11);
    const char *mode = mo_attr_string(node, "mode", "nearest");
    s->linear = !strcmp(mode, "linear") || !strcmp(mode, "bilinear");
    s->coordinates =
        old ? "asymmetric" : mo_attr_string(node, "coordinate_transformation_mode", "half_pixel");
    s->nearest = old ? "simple" : mo_attr_string(node, "nearest_mode", "round_prefer_floor");
    if (!s->linear && strcmp(mode, "nearest")) return false;
    if (mo_attr_int(node, "antialias", 0) || mo_attr_int(node, "exclude_outside", 0) ||
        mo_attr_find(node, "axes"))
        return false;
    if (strcmp(mo_attr_string(node, "keep_aspect_ratio_policy", "stretch"), "stretch")) return false;
    static const char *const known[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(s->coordinates, known[i])) return true;
    return false;
}

/* Scale of every dimension: given, or output over input. */
static bool scales_of(const struct mo_graph *g, const struct mo_node *node, double *scale) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    int at = mo_node_is(node, "Resize") && node->opset >= 11 ? 2 : 1;
    const struct mo_tensor *given = mo_node_in(g, node, at);
    const struct mo_attr *attr = mo_attr_find(node, "scales");
    int64_t n = given && given->dtype == MOIRE_F32 ? mo_shape_count(&given->shape) : 0;
    for (int i = 0; i < x->shape.rank; i++) {
        scale[i] = (double)y->shape.d[i] / (double)x->shape.d[i];
        if (attr && attr->type == MO_ATTR_FLOATS && attr->n == x->shape.rank) scale[i] = attr->floats[i];
        if (n == x->shape.rank && given->data) scale[i] = ((const float *)given->data)[i];
        if (!(scale[i] > 0)) return false;
    }
    return !n || given->data;
}

static unsigned resize_layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *y = mo_node_out(g, node, 0);
    struct sampling s;
    double scale[MOIRE_MAX_RANK] = {0};
    if (!mo_node_is(node, "Resize") && !mo_node_is(node, "Upsample")) return 0;
    if (!mo_f32(x) || !mo_f32(y) || x->shape.rank < 3 || x->shape.rank > 4) return 0;
    if (x->shape.d[0] != y->shape.d[0] || x->shape.d[1] != y->shape.d[1]) return 0;
    if (node->fuse.act != MO_ACT_NONE || node->fuse.residual >= 0 || !sampling_of(node, &s)) return 0;
    for (int i = 2; i < x->shape.rank; i++) /* positions are kept as int32 */
        if (x->shape.d[i] > INT32_MAX || y->shape.d[i] > INT32_MAX) return 0;
    return scales_of(g, node, scale) ? MO_CAN_PLAIN | MO_CAN_C16 : 0;
}

static double source_of(const struct sampling *s, int64_t i, int64_t in, int64_t out, double scale) {
    if (!strcmp(s->coordinates, "asymmetric")) return (double)i / scale;
    double length = scale * (double)in; /* of the output before it is rounded, as the reference has it */
    if (!strcmp(s->coordinates, "align_corners"))
        return out == 1 || length <= 1 ? 0 : (double)i * (double)(in - 1) / (length - 1);
    if (!strcmp(s->coordinates, "pytorch_half_pixel") && out == 1) return 0;
    return ((double)i + 0.5) / scale - 0.5;
}

/* "simple" is what was meant before there were modes. */
static double round_by(const char *how, double x, double scale) {
    if (!strcmp(how, "simple")) return scale < 1 ? ceil(x) : floor(x);
    if (!strcmp(how, "floor")) return floor(x);
    if (!strcmp(how, "ceil")) return ceil(x);
    return !strcmp(how, "round_prefer_ceil") ? floor(x + 0.5) : ceil(x - 0.5);
}

static int32_t clamp_to(double x, int64_t size) {
    return x < 0 ? 0 : x > (double)(size - 1) ? (int32_t)(size - 1) : (int32_t)x;
}

/* Taps and weights along one dimension; false when out of memory. */
static bool tables(const struct mo_binder *binder, const struct sampling *s, int64_t in, int64_t out,
                   double scale, const int32_t **first, const int32_t **second, const float **weight) {
    int32_t *a = mo_region_array(binder->region, (size_t)out, sizeof *a);
    int32_t *b = mo_region_array(binder->region, (size_t)out, sizeof *b);
    float *f = mo_region_array(binder->region, (size_t)out, sizeof *f);
    if (!a || !b || !f) return false;
    for (int64_t i = 0; i < out; i++) {
        double at = source_of(s, i, in, out, scale),
               base = s->linear ? floor(at) : round_by(s->nearest, at, scale);
        a[i] = clamp_to(base, in);
        b[i] = clamp_to(base + 1, in);
        f[i] = (float)(at - base);
    }
    *first = a;
    *second = b;
    *weight = f;
    return true;
}

static int resize_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                       moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0), *y = mo_node_out(binder->graph, node, 0);
    struct sampling s;
    double scale[MOIRE_MAX_RANK] = {0};
    int rank = x->shape.rank;
    if (x->layout != y->layout || !sampling_of(node, &s) || !scales_of(binder->graph, node, scale))
        return MOIRE_EUNSUPPORTED;
    struct mo_resize_params p = {.nearest = !s.linear, .lanes = x->layout == MO_C16 ? 16 : 1};
    p.planes = (x->shape.d[1] + p.lanes - 1) / p.lanes;
    p.w = x->shape.d[rank - 1];
    p.ow = y->shape.d[rank - 1];
    p.h = rank == 4 ? x->shape.d[2] : 1;
    p.oh = rank == 4 ? y->shape.d[2] : 1;
    if (!tables(binder, &s, p.h, p.oh, rank == 4 ? scale[2] : 1.0, &p.y0, &p.y1, &p.fy) ||
        !tables(binder, &s, p.w, p.ow, scale[rank - 1], &p.x0, &p.x1, &p.fx))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory while binding node '%s'", node->name);
    return mo_bound(step, mo_simd_of(binder->isa)->resize, "resize", mo_keep(binder, &p, sizeof p),
                    x->shape.d[0] * p.planes * p.oh, err);
}

const struct mo_family mo_family_resize = {"resize", resize_layouts, resize_bind};

/* --- LRN --------------------------------------------------------------------------------------------- */

static unsigned lrn_layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0);
    int64_t size = mo_attr_int(node, "size", 0);
    if (!mo_node_is(node, "LRN") || !mo_f32(x) || !mo_f32(mo_node_out(g, node, 0)) || x->shape.rank < 3)
        return 0;
    if (size < 1 || size > LRN_REACH || node->fuse.act != MO_ACT_NONE || node->fuse.residual >= 0) return 0;
    return MO_CAN_PLAIN | MO_CAN_C16;
}

static int lrn_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                    moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0), *y = mo_node_out(binder->graph, node, 0);
    int64_t size = mo_attr_int(node, "size", 1);
    if (x->layout != y->layout) return MOIRE_EUNSUPPORTED;
    struct mo_lrn_params p = {.channels = x->shape.d[1],
                              .area = mo_span(x, 2, x->shape.rank),
                              .lanes = x->layout == MO_C16 ? 16 : 1,
                              .before = (size - 1) / 2,
                              .after = size / 2,
                              .alpha = mo_attr_float(node, "alpha", 1e-4f) / (float)size,
                              .beta = mo_attr_float(node, "beta", 0.75f),
                              .bias = mo_attr_float(node, "bias", 1.0f),
                              .padding = mo_padding_of(y)};
    p.chunk = p.area < PIXELS_PER_UNIT ? p.area : PIXELS_PER_UNIT;
    p.chunks = (p.area + p.chunk - 1) / p.chunk;
    const int64_t squares = LRN_REACH + MO_LRN_PIXELS * ((p.channels + 15) / 16 * 16 + LRN_REACH);
    step->scratch_bytes = 4 * (p.lanes == 16 ? squares : PIXELS_PER_UNIT);
    return mo_bound(step, mo_simd_of(binder->isa)->lrn, "lrn", mo_keep(binder, &p, sizeof p),
                    x->shape.d[0] * p.chunks, err);
}

const struct mo_family mo_family_lrn = {"lrn", lrn_layouts, lrn_bind};

/* --- ConvTranspose ----------------------------------------------------------------------------------- */

/* Windows side by side, so few results a pixel that they fit the lanes: a last layer, whose output is plain.
 */
static bool is_narrow(const struct mo_node *node, const struct mo_tensor *y, const struct mo_window2 *v) {
    return v->kh == v->sh && v->kw == v->sw && v->dh == 1 && v->dw == 1 && v->oh == v->h * v->kh &&
           v->ow == v->w * v->kw && !v->pt && !v->pl && y->shape.d[1] * v->kh * v->kw <= 16 &&
           node->fuse.residual < 0;
}

static unsigned deconv_layouts(const struct mo_graph *g, const struct mo_node *node) {
    const struct mo_tensor *x = mo_node_in(g, node, 0), *w = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    const struct mo_tensor *bias = node->fuse.residual == 2 ? NULL : mo_node_in(g, node, 2);
    struct mo_window2 window;
    if (!mo_node_is(node, "ConvTranspose") || !mo_f32(x) || !mo_f32(w) || !mo_f32(y) || !w->data) return 0;
    if (mo_attr_int(node, "group", 1) != 1 || x->shape.rank != 4 || w->shape.rank != 4) return 0;
    if (bias && (!mo_f32(bias) || !bias->data || mo_shape_count(&bias->shape) != y->shape.d[1])) return 0;
    if (node->fuse.residual >= 0) {
        const struct mo_tensor *residual = mo_node_in(g, node, node->fuse.residual);
        if (!mo_f32(residual) || !mo_shape_equal(&residual->shape, &y->shape)) return 0;
    }
    if (w->shape.d[0] != x->shape.d[1] || w->shape.d[1] != y->shape.d[1]) return 0;
    /* output_shape makes pads of its own */
    if (mo_attr_find(node, "output_shape")) return 0;
    if (!mo_window_of(node, x, y, w->shape.d + 2, true, &window)) return 0;
    return is_narrow(node, y, &window) ? MO_CAN_LEAVE : MO_CAN_C16;
}

/* [OC/16][KH][KW][IC padded][16], zeros beyond the real channels. */
static float *deconv_pack(const struct mo_binder *binder, const struct mo_node *node,
                          const struct mo_tensor *w) {
    int64_t ic = w->shape.d[0], oc = w->shape.d[1], taps = w->shape.d[2] * w->shape.d[3];
    int64_t in = (ic + 15) / 16 * 16, out = (oc + 15) / 16;
    bool filled;
    float *to = mo_packed_take(binder->graph, node, binder->region, MO_FORM_DECONV,
                               (size_t)(out * 16) * (size_t)(taps * in) * sizeof *to, &filled);
    for (int64_t c = 0; to && !filled && c < ic; c++)
        for (int64_t o = 0; o < oc; o++)
            for (int64_t t = 0; t < taps; t++)
                to[((o / 16 * taps + t) * in + c) * 16 + o % 16] =
                    ((const float *)w->data)[(c * oc + o) * taps + t];
    return to;
}

/* Lanes are (channel, row, column) of the window. */
static int narrow_bind(const struct mo_binder *binder, const struct mo_node *node, const struct mo_window2 *v,
                       struct mo_step *step, moire_error *err) {
    const struct mo_tensor *x = mo_node_in(binder->graph, node, 0), *w = mo_node_in(binder->graph, node, 1);
    const struct mo_tensor *bias = mo_node_in(binder->graph, node, 2);
    int64_t ic = x->shape.d[1], taps = v->kh * v->kw;
    int lanes = (int)(w->shape.d[1] * taps);
    if (mo_packed_elided(binder->graph, w)) return MOIRE_EUNSUPPORTED;
    struct mo_narrow_params p = {.blocks_in = (ic + 15) / 16,
                                 .h = v->h,
                                 .w = v->w,
                                 .channels = (int)w->shape.d[1],
                                 .kh = (int)v->kh,
                                 .kw = (int)v->kw,
                                 .fuse = node->fuse};
    float *packed = mo_region_array(binder->region, (size_t)(p.blocks_in * 256), sizeof *packed);
    float *start = mo_keep_padded(binder, NULL, 16, 0.0f);
    if (!packed || !start)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the weights of node '%s'", node->name);
    for (int64_t c = 0; c < ic; c++)
        memcpy(packed + c * 16, (const float *)w->data + c * lanes, (size_t)lanes * sizeof *packed);
    for (int64_t i = 0; bias && i < lanes; i++)
        start[i] = ((const float *)bias->data)[i / taps];
    step->weights = packed;
    step->bias = start;
    return mo_bound(step, mo_simd_of(binder->isa)->deconv_narrow, "deconv narrow",
                    mo_keep(binder, &p, sizeof p), x->shape.d[0] * v->h, err);
}

static int deconv_bind(const struct mo_binder *binder, const struct mo_node *node, struct mo_step *step,
                       moire_error *err) {
    const struct mo_graph *g = binder->graph;
    const struct mo_tensor *x = mo_node_in(g, node, 0), *w = mo_node_in(g, node, 1),
                           *y = mo_node_out(g, node, 0);
    const struct mo_tensor *bias = node->fuse.residual == 2 ? NULL : mo_node_in(g, node, 2);
    struct mo_window2 v;
    if (x->layout != MO_C16 || !mo_window_of(node, x, y, w->shape.d + 2, true, &v)) return MOIRE_EUNSUPPORTED;
    if (is_narrow(node, y, &v) && y->layout == MO_PLAIN) return narrow_bind(binder, node, &v, step, err);
    if (y->layout != MO_C16) return MOIRE_EUNSUPPORTED;
    struct mo_deconv_params p = {.h = v.h,
                                 .w = v.w,
                                 .oh = v.oh,
                                 .ow = v.ow,
                                 .kh = v.kh,
                                 .kw = v.kw,
                                 .sh = v.sh,
                                 .sw = v.sw,
                                 .dh = v.dh,
                                 .dw = v.dw,
                                 .pt = v.pt,
                                 .pl = v.pl,
                                 .fuse = node->fuse};
    p.blocks_in = (x->shape.d[1] + 15) / 16;
    p.blocks_out = (y->shape.d[1] + 15) / 16;
    step->weights = deconv_pack(binder, node, w);
    if (!step->weights) return mo_packed_fault(g, node, err);
    step->bias = mo_keep_padded(binder, bias ? bias->data : NULL, y->shape.d[1], 0.0f);
    if (!step->bias)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the weights of node '%s'", node->name);
    return mo_bound(step, mo_simd_of(binder->isa)->deconv, "deconv", mo_keep(binder, &p, sizeof p),
                    x->shape.d[0] * p.blocks_out * p.oh, err);
}

const struct mo_family mo_family_deconv = {"deconv", deconv_layouts, deconv_bind};
