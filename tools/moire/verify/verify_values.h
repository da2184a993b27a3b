/* SPDX-License-Identifier: Apache-2.0
 * verify_values.h - a tensor where a plan has put it: in images that may lie apart (a slice of a concat), in
 * blocks of channels, among the bytes of others.  What the verification of compiled kernels fills, compares
 * and copies. */
#ifndef MO_VERIFY_VALUES_H
#define MO_VERIFY_VALUES_H
#include "runtime/plan/plan.h"

/* `images` runs of `bytes`, `stride` apart. */
struct mo_spread {
    char *at;
    int64_t images, bytes, stride;
    moire_dtype dtype;
    int64_t channels, area; /* of MO_C16; channels 0: plain */
};

/* at is NULL when the tensor has no storage now. */
struct mo_spread mo_spread_of(const struct mo_plan *plan, const struct mo_instance *instance, int tensor);

/* Every byte 0xff: a NaN in floats. */
void mo_spread_poison(const struct mo_spread *s);
void mo_spread_copy(const struct mo_spread *to, const struct mo_spread *from);
/* Random contents (mo_trial_random), lanes behind the last channel too. */
void mo_spread_fill(const struct mo_spread *s, uint64_t *state);
bool mo_spread_overlaps(const struct mo_spread *a, const struct mo_spread *b);

/* What is in it: of floats; of others largest is 0. */
struct mo_spread_range {
    double largest;  /* magnitude of a finite value */
    bool degenerate; /* nearly all zero, all the same, hardly representable, or some value is not finite */
};
struct mo_spread_range mo_spread_look(const struct mo_spread *s);

/* How `got` differs from `want`, which has the same shape and layout. */
struct mo_spread_gap {
    double largest;      /* difference of two finite values */
    int64_t image;       /* where that is */
    int64_t wrong;       /* values of which one is finite and the other not; bytes more than a step apart;
                            other types: images that differ */
    int64_t wrong_image; /* where the first is */
    int64_t lanes;       /* behind the last channel and not finite */
};
struct mo_spread_gap mo_spread_compare(const struct mo_spread *want, const struct mo_spread *got);
#endif
