/* SPDX-License-Identifier: Apache-2.0
 * build.h - a compact builder of ONNX models with seeded weights; what every family of the zoo is written in.
 *
 * A value (struct mo_bv) is a tensor of the graph under construction: its name, channels and size, and the
 * builder's estimate of its mean square.  The estimate picks the scale of the weights, so that activations
 * stay O(1) however deep the network is: for a chain of Conv and Relu it gives exactly He's rule.
 *
 * Errors are sticky: after one, every call does nothing and mo_build_write() reports it.  All memory lives
 * in one region.  Weights are functions of (seed, order of creation) and nothing else. */
#ifndef MO_BUILD_H
#define MO_BUILD_H
#include <stdbool.h>
#include "onnx.pb-c.h"
#include "runtime/base/env.h"

struct mo_bv {
    const char *name;
    int64_t c, h,
        w;     /* per image: channels and size; h = w = 1 after flattening; c = features of a sequence */
    double ms; /* estimated mean square */
};

struct mo_blist {
    void **at;
    size_t n, cap;
};

struct mo_build {
    const struct mo_env *env;
    struct mo_region *region;
    const char *model;
    int64_t opset;
    uint64_t seed;
    int code; /* sticky: MOIRE_OK or the first error */
    int n_names, n_streams;
    struct mo_blist nodes, weights, inputs, outputs;
    bool count_only; /* weights get no storage */
    int64_t params;  /* trainable: running mean and variance of BatchNormalization are not counted */
    int64_t macs;    /* multiply-accumulates of Conv, Gemm and MatMul for one image or sequence */
};

int mo_build_start(const struct mo_env *env, const char *model, uint64_t seed, struct mo_build *out,
                   moire_error *err);
/* Writes the model under a temporary name beside `path`, then renames it; frees nothing. */
int mo_build_write(struct mo_build *b, const char *path, moire_error *err);
void mo_build_end(struct mo_build *b);

/* --- the core: nodes, tensors, attributes --- */

/* A fresh name "stem_17". */
const char *mo_b_name(struct mo_build *b, const char *stem);
/* Attributes of the node that was added last. */
void mo_b_int(struct mo_build *b, const char *name, int64_t value);
void mo_b_float(struct mo_build *b, const char *name, float value);
void mo_b_ints(struct mo_build *b, const char *name, const int64_t *values, int n);
/* Adds a node with one output (named after the operator) and returns the output's name. */
const char *mo_b_node(struct mo_build *b, const char *op, int n_in, const char *const *in);
/* The same for one, two and three inputs. */
const char *mo_b_op1(struct mo_build *b, const char *op, const char *x);
const char *mo_b_op2(struct mo_build *b, const char *op, const char *x, const char *y);
const char *mo_b_op3(struct mo_build *b, const char *op, const char *x, const char *y, const char *z);
/* One more output of the node that was added last. */
const char *mo_b_another_output(struct mo_build *b);
/* Normal weights (mean, deviation); `count` says whether they are parameters. */
const char *mo_b_normal(struct mo_build *b, const char *stem, const int64_t *dims, int rank, double mean,
                        double deviation);
/* Uniform in [low, high); not counted as parameters. */
const char *mo_b_uniform(struct mo_build *b, const char *stem, int64_t n, double low, double high);
/* Constant int64 vector (rank 1) or scalar (n = 0: one value, rank 0). */
const char *mo_b_i64(struct mo_build *b, const char *stem, const int64_t *values, int n);
const char *mo_b_f32(struct mo_build *b, const char *stem, float value); /* scalar */
/* Graph input / output; a dimension < 0 is symbolic: -1 "batch", -2 "sequence". */
void mo_b_input(struct mo_build *b, const char *name, moire_dtype dtype, const int64_t *dims, int rank);
/* Declares `value` a graph output called `name` (renames it). */
void mo_b_output(struct mo_build *b, const char *value, const char *name, moire_dtype dtype,
                 const int64_t *dims, int rank);
void mo_b_fail(struct mo_build *b, int code);

/* --- layers (layers.c) --- */
struct mo_conv_spec {
    int64_t out;
    int k, stride, pad; /* stride 0 = 1 */
    int pad_more;       /* added to the end of both spatial axes: TensorFlow's SAME with stride 2 */
    int64_t groups;     /* 0 = 1 */
    bool bias;
    double lean; /* mean of the weights: the output follows the level of the input, times this */
    double gain; /* wanted root mean square of the output; 0 = 1 */
};

struct mo_bv mo_b_image(struct mo_build *b, const char *name, int64_t c, int64_t h, int64_t w);
struct mo_bv mo_b_conv(struct mo_build *b, struct mo_bv x, struct mo_conv_spec spec);
/* BatchNormalization with plausible statistics; output has root mean square `gain`. */
struct mo_bv mo_b_bn(struct mo_build *b, struct mo_bv x, double gain);
struct mo_bv mo_b_relu(struct mo_build *b, struct mo_bv x);
struct mo_bv mo_b_relu6(struct mo_build *b, struct mo_bv x);
struct mo_bv mo_b_leaky(struct mo_build *b, struct mo_bv x, float alpha);
struct mo_bv mo_b_sigmoid(struct mo_build *b, struct mo_bv x);
struct mo_bv mo_b_tanh(struct mo_build *b, struct mo_bv x);
struct mo_bv mo_b_silu(struct mo_build *b, struct mo_bv x);
struct mo_bv mo_b_add(struct mo_build *b, struct mo_bv x, struct mo_bv y);
struct mo_bv mo_b_mul(struct mo_build *b, struct mo_bv x, struct mo_bv gate);
struct mo_bv mo_b_maxpool(struct mo_build *b, struct mo_bv x, int k, int stride, int pad, int pad_more,
                          bool ceil_mode);
struct mo_bv mo_b_avgpool(struct mo_build *b, struct mo_bv x, int k, int stride);
struct mo_bv mo_b_global_pool(struct mo_build *b, struct mo_bv x);
struct mo_bv mo_b_concat(struct mo_build *b, const struct mo_bv *x, int n); /* along channels */
struct mo_bv mo_b_flatten(struct mo_build *b, struct mo_bv x);
struct mo_bv mo_b_gemm(struct mo_build *b, struct mo_bv x, int64_t out);
/* Declares x (flattened: [batch, c]; else [batch, c, h, w]) an output. */
void mo_b_result(struct mo_build *b, struct mo_bv x, const char *name, bool flat);

/* conv (no bias) + BN + Relu, the most frequent unit */
struct mo_bv mo_b_conv_bn_relu(struct mo_build *b, struct mo_bv x, struct mo_conv_spec spec);
#endif
