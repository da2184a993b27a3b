/* SPDX-License-Identifier: Apache-2.0
 * random.h - the random numbers of the differential tester: one stream a seed, the same on every machine. */
#ifndef MO_DT_RANDOM_H
#define MO_DT_RANDOM_H
#include <stdint.h>
#include "runtime/base/numbers.h"

struct dt_random {
    uint64_t state;
};

static inline uint64_t dt_next(struct dt_random *r) {
    return mo_splitmix(&r->state);
}

/* Uniform in [0, n). */
static inline int dt_pick(struct dt_random *r, int n) {
    return (int)(dt_next(r) % (uint64_t)n);
}

/* Sum of four uniforms: near enough to a normal of variance 1/3. */
static inline double dt_normal(struct dt_random *r) {
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(dt_next(r) >> 40) / 8388608.0 - 1;
    return sum / 2;
}

/* A stream of its own for part `index` of what `seed` names. */
static inline struct dt_random dt_random_of(uint64_t seed, uint64_t index) {
    struct dt_random r = {seed * 0xd1342543de82ef95u + index};
    dt_next(&r);
    return r;
}
#endif
