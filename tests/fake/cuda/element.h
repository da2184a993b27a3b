/* SPDX-License-Identifier: Apache-2.0
 * element.h - elements of the three types that programs store, for the fakes of cuDNN and cuBLASLt. */
#ifndef MO_FAKE_ELEMENT_H
#define MO_FAKE_ELEMENT_H
#include "tests/fake/cuda/half.h"

enum fake_type { FAKE_F32, FAKE_F16, FAKE_BF16 };

static inline float fake_get(const void *at, enum fake_type type, int64_t i) {
    if (type == FAKE_F16) return mo_of_f16(((const mo_f16 *)at)[i]);
    if (type == FAKE_BF16) return mo_of_bf16(((const mo_bf16 *)at)[i]);
    return ((const float *)at)[i];
}

static inline void fake_put(void *at, enum fake_type type, int64_t i, float x) {
    if (type == FAKE_F16)
        ((mo_f16 *)at)[i] = mo_to_f16(x);
    else if (type == FAKE_BF16)
        ((mo_bf16 *)at)[i] = mo_to_bf16(x);
    else
        ((float *)at)[i] = x;
}
#endif
