/* SPDX-License-Identifier: Apache-2.0
 * tap_sum.c - moire.TapSum: the columns of a filter, each a few channels of a pixel, move to their outputs.
 */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

enum { LANES_OF_SUM = MO_TAP_SUM_OUTPUTS };
typedef float few __attribute__((vector_size(LANES_OF_SUM * 4), aligned(4), may_alias));

/* What tap k adds to a row: x is the row of its block. */
static void add_tap(const struct mo_tap_sum *t, int64_t w, int64_t k, const float *x, float *restrict sums) {
    int64_t first, end;
    mo_tap_sum_range(t, w, k, &first, &end);
    x += (k * t->dilation - t->pad) * 16 + mo_tap_sum_channel(t->outputs, k) % 16;
    for (int64_t i = first; i < end; i++)
        *(few *)(sums + i * LANES_OF_SUM) += *(const few *)(x + i * t->stride * 16);
}

void MO_SIMD(tap_sum)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_tap_sum_params *p = args->params;
    const struct mo_tap_sum *t = &p->of;
    float *sums = scratch, *row = sums + t->width * LANES_OF_SUM;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / p->h, h = unit % p->h;
        const float *x =
            (const float *)((const char *)args->in[0] + image * args->in_image[0]) + h * p->w * 16;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + h * t->width;
        for (int64_t i = 0; i < t->width; i++)
            memcpy(sums + i * LANES_OF_SUM, p->bias, sizeof p->bias);
        for (int64_t k = 0; k < t->taps; k++)
            add_tap(t, p->w, k, x + mo_tap_sum_channel(t->outputs, k) / 16 * p->h * p->w * 16, sums);
        for (int64_t o = 0; o < t->outputs; o++, y += p->h * t->width) {
            for (int64_t i = 0; i < t->width; i++)
                row[i] = sums[i * LANES_OF_SUM + o];
            activate_row(p->fuse.act, p->fuse.a, p->fuse.b, row, y, t->width);
        }
    }
}
