/* SPDX-License-Identifier: Apache-2.0
 * simd_table.c - the kernels of one ISA level in one table. */
#include "variants/simd/simd.h"

extern const struct mo_simd_table MO_SIMD(table);

#define ENTRY(name) .name = MO_SIMD(name),
const struct mo_simd_table MO_SIMD(table) = {MO_SIMD_KERNELS(ENTRY) ENTRY(requantize) ENTRY(write_floats)
                                                 ENTRY(widen) ENTRY(copy_pixels) ENTRY(recurrent_round)
                                                     ENTRY(roi_align)};
#undef ENTRY
