/* SPDX-License-Identifier: Apache-2.0
 * conv.c - Conv and ConvTranspose, fp32, 1 to 3 spatial dimensions, with the fused epilogue.
 *
 * Loop order: image, output channel, input channel, kernel tap, row.  A tap contributes to a rectangle of
 * outputs; inside a row the update is one strided axpy, so padding costs nothing and needs no tests. */
#include <string.h>
#include "runtime/ops/util.h"

static int infer_conv(const struct mo_op_ctx *ctx) {
    int rc = mo_check_same(ctx, MO_TYPE(MOIRE_F32));
    if (rc || (rc = mo_check_rank(ctx, 0, 3, 5))) return rc;
    const struct mo_shape *x = &ctx->in[0].shape, *wt = &ctx->in[1].shape;
    int64_t group = mo_attr_int(ctx->node, "group", 1);
    if (wt->rank != x->rank)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "input has rank %d, weights have rank %d", x->rank, wt->rank);
    if (group < 1 || x->d[1] % group || x->d[1] / group != wt->d[1] || wt->d[0] % group)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "%lld input channels, weights %lldx%lld, %lld groups do not fit",
                          (long long)x->d[1], (long long)wt->d[0], (long long)wt->d[1], (long long)group);
    if (mo_given(ctx, 2) && mo_count(&ctx->in[2]) != wt->d[0])
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the bias does not have %lld elements", (long long)wt->d[0]);
    struct mo_window w;
    if ((rc = mo_window_init(ctx, x, wt->d + 2, &w))) return rc;
    struct mo_shape y = mo_window_shape(&w, x->d[0], wt->d[0]);
    return mo_set_out(ctx, 0, MOIRE_F32, &y);
}

static void axpy(float *y, const float *x, float a, int64_t n, int64_t y_step, int64_t x_step) {
    if (y_step == 1 && x_step == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] += a * x[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i * y_step] += a * x[i * x_step];
}

/* All taps of one kernel between one input plane and one output plane.  Conv gathers (y += w x); its
 * transpose scatters (x += w y): then `large` is the result.  `gate` multiplies the input. */
static void add_plane(const struct mo_window *w, float *out, const float *in, const float *weights,
                      float gate, bool transpose) {
    for (int64_t kd = 0; kd < w->k[0]; kd++)
        for (int64_t kh = 0; kh < w->k[1]; kh++)
            for (int64_t kw = 0; kw < w->k[2]; kw++) {
                float a = gate * weights[(kd * w->k[1] + kh) * w->k[2] + kw];
                int64_t lo[3], hi[3], tap[3] = {kd, kh, kw};
                for (int i = 0; i < 3; i++)
                    mo_window_range(w, i, tap[i], &lo[i], &hi[i]);
                for (int64_t d = lo[0]; d < hi[0]; d++)
                    for (int64_t h = lo[1]; h < hi[1]; h++) {
                        int64_t id = d * w->stride[0] + kd * w->dilation[0] - w->pad[0];
                        int64_t ih = h * w->stride[1] + kh * w->dilation[1] - w->pad[1];
                        int64_t iw = lo[2] * w->stride[2] + kw * w->dilation[2] - w->pad[2];
                        int64_t small = (d * w->out[1] + h) * w->out[2] + lo[2];
                        int64_t large = (id * w->in[1] + ih) * w->in[2] + iw;
                        if (hi[2] <= lo[2]) continue;
                        if (transpose)
                            axpy(out + large, in + small, a, hi[2] - lo[2], w->stride[2], 1);
                        else
                            axpy(out + small, in + large, a, hi[2] - lo[2], 1, w->stride[2]);
                    }
            }
}

static void fill_bias(const struct mo_op_ctx *ctx, float *y, int64_t channel, int64_t n) {
    float value = mo_given(ctx, 2) ? ((const float *)ctx->in[2].data)[channel] : 0;
    for (int64_t i = 0; i < n; i++)
        y[i] = value;
}

static int run_conv(const struct mo_op_ctx *ctx) {
    const struct mo_shape *xs = &ctx->in[0].shape, *ws = &ctx->in[1].shape, *ys = &ctx->out[0].shape;
    struct mo_window w;
    int rc = mo_window_init(ctx, xs, ws->d + 2, &w);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    const float *x = ctx->in[0].data, *weights = ctx->in[1].data;
    float *y = ctx->out[0].data;
    int64_t in_plane = mo_extent(xs, 2, xs->rank), out_plane = mo_extent(ys, 2, ys->rank);
    int64_t taps = mo_extent(ws, 2, ws->rank), group = mo_attr_int(ctx->node, "group", 1);
    int64_t per_group = ws->d[0] / group, ic_n = ws->d[1];
    const float *gate = ctx->node->fuse.gated ? ctx->in[MO_GATE_IN].data : NULL;
    for (int64_t n = 0; n < xs->d[0]; n++)
        for (int64_t oc = 0; oc < ws->d[0]; oc++) {
            float *out = y + (n * ws->d[0] + oc) * out_plane;
            int64_t first = n * xs->d[1] + oc / per_group * ic_n;
            fill_bias(ctx, out, oc, out_plane);
            for (int64_t ic = 0; ic < ic_n; ic++)
                add_plane(&w, out, x + (first + ic) * in_plane, weights + (oc * ic_n + ic) * taps,
                          gate ? gate[first + ic] : 1, false);
        }
    return mo_epilogue(ctx);
}

