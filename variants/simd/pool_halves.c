/* SPDX-License-Identifier: Apache-2.0
 * pool_halves.c - pools of bfloat16 in blocks of 16 channels: the maximum over windows, and the mean over
 * whole planes.
 *
 * Their bits, with all but the sign turned where that is set, are ordered as the numbers are. */
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

#include <string.h>

enum { LEAST = -0x7f81 }; /* minus infinity, ordered */

static inline int16_t ordered(int16_t bits) {
    return (int16_t)(bits ^ (bits >> 15 & 0x7fff));
}

static inline int16_t larger(int16_t a, int16_t b) {
    return a > b ? a : b;
}

/* Down the columns. */
static void join_rows(const struct mo_pool_params *p, const int16_t *x, int16_t *restrict line, int64_t y0) {
    const int64_t n = p->w * 16;
    int64_t lo, hi;
    mo_clip_taps(y0, p->kh, p->dh, p->h, &lo, &hi);
    for (int64_t i = 0; lo == hi && i < n; i++)
        line[i] = LEAST;
    for (int64_t k = lo; k < hi; k++) {
        const int16_t *row = x + (y0 + k * p->dh) * n;
        if (k == lo)
            for (int64_t i = 0; i < n; i++)
                line[i] = ordered(row[i]);
        else
            for (int64_t i = 0; i < n; i++)
                line[i] = larger(line[i], ordered(row[i]));
    }
}

static void join_line(const struct mo_pool_params *p, const int16_t *line, int16_t *y) {
    for (int64_t i = 0; i < p->ow; i++) {
        int16_t most[16], tap[16];
        int64_t x0 = i * p->sw - p->pl, lo, hi;
        for (int l = 0; l < 16; l++)
            most[l] = LEAST;
        mo_clip_taps(x0, p->kw, p->dw, p->w, &lo, &hi);
        for (int64_t k = lo; k < hi; k++) {
            memcpy(tap, line + (x0 + k * p->dw) * 16, sizeof tap);
            for (int l = 0; l < 16; l++)
                most[l] = larger(most[l], tap[l]);
        }
        for (int l = 0; l < 16; l++)
            most[l] = ordered(most[l]);
        memcpy(y + i * 16, most, sizeof most);
    }
}

static void mean(const struct mo_pool_params *p, const uint16_t *x, float y[16]) {
    const int64_t area = p->h * p->w;
    float sum[16] = {0};
    for (int64_t i = 0; i < area; i++)
        for (int l = 0; l < 16; l++) {
            const uint32_t bits = (uint32_t)x[i * 16 + l] << 16;
            float v;
            memcpy(&v, &bits, sizeof v);
            sum[l] += v;
        }
    for (int l = 0; l < 16; l++)
        y[l] = sum[l] / (float)area;
}

void MO_SIMD(pool_halves)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_pool_params *p = args->params;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit % p->oh, plane = unit / p->oh % p->planes, image = unit / p->oh / p->planes;
        const char *x = (const char *)args->in[0] + image * args->in_image[0] + plane * p->h * p->w * 32;
        char *y = (char *)args->out[0] + image * args->out_image[0];
        if (p->max) {
            join_rows(p, (const int16_t *)x, scratch, row * p->sh - p->pt);
            join_line(p, scratch, (int16_t *)(y + (plane * p->oh + row) * p->ow * 32));
            continue;
        }
        float all[16];
        int64_t valid = p->out_lanes == 16 || p->channels - plane * 16 >= 16 ? 16 : p->channels - plane * 16;
        mean(p, (const uint16_t *)x, all);
        memcpy(y + plane * 64, all, (size_t)valid * sizeof *all);
    }
}
