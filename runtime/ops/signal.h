/* SPDX-License-Identifier: Apache-2.0
 * signal.h - what DFT and STFT read. */
#ifndef MO_OPS_SIGNAL_H
#define MO_OPS_SIGNAL_H
#include "runtime/ops/util.h"

/* Frames of an STFT: `count` of `length` samples, `step` apart, each with `bins` outputs. */
struct mo_frames {
    int64_t step, length, count, bins;
};

/* 0, MO_NEED_DATA or an error.  length: of the transform, which cuts or pads what is there. */
int mo_dft_describe(const struct mo_op_ctx *ctx, int *axis, int64_t *length);
/* Whether it is the inverse of one side of a spectrum, a real signal. */
bool mo_dft_to_real(const struct mo_op_ctx *ctx);
int mo_stft_describe(const struct mo_op_ctx *ctx, struct mo_frames *out);
/* cos and sin of 2 pi i / length, side by side, the caller's; NULL when out of memory. */
double *mo_turns(const struct mo_op_ctx *ctx, int64_t length);
#endif
