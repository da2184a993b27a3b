/* SPDX-License-Identifier: Apache-2.0
 * mean.h - a running mean with its 95 % confidence interval (Student's t). */
#ifndef MO_BENCH_MEAN_H
#define MO_BENCH_MEAN_H

struct mo_mean {
    int n;
    double mean, m2; /* Welford's running mean and sum of squares */
};

void mo_mean_add(struct mo_mean *mean, double value);
/* The same of a value that may not be known: NAN and infinities are left out. */
void mo_mean_add_known(struct mo_mean *mean, double value);
/* Half the width of the interval; -1: fewer than two values. */
double mo_mean_ci95(const struct mo_mean *mean);
#endif
