/* SPDX-License-Identifier: Apache-2.0
 * tap_sum.h - moire.TapSum: the second half of a convolution with few outputs.
 *
 * The first half is a convolution with a filter of one column, whose channels are the columns of the real
 * filter: channel k / per * 16 + k % per * outputs + o of x [N, C, H, W] holds what column k adds to output
 * o, for each place of x.  Here these are moved to where they belong and added up, y [N, outputs, H, width]:
 *
 *   y[n][o][h][i] = act(bias[o] + sum over k of x[n][channel of k and o][h][i * stride + k * dilation - pad])
 *
 * where x is zero beside the image.  A block of 16 channels has whole columns, and four channels at least
 * from each on, so that they are read together.  Only passes make the operator (codegen/passes/pass_thin.c).
 * Attribute `window` has the numbers of struct mo_tap_sum in their order; bias is optional. */
#ifndef MO_TAP_SUM_H
#define MO_TAP_SUM_H
#include "runtime/graph/graph.h"

enum { MO_TAP_SUM_NUMBERS = 6, MO_TAP_SUM_OUTPUTS = 4 };

struct mo_tap_sum {
    int64_t outputs, taps, stride, dilation, pad, width;
};

/* Taps of a block of channels. */
static inline int64_t mo_taps_per_block(int64_t outputs) {
    return (16 - MO_TAP_SUM_OUTPUTS) / outputs + 1;
}
/* Channels of x. */
static inline int64_t mo_tap_sum_channels(int64_t outputs, int64_t taps) {
    return (taps + mo_taps_per_block(outputs) - 1) / mo_taps_per_block(outputs) * 16;
}
/* The channel of tap k and output 0. */
static inline int64_t mo_tap_sum_channel(int64_t outputs, int64_t k) {
    return k / mo_taps_per_block(outputs) * 16 + k % mo_taps_per_block(outputs) * outputs;
}
/* The node's numbers; false when they do not fit images of shape x. */
bool mo_tap_sum_of(const struct mo_node *node, const struct mo_shape *x, struct mo_tap_sum *out);
/* Outputs [*first, *end) for which tap k is inside a row of w. */
void mo_tap_sum_range(const struct mo_tap_sum *t, int64_t w, int64_t k, int64_t *first, int64_t *end);
#endif
