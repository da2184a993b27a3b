/* SPDX-License-Identifier: Apache-2.0
 * sha256_blocks.c - SHA-256 by the SHA extensions of x86-64: four rounds an iteration, the state as two
 * vectors ABEF and CDGH; see sha256_blocks.h.  Intel, "Intel SHA Extensions", 2013. */
#include "runtime/base/sha256_blocks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

static bool has_sha(void) {
    unsigned a, b, c, d, features;
    if (!__get_cpuid(1, &a, &b, &features, &d) || !(features & bit_SSSE3) || !(features & bit_SSE4_1))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}

/* w: the sixteen words of a block; they become those of the next sixteen rounds, four at a time. */
__attribute__((target("sha,sse4.1"))) static inline void rounds(__m128i w[4], int from, __m128i *abef,
                                                                __m128i *cdgh) {
    for (int i = 0; i < 4; i++) {
        __m128i k = _mm_loadu_si128((const __m128i *)(mo_sha256_round + from + 4 * i));
        __m128i added = _mm_add_epi32(w[i], k);
        *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, added);
        *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(added, 0x0e));
        __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i], w[(i + 1) % 4]),
                                    _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
        w[i] = _mm_sha256msg2_epu32(sum, w[(i + 3) % 4]);
    }
}

__attribute__((target("sha,sse4.1"))) static void add_blocks(uint32_t state[8], const uint8_t *p, size_t n) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
    for (; n; n--, p += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * i)), big_endian);
        for (int from = 0; from < 64; from += 16)
            rounds(w, from, &abef, &cdgh);
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

bool mo_sha256_blocks(uint32_t state[8], const uint8_t *blocks, size_t n) {
    if (!has_sha()) return false;
    add_blocks(state, blocks, n);
    return true;
}

#else

bool mo_sha256_blocks(uint32_t state[8], const uint8_t *blocks, size_t n) {
    (void)state, (void)blocks, (void)n;
    return false;
}

#endif
