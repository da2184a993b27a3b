/* SPDX-License-Identifier: Apache-2.0
 * half.h - the 16-bit types of generated kernels on the host, for the fakes of CUDA's libraries. */
#ifndef MO_FAKE_HALF_H
#define MO_FAKE_HALF_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#define MO_DEVICE static inline __attribute__((unused))

typedef struct {
    unsigned short bits;
} mo_f16;
typedef struct {
    unsigned short bits;
} mo_bf16;

static inline float mo_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t mo_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

MO_DEVICE float mo_of_f16(mo_f16 h) {
    uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 31, rest = h.bits & 1023u;
    if (exponent == 31) return mo_of_bits(sign | 0x7f800000u | rest << 13);
    if (exponent) return mo_of_bits(sign | (exponent + 112) << 23 | rest << 13);
    float f = (float)rest * 0x1p-24f;
    return sign ? -f : f;
}

/* Rounds to nearest even. */
MO_DEVICE mo_f16 mo_to_f16(float f) {
    uint32_t bits = mo_to_bits(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (mo_f16){(unsigned short)(sign | 0x7fffu)};
    if (rest >= 0x477ff000u) return (mo_f16){(unsigned short)(sign | 0x7c00u)};
    if (rest < 0x38800000u) { /* below the least normal number: in steps of 2^-24 */
        float steps = rintf(mo_of_bits(rest) * 0x1p24f);
        return (mo_f16){(unsigned short)(sign | (uint32_t)steps)};
    }
    rest += 0xfffu + (rest >> 13 & 1);
    return (mo_f16){(unsigned short)(sign | (rest - 0x38000000u) >> 13)};
}

MO_DEVICE float mo_of_bf16(mo_bf16 x) {
    return mo_of_bits((uint32_t)x.bits << 16);
}

MO_DEVICE mo_bf16 mo_to_bf16(float x) {
    uint32_t b = mo_to_bits(x);
    return (mo_bf16){(unsigned short)(x != x ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16)};
}

#endif
