/* SPDX-License-Identifier: Apache-2.0
 * pool_bytes.c - pools of uint8 in both layouts: the maximum over windows (down the columns, then along the
 * line), and the mean over whole planes. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static inline __attribute__((always_inline)) uint8_t larger(uint8_t a, uint8_t b) {
    return a > b ? a : b;
}

/* Rows of the window, from column 0 on: the largest of each column. */
static void join_rows(const struct mo_pool_params *p, const uint8_t *x, uint8_t *restrict line, int64_t y0) {
    const int64_t n = p->w * p->lanes;
    int64_t lo, hi;
    mo_clip_taps(y0, p->kh, p->dh, p->h, &lo, &hi);
    if (lo == hi)
        memset(line, 0, (size_t)n);
    else
        memcpy(line, x + (y0 + lo * p->dh) * n, (size_t)n);
    for (int64_t k = lo + 1; k < hi; k++) {
        const uint8_t *row = x + (y0 + k * p->dh) * n;
        for (int64_t i = 0; i < n; i++)
            line[i] = larger(line[i], row[i]);
    }
}

/* `line` is where the first window begins: there are zeros around the image, which change no maximum. */
static inline __attribute__((always_inline)) void join_line(const struct mo_pool_params *p,
                                                            const uint8_t *line, uint8_t *restrict y,
                                                            const int64_t lanes, const int64_t taps) {
    const int64_t step = p->sw * lanes, tap = p->dw * lanes;
    for (int64_t i = 0; i < p->ow; i++, line += step, y += lanes) {
        uint8_t most[16];
        memcpy(most, line, (size_t)lanes);
        for (int64_t k = 1; k < taps; k++)
            for (int64_t l = 0; l < lanes; l++)
                most[l] = larger(most[l], line[k * tap + l]);
        memcpy(y, most, (size_t)lanes);
    }
}

static void join_columns(const struct mo_pool_params *p, const uint8_t *line, uint8_t *y) {
    if (p->lanes == 16 && p->kw == 3)
        join_line(p, line, y, 16, 3);
    else if (p->lanes == 16)
        join_line(p, line, y, 16, p->kw);
    else
        join_line(p, line, y, 1, p->kw);
}

void MO_SIMD(pool_bytes)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_pool_params *p = args->params;
    uint8_t *line = (uint8_t *)scratch + p->left * p->lanes, *behind = line + p->w * p->lanes;
    memset(scratch, 0, (size_t)(p->left * p->lanes));
    memset(behind, 0, (size_t)(p->right * p->lanes));
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit % p->oh, plane = unit / p->oh % p->planes, image = unit / p->oh / p->planes;
        const uint8_t *x =
            (const uint8_t *)args->in[0] + image * args->in_image[0] + plane * p->h * p->w * p->lanes;
        uint8_t *y =
            (uint8_t *)args->out[0] + image * args->out_image[0] + (plane * p->oh + row) * p->ow * p->lanes;
        join_rows(p, x, line, row * p->sh - p->pt);
        join_columns(p, line - p->pl * p->lanes, y);
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
