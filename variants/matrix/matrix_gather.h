/* SPDX-License-Identifier: Apache-2.0
 * matrix_gather.h - what the units of x86 share: fields of struct mo_matrix_unit. */
#ifndef MO_MATRIX_GATHER_H
#define MO_MATRIX_GATHER_H
#include "variants/matrix/matrix.h"

mo_gather_fn mo_matrix_gather_bytes, mo_matrix_gather_halves, mo_matrix_gather_floats, mo_matrix_gather_small,
    mo_matrix_gather_narrow_bytes, mo_matrix_gather_narrow_halves, mo_matrix_gather_narrow_floats;
mo_narrow_fn mo_matrix_narrow_pixels;
mo_small_pixels_fn mo_matrix_small_pixels;
mo_small_rows_fn mo_matrix_small_rows;
#endif
