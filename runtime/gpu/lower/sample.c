/* SPDX-License-Identifier: Apache-2.0
 * sample.c - images read at coordinates that are data: GridSample and RoiAlign.
 *
 * Coordinates are computed in double, as on cores, so that the same pixels are taken; there are few of them
 * beside the pixels. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

enum { MOST_SAMPLES = 1 << 10 /* of a region's bin along an axis: a kernel must end */ };

/* --- GridSample ----------------------------------------------------------------------------------------- */

struct grid {
    bool align;
    char padding; /* z, b, r */
    int taps;     /* of an axis: 1 nearest, 2 linear, 4 cubic */
};

/* "name = " where the grid's coordinate `part` is in a row or column of n pixels. */
static void coordinate_text(struct mo_each *e, const struct grid *g, const char *name, const char *part,
                            int64_t n) {
    struct mo_gpu_text *t = &e->body;
    const long long last = (long long)n - 1;
    mo_each_text(e, "    double %s = @1(o0, o2, o3, %s);\n", name, part);
    if (g->align)
        mo_gpu_printf(t, "    %s = (%s + 1) / 2 * %lld;\n", name, name, last);
    else
        mo_gpu_printf(t, "    %s = ((%s + 1) * %lld - 1) / 2;\n", name, name, (long long)n);
    if (g->taps == 4 || g->padding == 'z') return; /* cubic taps are bounded one by one */
    if (g->padding == 'b')
        mo_gpu_printf(t, "    %s = fmin(fmax(%s, 0.0), %lld.0);\n", name, name, last);
    else
        mo_gpu_printf(t, "    %s = mo_reflect(%s, %s, %lld.0);\n", name, name, g->align ? "0.0" : "-0.5",
                      g->align ? last : last + 1);
}

/* The pixel of a tap along one axis, p<name>, and whether it is one, in<name>; w<name>: what it weighs. */
static void tap_text(struct mo_gpu_text *t, const struct grid *g, const char *name, int64_t n) {
    const long long last = (long long)n - 1;
    mo_gpu_printf(t, "    double at_%s = first_%s + k_%s;\n", name, name, name);
    if (g->taps > 1)
        mo_gpu_printf(t, "    const double w_%s = %s(%s - at_%s);\n", name,
                      g->taps == 4 ? "mo_cubic" : "mo_hat", name, name);
    if (g->padding == 'r')
        mo_gpu_printf(t, "    at_%s = mo_reflect(at_%s, %s, %lld.0);\n", name, name,
                      g->align ? "0.0" : "-0.5", g->align ? last : last + 1);
    if (g->padding == 'z')
        mo_gpu_printf(t, "    if (!(at_%s >= 0 && at_%s <= %lld)) continue;\n", name, name, last);
    mo_gpu_printf(t, "    const int p_%s = !(at_%s > 0) ? 0 : at_%s > %lld ? %lld : (int)at_%s;\n", name,
                  name, name, last, last, name);
}

void mo_lower_grid_sample(struct mo_lower *l) {
    const char *mode = mo_attr_string(l->node, "mode", "bilinear");
    const struct grid g = {.align = mo_attr_int(l->node, "align_corners", 0) != 0,
                           .padding = *mo_attr_string(l->node, "padding_mode", "zeros"),
                           .taps = !strcmp(mode, "nearest")                             ? 1
                                   : !strcmp(mode, "bicubic") || !strcmp(mode, "cubic") ? 4
                                                                                        : 2};
    static const char *const names[] = {"row", "col"}, *const parts[] = {"1", "0"};
    struct mo_each e;
    if (!mo_each_open(l, &e, 2, 0)) return;
    const int64_t *d = e.arg[0].d;
    for (int i = 0; i < 2; i++) {
        coordinate_text(&e, &g, names[i], parts[i], d[2 + i]);
        mo_gpu_printf(&e.body, "    const double first_%s = %s(%s) - %d;\n", names[i],
                      g.taps > 1 ? "floor" : "rint", names[i], g.taps / 4);
    }
    mo_gpu_printf(&e.body, "    double r = 0;\n");
    for (int i = 0; i < 2; i++) {
        mo_gpu_printf(&e.body, "    for (int k_%s = 0; k_%s < %d; k_%s++) {\n", names[i], names[i], g.taps,
                      names[i]);
        tap_text(&e.body, &g, names[i], d[2 + i]);
    }
    mo_each_text(&e, "    r += %s@0(o0, o1, p_row, p_col);\n    }\n    }\n",
                 g.taps > 1 ? "w_row * w_col * " : "");
    e.flops = mo_gpu_count(&e.over) * g.taps * g.taps * 2;
    mo_each_close(l, &e, "r");
}

