/* SPDX-License-Identifier: Apache-2.0
 * lrn.c - local response normalization across channels, both layouts.
 * y = x / (bias + alpha * sum of squares over the window) ^ beta; beta = 3/4 takes two square roots. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static void normalize(const struct mo_lrn_params *p, const float *x, const float *sum, float *y, int64_t n) {
    if (p->beta == 0.75f) {
        for (int64_t i = 0; i < n; i++) {
            float d = p->bias + p->alpha * sum[i], root = sqrtf(d);
            y[i] = x[i] / (root * sqrtf(root));
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * powf(p->bias + p->alpha * sum[i], -p->beta);
}

/* One pixel, all its channels side by side: squares with zeros around them, then a sliding window. */
static void pixel(const struct mo_lrn_params *p, const float *x, float *y, int64_t blocks, float *squares) {
    int64_t padded = blocks * 16, pad = 16;
    float *sum = squares + padded + 2 * pad;
    for (int64_t b = 0; b < blocks; b++)
        for (int l = 0; l < 16; l++) {
            float v = x[b * p->area * 16 + l];
            squares[pad + b * 16 + l] = b * 16 + l < p->channels ? v * v : 0.0f;
        }
    for (int64_t c = 0; c < padded; c++)
        sum[c] = 0.0f;
    for (int64_t k = -p->before; k <= p->after; k++)
        for (int64_t c = 0; c < padded; c++)
            sum[c] += squares[pad + c + k];
    for (int64_t b = 0; b < blocks; b++) {
        normalize(p, x + b * p->area * 16, sum + b * 16, y + b * p->area * 16, 16);
        mo_clear_padding(&p->padding, y + b * p->area * 16, b * p->area * 16, 16);
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
        normalize(p, x + c * p->area, sum, y + c * p->area, n);
    }
}

void MO_SIMD(lrn)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_lrn_params *p = args->params;
    int64_t blocks = (p->channels + 15) / 16;
    float *work = scratch;
    for (int64_t i = 0; p->lanes == 16 && i < 16; i++)
        work[i] = work[16 + blocks * 16 + i] = 0.0f;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t image = unit / p->chunks, first = unit % p->chunks * p->chunk;
        int64_t n = p->area - first < p->chunk ? p->area - first : p->chunk;
        const float *x =
            (const float *)((const char *)args->in[0] + image * args->in_image[0]) + first * p->lanes;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + first * p->lanes;
        if (p->lanes == 1)
            plane_rows(p, x, y, n, work);
        else
            for (int64_t i = 0; i < n; i++)
                pixel(p, x + i * 16, y + i * 16, blocks, work);
    }
}
