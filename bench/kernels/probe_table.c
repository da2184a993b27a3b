/* SPDX-License-Identifier: Apache-2.0
 * probe_table.c - picks the ceiling loops of an ISA level; see probe/probe.h. */
#include "bench/kernels/probe/probe.h"

extern const struct mo_probe mo_probe_base;
#if defined(__x86_64__)
extern const struct mo_probe mo_probe_avx2, mo_probe_avx512;
#elif defined(__aarch64__)
extern const struct mo_probe mo_probe_neon;
#endif

const struct mo_probe *mo_probe_of(enum mo_isa isa) {
#if defined(__x86_64__)
    if (isa == MO_ISA_AVX512) return &mo_probe_avx512;
    if (isa == MO_ISA_AVX2) return &mo_probe_avx2;
#elif defined(__aarch64__)
    if (isa == MO_ISA_NEON) return &mo_probe_neon;
#endif
    (void)isa;
    return &mo_probe_base;
}