/* --- RoiAlign ------------------------------------------------------------------------------------------- */

/* Along an axis of n pixels: where the region begins, its bin and the samples of a bin; n_out bins. */
static void region_text(struct mo_lower *l, struct mo_each *e, const char *name, int first, int64_t n_out) {
    struct mo_gpu_text *t = &e->body;
    const long long samples = (long long)mo_attr_int(l->node, "sampling_ratio", 0);
    const bool half = !strcmp(mo_attr_string(l->node, "coordinate_transformation_mode",
                                             l->node->opset < 16 ? "output_half_pixel" : "half_pixel"),
                              "half_pixel");
    const double scale = (double)mo_attr_float(l->node, "spatial_scale", 1);
    for (int i = 0; i < 2; i++) {
        mo_each_text(e, "    const double %s_%s = (double)@1(o0, %d) * %a - %s;\n", i ? "end" : "begin", name,
                     first + 2 * i, scale, half ? "0.5" : "0.0");
    }
    mo_gpu_printf(t, "    const double bin_%s = %s(end_%s - begin_%s%s) / %lld;\n", name, half ? "" : "fmax",
                  name, name, half ? "" : ", 1.0", (long long)n_out);
    if (samples > 0)
        mo_gpu_printf(t, "    const int n_%s = %lld;\n", name,
                      samples < MOST_SAMPLES ? samples : MOST_SAMPLES);
    else
        mo_gpu_printf(t, "    const int n_%s = !(bin_%s > 1) ? 1 : bin_%s > %d ? %d : (int)ceil(bin_%s);\n",
                      name, name, name, MOST_SAMPLES, MOST_SAMPLES, name);
}

/* Along an axis: pixels low and high of sample k, what the high one weighs, and whether it is outside. */
static void sample_text(struct mo_gpu_text *t, const char *name, const char *bin, int64_t n) {
    const long long last = (long long)n - 1;
    mo_gpu_printf(t,
                  "    for (int k_%s = 0; k_%s < n_%s; k_%s++) {\n"
                  "    double at_%s = begin_%s + (%s + (k_%s + 0.5) / n_%s) * bin_%s;\n"
                  "    const int out_%s = !(at_%s >= -1 && at_%s <= %lld);\n",
                  name, name, name, name, name, name, bin, name, name, name, name, name, name, (long long)n);
    mo_gpu_printf(t,
                  "    at_%s = out_%s || at_%s < 0 ? 0 : at_%s > %lld ? %lld : at_%s;\n"
                  "    const int low_%s = (int)at_%s, high_%s = low_%s < %lld ? low_%s + 1 : low_%s;\n"
                  "    const double f_%s = at_%s - low_%s;\n",
                  name, name, name, name, last, last, name, name, name, name, name, last, name, name, name,
                  name, name);
}

void mo_lower_roi_align(struct mo_lower *l) {
    const bool most = !strcmp(mo_attr_string(l->node, "mode", "avg"), "max");
    struct mo_each e;
    if (!mo_each_open(l, &e, 3, 0)) return;
    const struct mo_gpu_view *x = &e.arg[0], *y = &e.over;
    mo_each_text(&e, "    long long image = @2;\n    image = image < 0 ? 0 : image >= %lld ? %lld : image;\n",
                 (long long)x->d[0], (long long)x->d[0] - 1);
    region_text(l, &e, "row", 1, y->d[2]);
    region_text(l, &e, "col", 0, y->d[3]);
    mo_gpu_printf(&e.body, "    double r = 0, top = -mo_inf;\n");
    sample_text(&e.body, "row", "o2", x->d[2]);
    sample_text(&e.body, "col", "o3", x->d[3]);
    mo_gpu_printf(&e.body, "    const double inside = !(out_row || out_col);\n    double v;\n");
    for (int i = 0; i < 4; i++) {
        const bool low = i < 2, left = i % 2 == 0;
        mo_each_text(&e,
                     "    v = inside * %s * %s * @0(image, o1, %s_row, %s_col);\n    r += v;\n"
                     "    top = fmax(top, v);\n",
                     low ? "(1 - f_row)" : "f_row", left ? "(1 - f_col)" : "f_col", low ? "low" : "high",
                     left ? "low" : "high");
    }
    mo_gpu_printf(&e.body, "    }\n    }\n    r = %s;\n", most ? "top" : "r / ((double)n_row * n_col)");
    e.flops = mo_gpu_count(y) * 32;
    mo_each_close(l, &e, "r");
}
