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

/* n is a multiple of MO_SUM_STRIPE. */
static inline void mo_sum_add(struct mo_sum *s, const void *data, size_t n) {
    struct mo_sum sum = *s;
    const unsigned char *p = data;
    for (size_t at = 0; at < n; at += MO_SUM_STRIPE)
        for (int i = 0; i < MO_SUM_LANES; i++) {
            uint64_t word;
            memcpy(&word, p + at + (size_t)i * sizeof word, sizeof word);
            uint64_t x = (sum.lane[i] ^ word) * UINT64_C(0xff51afd7ed558ccd);
            sum.lane[i] = x << 29 | x >> 35;
        }
    *s = sum;
}
#endif
