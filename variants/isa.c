/* SPDX-License-Identifier: Apache-2.0
 * isa.c - the instruction set level this machine can run: what the processor has and the system enabled. */
#include "variants/kernel.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Bits of XCR0: SSE and AVX state; opmask and the upper halves and upper 16 of zmm. */
enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6 };

static unsigned long long enabled_state(void) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (unsigned long long)high << 32 | low;
}

enum mo_isa mo_isa_detect(void) {
    unsigned a, b, c, d;
    /* leaf 1 ecx: FMA 12, MOVBE 22, OSXSAVE 27, AVX 28, F16C 29 */
    const unsigned leaf1 = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & leaf1) != leaf1) return MO_ISA_BASE;
    unsigned long long state = enabled_state();
    if ((state & XCR0_AVX) != XCR0_AVX) return MO_ISA_BASE;
    /* leaf 7 ebx: BMI1 3, AVX2 5, BMI2 8 */
    const unsigned leaf7 = 1u << 3 | 1u << 5 | 1u << 8;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & leaf7) != leaf7) return MO_ISA_BASE;
    /* leaf 7 ebx: AVX512 F 16, DQ 17, CD 28, BW 30, VL 31 */
    const unsigned wide = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    if ((b & wide) != wide || (state & XCR0_AVX512) != XCR0_AVX512) return MO_ISA_AVX2;
    return MO_ISA_AVX512;
}

/* A bit of leaf 7 ecx, beside AVX-512. */
static bool has_wide(int bit) {
    unsigned a, b, c, d;
    return mo_isa_detect() == MO_ISA_AVX512 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> bit & 1;
}

enum mo_dot mo_isa_dot(enum mo_isa isa) {
    unsigned a, b, c, d;
    if (isa != MO_ISA_AVX2 && isa != MO_ISA_AVX512) return MO_DOT_NONE;
    if (isa == MO_ISA_AVX512 && has_wide(11)) return MO_DOT_AVX512_VNNI;
    bool has = mo_isa_covers(mo_isa_detect(), isa) && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
    return has ? MO_DOT_AVX_VNNI : MO_DOT_AVX2;
}

bool mo_isa_has_vbmi(void) {
    return has_wide(1);
}
#elif defined(__aarch64__)
#if defined(__linux__)
#include <sys/auxv.h>
#endif

enum mo_isa mo_isa_detect(void) {
    return MO_ISA_NEON; /* every system's ABI for AArch64 demands Advanced SIMD */
}
#else
enum mo_isa mo_isa_detect(void) {
    return MO_ISA_BASE;
}
#endif

#if defined(__aarch64__) && defined(__linux__)
/* The dot product of Armv8.2, which kernels and matrix_neon.c use, and that of unsigned by signed bytes. */
enum mo_dot mo_isa_dot(enum mo_isa isa) {
    enum { ASIMDDP = 20, I8MM = 13 };
    if (isa != MO_ISA_NEON || !(getauxval(AT_HWCAP) >> ASIMDDP & 1)) return MO_DOT_NONE;
    return getauxval(AT_HWCAP2) >> I8MM & 1 ? MO_DOT_NEON_I8MM : MO_DOT_NEON;
}
#elif !defined(__x86_64__)
enum mo_dot mo_isa_dot(enum mo_isa isa) {
    (void)isa;
    return MO_DOT_NONE;
}
#endif

#if !defined(__x86_64__)
bool mo_isa_has_vbmi(void) {
    return false;
}
#endif

bool mo_isa_has_dot(void) {
    return mo_isa_dot(mo_isa_detect()) != MO_DOT_NONE;
}

bool mo_isa_covers(enum mo_isa have, enum mo_isa need) {
    return need == MO_ISA_BASE || need == have || (need < have && have <= MO_ISA_AVX512);
}

int mo_isa_next(int isa) {
    enum mo_isa have = mo_isa_detect();
    while (++isa < MO_ISA_COUNT && !mo_isa_covers(have, (enum mo_isa)isa)) {
    }
    return isa;
}

const char *mo_isa_name(enum mo_isa isa) {
    static const char *const names[MO_ISA_COUNT] = {
        [MO_ISA_BASE] = "base", [MO_ISA_AVX2] = "avx2", [MO_ISA_AVX512] = "avx512", [MO_ISA_NEON] = "neon"};
    return isa >= 0 && isa < MO_ISA_COUNT ? names[isa] : "unknown";
}
