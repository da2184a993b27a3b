/* SPDX-License-Identifier: Apache-2.0
 * move_boxes.h - a layer that only moves data as boxes of strided copies (variants/simd/params.h), and the
 * transpositions between blocks of channels and plain tensors with the channels last. */
#ifndef MO_GENERIC_MOVE_BOXES_H
#define MO_GENERIC_MOVE_BOXES_H
#include "variants/generic/bind.h"

enum { MO_MAX_BOXES = 2 * MOIRE_MAX_RANK + MO_KERNEL_IN };

struct mo_boxes {
    const struct mo_graph *g;
    const struct mo_node *node;
    int n;
    struct mo_box box[MO_MAX_BOXES];
};

/* Byte strides of a plain tensor; images of a slice lie its parent's stride apart. */
void mo_boxes_strides(const struct mo_graph *g, const struct mo_tensor *t, int64_t *stride);
/* One more, from input `in` to output `out`, of this tensor's dimensions; NULL: there is no room. */
struct mo_box *mo_boxes_add(struct mo_boxes *b, int in, int out, const struct mo_tensor *shape_of);

/* A Transpose of floats after which the channels are the last dimension and the others keep their order. */
bool mo_channels_go_last(const struct mo_graph *g, const struct mo_node *node);
/* One that takes whole blocks of channels from the last dimension to the second. */
bool mo_channels_come_first(const struct mo_graph *g, const struct mo_node *node);
/* [N][C/16][pixels][16] to [N][pixels][C]. */
bool mo_boxes_leave_blocks(struct mo_boxes *b);
/* [N][pixels][C] to [N][C/16][pixels][16]. */
bool mo_boxes_enter_blocks(struct mo_boxes *b);
#endif
