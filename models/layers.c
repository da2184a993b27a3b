/* SPDX-License-Identifier: Apache-2.0
 * layers.c - layers for the model builder: shapes, parameter and MAC counts, and the scale of weights.
 *
 * Every layer carries the estimated mean square of its output (struct mo_bv).  Conv and Gemm draw weights
 * with deviation gain / sqrt(fan_in * mean square of the input), which for Relu chains is He's rule; fan_in
 * counts only taps inside the image.  Pools and activations use the factor of a normal distribution. */
#include <math.h>
#include <string.h>
#include "models/build.h"

struct mo_bv mo_b_image(struct mo_build *b, const char *name, int64_t c, int64_t h, int64_t w) {
    mo_b_input(b, name, MOIRE_F32, (int64_t[]){-1, c, h, w}, 4);
    return (struct mo_bv){.name = name, .c = c, .h = h, .w = w, .ms = 1};
}

static int64_t out_size(int64_t in, int k, int stride, int pads) {
    return (in + pads - k) / stride + 1;
}

/* Share of a window's taps along one axis that fall inside the image, over all positions. */
static double inside(int64_t in, int64_t out, int k, int stride, int pad) {
    int64_t taps = 0;
    for (int64_t o = 0; o < out; o++)
        for (int i = 0; i < k; i++) {
            int64_t at = o * stride - pad + i;
            taps += at >= 0 && at < in;
        }
    return (double)taps / (double)(out * k);
}

struct mo_bv mo_b_conv(struct mo_build *b, struct mo_bv x, struct mo_conv_spec s) {
    int stride = s.stride ? s.stride : 1, end = s.pad + s.pad_more;
    int64_t groups = s.groups ? s.groups : 1;
    struct mo_bv y = {.c = s.out,
                      .h = out_size(x.h, s.k, stride, s.pad + end),
                      .w = out_size(x.w, s.k, stride, s.pad + end)};
    double gain = s.gain > 0 ? s.gain : 1;
    int64_t taps = x.c / groups * s.k * s.k;
    double fan_in =
        (double)taps * inside(x.h, y.h, s.k, stride, s.pad) * inside(x.w, y.w, s.k, stride, s.pad);
    y.ms = gain * gain + 0.25 * s.lean * s.lean;
    double lean = s.lean / (fan_in * sqrt(x.ms));
    const int64_t dims[] = {s.out, x.c / groups, s.k, s.k};
    const char *in[] = {x.name, mo_b_normal(b, "weight", dims, 4, lean, gain / sqrt(fan_in * x.ms)), NULL};
    if (s.bias) in[2] = mo_b_normal(b, "bias", &s.out, 1, 0, 0.05 * gain);
    y.name = mo_b_node(b, "Conv", s.bias ? 3 : 2, in);
    mo_b_ints(b, "dilations", (int64_t[]){1, 1}, 2);
    mo_b_int(b, "group", groups);
    mo_b_ints(b, "kernel_shape", (int64_t[]){s.k, s.k}, 2);
    mo_b_ints(b, "pads", (int64_t[]){s.pad, s.pad, end, end}, 4);
    mo_b_ints(b, "strides", (int64_t[]){stride, stride}, 2);
    b->macs += s.out * taps * y.h * y.w;
    return y;
}

struct mo_bv mo_b_bn(struct mo_build *b, struct mo_bv x, double gain) {
    double rms = sqrt(x.ms);
    const char *in[5] = {x.name};
    in[1] = mo_b_normal(b, "scale", &x.c, 1, gain, 0.1 * gain);
    in[2] = mo_b_normal(b, "shift", &x.c, 1, 0, 0.1 * gain);
    in[3] = mo_b_uniform(b, "running_mean", x.c, -0.2 * rms, 0.2 * rms);
    /* 1 / variance averages 1 / x.ms over this range */
    in[4] = mo_b_uniform(b, "running_var", x.c, 0.6 * 1.041 * x.ms, 1.4 * 1.041 * x.ms);
    x.name = mo_b_node(b, "BatchNormalization", 5, in);
    mo_b_float(b, "epsilon", 1e-5f);
    mo_b_float(b, "momentum", 0.9f);
    x.ms = gain * gain;
    return x;
}

static struct mo_bv pointwise(struct mo_build *b, const char *op, struct mo_bv x, double ms) {
    x.name = mo_b_op1(b, op, x.name);
    x.ms = ms;
    return x;
}

