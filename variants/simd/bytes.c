/* SPDX-License-Identifier: Apache-2.0
 * bytes.c - sums of two tensors of bytes, and functions of one by table. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

/* Rounded to even, within the bounds, above the zero point; what the floats' bits count up from is `magic`. */
static inline __attribute__((always_inline)) void sum_row(const struct mo_sum_params *p, const bool a_signed,
                                                          const bool b_signed, const uint8_t *a,
                                                          const uint8_t *b, uint8_t *restrict y, int64_t n) {
    const float fa = p->factor[0], fb = p->factor[1], add = p->add, lo = p->lo, hi = p->hi;
    const int zero = p->zero;
    for (int64_t i = 0; i < n; i++) {
        const float x = a_signed ? (float)(int8_t)a[i] : (float)a[i];
        const float z = b_signed ? (float)(int8_t)b[i] : (float)b[i];
        float v = x * fa + (z * fb + add);
        v = v < lo ? lo : v;
        v = v > hi ? hi : v;
        y[i] = (uint8_t)((int32_t)rintf(v) + zero);
    }
}

void MO_SIMD(sum_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_sum_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t at = unit * p->unit, n = p->bytes - at < p->unit ? p->bytes - at : p->unit;
        const uint8_t *a = (const uint8_t *)args->in[0] + at, *b = (const uint8_t *)args->in[1] + at;
        uint8_t *y = (uint8_t *)args->out[0] + at;
        if (!p->is_signed[0] && !p->is_signed[1])
            sum_row(p, false, false, a, b, y, n);
        else if (p->is_signed[0] && p->is_signed[1])
            sum_row(p, true, true, a, b, y, n);
        else
            sum_row(p, p->is_signed[0], p->is_signed[1], a, b, y, n);
    }
}

void MO_SIMD(lookup)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_lookup_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t at = unit * p->unit, n = p->bytes - at < p->unit ? p->bytes - at : p->unit;
        const uint8_t *x = (const uint8_t *)args->in[0] + at;
        uint8_t *restrict y = (uint8_t *)args->out[0] + at;
        for (int64_t i = 0; i < n; i++)
            y[i] = p->table[x[i]];
    }
}
