/* SPDX-License-Identifier: Apache-2.0
 * window.c - sliding windows of convolution and pooling: kernel, strides, dilations, pads, output sizes.
 *
 * Every window is seen in three spatial dimensions; missing leading ones have size 1, so one loop nest
 * serves 1-D, 2-D and 3-D operators. */
#include <string.h>
#include "runtime/ops/util.h"

/* Attribute `name` of w->nd positive numbers into out (right-aligned); default 1. */
static int read_positive(const struct mo_op_ctx *ctx, const struct mo_window *w, const char *name,
                         int64_t *out) {
    int64_t v[8];
    int n = mo_attr_sizes(ctx, name, v, 8);
    if (n < 0) return n;
    if (n && n != w->nd)
        return mo_op_fail(ctx, MOIRE_EINVAL,
                          "attribute %s has %d numbers, the input has %d spatial dimensions", name, n, w->nd);
    for (int i = 0; i < n; i++) {
        if (v[i] < 1) return mo_op_fail(ctx, MOIRE_EINVAL, "attribute %s must be positive", name);
        out[3 - w->nd + i] = v[i];
    }
    return MOIRE_OK;
}

static int read_pads(const struct mo_op_ctx *ctx, struct mo_window *w) {
    int64_t v[16];
    int n = mo_attr_sizes(ctx, "pads", v, 16);
    if (n < 0) return n;
    if (n && n != 2 * w->nd)
        return mo_op_fail(ctx, MOIRE_EINVAL, "attribute pads has %d numbers, needs %d", n, 2 * w->nd);
    for (int i = 0; n && i < w->nd; i++) {
        if (v[i] < 0 || v[i + w->nd] < 0)
            return mo_op_fail(ctx, MOIRE_EINVAL, "attribute pads must not be negative");
        w->pad[3 - w->nd + i] = v[i];
        w->pad_end[3 - w->nd + i] = v[i + w->nd];
    }
    return MOIRE_OK;
}

/* Windows that fit, as ONNX computes them.  A pool over fewer elements than its window reaches has none, and
 * an output without elements, when the formula says 0; below that, and for convolutions, there is no answer.
 */
static int output_size(const struct mo_op_ctx *ctx, struct mo_window *w, int i, const char *auto_pad,
                       bool may_be_empty) {
    int64_t extent = (w->k[i] - 1) * w->dilation[i] + 1, stride = w->stride[i];
    bool upper = !strcmp(auto_pad, "SAME_UPPER");
    if (upper || !strcmp(auto_pad, "SAME_LOWER")) {
        w->out[i] = (w->in[i] + stride - 1) / stride;
        int64_t total = (w->out[i] - 1) * stride + extent - w->in[i];
        if (total < 0) total = 0;
        w->pad[i] = upper ? total / 2 : total - total / 2;
        w->pad_end[i] = total - w->pad[i];
        return MOIRE_OK;
    }
    int64_t room = w->in[i] + w->pad[i] + w->pad_end[i] - extent;
    bool ceil_mode = mo_attr_int(ctx->node, "ceil_mode", 0) != 0;
    int64_t short_of = room < 0 ? (-room + (ceil_mode ? 0 : stride - 1)) / stride : 0;
    if (short_of > 1 || (room < 0 && !may_be_empty))
        return mo_op_fail(ctx, MOIRE_ESHAPE, "the kernel is larger than the padded input");
    w->out[i] = room < 0 ? 1 - short_of : (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    /* a last window that would begin in the padding after the input does not count */
    if (ceil_mode && w->out[i] > 1 && (w->out[i] - 1) * stride >= w->in[i] + w->pad[i]) w->out[i]--;
    return MOIRE_OK;
}

int mo_window_init(const struct mo_op_ctx *ctx, const struct mo_shape *x, const int64_t *kernel,
                   struct mo_window *w) {
    *w = (struct mo_window){.nd = x->rank - 2};
    if (w->nd < 1 || w->nd > 3)
        return mo_op_fail(ctx, MOIRE_EUNSUPPORTED, "an input of rank %d is not supported, only 3 to 5",
                          x->rank);
    for (int i = 0; i < 3; i++)
        w->in[i] = w->k[i] = w->stride[i] = w->dilation[i] = 1;
    int first = 3 - w->nd, rc = MOIRE_OK;
    for (int i = 0; i < w->nd; i++)
        w->in[first + i] = x->d[2 + i];
    int64_t attr[8];
    int n = mo_attr_sizes(ctx, "kernel_shape", attr, 8);
    if (n < 0) return n;
    if (!kernel && !n) return mo_op_fail(ctx, MOIRE_EINVAL, "attribute kernel_shape is required");
    if (n && (rc = read_positive(ctx, w, "kernel_shape", w->k))) return rc;
    for (int i = 0; kernel && i < w->nd; i++) {
        if (n && attr[i] != kernel[i])
            return mo_op_fail(ctx, MOIRE_ESHAPE, "kernel_shape differs from the shape of the weights");
        if (kernel[i] < 1 || kernel[i] > INT32_MAX)
            return mo_op_fail(ctx, MOIRE_ESHAPE, "the weights have no elements");
        w->k[first + i] = kernel[i];
    }
    for (int i = 0; i < 3; i++)
        if (w->in[i] > INT32_MAX) return mo_op_fail(ctx, MOIRE_ELIMIT, "a spatial dimension is over 2^31");
    if ((rc = read_positive(ctx, w, "strides", w->stride))) return rc;
    if ((rc = read_positive(ctx, w, "dilations", w->dilation))) return rc;
    const char *auto_pad = mo_attr_string(ctx->node, "auto_pad", "NOTSET");
    if (strcmp(auto_pad, "NOTSET") && strcmp(auto_pad, "VALID") && strncmp(auto_pad, "SAME_", 5))
        return mo_op_fail(ctx, MOIRE_EINVAL, "attribute auto_pad has an unknown value");
    if (!strcmp(auto_pad, "NOTSET") && (rc = read_pads(ctx, w))) return rc;
    for (int i = 0; i < 3 && !rc; i++)
        rc = output_size(ctx, w, i, i < first ? "NOTSET" : auto_pad, !kernel);
    return rc;
}

struct mo_shape mo_window_shape(const struct mo_window *w, int64_t n, int64_t channels) {
    struct mo_shape s = {.rank = 2 + w->nd, .d = {n, channels}};
    for (int i = 0; i < w->nd; i++)
        s.d[2 + i] = w->out[3 - w->nd + i];
    return s;
}

void mo_window_range(const struct mo_window *w, int i, int64_t k, int64_t *lo, int64_t *hi) {
    /* in = out * stride + shift must lie in [0, in) */
    int64_t shift = k * w->dilation[i] - w->pad[i], stride = w->stride[i];
    int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    int64_t end = w->in[i] > shift ? (w->in[i] - shift + stride - 1) / stride : 0;
    *hi = end < w->out[i] ? end : w->out[i];
    *lo = first < *hi ? first : *hi;
}
