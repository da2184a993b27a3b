/* SPDX-License-Identifier: Apache-2.0
 * lrn.c - local response normalization across channels, both layouts.
 * y = x / (bias + alpha * sum of squares over the window) ^ beta; beta = 3/4 takes two square roots. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"
#include "variants/simd/vec.h"

/* What an element is divided by. */
static inline __attribute__((always_inline)) float divisor_at(const struct mo_lrn_params *p, float sum) {
    const float d = p->bias + p->alpha * sum, root = sqrtf(d);
    return root * sqrtf(root);
}

/* 16 elements; y may be x. */
static void normalize(const struct mo_lrn_params *p, const float *x, const float *sum, float *y) {
    float by[16];
    if (p->beta == 0.75f)
        for (int i = 0; i < 16; i++)
            by[i] = divisor_at(p, sum[i]);
    else
        for (int i = 0; i < 16; i++)
            by[i] = powf(p->bias + p->alpha * sum[i], p->beta);
    for (int v = 0; v < 16; v += LANES)
        *(vec *)(y + v) = *(const vec *)(x + v) / *(const vec *)(by + v);
}

static void normalize_row(const struct mo_lrn_params *p, const float *x, const float *sum, float *y,
                          int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        normalize(p, x + i, sum + i, y + i);
    for (; i < n; i++)
        y[i] = x[i] / (p->beta == 0.75f ? divisor_at(p, sum[i]) : powf(p->bias + p->alpha * sum[i], p->beta));
}

/* The squares of a pixel's channels, side by side, between zeros. */
static void square_pixel(const struct mo_lrn_params *p, const float *x, int64_t blocks, float *squares) {
    for (int64_t b = 0; b < blocks; b++)
        for (int l = 0; l < 16; l++) {
            const float v = x[b * p->area * 16 + l];
            squares[b * 16 + l] = b * 16 + l < p->channels ? v * v : 0.0f;
        }
}

/* A sliding window over them. */
static void pixel(const struct mo_lrn_params *p, const float *x, float *y, int64_t blocks,
                  const float *squares) {
    for (int64_t b = 0; b < blocks; b++) {
        float sum[16];
        for (int v = 0; v < 16; v += LANES) {
            vec s = {0};
            for (int64_t k = -p->before; k <= p->after; k++)
                s += *(const vec *)(squares + b * 16 + v + k);
            *(vec *)(sum + v) = s;
        }
        normalize(p, x + b * p->area * 16, sum, y + b * p->area * 16);
        mo_clear_padding(&p->padding, y + b * p->area * 16, b * p->area * 16, 16);
    }
}

/* Several pixels at a time: a window is read across two stores, and would wait for them. */
static void pixels(const struct mo_lrn_params *p, const float *x, float *y, int64_t n, float *squares) {
    const int64_t blocks = (p->channels + 15) / 16, step = blocks * 16 + 16;
    for (int64_t i = 0; i < n; i += MO_LRN_PIXELS) {
        const int64_t count = n - i < MO_LRN_PIXELS ? n - i : MO_LRN_PIXELS;
        for (int64_t k = 0; k < count; k++)
            square_pixel(p, x + (i + k) * 16, blocks, squares + 16 + k * step);
        for (int64_t k = 0; k < count; k++)
            pixel(p, x + (i + k) * 16, y + (i + k) * 16, blocks, squares + 16 + k * step);
    }
}

static void plane_rows(const struct mo_lrn_params *p, const float *x, float *y, int64_t n, float *sum) {
    for (int64_t c = 0; c < p->channels; c++) {
        int64_t first = c < p->before ? 0 : c - p->before;
        int64_t last = c + p->after < p->channels ? c + p->after : p->channels - 1;
        for (int64_t i = 0; i < n; i++)
            sum[i] = 0.0f;
        for (int64_t k = first; k <= last; k++)
            for (int64_t i = 0; i < n; i++)
                sum[i] += x[k * p->area + i] * x[k * p->area + i];
        normalize_row(p, x + c * p->area, sum, y + c * p->area, n);
    }
}

void MO_SIMD(lrn)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_lrn_params *p = args->params;
    float *work = scratch;
    if (p->lanes == 16)
        memset(work, 0, (size_t)(16 + MO_LRN_PIXELS * ((p->channels + 15) / 16 * 16 + 16)) * 4);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t image = unit / p->chunks, first = unit % p->chunks * p->chunk;
        int64_t n = p->area - first < p->chunk ? p->area - first : p->chunk;
        const float *x =
            (const float *)((const char *)args->in[0] + image * args->in_image[0]) + first * p->lanes;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + first * p->lanes;
        if (p->lanes == 1)
            plane_rows(p, x, y, n, work);
        else
            pixels(p, x, y, n, work);
    }
}
