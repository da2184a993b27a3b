/* SPDX-License-Identifier: Apache-2.0
 * cpu.c - the CPU fingerprint under which compiled variants are kept.
 *
 * A variant is only valid where the same instructions exist *and* the operating system saves the registers
 * they use, so the text holds the feature words of CPUID and XCR0 raw; a change of either (another machine,
 * a hypervisor that masks AVX-512) gives another folder and the built-in kernels serve until a compile.  On
 * aarch64 the system says both in the words of HWCAP. */
#include "variants/cpu.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t read_xcr0(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) return 0; /* OSXSAVE */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void head_text(char *out, size_t n) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    char vendor[13] = {0};
    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(vendor, &b, 4);
        memcpy(vendor + 4, &d, 4);
        memcpy(vendor + 8, &c, 4);
    }
    for (char *s = vendor; *s; s++)
        if (!((*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z'))) *s = '_';
    a = 0;
    __get_cpuid(1, &a, &b, &c, &d);
    unsigned family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
    unsigned model = (a >> 4 & 15) + (a >> 16 & 15) * 16;
    snprintf(out, n, "x86_64-%s-%u-%u-%u", vendor, family, model, a & 15);
}

/* CPUID words that name features.  Leaf 1 EBX (APIC id) is left out: it differs from core to core, and so is
 * OSPKE and the like in words that hold no vector feature. */
static void feature_text(char *out, size_t n) {
    unsigned a, b = 0, c = 0, d = 0, c1 = 0, d1 = 0, a71 = 0;
    __get_cpuid(1, &a, &b, &c1, &d1);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        __get_cpuid_count(7, 1, &a71, &(unsigned){0}, &(unsigned){0}, &(unsigned){0});
    snprintf(out, n, "1c %08x 1d %08x 7b %08x 7c %08x 7d %08x 71a %08x xcr0 %llx", c1, d1, b, c & ~(1u << 4),
             d, a71, (unsigned long long)read_xcr0());
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* Without the part's number: cores of one processor may differ in it. */
static void head_text(char *out, size_t n) {
    snprintf(out, n, "aarch64");
}

/* What the kernel says that programs may use. */
static void feature_text(char *out, size_t n) {
    snprintf(out, n, "hwcap %lx hwcap2 %lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
}
#else
static void head_text(char *out, size_t n) {
    snprintf(out, n, "generic");
}

static void feature_text(char *out, size_t n) {
    snprintf(out, n, "portable");
}
#endif

void mo_cpu_fingerprint(char out[MO_CPU_TEXT]) {
    char head[64], features[256];
    head_text(head, sizeof head);
    feature_text(features, sizeof features);
    snprintf(out, MO_CPU_TEXT, "%s %s", head, features);
}

void mo_cpu_folder(char out[MO_CPU_FOLDER]) {
    char text[MO_CPU_TEXT], hex[MO_SHA256_HEX], head[64];
    mo_cpu_fingerprint(text);
    mo_sha256_hex(text, strlen(text), hex);
    head_text(head, sizeof head);
    snprintf(out, MO_CPU_FOLDER, "%s-%.12s", head, hex);
}
