/* SPDX-License-Identifier: Apache-2.0
 * value_tally.h - what values a tensor takes, and the range that 8 bits shall cover. */
#ifndef MO_QUANTIZE_TALLY_H
#define MO_QUANTIZE_TALLY_H
#include <stdbool.h>
#include <stdint.h>

enum mo_range_method {
    MO_RANGE_MINMAX,     /* all that was seen */
    MO_RANGE_PERCENTILE, /* but for one value in 100,000 at either end */
    MO_RANGE_ENTROPY,    /* where the distribution loses least (Kullback-Leibler divergence) by being cut */
    MO_RANGE_METHODS
};
/* "minmax", ...; NULL: no such method. */
const char *mo_range_method_name(enum mo_range_method method);
/* MO_RANGE_METHODS: there is none of that name. */
enum mo_range_method mo_range_method_of(const char *name);

enum { MO_TALLY_BINS = 4096 };

/* A histogram around zero whose bins are widened as needed, by powers of two; zeroed = empty. */
struct mo_tally {
    int64_t n, n_bad; /* values; those that were not finite */
    double width;     /* of a bin; bin MO_TALLY_BINS / 2 begins at zero */
    float min, max;
    int64_t bin[MO_TALLY_BINS];
};
void mo_tally_add(struct mo_tally *t, const float *values, int64_t n);
/* Zero lies within.  Both are 0 for a tally that is empty. */
void mo_tally_range(const struct mo_tally *t, enum mo_range_method method, float *lo, float *hi);
#endif
