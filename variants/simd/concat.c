/* SPDX-License-Identifier: Apache-2.0
 * concat.c - concatenation of channels in MO_C16 at any channel: runs of lanes move from block to block. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static inline __attribute__((always_inline)) void move_lanes(const float *x, float *y, int64_t n,
                                                             const int count) {
    for (int64_t i = 0; i < n; i++) {
        float lanes[16];
        memcpy(lanes, x + i * 16, (size_t)count * sizeof *lanes);
        memcpy(y + i * 16, lanes, (size_t)count * sizeof *lanes);
    }
}

/* `count` lanes of n pixels; the usual counts are constants of the loop. */
static void move_run(const float *x, float *y, int64_t n, int count) {
    switch (count) {
    case 16:
        memcpy(y, x, (size_t)n * 64);
        return;
    case 12:
        move_lanes(x, y, n, 12);
        return;
    case 8:
        move_lanes(x, y, n, 8);
        return;
    case 4:
        move_lanes(x, y, n, 4);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            for (int l = 0; l < count; l++)
                y[i * 16 + l] = x[i * 16 + l];
    }
}

void MO_SIMD(concat)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_concat_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t at = unit % p->chunks * p->chunk, block = unit / p->chunks % p->blocks;
        int64_t image = unit / p->chunks / p->blocks, n = p->area - at < p->chunk ? p->area - at : p->chunk;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + (block * p->area + at) * 16;
        for (int r = p->first[block]; r < p->first[block + 1]; r++) {
            const struct mo_lanes *run = &p->runs[r];
            if (run->in < 0) {
                for (int64_t i = 0; i < n; i++)
                    for (int l = 0; l < run->count; l++)
                        y[i * 16 + run->to + l] = 0.0f;
                continue;
            }
            const float *x =
                (const float *)((const char *)args->in[run->in] + image * args->in_image[run->in]);
            move_run(x + (run->block * p->area + at) * 16 + run->from, y + run->to, n, run->count);
        }
    }
}
