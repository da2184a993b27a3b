/* SPDX-License-Identifier: Apache-2.0
 * draws.h - random numbers for learning, from one word of state as mo_draw_unit() has it, so that a seed
 * gives the same run and a checkpoint holds all of it. */
#ifndef MO_DRAWS_H
#define MO_DRAWS_H
#include "runtime/base/numbers.h"

/* One of 0 .. n - 1, n >= 1; the bias is below n / 2^53. */
static inline int mo_draw_below(uint64_t *rng, int n) {
    return (int)(mo_draw_unit(rng) * n);
}
/* Normal, mean 0 and deviation 1 (Box and Muller 1958). */
static inline double mo_draw_normal(uint64_t *rng) {
    const double two_pi = 6.283185307179586;
    double radius = sqrt(-2 * log(1 - mo_draw_unit(rng)));
    return radius * cos(two_pi * mo_draw_unit(rng));
}
#endif
