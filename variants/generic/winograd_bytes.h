/* SPDX-License-Identifier: Apache-2.0
 * winograd_bytes.h - 3x3 convolutions of 8-bit numbers by Winograd's algorithm in whole numbers: which
 * layers, and how they are bound. */
#ifndef MO_WINOGRAD_BYTES_H
#define MO_WINOGRAD_BYTES_H
#include "variants/generic/conv_walk.h"

enum { MO_WINO_BYTES_CENTRE = 128 };

/* The packing of a layer that is faster so than by sums as they stand; MO_PACK_NONE: it is not, or cannot be.
 */
enum mo_packing mo_winograd_bytes_packing(const struct mo_binder *binder, const struct mo_node *node,
                                          const struct mo_conv *conv);
/* Fills a step for such a layer, whose `small` is complete: kernel, units and scratch.  What its sums start
 * from, step->bias, is for x less MO_WINO_BYTES_CENTRE. */
int mo_winograd_bytes_plan(const struct mo_binder *binder, const struct mo_node *node,
                           const struct mo_conv *conv, enum mo_packing packing,
                           const struct mo_conv_small *small, struct mo_step *step, moire_error *err);
#endif
