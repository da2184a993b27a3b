/* SPDX-License-Identifier: Apache-2.0
 * mean.c - a running mean and its interval; see mean.h. */
#include "bench/data/mean.h"

#include <math.h>

void mo_mean_add(struct mo_mean *s, double v) {
    double d = v - s->mean;
    s->mean += d / ++s->n;
    s->m2 += d * (v - s->mean);
}

void mo_mean_add_known(struct mo_mean *s, double v) {
    if (isfinite(v)) mo_mean_add(s, v);
}

/* 97.5 % quantile of Student's t with so many degrees of freedom (table; Fisher's expansion beyond it). */
static double student(int degrees) {
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
    const int n = (int)(sizeof table / sizeof table[0]);
    if (degrees <= n) return table[degrees - 1];
    const double z = 1.959964, v = degrees;
    return z + (z * z * z + z) / (4 * v) + (5 * pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * v * v);
}

double mo_mean_ci95(const struct mo_mean *s) {
    return s->n > 1 ? student(s->n - 1) * sqrt(s->m2 / (s->n - 1) / s->n) : -1;
}