int mo_transpose_window(const struct mo_op_ctx *ctx, struct mo_window *w) {
    const struct mo_shape *x = &ctx->in[0].shape, *wt = &ctx->in[1].shape;
    int nd = x->rank - 2, first = 3 - nd;
    int64_t extra[8] = {0}, size[8] = {0};
    *w = (struct mo_window){.nd = nd};
    int n_extra = mo_attr_sizes(ctx, "output_padding", extra, 8),
        n_size = mo_attr_sizes(ctx, "output_shape", size, 8);
    if (n_extra < 0 || n_size < 0) return MOIRE_EINVAL;
    if ((n_extra && n_extra != nd) || (n_size && n_size != nd && n_size != nd + 2))
        return mo_op_fail(ctx, MOIRE_EINVAL, "output_padding or output_shape has the wrong number of values");
    const int64_t *sizes = size + (n_size == nd + 2 ? 2 : 0);
    const char *auto_pad = mo_attr_string(ctx->node, "auto_pad", "NOTSET");
    bool same = !strncmp(auto_pad, "SAME_", 5);
    /* strides, dilations and pads are read (and checked) as for a convolution over an input large enough */
    struct mo_shape any = {.rank = x->rank, .d = {1, 1, INT32_MAX, INT32_MAX, INT32_MAX}};
    int rc = mo_window_init(ctx, &any, wt->d + 2, w);
    if (rc) return rc;
    for (int i = first; i < 3; i++) {
        int64_t in = x->d[2 + i - first], extent = (w->k[i] - 1) * w->dilation[i] + 1;
        int64_t step = w->stride[i] > w->dilation[i] ? w->stride[i] : w->dilation[i];
        if (in < 1 || in > INT32_MAX)
            return mo_op_fail(ctx, MOIRE_ESHAPE, "a spatial dimension is out of range");
        if (extra[i - first] < 0 || extra[i - first] >= step)
            return mo_op_fail(ctx, MOIRE_EINVAL,
                              "output_padding must be from 0 to less than the stride or the dilation");
        int64_t full = (in - 1) * w->stride[i] + extent + extra[i - first];
        int64_t want = n_size ? sizes[i - first]
                       : same ? in * w->stride[i]
                              : full - w->pad[i] - w->pad_end[i];
        if (n_size || same) { /* pads follow from the wanted size; below 0 they add zeros, split alike */
            int64_t total = full - want, half = (total - (total < 0)) / 2;
            w->pad[i] = !strcmp(auto_pad, "SAME_UPPER") ? half : total - half;
        }
        if (want < 1) return mo_op_fail(ctx, MOIRE_ESHAPE, "the output would be empty");
        w->in[i] = want;
        w->out[i] = in;
    }
    for (int i = 0; i < first; i++)
        w->in[i] = w->out[i] = 1;
    return MOIRE_OK;
}

static int infer_transpose(const struct mo_op_ctx *ctx) {
    int rc = mo_check_same(ctx, MO_TYPE(MOIRE_F32));
    if (rc || (rc = mo_check_rank(ctx, 0, 3, 5))) return rc;
    const struct mo_shape *x = &ctx->in[0].shape, *wt = &ctx->in[1].shape;
    int64_t group = mo_attr_int(ctx->node, "group", 1), channels;
    if (wt->rank != x->rank || group < 1 || wt->d[0] != x->d[1] || x->d[1] % group ||
        __builtin_mul_overflow(wt->d[1], group, &channels))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "weights and groups do not fit the input");
    if (mo_given(ctx, 2) && mo_count(&ctx->in[2]) != channels)
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the bias does not have %lld elements", (long long)channels);
    struct mo_window w;
    if ((rc = mo_transpose_window(ctx, &w))) return rc;
    struct mo_shape y = {.rank = x->rank, .d = {x->d[0], channels}};
    for (int i = 0; i < w.nd; i++)
        y.d[2 + i] = w.in[3 - w.nd + i];
    return mo_set_out(ctx, 0, MOIRE_F32, &y);
}

static int run_transpose(const struct mo_op_ctx *ctx) {
    const struct mo_shape *xs = &ctx->in[0].shape, *ws = &ctx->in[1].shape, *ys = &ctx->out[0].shape;
    struct mo_window w;
    int rc = mo_transpose_window(ctx, &w);
    if (rc || !mo_wanted(ctx, 0)) return rc;
    const float *x = ctx->in[0].data, *weights = ctx->in[1].data;
    float *y = ctx->out[0].data;
    int64_t in_plane = mo_extent(xs, 2, xs->rank), out_plane = mo_extent(ys, 2, ys->rank);
    int64_t taps = mo_extent(ws, 2, ws->rank), group = mo_attr_int(ctx->node, "group", 1);
    int64_t oc_n = ws->d[1], ic_n = xs->d[1] / group;
    for (int64_t n = 0; n < xs->d[0]; n++)
        for (int64_t oc = 0; oc < oc_n * group; oc++) {
            float *out = y + (n * oc_n * group + oc) * out_plane;
            fill_bias(ctx, out, oc, out_plane);
            for (int64_t c = 0; c < ic_n; c++) {
                int64_t ic = oc / oc_n * ic_n + c;
                add_plane(&w, out, x + (n * xs->d[1] + ic) * in_plane,
                          weights + (ic * oc_n + oc % oc_n) * taps, 1, true);
            }
        }
    return mo_epilogue(ctx);
}

const struct mo_op mo_ops_conv[] = {
    {"Conv", "", 1, 2, 3, 1, 1, infer_conv, run_conv, 0},
    {"ConvTranspose", "", 1, 2, 3, 1, 1, infer_transpose, run_transpose, 0},
    {0},
};