struct mo_bv mo_b_relu(struct mo_build *b, struct mo_bv x) {
    return pointwise(b, "Relu", x, 0.5 * x.ms);
}
struct mo_bv mo_b_sigmoid(struct mo_build *b, struct mo_bv x) {
    return pointwise(b, "Sigmoid", x, 0.25 + 0.04 * x.ms);
}
struct mo_bv mo_b_tanh(struct mo_build *b, struct mo_bv x) {
    return pointwise(b, "Tanh", x, x.ms / (1 + 1.5 * x.ms));
}
struct mo_bv mo_b_leaky(struct mo_build *b, struct mo_bv x, float alpha) {
    x = pointwise(b, "LeakyRelu", x, 0.5 * (1 + (double)(alpha * alpha)) * x.ms);
    mo_b_float(b, "alpha", alpha);
    return x;
}
struct mo_bv mo_b_relu6(struct mo_build *b, struct mo_bv x) {
    const char *low = mo_b_f32(b, "min", 0), *high = mo_b_f32(b, "max", 6);
    x.name = mo_b_op3(b, "Clip", x.name, low, high);
    x.ms *= 0.5;
    return x;
}
/* x sigmoid(x), as exporters write it: two nodes */
struct mo_bv mo_b_silu(struct mo_build *b, struct mo_bv x) {
    struct mo_bv gate = mo_b_sigmoid(b, x);
    x.name = mo_b_op2(b, "Mul", x.name, gate.name);
    x.ms *= 0.25 + 0.25 * x.ms / (1 + 1.36 * x.ms); /* x/2 when small, Relu when large */
    return x;
}
struct mo_bv mo_b_add(struct mo_build *b, struct mo_bv x, struct mo_bv y) {
    x.name = mo_b_op2(b, "Add", x.name, y.name);
    x.ms += y.ms;
    return x;
}
struct mo_bv mo_b_mul(struct mo_build *b, struct mo_bv x, struct mo_bv gate) {
    x.name = mo_b_op2(b, "Mul", x.name, gate.name);
    x.ms *= gate.ms;
    return x;
}

struct mo_bv mo_b_maxpool(struct mo_build *b, struct mo_bv x, int k, int stride, int pad, int pad_more,
                          bool ceil_mode) {
    int end = pad + pad_more, round_up = ceil_mode ? stride - 1 : 0;
    x.name = mo_b_op1(b, "MaxPool", x.name);
    mo_b_int(b, "ceil_mode", ceil_mode);
    mo_b_ints(b, "kernel_shape", (int64_t[]){k, k}, 2);
    mo_b_ints(b, "pads", (int64_t[]){pad, pad, end, end}, 4);
    mo_b_ints(b, "strides", (int64_t[]){stride, stride}, 2);
    x.h = out_size(x.h, k, stride, pad + end + round_up);
    x.w = out_size(x.w, k, stride, pad + end + round_up);
    x.ms *= k == 2 ? 1.8 : 2.4; /* the largest of k x k correlated values */
    return x;
}

struct mo_bv mo_b_avgpool(struct mo_build *b, struct mo_bv x, int k, int stride) {
    x.name = mo_b_op1(b, "AveragePool", x.name);
    mo_b_ints(b, "kernel_shape", (int64_t[]){k, k}, 2);
    mo_b_ints(b, "strides", (int64_t[]){stride, stride}, 2);
    x.h = out_size(x.h, k, stride, 0);
    x.w = out_size(x.w, k, stride, 0);
    x.ms *= 0.5;
    return x;
}

struct mo_bv mo_b_global_pool(struct mo_build *b, struct mo_bv x) {
    x.name = mo_b_op1(b, "GlobalAveragePool", x.name);
    x.h = x.w = 1;
    x.ms *= 0.5; /* the mean of rectified values stays, their spread goes */
    return x;
}

struct mo_bv mo_b_concat(struct mo_build *b, const struct mo_bv *x, int n) {
    const char *in[16];
    struct mo_bv y = x[0];
    y.c = 0;
    y.ms = 0;
    if (n > 16) {
        mo_b_fail(b, MOIRE_EINTERNAL);
        n = 16;
    }
    for (int i = 0; i < n; i++) {
        in[i] = x[i].name;
        y.c += x[i].c;
        y.ms += x[i].ms * (double)x[i].c;
    }
    y.ms /= (double)y.c;
    y.name = mo_b_node(b, "Concat", n, in);
    mo_b_int(b, "axis", 1);
    return y;
}

struct mo_bv mo_b_flatten(struct mo_build *b, struct mo_bv x) {
    x.name = mo_b_op1(b, "Flatten", x.name);
    mo_b_int(b, "axis", 1);
    x.c *= x.h * x.w;
    x.h = x.w = 1;
    return x;
}

struct mo_bv mo_b_gemm(struct mo_build *b, struct mo_bv x, int64_t out) {
    const int64_t dims[] = {out, x.c};
    const char *weight = mo_b_normal(b, "weight", dims, 2, 0, 1 / sqrt((double)x.c * x.ms));
    const char *bias = mo_b_normal(b, "bias", &out, 1, 0, 0.05);
    b->macs += out * x.c;
    x.name = mo_b_op3(b, "Gemm", x.name, weight, bias);
    mo_b_float(b, "alpha", 1);
    mo_b_float(b, "beta", 1);
    mo_b_int(b, "transB", 1);
    x.c = out;
    x.ms = 1;
    return x;
}

void mo_b_result(struct mo_build *b, struct mo_bv x, const char *name, bool flat) {
    mo_b_output(b, x.name, name, MOIRE_F32, (int64_t[]){-1, x.c, x.h, x.w}, flat ? 2 : 4);
}

struct mo_bv mo_b_conv_bn_relu(struct mo_build *b, struct mo_bv x, struct mo_conv_spec spec) {
    return mo_b_relu(b, mo_b_bn(b, mo_b_conv(b, x, spec), 1));
}
