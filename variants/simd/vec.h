/* SPDX-License-Identifier: Apache-2.0
 * vec.h - the vector of the ISA level a file is compiled for. */
#ifndef MO_SIMD_VEC_H
#define MO_SIMD_VEC_H
#include <stdint.h>

#if defined(MO_ISA_IS_avx512)
enum { LANES = 16 };
#elif defined(MO_ISA_IS_avx2)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#endif
