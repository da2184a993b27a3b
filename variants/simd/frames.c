/* SPDX-License-Identifier: Apache-2.0
 * frames.c - moire.Frames: whole images of neighbouring frames are copied behind one another, or joined
 * number by number.  An image lies in one piece in both layouts, so that the loops need not know which it is.
 */
#include "variants/simd/math.h"
#include "variants/simd/params.h"
#include "variants/simd/simd.h"

static void gather(const struct mo_frames_params *p, const float *x, float *y, int64_t at, int64_t n) {
    const int64_t left = p->size - at, real = !x || left < 0 ? 0 : left < n ? left : n;
    if (real) memcpy(y + at, x + at, (size_t)real * sizeof *y);
    if (real < n) memset(y + at + real, 0, (size_t)(n - real) * sizeof *y);
    mo_clear_padding(&p->padding, y + at, at, real);
}

/* y = the larger, or the sum, of y and x; a NaN stays. */
static void join(const bool max, const float *restrict x, float *restrict y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] = max ? nan_most(y[i], x[i]) : y[i] + x[i];
}

static void join_frames(const struct mo_frames_params *p, const struct mo_kargs *args, int64_t clip,
                        int64_t o, float *y, int64_t at, int64_t n) {
    const bool max = p->window.mode == MO_FRAMES_MAX;
    int64_t taken = 0;
    for (int64_t k = 0; k < p->window.kernel; k++) {
        const int64_t from = o * p->window.stride + k * p->window.dilation - p->window.pad;
        if (from < 0 || from >= p->window.frames) continue;
        const float *x =
            (const float *)((const char *)args->in[0] + (clip * p->window.frames + from) * args->in_image[0]);
        if (!taken++)
            memcpy(y + at, x + at, (size_t)n * sizeof *y);
        else
            join(max, x + at, y + at, n);
    }
    for (int64_t i = 0; !max && i < n; i++)
        y[at + i] /= (float)taken;
    mo_clear_padding(&p->padding, y + at, at, n);
}

void MO_SIMD(frames)(const struct mo_kargs *args, int64_t begin, int64_t end, void *scratch) {
    const struct mo_frames_params *p = args->params;
    const struct mo_clip_window *w = &p->window;
    (void)scratch;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t k = unit % p->parts, o = unit / p->parts % w->out;
        const int64_t chunk = unit / p->parts / w->out % p->chunks,
                      clip = unit / p->parts / w->out / p->chunks;
        const int64_t at = chunk * MO_FRAMES_CHUNK, image = clip * w->out + o;
        const int64_t n = p->part - at < MO_FRAMES_CHUNK ? p->part - at : MO_FRAMES_CHUNK;
        float *y = (float *)((char *)args->out[0] + image * args->out_image[0]) + k * p->part;
        if (w->mode != MO_FRAMES_GATHER) {
            join_frames(p, args, clip, o, y, at, n);
            continue;
        }
        const int64_t from = o * w->stride + k * w->dilation - w->pad;
        const bool there = from >= 0 && from < w->frames;
        const char *x = (const char *)args->in[0] + (clip * w->frames + from) * args->in_image[0];
        gather(p, there ? (const float *)x : NULL, y, at, n);
    }
}
