/* SPDX-License-Identifier: Apache-2.0
 * kernels.h - the emitted kernels, CROSS_POINTS for each row of cases.h, and of 8-bit numbers for each shape
 * and set; cross-emit writes the tables. */
#ifndef MO_CROSS_KERNELS_H
#define MO_CROSS_KERNELS_H
#include "variants/kernel.h"

extern const struct mo_variant *const cross_kernels[], *const cross_small_kernels[];
#endif
