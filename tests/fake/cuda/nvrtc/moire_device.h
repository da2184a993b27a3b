/* SPDX-License-Identifier: Apache-2.0
 * moire_device.h - what generated sources include, for the host: generated CUDA C compiled as C.
 *
 * The blocks of a grid run one after the other.  Threads of a block run one after the other too, unless the
 * kernel synchronises: then each is a fibre, and a barrier goes on to the next one, so that what a kernel
 * forgets to wait for is seen as it was before.  Included by modules that nvrtc.c compiles, by no other. */
#ifndef MO_FAKE_DEVICE_H
#define MO_FAKE_DEVICE_H
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include "../fake.h"
#include "../half.h"

typedef unsigned int mo_index;
#define MO_KERNEL(name, threads) static void name##_thread
#define MO_DEVICE                static inline __attribute__((unused))
#define MO_SHARED                static _Thread_local
#define MO_ALIGN(n)              __attribute__((aligned((n) > 16 ? 16 : (n))))
#define MO_SYNC()                mo_fake_sync()
#define MO_UNROLL
#define mo_inf INFINITY
#define mo_nan NAN

static _Thread_local struct { unsigned x, y, z; } threadIdx, blockIdx;

/* --- grids ---------------------------------------------------------------------------------------------- */

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

/* A kernel that spoils its GPU with that sticky error, or with 0 hangs until that happens. */
MO_DEVICE void mo_fake_fault(int result) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = driver ? dlsym(driver, "mo_fake_cuda") : NULL;
    const struct mo_fake_cuda *(*get)(void);
    if (!symbol) abort();
    memcpy(&get, &symbol, sizeof get);
    if (result) get()->lose(0, (unsigned)result);
    while (!result)
        pause();
}

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
