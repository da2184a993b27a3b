/* SPDX-License-Identifier: Apache-2.0
 * fpu.h - floating-point state of a worker: denormals are flushed, or a network on denormal activations runs
 * several times slower.  Nothing on architectures where the state is not known. */
#ifndef MO_FPU_H
#define MO_FPU_H
#if defined(__x86_64__)
#include <xmmintrin.h>
enum { MO_MXCSR_FTZ_DAZ = 0x8040 };
static inline unsigned mo_fpu_flush(void) {
    unsigned old = _mm_getcsr();
    _mm_setcsr(old | MO_MXCSR_FTZ_DAZ);
    return old;
}
static inline void mo_fpu_restore(unsigned old) {
    _mm_setcsr(old);
}
#elif defined(__aarch64__)
static inline unsigned mo_fpu_flush(void) {
    unsigned long old;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, %0" : : "r"(old | 1ul << 24));
    return (unsigned)old;
}
static inline void mo_fpu_restore(unsigned old) {
    __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)old));
}
#else
static inline unsigned mo_fpu_flush(void) {
    return 0;
}
static inline void mo_fpu_restore(unsigned old) {
    (void)old;
}
#endif
#endif
