/* SPDX-License-Identifier: Apache-2.0
 * moire_device.h - what generated sources include, for the host: generated CUDA C compiled as C.
 *
 * The blocks of a grid run one after the other.  Threads of a block run one after the other too, unless the
 * kernel synchronises: then each is a fibre, and a barrier goes on to the next one, so that what a kernel
 * forgets to wait for is seen as it was before.  Included by modules that nvrtc.c compiles, by no other. */
#ifndef MO_FAKE_DEVICE_H
#define MO_FAKE_DEVICE_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

typedef unsigned int mo_index;
typedef struct {
    unsigned short bits;
} mo_f16;
typedef struct {
    unsigned short bits;
} mo_bf16;

#define MO_KERNEL(name, threads) static void name##_thread
#define MO_DEVICE                static inline __attribute__((unused))
#define MO_SHARED                static _Thread_local
#define MO_ALIGN(n)              __attribute__((aligned((n) > 16 ? 16 : (n))))
#define MO_SYNC()                mo_fake_sync()
#define MO_UNROLL
#define mo_inf INFINITY
#define mo_nan NAN

static _Thread_local struct { unsigned x, y, z; } threadIdx, blockIdx;

/* --- 16-bit types ----------------------------------------------------------------------------------------
 */

static inline float mo_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t mo_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

MO_DEVICE float mo_of_f16(mo_f16 h) {
    uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 31, rest = h.bits & 1023u;
    if (exponent == 31) return mo_of_bits(sign | 0x7f800000u | rest << 13);
    if (exponent) return mo_of_bits(sign | (exponent + 112) << 23 | rest << 13);
    float f = (float)rest * 0x1p-24f;
    return sign ? -f : f;
}

/* Rounds to nearest even. */
MO_DEVICE mo_f16 mo_to_f16(float f) {
    uint32_t bits = mo_to_bits(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (mo_f16){(unsigned short)(sign | 0x7fffu)};
    if (rest >= 0x477ff000u) return (mo_f16){(unsigned short)(sign | 0x7c00u)};
    if (rest < 0x38800000u) { /* below the least normal number: in steps of 2^-24 */
        float steps = rintf(mo_of_bits(rest) * 0x1p24f);
        return (mo_f16){(unsigned short)(sign | (uint32_t)steps)};
    }
    rest += 0xfffu + (rest >> 13 & 1);
    return (mo_f16){(unsigned short)(sign | (rest - 0x38000000u) >> 13)};
}

MO_DEVICE float mo_of_bf16(mo_bf16 x) {
    return mo_of_bits((uint32_t)x.bits << 16);
}

MO_DEVICE mo_bf16 mo_to_bf16(float x) {
    uint32_t b = mo_to_bits(x);
    return (mo_bf16){(unsigned short)(x != x ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16)};
}

/* --- grids -----------------------------------------------------------------------------------------------
 */

enum { MO_FAKE_STACK = 32 << 10, MO_FAKE_THREADS = 1024 };

struct mo_fake_block {
    void (*call)(void *const *arguments);
    void *const *arguments;
    unsigned threads, at;
    ucontext_t out, fibre[MO_FAKE_THREADS];
    char done[MO_FAKE_THREADS];
    char *stacks;
};
static _Thread_local struct mo_fake_block *mo_fake_now;

MO_DEVICE void mo_fake_sync(void) {
    struct mo_fake_block *b = mo_fake_now;
    unsigned own = b->at;
    swapcontext(&b->fibre[own], &b->out);
    threadIdx.x = own;
}

static void mo_fake_enter(void) {
    struct mo_fake_block *b = mo_fake_now;
    threadIdx.x = b->at;
    b->call(b->arguments);
    b->done[b->at] = 1;
}

/* Every thread to its next barrier, until all have returned. */
MO_DEVICE void mo_fake_run_block(struct mo_fake_block *b) {
    memset(b->done, 0, b->threads);
    for (unsigned i = 0; i < b->threads; i++) {
        getcontext(&b->fibre[i]);
        b->fibre[i].uc_stack.ss_sp = b->stacks + (size_t)i * MO_FAKE_STACK;
        b->fibre[i].uc_stack.ss_size = MO_FAKE_STACK;
        b->fibre[i].uc_link = &b->out;
        makecontext(&b->fibre[i], mo_fake_enter, 0);
    }
    for (unsigned left = b->threads; left;)
        for (unsigned i = left = 0; i < b->threads; i++) {
            if (b->done[i]) continue;
            b->at = i;
            swapcontext(&b->out, &b->fibre[i]);
            left += !b->done[i];
        }
}

MO_DEVICE void mo_fake_grid(void (*call)(void *const *), void *const *arguments, const unsigned grid[3],
                            const unsigned block[3], int synchronises) {
    struct mo_fake_block *b = synchronises ? malloc(sizeof *b) : NULL;
    if (b) *b = (struct mo_fake_block){.call = call, .arguments = arguments, .threads = block[0]};
    if (b) b->stacks = malloc((size_t)block[0] * MO_FAKE_STACK);
    if (synchronises && (!b || !b->stacks || block[0] > MO_FAKE_THREADS)) abort();
    mo_fake_now = b;
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) {
                if (b) mo_fake_run_block(b);
                for (threadIdx.x = 0; !b && threadIdx.x < block[0]; threadIdx.x++)
                    call(arguments);
            }
    if (b) free(b->stacks);
    free(b);
}
#endif
