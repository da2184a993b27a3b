/* SPDX-License-Identifier: Apache-2.0
 * requant.h - from the sums of a layer of 8-bit numbers to its output, 16 channels of a pixel at a time. */
#ifndef MO_REQUANT_H
#define MO_REQUANT_H
#include <math.h>
#include "runtime/graph/graph.h"

/* Whether an activation is none but bounds, and these: -inf, inf for none. */
static inline bool mo_fuse_bounds(const struct mo_fuse *fuse, float *lo, float *hi) {
    *lo = fuse->act == MO_ACT_RELU ? 0 : fuse->act == MO_ACT_CLIP ? fuse->a : -INFINITY;
    *hi = fuse->act == MO_ACT_CLIP ? fuse->b : INFINITY;
    return fuse->act == MO_ACT_NONE || fuse->act == MO_ACT_RELU || fuse->act == MO_ACT_CLIP;
}

/* With sum s of channel o:  v = act(s * factor[o] + bias[o]),  y = v * steps, clamped into [lo, hi], rounded
 * to even, + zero.  Where the activation is none, relu or a clip it is part of [lo, hi], and factor and bias
 * have `steps` in them (`act` is NONE, `steps` 1).  A float32 output is clamped only. */
struct mo_requant {
    bool ints; /* sums are int32; else floats that are whole numbers */
    moire_dtype to;
    enum mo_act act;
    float a, b;
    float steps, lo, hi;
    int zero;
    bool packs; /* no activation, bytes, and every v fits an int32: bounds may be applied to bytes */
};

/* `pixels` of 16 sums each, one after the other; outputs y_pixel bytes apart. */
typedef void mo_requantize_fn(const struct mo_requant *q, const void *sums, const float *factor,
                              const float *bias, int64_t pixels, char *y, int64_t y_pixel);
/* From sums of floats to outputs, in place of a requantization: y = act(sum + residual), or with
 * fuse->residual_last act(sum) + residual.  Pixels of `lanes` (at most 16) floats, which lie so many bytes
 * apart; of sums, 64.  Sums do not stay. */
typedef void mo_write_floats_fn(const struct mo_fuse *fuse, float *sums, int64_t pixels, int lanes,
                                const char *residual, int64_t residual_pixel, char *y, int64_t y_pixel);
/* A row of pixels of 16 bytes: `before` that are filled, n copied, `after` filled. */
typedef void mo_copy_pixels_fn(char *to, const char *from, int64_t before, int64_t n, int64_t after,
                               int fill);
/* n bytes, less `zero`, as floats. */
typedef void mo_widen_fn(const uint8_t *from, int zero, float *to, int64_t n);
#endif
