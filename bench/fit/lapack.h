/* SPDX-License-Identifier: Apache-2.0
 * lapack.h - least squares by LAPACK, loaded when it is asked for and never linked: OpenBLAS where it is
 * installed (Debian: libopenblas0-pthread), else the reference (liblapack3). */
#ifndef MO_BENCH_LAPACK_H
#define MO_BENCH_LAPACK_H
#include "runtime/base/env.h"

/* The x[n] with the least sum of squares of A x - b: A has m >= n rows of n, row by row; n <= 16.
 * MOIRE_EUNSUPPORTED: no LAPACK here, and which package has one; MOIRE_EINVAL: the columns depend on each
 * other; MOIRE_ENOMEM. */
int mo_least_squares(const struct mo_env *env, int m, int n, const double *a, const double *b, double *x,
                     moire_error *err);
#endif
