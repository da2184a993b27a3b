/* SPDX-License-Identifier: Apache-2.0
 * resize.h - what Resize and Upsample read: interpolation is separable, so each axis is a short list of
 * (source, weight) taps for every output coordinate. */
#ifndef MO_OPS_RESIZE_H
#define MO_OPS_RESIZE_H
#include "runtime/ops/util.h"

struct mo_resize_taps {
    int n;           /* taps of every output coordinate */
    int32_t *source; /* [out][n], clamped into the input */
    float *weight;
    bool *outside; /* [out]: extrapolation value (tf_crop_and_resize) */
};

/* Fills the taps of every axis (MOIRE_MAX_RANK of them, zeroed before) of a node whose sizes are known;
 * mo_resize_free() in every case. */
int mo_resize_describe(const struct mo_op_ctx *ctx, struct mo_resize_taps *taps, float *extrapolation);
void mo_resize_free(const struct mo_op_ctx *ctx, struct mo_resize_taps *taps);
#endif
