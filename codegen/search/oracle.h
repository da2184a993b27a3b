/* SPDX-License-Identifier: Apache-2.0
 * oracle.h - what the oracles of layers of floats (oracle.c) and of 8-bit numbers (small_layer.c) share. */
#ifndef MO_ORACLE_H
#define MO_ORACLE_H
#include "codegen/search/harness.h"

/* Where an element of rank 4 lies, in elements; channels are dimension 1, also in C16. */
size_t mo_oracle_element(const struct mo_harness *h, const struct mo_tensor *t, const int64_t index[4]);
/* First pad of an axis (0 = rows, 1 = columns) for a filter of size k, stride s and dilation d. */
int64_t mo_oracle_pad(const struct mo_harness *h, int axis, int64_t k, int64_t s, int64_t d);
double mo_oracle_activate(enum mo_act act, double a, double b, double x);
#endif
