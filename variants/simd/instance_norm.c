/* SPDX-License-Identifier: Apache-2.0
 * instance_norm.c - instance normalization: every channel of an image by its own mean and variance. */
#include <math.h>
#include <string.h>
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

/* Sums of so many values at a time are floats; those of all of them are doubles. */
enum { STRIP = 1024, WIDE = 16 };

/* Sums over pixels of 16 lanes each, of what lies above `from`, or of its square. */
static inline __attribute__((always_inline)) void add_up(const float *x, int64_t pixels, const float *from,
                                                         const bool squares, double *total) {
    for (int64_t begin = 0; begin < pixels; begin += STRIP / WIDE) {
        const int64_t end = pixels - begin < STRIP / WIDE ? pixels : begin + STRIP / WIDE;
        float sum[WIDE] = {0}, base[WIDE];
        memcpy(base, from, sizeof base);
        for (int64_t i = begin; i < end; i++)
            for (int l = 0; l < WIDE; l++) {
                const float v = x[i * WIDE + l] - base[l];
                sum[l] += squares ? v * v : v;
            }
        for (int l = 0; l < WIDE; l++)
            total[l] += (double)sum[l];
    }
}

/* Blocks of 16 channels: a lane is a channel.  Lanes beyond the last have a scale and a shift of 0. */
static void run_block(const float *x, float *restrict y, int64_t pixels, float epsilon, const float *scale,
                      const float *shift) {
    float mean[WIDE] = {0}, by[WIDE], to[WIDE];
    memcpy(to, shift, sizeof to);
    double sum[WIDE] = {0}, squares[WIDE] = {0};
    add_up(x, pixels, mean, false, sum);
    for (int l = 0; l < WIDE; l++)
        mean[l] = (float)(sum[l] / (double)pixels);
    add_up(x, pixels, mean, true, squares);
    for (int l = 0; l < WIDE; l++)
        by[l] = scale[l] / sqrtf((float)(squares[l] / (double)pixels) + epsilon);
    for (int64_t i = 0; i < pixels * WIDE; i += WIDE)
        for (int l = 0; l < WIDE; l += LANES) {
            const vec above = *(const vec *)(x + i + l) - *(const vec *)(mean + l);
            *(vec *)(y + i + l) = above * *(const vec *)(by + l) + *(const vec *)(to + l);
        }
}

/* One channel: lanes are its neighbours, and the last few values are added one by one. */
static void run_row(const float *x, float *restrict y, int64_t n, float epsilon, float scale, float shift) {
    const int64_t pixels = n / WIDE;
    float base[WIDE] = {0};
    double sums[WIDE] = {0}, squares[WIDE] = {0}, sum = 0, square = 0;
    add_up(x, pixels, base, false, sums);
    for (int l = 0; l < WIDE; l++)
        sum += sums[l];
    for (int64_t i = pixels * WIDE; i < n; i++)
        sum += (double)x[i];
    const float mean = (float)(sum / (double)n);
    for (int l = 0; l < WIDE; l++)
        base[l] = mean;
    add_up(x, pixels, base, true, squares);
    for (int l = 0; l < WIDE; l++)
        square += squares[l];
    for (int64_t i = pixels * WIDE; i < n; i++)
        square += (double)((x[i] - mean) * (x[i] - mean));
    const float by = scale / sqrtf((float)(square / (double)n) + epsilon);
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * by + shift;
}

void MO_SIMD(instance)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_instance_params *p = args->params;
    const int64_t planes = (p->channels + p->lanes - 1) / p->lanes, n = p->area * p->lanes;
    const float *scale = args->in[1], *shift = args->in[2];
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / planes, plane = unit % planes, first = plane * p->lanes;
        const float *x = (const float *)((const char *)args->in[0] + image * args->in_image[0]) + plane * n;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + plane * n;
        float s[WIDE] = {0}, t[WIDE] = {0};
        for (int l = 0; l < p->lanes && first + l < p->channels; l++)
            s[l] = scale[first + l], t[l] = shift[first + l];
        if (p->lanes == 1)
            run_row(x, y, n, p->epsilon, *s, *t);
        else
            run_block(x, y, p->area, p->epsilon, s, t);
    }
}
