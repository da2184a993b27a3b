/* SPDX-License-Identifier: Apache-2.0
 * write_floats.c - sums of floats, 16 channels of a pixel at a time, to outputs; see variants/requant.h. */
#include "variants/simd/math.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

/* A NaN stays one: the bounds are the first operands. */
static inline __attribute__((always_inline)) void
bound_pixels(const float lo, const float hi, const bool residual_last, const float *sums, int64_t pixels,
             const char *residual, int64_t residual_pixel, char *y, int64_t y_pixel) {
    const vec_value low = lo - (vec_value){0}, high = hi - (vec_value){0};
    for (int64_t i = 0; i < pixels; i++)
        for (int part = 0; part < 16; part += LANES) {
            vec_value v = *(const vec *)(sums + i * 16 + part);
            vec_value r = (vec_value){0};
            if (residual) r = *(const vec *)(residual + i * residual_pixel + part * 4);
            if (!residual_last) v += r;
            v = vec_smaller(high, vec_larger(low, v));
            if (residual_last) v += r;
            *(vec *)(y + i * y_pixel + part * 4) = v;
        }
}

/* sums += residual, of the lanes that there are. */
static void add_pixels(float *sums, int64_t pixels, int lanes, const char *residual, int64_t residual_pixel) {
    for (int64_t i = 0; i < pixels; i++, sums += 16, residual += residual_pixel)
        if (lanes == 16)
            for (int part = 0; part < 16; part += LANES)
                *(vec *)(sums + part) += *(const vec *)(residual + part * 4);
        else
            for (int l = 0; l < lanes; l++)
                sums[l] += ((const float *)residual)[l];
}

static void copy_pixels(const float *sums, int64_t pixels, int lanes, char *y, int64_t y_pixel) {
    for (int64_t i = 0; i < pixels; i++, sums += 16, y += y_pixel)
        if (lanes == 16)
            for (int part = 0; part < 16; part += LANES)
                *(vec *)(y + part * 4) = *(const vec *)(sums + part);
        else
            memcpy(y, sums, (size_t)lanes * 4);
}

void MO_SIMD(write_floats)(const struct mo_fuse *fuse, float *sums, int64_t pixels, int lanes,
                           const char *residual, int64_t residual_pixel, char *y, int64_t y_pixel) {
    float lo, hi;
    if (mo_fuse_bounds(fuse, &lo, &hi) && lanes == 16) {
        if (fuse->residual_last)
            bound_pixels(lo, hi, true, sums, pixels, residual, residual_pixel, y, y_pixel);
        else
            bound_pixels(lo, hi, false, sums, pixels, residual, residual_pixel, y, y_pixel);
        return;
    }
    if (residual && !fuse->residual_last) add_pixels(sums, pixels, lanes, residual, residual_pixel);
    if (fuse->act != MO_ACT_NONE) activate_row(fuse->act, fuse->a, fuse->b, sums, sums, pixels * 16);
    if (residual && fuse->residual_last) add_pixels(sums, pixels, lanes, residual, residual_pixel);
    copy_pixels(sums, pixels, lanes, y, y_pixel);
}
