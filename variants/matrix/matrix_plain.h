/* SPDX-License-Identifier: Apache-2.0
 * matrix_plain.h - what the model of a unit shares with units that have nothing better. */
#ifndef MO_MATRIX_PLAIN_H
#define MO_MATRIX_PLAIN_H
#include "variants/matrix/matrix.h"

mo_gather_fn mo_matrix_plain_gather_bytes, mo_matrix_plain_gather_narrow_bytes;
#endif
