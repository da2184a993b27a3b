/* SPDX-License-Identifier: Apache-2.0
 * roi_align.h - where the regions of a RoiAlign read, for whoever computes them: the reference, and the
 * kernel in variants/simd. */
#ifndef MO_OPS_ROI_ALIGN_H
#define MO_OPS_ROI_ALIGN_H
#include "runtime/ops/op_parts.h"

struct mo_roi {
    double y, x, bin_h, bin_w; /* start and bin size */
    int64_t grid_h, grid_w;    /* samples of a bin */
};

/* A place along a dimension and its part of a bin's mean. */
struct mo_roi_tap {
    int64_t at;
    double weight;
};

/* Bin i reads tap[end[i - 1]] up to tap[end[i]], each place once; what has no weight is left out. */
struct mo_roi_taps {
    struct mo_roi_tap *tap;
    int64_t *end;
};

struct mo_roi mo_roi_at(const struct mo_op_ctx *ctx, int64_t r);
/* The operator's mode is max, which has no taps: it takes the largest of all weighted values. */
bool mo_roi_is_max(const struct mo_op_ctx *ctx);
/* Rows and columns of a region; false: they are too many to keep, or there is no memory.  Freed in any case
 * with mo_roi_free_taps(). */
bool mo_roi_make_taps(const struct mo_op_ctx *ctx, const struct mo_roi *roi, struct mo_roi_taps *rows,
                      struct mo_roi_taps *columns);
void mo_roi_free_taps(const struct mo_op_ctx *ctx, struct mo_roi_taps *taps);

/* The reference: a region a part. */
extern const struct mo_op_parts mo_roi_align_parts;
#endif
