/* SPDX-License-Identifier: Apache-2.0
 * layer_spec.h - one convolution or matrix product in numbers, as told to a peer that runs single layers. */
#ifndef MO_BENCH_LAYER_SPEC_H
#define MO_BENCH_LAYER_SPEC_H
#include "variants/kernel.h"

/* A matrix product is rows [w] x depth [c] times [c] x [o]; every other extent is 1. */
struct mo_layer_spec {
    int64_t product;                                /* 1: matrix product, 0: convolution */
    int64_t n, c, h, w, o, oh, ow;                  /* images; channels and extents in and out */
    int64_t kh, kw, sh, sw, dh, dw, pt, pl, pb, pr; /* kernel, stride, dilation, pads */
    int64_t groups;                                 /* of the convolution */
    int64_t bias, residual, residual_last;          /* fused additions, 0 or 1; see struct mo_fuse */
    int64_t act;                                    /* enum mo_act */
    double a, b;                                    /* its parameters */
};

/* False for layers that are neither, or whose shapes are open.  Constants must still be there: ask before a
 * plan is built, which releases them. */
bool mo_layer_spec_of(const struct mo_graph *graph, const struct mo_node *node, struct mo_layer_spec *out);
/* One line of numbers and back; parse returns false on anything else. */
void mo_layer_spec_print(const struct mo_layer_spec *spec, char *out, size_t n);
bool mo_layer_spec_parse(const char *text, struct mo_layer_spec *out);
#endif
