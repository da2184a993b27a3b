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
    static const struct mo_tiles *const tiles[MO_DOT_COUNT][2] = {
        [MO_DOT_AVX512_VNNI] = {&mo_tiles_avx512vnni, &mo_tiles_avx512vnni_narrow},
        [MO_DOT_AVX_VNNI] = {&mo_tiles_avxvnni, &mo_tiles_avxvnni_narrow},
        [MO_DOT_AVX2] = {&mo_tiles_avx2pairs, &mo_tiles_avx2pairs_narrow}};
    return tiles[mo_isa_dot(isa)][narrow];
#else
    (void)isa;
    (void)narrow;
    return NULL;
#endif
}
