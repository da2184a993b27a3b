/* SPDX-License-Identifier: Apache-2.0
 * fit.h - what of the counters tells the pressure: their principal components, and the linear proxy by least
 * squares (VELTAIR, section 4.3 and figure 11). */
#ifndef MO_BENCH_FIT_H
#define MO_BENCH_FIT_H
#include "bench/data/samples.h"

struct mo_fit {
    int n, k;                   /* rows; columns that count */
    int column[MO_OBSERVABLES]; /* of the samples */
    /* Components in order of variance: share of the variance of the standardised columns, loading on each,
     * and correlation with the pressure. */
    double share[MO_OBSERVABLES], loading[MO_OBSERVABLES][MO_OBSERVABLES], tells[MO_OBSERVABLES];
    double alone[MO_OBSERVABLES]; /* correlation of each column with the pressure */
    double intercept, coefficient[MO_OBSERVABLES];
    double r2, r2_left_out;         /* of the rows, and of rows that the fit did not see (five folds) */
    double mean_error, worst_error; /* of the pressure, cut to 0..1 */
    double slowdown;                /* correlation of the slowdown with the pressure */
};

/* use[c]: whether column c of the samples may count; columns that never change are left out.  Samples without
 * counters are fitted to the slowdown.  MOIRE_EINVAL: too few rows, a pressure or columns that never change.
 */
int mo_fit_samples(const struct mo_samples *samples, const bool use[MO_SAMPLE_CELLS], struct mo_fit *out,
                   moire_error *err);
/* Eigenvalues, falling, and unit eigenvectors (columns of v) of a symmetric n x n matrix a, row by row, which
 * is destroyed; cyclic Jacobi.  n <= 16. */
void mo_eigen(int n, double *a, double *value, double *v);
#endif
