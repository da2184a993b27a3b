/* SPDX-License-Identifier: Apache-2.0
 * unary.c - elementwise functions of one tensor, and standalone batch normalization. */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static void apply(const struct mo_unary_params *p, const float *x, float *y, int64_t n) {
    switch (p->function) {
    case MO_UNARY_EXP:
        for (int64_t i = 0; i < n; i++)
            y[i] = full_exp(x[i]);
        return;
    case MO_UNARY_ERF:
        for (int64_t i = 0; i < n; i++)
            y[i] = fast_erf(x[i]);
        return;
    case MO_UNARY_ABS:
        for (int64_t i = 0; i < n; i++)
            y[i] = fabsf(x[i]);
        return;
    case MO_UNARY_NEG:
        for (int64_t i = 0; i < n; i++)
            y[i] = -x[i];
        return;
    case MO_UNARY_SQRT:
        for (int64_t i = 0; i < n; i++)
            y[i] = sqrtf(x[i]);
        return;
    case MO_UNARY_RECIPROCAL:
        for (int64_t i = 0; i < n; i++)
            y[i] = 1.0f / x[i];
        return;
    case MO_UNARY_COPY:
        memmove(y, x, (size_t)n * sizeof *y);
        return;
    default:
        activate_row((enum mo_act)p->function, p->a, p->b, x, y, n);
    }
}

void MO_SIMD(unary)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_unary_params *p = args->params;
    (void)scratch;
    while (begin < end) {
        int64_t image = begin / p->chunks, at = begin % p->chunks;
        int64_t stop = end - begin < p->chunks - at ? at + (end - begin) : p->chunks;
        int64_t first = at * MO_CHUNK, last = stop * MO_CHUNK < p->count ? stop * MO_CHUNK : p->count;
        const float *x = (const float *)((const char *)args->in[0] + image * args->in_image[0]);
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]);
        apply(p, x + first, y + first, last - first);
        mo_clear_padding(&p->padding, y + first, first, last - first);
        begin += stop - at;
    }
}

void MO_SIMD(affine)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_affine_params *p = args->params;
    int64_t planes = (p->channels + p->lanes - 1) / p->lanes, n = p->area * p->lanes;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t image = unit / planes, plane = unit % planes;
        const float *x = (const float *)((const char *)args->in[0] + image * args->in_image[0]) + plane * n;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + plane * n;
        const float *scale = p->scale + plane * p->lanes, *shift = p->shift + plane * p->lanes;
        if (p->lanes == 1) {
            const float s = *scale, t = *shift;
            for (int64_t i = 0; i < n; i++)
                y[i] = x[i] * s + t;
        } else {
            for (int64_t i = 0; i < p->area; i++)
                for (int l = 0; l < 16; l++)
                    y[i * 16 + l] = x[i * 16 + l] * scale[l] + shift[l];
        }
        finish_row(&p->fuse, NULL, y, n);
    }
}
