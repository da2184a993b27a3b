/* SPDX-License-Identifier: Apache-2.0
 * numbers.h - small arithmetic that many rooms need: rounding up, ranges, and well-mixed words. */
#ifndef MO_NUMBERS_H
#define MO_NUMBERS_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* a / b, rounded up; a not negative, b positive. */
static inline int64_t mo_ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* The least multiple of `step` that is not below n; n not negative. */
static inline int64_t mo_round_up(int64_t n, int64_t step) {
    return mo_ceil_div(n, step) * step;
}
static inline size_t mo_round_up_bytes(size_t n, size_t step) {
    return (n + step - 1) / step * step;
}

/* v within its range; what is no number is the least. */
static inline double mo_within(double least, double most, double v) {
    return fmin(fmax(v, least), most);
}

/* For qsort() of doubles. */
static inline int mo_rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of the result depends on every
 * bit of z. */
static inline uint64_t mo_mix(uint64_t z) {
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#define MO_GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio: the step of splitmix64 */

/* splitmix64: a stream of random words with one word of state, for which any value is good. */
static inline uint64_t mo_splitmix(uint64_t *state) {
    return mo_mix(*state += MO_GOLDEN);
}
/* Evenly from [0, 1), of that stream. */
static inline double mo_draw_unit(uint64_t *state) {
    return (double)(mo_splitmix(state) >> 11) * 0x1p-53;
}

/* A plain congruence, for test data: 31 bits. */
static inline uint64_t mo_lcg(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}
#endif
