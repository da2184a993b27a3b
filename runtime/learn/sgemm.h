/* SPDX-License-Identifier: Apache-2.0
 * sgemm.h - products of row-major float matrices: OpenBLAS where it is installed and asked for, else plain
 * loops.
 *
 * Training takes OpenBLAS, for it is some ten times as fast; decisions take the loops, so that nothing has to
 * be installed for them.  OpenBLAS is loaded when it is asked for and never linked, and is set to one thread:
 * then a product has the same bytes whenever it is computed on this kind of processor.  The loops sum in
 * rising order of the inner dimension, so theirs are the same for any number of rows at once. */
#ifndef MO_SGEMM_H
#define MO_SGEMM_H
#include <stdbool.h>
#include "runtime/base/env.h"

/* The Fortran symbol: everything by address, the lengths of the texts behind the arguments. */
typedef void mo_sgemm_call(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k,
                           const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
                           const float *beta, float *c, const int *ldc, size_t length_a, size_t length_b);

/* All zeros: the plain loops. */
struct mo_sgemm {
    const struct mo_sys *sys;
    void *object;
    mo_sgemm_call *call; /* NULL: the plain loops */
};

/* MOIRE_EUNSUPPORTED: there is no OpenBLAS here, and which package has one. */
int mo_sgemm_open(const struct mo_env *env, struct mo_sgemm *out, moire_error *err);
void mo_sgemm_close(struct mo_sgemm *sgemm); /* all zeros is fine */

/* C = op(A) op(B), or C + that: C has m rows of n floats, the inner dimension is k.  A row of a matrix as it
 * is stored begins lda (ldb, ldc) floats after the one before; with `a_across` A is stored as k rows of m,
 * with `b_across` B as n rows of k.  m, n, k >= 1.  C overlaps neither A nor B. */
struct mo_matrix_product {
    int m, n, k;
    const float *a, *b;
    int lda, ldb;
    bool a_across, b_across;
    float *c;
    int ldc;
    bool add; /* false: what C held is not read */
};
void mo_multiply(const struct mo_sgemm *sgemm, const struct mo_matrix_product *p);
#endif
