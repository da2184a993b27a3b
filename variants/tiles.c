/* SPDX-License-Identifier: Apache-2.0
 * tiles.c - the built-in micro-kernels by instruction set. */
#include "variants/tiles.h"

const struct mo_tiles *mo_tiles_of(enum mo_isa isa) {
#if defined(__x86_64__)
    if (isa == MO_ISA_AVX512) return &mo_tiles_avx512;
    if (isa == MO_ISA_AVX2) return &mo_tiles_avx2;
#elif defined(__aarch64__)
    if (isa == MO_ISA_NEON) return &mo_tiles_neon;
#endif
    (void)isa;
    return &mo_tiles_base;
}

const struct mo_tiles *mo_dot_tiles_of(enum mo_isa isa, bool narrow) {
#if defined(__x86_64__)
    if (isa == MO_ISA_AVX512 && mo_isa_has_vnni())
        return narrow ? &mo_tiles_avx512vnni_narrow : &mo_tiles_avx512vnni;
#endif
    (void)isa;
    (void)narrow;
    return NULL;
}
