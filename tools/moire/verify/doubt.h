/* SPDX-License-Identifier: Apache-2.0
 * doubt.h - outputs that agree with any other way of computing them, right or wrong: all zero, constant, NaN.
 */
#ifndef MO_VERIFY_DOUBT_H
#define MO_VERIFY_DOUBT_H
#include <stdbool.h>
#include "moire.h"

enum { MO_DOUBT_TEXT = 80 };

/* True: `why` says what is wrong with it, "is 0 in all of its 1000 values".  A single value that is a number
 * cannot be judged. */
bool mo_output_doubt(const moire_tensor *t, char *why, size_t n);
#endif
