/* SPDX-License-Identifier: Apache-2.0
 * matrix_unit.c - whether there is a matrix unit that this process may use.
 *
 * Linux keeps the tiles of AMX, 8 KiB a thread, only for processes that asked: permission is a process's, and
 * asking again is harmless.  A system that refuses (an old kernel, a sandbox) leaves the vectors. */
#define _GNU_SOURCE
#include "variants/matrix/matrix.h"

#include <math.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define MO_MATRIX_UNSEEN 1 /* what tiles write would count as never written */
#endif
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(MO_MATRIX_UNSEEN)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* asm/prctl.h; and the component of the extended state. */
enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18, XCR0_TILES = 3 << 17 };
/* leaf 7 edx */
enum { AMX_BF16 = 22, AMX_TILE = 24, AMX_INT8 = 25 };

/* leaf 7, 1 eax: AVX512_BF16 5, by which floats become halves. */
static bool has_bf16(void) {
    unsigned a, b, c, d;
    return mo_isa_detect() == MO_ISA_AVX512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1;
}

/* Whose products of bfloat16 by vectors are twice as fast as those of float32: AMD's since Zen 4.  Intel's
 * run on half the ports. */
static bool is_amd(void) {
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx &&
           d == signature_AMD_edx;
}

static bool has_amx(enum mo_matrix_type type) {
    unsigned a, b, c, d, low, high;
    const unsigned need = 1u << AMX_TILE | 1u << (type == MO_MATRIX_BYTES ? AMX_INT8 : AMX_BF16);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & need) != need) return false;
    if (type != MO_MATRIX_BYTES && !has_bf16()) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & XCR0_TILES) == XCR0_TILES && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

const struct mo_matrix_unit *mo_matrix_of(enum mo_isa isa, enum mo_matrix_type type) {
    bool wide = isa == MO_ISA_AVX512 && mo_isa_covers(mo_isa_detect(), isa);
    if (wide && has_amx(type)) return &mo_matrix_amx;
    return wide && type == MO_MATRIX_HALVES && has_bf16() && is_amd() ? &mo_matrix_vectors : NULL;
}

static const struct mo_matrix_unit *vectors_of(enum mo_matrix_type type) {
    return type == MO_MATRIX_HALVES && has_bf16() ? &mo_matrix_vectors : NULL;
}
#else
const struct mo_matrix_unit *mo_matrix_of(enum mo_isa isa, enum mo_matrix_type type) {
#if defined(__aarch64__)
    if (isa == MO_ISA_NEON && type == MO_MATRIX_BYTES && mo_isa_has_dot()) return &mo_matrix_neon;
#endif
    (void)isa;
    (void)type;
    return NULL;
}

static const struct mo_matrix_unit *vectors_of(enum mo_matrix_type type) {
    (void)type;
    return NULL;
}
#endif

const struct mo_matrix_unit *mo_matrix_choose(enum mo_units units, enum mo_isa isa,
                                              enum mo_matrix_type type) {
    if (units == MO_UNITS_MODEL) return &mo_matrix_model;
    if (units == MO_UNITS_VECTORS) return vectors_of(type);
    return units == MO_UNITS_OWN ? mo_matrix_of(isa, type) : NULL;
}

float mo_bfloat16_wide(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint16_t mo_bfloat16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void mo_bfloat16_terms(float x, uint16_t terms[MO_MATRIX_TERMS]) {
    const float whole = fabsf(mo_bfloat16_wide(mo_bfloat16(x))) < INFINITY ? x : 0;
    terms[0] = mo_bfloat16(x);
    const float left = whole != 0 ? whole - mo_bfloat16_wide(terms[0]) : 0;
    terms[1] = mo_bfloat16(left);
    terms[2] = mo_bfloat16(left - mo_bfloat16_wide(terms[1]));
}
