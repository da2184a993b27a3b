/* SPDX-License-Identifier: Apache-2.0
 * sum.h - a checksum at the speed of memory, against damage (not malice): eight lanes of 64 bits, each a
 * chain of steps that lose nothing, so that any change within one lane's words shows.  Input in multiples of
 * 64 bytes. */
#ifndef MO_SUM_H
#define MO_SUM_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MO_SUM_LANES = 8, MO_SUM_STRIPE = 64 };

struct mo_sum {
    uint64_t lane[MO_SUM_LANES];
};

static inline void mo_sum_init(struct mo_sum *s) {
    for (int i = 0; i < MO_SUM_LANES; i++)
        s->lane[i] = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1);
}

static inline uint64_t mo_sum_step(uint64_t lane, const unsigned char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    uint64_t x = (lane ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return x << 29 | x >> 35;
}

/* n is a multiple of MO_SUM_STRIPE.  Lane by lane, not in a loop: at -O2 a loop keeps them in memory, for
 * less than half the speed, and this is most of loading a compiled model. */
static inline void mo_sum_add(struct mo_sum *s, const void *data, size_t n) {
    struct mo_sum sum = *s;
    const unsigned char *p = data, *end = p + n;
    for (; p < end; p += MO_SUM_STRIPE) {
        sum.lane[0] = mo_sum_step(sum.lane[0], p);
        sum.lane[1] = mo_sum_step(sum.lane[1], p + 8);
        sum.lane[2] = mo_sum_step(sum.lane[2], p + 16);
        sum.lane[3] = mo_sum_step(sum.lane[3], p + 24);
        sum.lane[4] = mo_sum_step(sum.lane[4], p + 32);
        sum.lane[5] = mo_sum_step(sum.lane[5], p + 40);
        sum.lane[6] = mo_sum_step(sum.lane[6], p + 48);
        sum.lane[7] = mo_sum_step(sum.lane[7], p + 56);
    }
    *s = sum;
}
#endif
