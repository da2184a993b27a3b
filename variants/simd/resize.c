/* SPDX-License-Identifier: Apache-2.0
 * resize.c - nearest and linear resizing of the last two dimensions; positions and weights are tables. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static inline __attribute__((always_inline)) void nearest(const struct mo_resize_params *p, const float *row,
                                                          float *y, const int lanes) {
    for (int64_t i = 0; i < p->ow; i++)
        for (int l = 0; l < lanes; l++)
            y[i * lanes + l] = row[p->x0[i] * lanes + l];
}

static inline __attribute__((always_inline)) void linear(const struct mo_resize_params *p, const float *top,
                                                         const float *bottom, float fy, float *y,
                                                         const int lanes) {
    for (int64_t i = 0; i < p->ow; i++) {
        const int64_t a = (int64_t)p->x0[i] * lanes, b = (int64_t)p->x1[i] * lanes;
        const float fx = p->fx[i];
        for (int l = 0; l < lanes; l++) {
            float upper = top[a + l] + (top[b + l] - top[a + l]) * fx;
            float lower = bottom[a + l] + (bottom[b + l] - bottom[a + l]) * fx;
            y[i * lanes + l] = upper + (lower - upper) * fy;
        }
    }
}

void MO_SIMD(resize)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_resize_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit % p->oh, plane = unit / p->oh % p->planes, image = unit / p->oh / p->planes;
        const float *x = (const float *)((const char *)args->in[0] + image * args->in_image[0]) +
                         plane * p->h * p->w * p->lanes;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) +
                   (plane * p->oh + row) * p->ow * p->lanes;
        const float *top = x + p->y0[row] * p->w * p->lanes;
        if (p->nearest) {
            if (p->lanes == 16)
                nearest(p, top, y, 16);
            else
                nearest(p, top, y, 1);
            continue;
        }
        const float *bottom = x + p->y1[row] * p->w * p->lanes;
        if (p->lanes == 16)
            linear(p, top, bottom, p->fy[row], y, 16);
        else
            linear(p, top, bottom, p->fy[row], y, 1);
    }
}
