/* SPDX-License-Identifier: Apache-2.0
 * deconv.c - transposed convolution, MO_C16 in and out.
 *
 * In gather form: output (oy, ox) sums the taps (i, j) for which oy + pt - i dh is a multiple of the stride.
 * Outputs sw apart share their taps, so a run of them is one register tile: 16 channels x several pixels. */
#include "variants/simd/gemm.h"
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

/* A run that fills the registers, and the part of which shorter ones have one or two. */
enum { RUN = LANES == 16 ? 12 : LANES == 8 ? 6 : 3, PART = RUN / 3 };

struct strip {
    const struct mo_deconv_params *p;
    const float *x, *w; /* image, weights of the output block */
    float *y;           /* row of the output block */
    int64_t oy, phase;  /* outputs phase, phase + sw, ... */
};

/* acc += one input channel of n neighbouring pixels (16 floats apart) times its 16 weights. */
static inline __attribute__((always_inline)) void channel(vec (*acc)[PANEL_VECTORS], const float *x,
                                                          const float *w, const int n) {
    vec wv[PANEL_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < PANEL_VECTORS; v++)
        wv[v] = *(const vec *)(w + v * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < n; i++) {
        const vec xv = x[i * 16] - (vec){0};
#pragma GCC unroll 4
        for (int v = 0; v < PANEL_VECTORS; v++)
            acc[i][v] += wv[v] * xv;
    }
}

/* acc += taps of one (i, j): n pixels from column ix on, all input channels. */
static inline __attribute__((always_inline)) void tap(const struct strip *s, vec (*acc)[PANEL_VECTORS],
                                                      int64_t iy, int64_t ix, const float *w, const int n) {
    const struct mo_deconv_params *p = s->p;
    for (int64_t b = 0; b < p->blocks_in; b++) {
        const float *x = s->x + ((b * p->h + iy) * p->w + ix) * 16;
        for (int c = 0; c < 16; c++, w += 16)
            channel(acc, x + c, w, n);
    }
}

/* `n` outputs from index `at` of the phase on; `n` is a constant of each call. */
static inline __attribute__((always_inline)) void outputs(const struct strip *s, const float *bias,
                                                          int64_t at, const int n) {
    const struct mo_deconv_params *p = s->p;
    vec acc[RUN][PANEL_VECTORS];
    for (int i = 0; i < n; i++)
        for (int v = 0; v < PANEL_VECTORS; v++)
            acc[i][v] = *(const vec *)(bias + v * LANES);
    for (int64_t i = 0; i < p->kh; i++) {
        int64_t ty = s->oy + p->pt - i * p->dh;
        if (ty < 0 || ty % p->sh || ty / p->sh >= p->h) continue;
        for (int64_t j = 0; j < p->kw; j++) {
            int64_t tx = s->phase + p->pl - j * p->dw;
            if (tx % p->sw) continue;
            int64_t ix = tx / p->sw + at;
            const float *w = s->w + (i * p->kw + j) * p->blocks_in * 256;
            if (n == 1 && (ix < 0 || ix >= p->w)) continue;
            tap(s, acc, ty / p->sh, ix, w, n);
        }
    }
    for (int i = 0; i < n; i++)
        for (int v = 0; v < PANEL_VECTORS; v++)
            *(vec *)(s->y + (s->phase + (at + i) * p->sw) * 16 + v * LANES) = acc[i][v];
}

/* Indices of the phase for which every tap of the row lies inside the input: [*lo, *hi). */
static void safe_range(const struct strip *s, int64_t count, int64_t *lo, int64_t *hi) {
    const struct mo_deconv_params *p = s->p;
    *lo = 0;
    *hi = count;
    for (int64_t j = 0; j < p->kw; j++) {
        int64_t tx = s->phase + p->pl - j * p->dw;
        if (tx % p->sw) continue;
        int64_t shift = tx / p->sw;
        if (-shift > *lo) *lo = -shift;
        if (p->w - shift < *hi) *hi = p->w - shift;
    }
    if (*lo > count) *lo = count;
    if (*hi < *lo) *hi = *lo;
}

/* Outputs [from, to), all taps of which lie inside.  They are shared evenly among as few runs as there must
 * be; the last begins early where it is longer than what is left, and computes some again. */
