/* SPDX-License-Identifier: Apache-2.0
 * concat.c - concatenation of channels in MO_C16 at any channel: runs of lanes move from block to block. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static inline __attribute__((always_inline)) void move_lanes(const char *x, char *y, int64_t n, int64_t pixel,
                                                             const size_t bytes) {
    for (int64_t i = 0; i < n; i++) {
        char lanes[64];
        memcpy(lanes, x + i * pixel, bytes);
        memcpy(y + i * pixel, lanes, bytes);
        __asm__ volatile("" : : : "memory"); /* no scatter of pixels, which MemorySanitizer does not see */
    }
}

/* Some bytes of each of n pixels; the usual numbers are constants of the loop. */
static void move_run(const char *x, char *y, int64_t n, int64_t pixel, int64_t bytes) {
    if (bytes == pixel) {
        memcpy(y, x, (size_t)(n * pixel));
        return;
    }
    switch (bytes) {
#define CASE(count)                                                                                          \
    case count:                                                                                              \
        move_lanes(x, y, n, pixel, count);                                                                   \
        return;
        CASE(48)
        CASE(32)
        CASE(16)
        CASE(12)
        CASE(8)
        CASE(4)
#undef CASE
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(y + i * pixel, x + i * pixel, (size_t)bytes);
    }
}

void MO_SIMD(concat)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_concat_params *p = args->params;
    const int64_t pixel = 16 * p->element;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t at = unit % p->chunks * p->chunk, block = unit / p->chunks % p->blocks;
        int64_t image = unit / p->chunks / p->blocks, n = p->area - at < p->chunk ? p->area - at : p->chunk;
        char *y = (char *)args->out[0] + image * args->out_image[0] + (block * p->area + at) * pixel;
        for (int r = p->first[block]; r < p->first[block + 1]; r++) {
            const struct mo_lanes *run = &p->runs[r];
            if (run->in < 0) {
                for (int64_t i = 0; i < n; i++)
                    memset(y + i * pixel + run->to * p->element, 0, (size_t)(run->count * p->element));
                continue;
            }
            const char *x = (const char *)args->in[run->in] + image * args->in_image[run->in];
            move_run(x + (run->block * p->area + at) * pixel + run->from * p->element,
                     y + run->to * p->element, n, pixel, run->count * p->element);
        }
    }
}
