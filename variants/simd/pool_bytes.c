/* SPDX-License-Identifier: Apache-2.0
 * pool_bytes.c - pools of uint8 in both layouts: the maximum over windows (down the columns, then along the
 * line), and the mean over whole planes. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static inline __attribute__((always_inline)) uint8_t larger(uint8_t a, uint8_t b) {
    return a > b ? a : b;
}

static void join_rows(const struct mo_pool_params *p, const uint8_t *x, uint8_t *restrict line, int64_t y0) {
    const int64_t n = p->w * p->lanes;
    int64_t lo, hi;
    mo_clip_taps(y0, p->kh, p->dh, p->h, &lo, &hi);
    memset(line, 0, (size_t)n);
    for (int64_t k = lo; k < hi; k++) {
        const uint8_t *row = x + (y0 + k * p->dh) * n;
        for (int64_t i = 0; i < n; i++)
            line[i] = larger(line[i], row[i]);
    }
}

static inline __attribute__((always_inline)) void
join_line(const struct mo_pool_params *p, const uint8_t *line, uint8_t *y, const int64_t lanes) {
    for (int64_t i = 0; i < p->ow; i++) {
        uint8_t most[16] = {0};
        int64_t x0 = i * p->sw - p->pl, lo, hi;
        mo_clip_taps(x0, p->kw, p->dw, p->w, &lo, &hi);
        for (int64_t k = lo; k < hi; k++) {
            uint8_t tap[16];
            memcpy(tap, line + (x0 + k * p->dw) * lanes, (size_t)lanes);
            for (int64_t l = 0; l < lanes; l++)
                most[l] = larger(most[l], tap[l]);
        }
        memcpy(y + i * lanes, most, (size_t)lanes);
    }
}

void MO_SIMD(pool_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_pool_params *p = args->params;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit % p->oh, plane = unit / p->oh % p->planes, image = unit / p->oh / p->planes;
        const uint8_t *x =
            (const uint8_t *)args->in[0] + image * args->in_image[0] + plane * p->h * p->w * p->lanes;
        uint8_t *y =
            (uint8_t *)args->out[0] + image * args->out_image[0] + (plane * p->oh + row) * p->ow * p->lanes;
        join_rows(p, x, scratch, row * p->sh - p->pt);
        if (p->lanes == 16)
            join_line(p, scratch, y, 16);
        else
            join_line(p, scratch, y, 1);
    }
}

void MO_SIMD(mean_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_mean_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t plane = unit % p->planes, image = unit / p->planes;
        const uint8_t *x =
            (const uint8_t *)args->in[0] + image * args->in_image[0] + plane * p->area * p->lanes;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + plane * p->lanes;
        int32_t sum[16] = {0};
        if (p->lanes == 16)
            for (int64_t i = 0; i < p->area; i++)
                for (int l = 0; l < 16; l++)
                    sum[l] += x[i * 16 + l];
        else
            for (int64_t i = 0; i < p->area; i++)
                sum[0] += x[i];
        for (int l = 0; l < p->lanes; l++)
            y[l] = ((float)sum[l] / (float)p->area - p->zero) * p->scale;
    }
}
