/* SPDX-License-Identifier: Apache-2.0
 * small_args.h - what a compiled kernel of a layer of 8-bit numbers gets as mo_kargs.params: all that depends
 * on the model's numbers, since its code depends on shapes alone.
 *
 * Emitted C repeats the struct and struct mo_tile_pack as text (codegen/emit/prelude_dot.c), so their layout
 * is ABI, as that of struct mo_kargs is (kernel.h).  mo_kargs.bias has what the int32 sums start from. */
#ifndef MO_SMALL_ARGS_H
#define MO_SMALL_ARGS_H
#include "variants/requant.h"
#include "variants/tiles.h"

struct mo_small_args {
    const float *factor, *shift;     /* by output channel, padded to blocks of 16 */
    const struct mo_tile_pack *pack; /* the output is uint8, made of sums by these; NULL: by requantize() */
    const struct mo_requant *requant;
    mo_requantize_fn *requantize;
    uint8_t zero[64]; /* the zero point of x, which padding holds */
};
#endif