static void inside(const struct strip *s, const float *bias, int64_t from, int64_t to) {
    for (int64_t at = from; at < to;) {
        const int64_t left = to - at, runs = (left + RUN - 1) / RUN, even = (left + runs - 1) / runs;
        int64_t n = (even + PART - 1) / PART * PART;
        if (n > left && to - n >= from)
            at = to - n;
        else if (n > left)
            n = left / PART * PART;
        if (n == RUN)
            outputs(s, bias, at, RUN);
        else if (n == 2 * PART)
            outputs(s, bias, at, 2 * PART);
        else if (n == PART)
            outputs(s, bias, at, PART);
        else
            outputs(s, bias, at, 1);
        at += n ? n : 1;
    }
}

void MO_SIMD(deconv)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_deconv_params *p = args->params;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t oy = unit % p->oh, block = unit / p->oh % p->blocks_out, image = unit / p->oh / p->blocks_out;
        struct strip s = {.p = p, .oy = oy};
        s.x = (const float *)((const char *)args->in[0] + image * args->in_image[0]);
        s.w = (const float *)args->weights + block * p->kh * p->kw * p->blocks_in * 256;
        s.y =
            (float *)((char *)args->out[0] + image * args->out_image[0]) + (block * p->oh + oy) * p->ow * 16;
        for (s.phase = 0; s.phase < p->sw && s.phase < p->ow; s.phase++) {
            int64_t count = (p->ow - s.phase + p->sw - 1) / p->sw, lo, hi, at = 0;
            safe_range(&s, count, &lo, &hi);
            for (; at < lo; at++)
                outputs(&s, args->bias + block * 16, at, 1);
            inside(&s, args->bias + block * 16, lo, hi);
            for (at = hi; at < count; at++)
                outputs(&s, args->bias + block * 16, at, 1);
        }
        const char *residual =
            args->residual ? (const char *)args->residual + image * args->residual_image : NULL;
        finish_row(&p->fuse, residual ? (const float *)residual + (block * p->oh + oy) * p->ow * 16 : NULL,
                   s.y, p->ow * 16);
    }
}

/* `n` pixels of one input row from column ix on: all results of a pixel side by side. */
static inline __attribute__((always_inline)) void narrow_pixels(const struct mo_narrow_params *p,
                                                                const float *x, const float *w,
                                                                const float *bias, float (*to)[16],
                                                                const int n) {
    vec acc[RUN][PANEL_VECTORS];
    for (int i = 0; i < n; i++)
        for (int v = 0; v < PANEL_VECTORS; v++)
            acc[i][v] = *(const vec *)(bias + v * LANES);
    for (int64_t b = 0; b < p->blocks_in; b++, x += p->h * p->w * 16)
        for (int c = 0; c < 16; c++, w += 16)
            channel(acc, x + c, w, n);
    for (int i = 0; i < n; i++)
        for (int v = 0; v < PANEL_VECTORS; v++)
            *(vec *)(to[i] + v * LANES) = acc[i][v];
}

void MO_SIMD(deconv_narrow)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_narrow_params *p = args->params;
    int64_t ow = p->w * p->kw, plane = p->h * p->kh * ow;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t image = unit / p->h, row = unit % p->h;
        const float *x =
            (const float *)((const char *)args->in[0] + image * args->in_image[0]) + row * p->w * 16;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + row * p->kh * ow;
        for (int64_t ix = 0; ix < p->w;) {
            float to[RUN][16];
            int n = p->w - ix >= RUN ? RUN : 1;
            if (n == RUN)
                narrow_pixels(p, x + ix * 16, args->weights, args->bias, to, RUN);
            else
                narrow_pixels(p, x + ix * 16, args->weights, args->bias, to, 1);
            for (int lane = 0; lane < p->channels * p->kh * p->kw; lane++) {
                int64_t j = lane % p->kw, i = lane / p->kw % p->kh, c = lane / p->kw / p->kh;
                float *line = y + c * plane + i * ow + ix * p->kw + j;
                for (int k = 0; k < n; k++)
                    line[k * p->kw] = to[k][lane];
            }
            ix += n;
        }
        for (int c = 0; c < p->channels; c++)
            finish_row(&p->fuse, NULL, y + c * plane, p->kh * ow);
    }
}
