/* SPDX-License-Identifier: Apache-2.0
 * frames.c - the reference of moire.Frames; see frames.h. */
#include "runtime/ops/moire/frames.h"
#include <math.h>
#include <string.h>
#include "runtime/ops/util.h"

static const int64_t MOST = 1 << 24; /* of any number of a window: products of two are far from 2^63 */

int64_t mo_frames_source(const struct mo_clip_window *f, int64_t o, int64_t k) {
    const int64_t at = o * f->stride + k * f->dilation - f->pad;
    return at >= 0 && at < f->frames ? at : -1;
}

static bool meets_a_frame(const struct mo_clip_window *f, int64_t o) {
    const int64_t at = o * f->stride - f->pad;
    const int64_t first = at < 0 ? (-at + f->dilation - 1) / f->dilation : 0;
    return first < f->kernel && at + first * f->dilation < f->frames;
}

bool mo_frames_fit(const struct mo_clip_window *f, const struct mo_shape *x) {
    const int64_t positive[] = {f->frames, f->kernel, f->stride, f->dilation, f->out, f->channels};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (positive[i] < 1 || positive[i] > MOST) return false;
    if (f->pad < -MOST || f->pad > MOST || f->mode < 0 || f->mode >= MO_FRAMES_MODES) return false;
    if (x->rank != 4 || x->d[0] % f->frames || f->channels < x->d[1]) return false;
    const struct mo_shape y = mo_frames_shape(f, x);
    if (mo_shape_count(&y) < 0) return false;
    for (int64_t o = 0; f->mode != MO_FRAMES_GATHER && o < f->out; o++)
        if (!meets_a_frame(f, o)) return false;
    return true;
}

bool mo_frames_of(const struct mo_node *node, const struct mo_shape *x, struct mo_clip_window *out) {
    int64_t v[MO_FRAMES_NUMBERS];
    if (mo_attr_ints(node, "window", v, MO_FRAMES_NUMBERS) != MO_FRAMES_NUMBERS) return false;
    *out = (struct mo_clip_window){.mode = v[0],
                                   .frames = v[1],
                                   .kernel = v[2],
                                   .stride = v[3],
                                   .dilation = v[4],
                                   .pad = v[5],
                                   .out = v[6],
                                   .channels = v[7]};
    return mo_frames_fit(out, x);
}

struct mo_shape mo_frames_shape(const struct mo_clip_window *f, const struct mo_shape *x) {
    struct mo_shape y = *x;
    y.d[0] = x->d[0] / f->frames * f->out;
    if (f->mode == MO_FRAMES_GATHER) y.d[1] = f->kernel * f->channels;
    return y;
}

static int infer(const struct mo_op_ctx *ctx) {
    struct mo_clip_window f;
    int rc = mo_check_type(ctx, 0, MO_TYPE(MOIRE_F32));
    if (!rc) rc = mo_check_rank(ctx, 0, 4, 4);
    if (rc) return rc;
    if (!mo_frames_of(ctx->node, &ctx->in[0].shape, &f))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the window does not fit the images");
    const struct mo_shape y = mo_frames_shape(&f, &ctx->in[0].shape);
    return mo_set_out(ctx, 0, MOIRE_F32, &y);
}

/* Output image o of the clip at x; an image has `size` numbers. */
static void gather(const struct mo_clip_window *f, const float *x, int64_t o, int64_t size, int64_t padded,
                   float *y) {
    for (int64_t k = 0; k < f->kernel; k++, y += padded) {
        const int64_t from = mo_frames_source(f, o, k);
        memset(y, 0, (size_t)padded * sizeof *y);
        if (from >= 0) memcpy(y, x + from * size, (size_t)size * sizeof *y);
    }
}

static float join(const struct mo_clip_window *f, const float *x, int64_t o, int64_t size) {
    const bool max = f->mode == MO_FRAMES_MAX;
    double value = max ? -INFINITY : 0;
    int64_t n = 0;
    for (int64_t k = 0; k < f->kernel; k++) {
        const int64_t from = mo_frames_source(f, o, k);
        if (from < 0) continue;
        const double v = x[from * size];
        n++;
        if (!max)
            value += v;
        else if (v > value || isnan(v))
            value = v;
    }
    return (float)(max ? value : value / (double)n);
}

static int run(const struct mo_op_ctx *ctx) {
    const struct mo_shape *s = &ctx->in[0].shape;
    struct mo_clip_window f;
    if (!mo_frames_of(ctx->node, s, &f)) return mo_op_fail(ctx, MOIRE_EINTERNAL, "the window does not fit");
    if (!mo_wanted(ctx, 0)) return MOIRE_OK;
    const int64_t size = mo_extent(s, 1, 4), padded = f.channels * s->d[2] * s->d[3];
    const int64_t image = f.mode == MO_FRAMES_GATHER ? f.kernel * padded : size;
    float *y = ctx->out[0].data;
    for (int64_t i = 0; i < s->d[0] / f.frames * f.out; i++, y += image) {
        const float *x = (const float *)ctx->in[0].data + i / f.out * f.frames * size;
        if (f.mode == MO_FRAMES_GATHER)
            gather(&f, x, i % f.out, size, padded, y);
        else
            for (int64_t at = 0; at < size; at++)
                y[at] = join(&f, x + at, i % f.out, size);
    }
    return MOIRE_OK;
}

const struct mo_op mo_ops_frames[] = {
    {"Frames", "moire", 1, 1, 1, 1, 1, infer, run, 0},
    {0},
};
