/* SPDX-License-Identifier: Apache-2.0
 * test_passes.c - graph passes: what a small model becomes, and that it still computes the same.
 *
 * Every case is run as imported by the references, and after the passes by the references and by the
 * built-in kernels, for one image and for three; the layers after the passes are compared as text. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "codegen/frontend.h"
#include "tests/unit/codegen/ways_case.h"
#include "tools/moire/inspect/inspect.h"

/* --- models -------------------------------------------------------------------------------------------- */

static void conv_bn_relu(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,9,9");
    ob_random(b, "w", "20,3,3,3");
    ob_node(b, "Conv", "x w", "a");
    ob_ints(b, "strides", "2,2");
    ob_batch_norm(b, "a", "c", "20");
    ob_node(b, "Relu", "c", "y");
    ob_output(b, "y");
}

/* Two convs and an add: the later conv takes it; then ReLU. */
static void residual(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,16,6,6");
    ob_random(b, "w1", "16,16,3,3");
    ob_random(b, "w2", "16,16,1,1");
    ob_node(b, "Conv", "x w1", "a");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Relu", "a", "a2");
    ob_node(b, "Conv", "a2 w2", "c");
    ob_node(b, "Add", "x c", "d");
    ob_node(b, "Relu", "d", "y");
    ob_output(b, "y");
}

static void residual_after_activation(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,16,5,5");
    ob_random(b, "w", "16,16,1,1");
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "LeakyRelu", "a", "c");
    ob_node(b, "Sum", "c x", "d");
    ob_node(b, "Relu", "d", "y");
    ob_output(b, "y");
}

/* The conv's result is read twice: nothing may be fused into it. */
static void shared_result(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,4,4");
    ob_random(b, "w", "5,3,1,1");
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "Relu", "a", "y");
    ob_output(b, "a");
    ob_output(b, "y");
}

static void transposed_conv(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,4,5,5");
    ob_random(b, "w", "4,3,2,2");
    ob_node(b, "ConvTranspose", "x w", "a");
    ob_ints(b, "strides", "2,2");
    ob_int(b, "group", 2);
    ob_batch_norm(b, "a", "c", "6");
    ob_node(b, "Sigmoid", "c", "y");
    ob_output(b, "y");
}

static void lone_batch_norm(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,18,4,4");
    ob_batch_norm(b, "x", "a", "18");
    ob_node(b, "Relu", "a", "y");
    ob_output(b, "y");
}

static void gemm(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,6,2,1");
    ob_random(b, "w", "7,12");
    ob_random(b, "c", "7");
    ob_random(b, "s", "7");
    ob_node(b, "Flatten", "x", "f");
    ob_node(b, "Gemm", "f w c", "a");
    ob_int(b, "transB", 1);
    ob_float(b, "alpha", 0.5f);
    ob_float(b, "beta", 2.0f);
    ob_node(b, "Mul", "a s", "d");
    ob_node(b, "Tanh", "d", "y");
    ob_output(b, "y");
}

static void matmul_bias(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,5,8");
    ob_random(b, "w", "8,8");
    ob_random(b, "c", "8");
    ob_node(b, "MatMul", "x w", "a");
    ob_node(b, "Add", "c a", "d");
    ob_node(b, "Add", "d x", "y");
    ob_output(b, "y");
}

/* x * clip(x + 3, 0, 6) / 6, multiplied in the order that PaddlePaddle exports */
static void hard_swish_product(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,4,4");
    ob_random(b, "w", "8,3,1,1");
    ob_scalar(b, "three", 3);
    ob_scalar(b, "zero", 0);
    ob_scalar(b, "six", 6);
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "Add", "a three", "c");
    ob_node(b, "Clip", "c zero six", "d");
    ob_node(b, "Mul", "a d", "e");
    ob_node(b, "Div", "e six", "y");
    ob_output(b, "y");
}

static void hard_sigmoid_product(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,4,4");
    ob_random(b, "w", "8,3,1,1");
    ob_scalar(b, "three", 3);
    ob_scalar(b, "sixth", 1.0f / 6);
    ob_scalar(b, "zero", 0);
    ob_scalar(b, "six", 6);
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "Add", "three a", "c");
    ob_node(b, "Clip", "c zero six", "d");
    ob_node(b, "Mul", "sixth d", "e");
    ob_node(b, "Mul", "e a", "y");
    ob_output(b, "y");
}

static void silu(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,4,4");
    ob_random(b, "w", "8,3,1,1");
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "Sigmoid", "a", "c");
    ob_node(b, "Mul", "c a", "y");
    ob_output(b, "y");
}

static void gelu(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,5,8");
    ob_random(b, "w", "8,12");
    ob_scalar(b, "root", 1.41421356f);
    ob_scalar(b, "one", 1);
    ob_scalar(b, "half", 0.5f);
    ob_node(b, "MatMul", "x w", "a");
    ob_node(b, "Div", "a root", "c");
    ob_node(b, "Erf", "c", "d");
    ob_node(b, "Add", "d one", "e");
    ob_node(b, "Mul", "a e", "f");
    ob_node(b, "Mul", "f half", "y");
    ob_output(b, "y");
}

/* The tanh form, with the cube as a power and as products. */
static void gelu_tanh(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,5,8");
    ob_random(b, "w", "8,12");
    ob_random(b, "v", "12,6");
    ob_scalar(b, "root", 0.7978845608f);
    ob_scalar(b, "small", 0.044715f);
    ob_scalar(b, "three", 3);
    ob_scalar(b, "one", 1);
    ob_scalar(b, "half", 0.5f);
    ob_node(b, "MatMul", "x w", "a");
    ob_node(b, "Pow", "a three", "c");
    ob_node(b, "Mul", "c small", "d");
    ob_node(b, "Add", "a d", "e");
    ob_node(b, "Mul", "e root", "f");
    ob_node(b, "Tanh", "f", "h");
    ob_node(b, "Add", "h one", "i");
    ob_node(b, "Mul", "a half", "j");
    ob_node(b, "Mul", "j i", "k");
    ob_node(b, "MatMul", "k v", "a2");
    ob_node(b, "Mul", "a2 a2", "b2");
    ob_node(b, "Mul", "a2 b2", "c2");
    ob_node(b, "Mul", "small c2", "d2");
    ob_node(b, "Add", "d2 a2", "e2");
    ob_node(b, "Mul", "root e2", "f2");
    ob_node(b, "Tanh", "f2", "h2");
    ob_node(b, "Add", "one h2", "i2");
    ob_node(b, "Mul", "a2 i2", "j2");
    ob_node(b, "Mul", "half j2", "y");
    ob_output(b, "y");
}

/* Looks like GELU, but the divisor is another one. */
static void not_gelu(struct ob *b) {
    gelu(b);
    float two = 2;
    memcpy(b->tensors[1]->raw_data.data, &two, sizeof two);
}

static void clip_forms(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,9");
    ob_scalar(b, "low", 0);
    ob_scalar(b, "high", 0.25f);
    ob_node(b, "Clip", "x low high", "y");
    ob_node(b, "Clip", "x low", "z");
    ob_node(b, "Clip", "x - high", "v");
    ob_output(b, "y");
    ob_output(b, "z");
    ob_output(b, "v");
}

static void padding(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,7,7");
    ob_random(b, "w", "8,3,3,3");
    ob_int64s(b, "p", "0,0,1,0,0,0,1,2");
    ob_node(b, "Pad", "x p", "a");
    ob_node(b, "Conv", "a w", "c");
    ob_node(b, "Relu", "c", "c2");
    ob_node(b, "Pad", "c2 p", "d");
    ob_node(b, "MaxPool", "d", "e");
    ob_ints(b, "kernel_shape", "3,3");
    ob_node(b, "Pad", "e p", "f");
    ob_node(b, "AveragePool", "f", "y");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "strides", "2,2");
    ob_output(b, "y");
}

/* Zeros may win in a max pool over an input that can be negative: the Pad stays. */
static void padding_that_stays(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,5,5");
    ob_int64s(b, "p", "0,0,1,1,0,0,1,1");
    ob_node(b, "Pad", "x p", "a");
    ob_node(b, "MaxPool", "a", "y");
    ob_ints(b, "kernel_shape", "2,2");
    ob_output(b, "y");
}

/* The same size, but moved by one: not nothing. */
static void padding_that_moves(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,5,5");
    ob_int64s(b, "p", "0,0,1,-1,0,0,-1,1");
    ob_int64s(b, "none", "0,0,0,0,0,0,0,0");
    ob_node(b, "Pad", "x p", "a");
    ob_node(b, "Pad", "a none", "c");
    ob_node(b, "Relu", "c", "y");
    ob_output(b, "y");
}

/* min(max(x, 1), -1) is -1 everywhere */
static void crossed_clip(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,9");
    ob_scalar(b, "low", 0.5f);
    ob_scalar(b, "high", -0.5f);
    ob_node(b, "Clip", "x low high", "y");
    ob_output(b, "y");
}

static void add_and_relu(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,18,5,5");
    ob_input(b, "z", MOIRE_F32, "N,1,5,5");
    ob_node(b, "Add", "x z", "a");
    ob_node(b, "Relu", "a", "y");
    ob_output(b, "y");
}

static void automatic_padding(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,7,8");
    ob_random(b, "w", "8,3,3,3");
    ob_node(b, "Conv", "x w", "a");
    ob_ints(b, "strides", "2,2");
    ob_string(b, "auto_pad", "SAME_LOWER");
    ob_node(b, "AveragePool", "a", "y");
    ob_ints(b, "kernel_shape", "2,2");
    ob_string(b, "auto_pad", "SAME_UPPER");
    ob_output(b, "y");
}

static void nothing_happens(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,1,5");
    ob_int64s(b, "same", "0,3,1,5");
    ob_scalar(b, "one", 1);
    ob_scalar(b, "zero", 0);
    ob_node(b, "Identity", "x", "a");
    ob_node(b, "Dropout", "a", "c mask");
    ob_node(b, "Reshape", "c same", "d");
    ob_node(b, "Transpose", "d", "e");
    ob_ints(b, "perm", "0,2,1,3");
    ob_node(b, "Transpose", "e", "f");
    ob_ints(b, "perm", "0,2,1,3");
    ob_node(b, "Cast", "f", "g");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Mul", "one g", "h");
    ob_node(b, "Sub", "h zero", "i");
    ob_node(b, "Neg", "i", "j");
    ob_node(b, "Identity", "j", "y");
    ob_output(b, "y");
}

/* An input that is an output too, and an output that repeats another. */
static void outputs_keep_their_names(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,4");
    ob_node(b, "Identity", "x", "y");
    ob_node(b, "Relu", "x", "z");
    ob_node(b, "Identity", "z", "v");
    ob_output(b, "y");
    ob_output(b, "z");
    ob_output(b, "v");
}

static void layer_norm(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,5,8");
    ob_random(b, "g", "8");
    ob_random(b, "h", "8");
    ob_scalar(b, "two", 2);
    ob_scalar(b, "eps", 1e-5f);
    ob_node(b, "ReduceMean", "x", "m");
    ob_ints(b, "axes", "-1");
    ob_node(b, "Sub", "x m", "d");
    ob_node(b, "Pow", "d two", "q");
    ob_node(b, "ReduceMean", "q", "v");
    ob_ints(b, "axes", "2");
    ob_node(b, "Add", "v eps", "w");
    ob_node(b, "Sqrt", "w", "s");
    ob_node(b, "Div", "d s", "n");
    ob_node(b, "Mul", "n g", "k");
    ob_node(b, "Add", "k h", "y");
    ob_output(b, "y");
}

/* The deviation as a factor: its reciprocal, as an operator and as a division. */
static void layer_norm_reciprocal(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,6,8");
    ob_random(b, "g", "8");
    ob_scalar(b, "one", 1);
    ob_scalar(b, "eps", 1e-5f);
    for (int i = 0; i < 2; i++) {
        ob_node(b, "ReduceMean", i ? "y0" : "x", i ? "m1" : "m0");
        ob_ints(b, "axes", "-1");
        ob_node(b, "Sub", i ? "y0 m1" : "x m0", i ? "d1" : "d0");
        ob_node(b, "Mul", i ? "d1 d1" : "d0 d0", i ? "q1" : "q0");
        ob_node(b, "ReduceMean", i ? "q1" : "q0", i ? "v1" : "v0");
        ob_ints(b, "axes", "-1");
        ob_node(b, "Add", i ? "eps v1" : "v0 eps", i ? "w1" : "w0");
        ob_node(b, "Sqrt", i ? "w1" : "w0", i ? "s1" : "s0");
        ob_node(b, i ? "Div" : "Reciprocal", i ? "one s1" : "s0", i ? "r1" : "r0");
        ob_node(b, "Mul", i ? "r1 d1" : "d0 r0", i ? "n1" : "n0");
        ob_node(b, "Mul", i ? "g n1" : "n0 g", i ? "y" : "y0");
    }
    ob_output(b, "y");
}

/* sI = sqrt(mean(square) + eps) */
static void add_root(struct ob *b, const char *op, const char *square, int i) {
    char name[4][8], sum[16];
    for (int k = 0; k < 4; k++)
        snprintf(name[k], sizeof name[k], "%c%d", "qvws"[k], i);
    snprintf(sum, sizeof sum, "%s eps", name[1]);
    ob_node(b, op, square, name[0]);
    ob_node(b, "ReduceMean", name[0], name[1]);
    ob_ints(b, "axes", "-1");
    ob_node(b, "Add", sum, name[2]);
    ob_node(b, "Sqrt", name[2], name[3]);
}

/* The root as a factor and as a divisor; and one of other values than it divides, which stays. */
static void rms_norm(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,6,8");
    ob_random(b, "g", "8");
    ob_scalar(b, "one", 1);
    ob_scalar(b, "two", 2);
    ob_scalar(b, "eps", 1e-5f);
    add_root(b, "Pow", "x two", 0);
    ob_node(b, "Div", "one s0", "r");
    ob_node(b, "Mul", "x r", "n");
    ob_node(b, "Mul", "g n", "y0");
    add_root(b, "Mul", "y0 y0", 1);
    ob_node(b, "Div", "y0 s1", "y1");
    add_root(b, "Mul", "y1 y1", 2);
    ob_node(b, "Div", "y0 s2", "y");
    ob_output(b, "y");
}

static void attention(struct ob *b) {
    ob_input(b, "q", MOIRE_F32, "N,2,5,4");
    ob_input(b, "k", MOIRE_F32, "N,7,2,4");
    ob_input(b, "v", MOIRE_F32, "N,2,7,3");
    ob_input(b, "m", MOIRE_F32, "N,1,1,7");
    ob_scalar(b, "c", 2);
    ob_node(b, "Transpose", "k", "kt");
    ob_ints(b, "perm", "0,2,3,1");
    ob_node(b, "MatMul", "q kt", "a");
    ob_node(b, "Div", "a c", "d");
    ob_node(b, "Add", "d m", "e");
    ob_node(b, "Softmax", "e", "p");
    ob_node(b, "MatMul", "p v", "y");
    ob_output(b, "y");
}

/* Projections, heads moved before the rows and back, scores replaced where a bool mask says so. */
static void attention_of_projections(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,5,8");
    ob_input(b, "s", MOIRE_F32, "N,1,1,5");
    ob_random(b, "wq", "8,8");
    ob_random(b, "wk", "8,8");
    ob_random(b, "wv", "8,8");
    ob_random(b, "wo", "8,8");
    ob_scalar(b, "zero", 0);
    ob_scalar(b, "low", -1e4f);
    ob_scalar(b, "c", 0.5f);
    ob_int64s(b, "apart", "0,0,2,4");
    ob_int64s(b, "flat", "0,0,8");
    ob_node(b, "Less", "s zero", "m");
    const char *const names[3][4] = {
        {"x wq", "a1", "a2", "q"}, {"x wk", "b1", "b2", "k"}, {"x wv", "c1", "c2", "v"}};
    for (int i = 0; i < 3; i++) {
        char text[32];
        ob_node(b, "MatMul", names[i][0], names[i][1]);
        snprintf(text, sizeof text, "%s apart", names[i][1]);
        ob_node(b, "Reshape", text, names[i][2]);
        ob_node(b, "Transpose", names[i][2], names[i][3]);
        ob_ints(b, "perm", i == 1 ? "0,2,3,1" : "0,2,1,3");
    }
    ob_node(b, "Mul", "q c", "qs");
    ob_node(b, "MatMul", "qs k", "e");
    ob_node(b, "Where", "m low e", "f");
    ob_node(b, "Softmax", "f", "p");
    ob_node(b, "MatMul", "p v", "r");
    ob_node(b, "Transpose", "r", "t");
    ob_ints(b, "perm", "0,2,1,3");
    ob_node(b, "Reshape", "t flat", "u");
    ob_node(b, "MatMul", "u wo", "y");
    ob_output(b, "y");
}

/* Batch and heads in one axis, rows first in memory: [S, B H, D]. */
static void attention_of_rank_3(struct ob *b) {
    ob_input(b, "q", MOIRE_F32, "5,6,4");
    ob_input(b, "k", MOIRE_F32, "7,6,4");
    ob_input(b, "v", MOIRE_F32, "6,7,3");
    ob_input(b, "m", MOIRE_F32, "5,7");
    ob_node(b, "Transpose", "q", "qt");
    ob_ints(b, "perm", "1,0,2");
    ob_node(b, "Transpose", "k", "kt");
    ob_ints(b, "perm", "1,2,0");
    ob_node(b, "MatMul", "qt kt", "a");
    ob_node(b, "Add", "m a", "e");
    ob_node(b, "Softmax", "e", "p");
    ob_node(b, "MatMul", "p v", "r");
    ob_node(b, "Transpose", "r", "y");
    ob_ints(b, "perm", "1,0,2");
    ob_output(b, "y");
}

/* Concat in whole channel blocks, of two convs and a pool; then one that cannot lie in place. */
static void concat(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,16,6,6");
    ob_random(b, "w1", "32,16,1,1");
    ob_random(b, "w2", "20,16,3,3");
    ob_node(b, "Conv", "x w1", "a");
    ob_node(b, "MaxPool", "x", "c");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Conv", "x w2", "d");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Concat", "a c d", "e");
    ob_int(b, "axis", 1);
    ob_node(b, "Concat", "e e x", "f");
    ob_int(b, "axis", 1);
    ob_node(b, "Relu", "f", "y");
    ob_output(b, "y");
}

/* Detection heads: transpose, flatten, concat of the flattened rows. */
static void concat_of_views(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,4,4");
    ob_random(b, "w1", "8,3,1,1");
    ob_random(b, "w2", "8,3,2,2");
    ob_int64s(b, "rows", "0,-1,4");
    ob_node(b, "Conv", "x w1", "a");
    ob_node(b, "Conv", "x w2", "c");
    ob_node(b, "Transpose", "a", "at");
    ob_ints(b, "perm", "0,2,3,1");
    ob_node(b, "Transpose", "c", "ct");
    ob_ints(b, "perm", "0,2,3,1");
    ob_node(b, "Reshape", "at rows", "ar");
    ob_node(b, "Reshape", "ct rows", "cr");
    ob_node(b, "Concat", "ar cr", "y");
    ob_int(b, "axis", 1);
    ob_output(b, "y");
}

/* Products for each point, normalised with all points as a batch, or with channels before the points. */
static void affine_behind(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,7,12");
    ob_random(b, "w1", "12,20");
    ob_random(b, "w2", "20,9");
    ob_integers(b, "rows", "-1,20", MOIRE_I64);
    ob_integers(b, "points", "-1,7,20", MOIRE_I64);
    ob_node(b, "MatMul", "x w1", "a");
    ob_node(b, "Reshape", "a rows", "c");
    ob_batch_norm(b, "c", "d", "20");
    ob_node(b, "Reshape", "d points", "e");
    ob_node(b, "Relu", "e", "f");
    ob_node(b, "MatMul", "f w2", "g");
    ob_node(b, "Transpose", "g", "h");
    ob_ints(b, "perm", "0,2,1");
    ob_batch_norm(b, "h", "y", "9");
    ob_output(b, "y");
}

/* act(z) * s + t between convs: s goes back, t goes forward where there is no padding. */
static void affine_between(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,6,6");
    ob_random(b, "w1", "8,3,1,1");
    ob_random(b, "w2", "4,4,1,1");
    ob_random(b, "w3", "4,4,3,3");
    ob_scalar(b, "s", -0.7f);
    ob_scalar(b, "t", 0.3f);
    ob_node(b, "Conv", "x w1", "a");
    ob_node(b, "HardSwish", "a", "c");
    ob_node(b, "Mul", "s c", "d");
    ob_node(b, "Add", "d t", "e");
    ob_node(b, "Conv", "e w2", "f");
    ob_int(b, "group", 2);
    ob_node(b, "Relu", "f", "f2");
    ob_node(b, "Mul", "f2 s", "h");
    ob_node(b, "Add", "h t", "i");
    ob_node(b, "Conv", "i w3", "y");
    ob_ints(b, "pads", "1,1,1,1");
    ob_output(b, "y");
}

/* Squeeze and excite, twice the same read: x + x * s becomes x * (1 + s). */
static void self_gate(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,16,5,5");
    ob_random(b, "w", "16,16,1,1");
    ob_node(b, "GlobalAveragePool", "x", "m");
    ob_node(b, "Conv", "m w", "c");
    ob_node(b, "HardSigmoid", "c", "s");
    ob_node(b, "Mul", "x s", "a");
    ob_node(b, "Add", "x a", "y");
    ob_output(b, "y");
}

/* Squeeze and excite before a 1x1 conv of 5x5 pixels: the scale goes into one with fewer outputs than that,
 * be it the first or the second operand; also with stride, and beside a residual without a bias. */
static void excite(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,20,5,5");
    ob_random(b, "w", "20,20,1,1");
    ob_random(b, "w1", "24,20,1,1");
    ob_random(b, "c1", "24");
    ob_random(b, "w2", "24,20,1,1");
    ob_random(b, "w3", "25,24,1,1");
    ob_node(b, "GlobalAveragePool", "x", "m");
    ob_node(b, "Conv", "m w", "c");
    ob_node(b, "Sigmoid", "c", "s");
    ob_node(b, "Mul", "x s", "a");
    ob_node(b, "Conv", "a w1 c1", "d");
    ob_node(b, "Mul", "s x", "a2");
    ob_node(b, "Conv", "a2 w2", "e");
    ob_node(b, "Add", "d e", "f");
    ob_node(b, "Relu", "f", "g");
    ob_node(b, "ReduceMax", "g", "t");
    ob_ints(b, "axes", "2,3");
    ob_node(b, "Mul", "g t", "h");
    ob_node(b, "Conv", "h w3", "y");
    ob_output(b, "y");
}

static const struct pass_case {
    const char *name;
    void (*build)(struct ob *b);
    int opset;
    const char *layers; /* after all passes but the layout ones */
} cases[] = {
    {"conv, batch norm, relu", conv_bn_relu, 13, "Conv 3x3/2 +relu"},
    {"residual", residual, 13, "Conv 3x3 +relu; Conv 1x1 +add +relu"},
    {"residual after activation", residual_after_activation, 13, "Conv 1x1 +leaky +add; relu"},
    {"shared result", shared_result, 13, "Conv 1x1; relu"},
    {"transposed conv", transposed_conv, 13, "ConvTranspose 2x2/2 g2 +sigmoid"},
    {"lone batch norm", lone_batch_norm, 13, "Conv 1x1 g18 +relu"},
    {"gemm", gemm, 13, "Flatten; MatMul +tanh"},
    {"matmul and bias", matmul_bias, 13, "MatMul +add"},
    {"hard swish product", hard_swish_product, 13, "Conv 1x1 +hswish"},
    {"hard sigmoid product", hard_sigmoid_product, 13, "Conv 1x1 +hswish"},
    {"silu", silu, 13, "Conv 1x1 +silu"},
    {"gelu", gelu, 13, "MatMul +gelu"},
    {"gelu, tanh form", gelu_tanh, 13, "MatMul +gelutanh; MatMul +gelutanh"},
    {"not gelu", not_gelu, 13, "MatMul; Fused"},
    {"clip", clip_forms, 13, "clip; relu; clip"},
    {"padding", padding, 13, "Conv 3x3 +relu; MaxPool 3x3; AveragePool 3x3/2"},
    {"padding that stays", padding_that_stays, 13, "Pad; MaxPool 2x2"},
    {"padding that moves", padding_that_moves, 13, "Pad; relu"},
    {"crossed clip", crossed_clip, 13, "Clip"},
    {"add and relu", add_and_relu, 13, "Add +relu"},
    {"automatic padding", automatic_padding, 13, "Conv 3x3/2; AveragePool 2x2"},
    {"nothing happens", nothing_happens, 13, "Transpose; Transpose; Neg"},
    {"outputs keep their names", outputs_keep_their_names, 13, "Identity; relu; Identity"},
    {"layer norm", layer_norm, 13, "LayerNormalization"},
    {"layer norm by reciprocals", layer_norm_reciprocal, 13, "LayerNormalization; LayerNormalization"},
    {"rms norm", rms_norm, 13, "RMSNormalization; RMSNormalization; Mul; ReduceMean; Fused; Div"},
    {"attention", attention, 13, "Attention"},
    {"attention of projections", attention_of_projections, 13,
     "Fused; MatMul; Reshape; Attention; Reshape; MatMul"},
    {"attention of rank 3", attention_of_rank_3, 13, "Reshape; Reshape; Reshape; Attention; Reshape"},
    {"concat", concat, 13, "Conv 1x1; MaxPool 3x3; Conv 3x3; Concat; Concat; relu"},
    {"concat of views", concat_of_views, 13,
     "Conv 1x1; Conv 2x2; Transpose; Transpose; Reshape; Reshape; Concat"},
    {"affine between convs", affine_between, 14, "Conv 1x1 +hswish; Conv 1x1 g2 +relu; Fused; Conv 3x3"},
    {"affine behind moves", affine_behind, 14, "MatMul +relu; MatMul; Transpose"},
    {"excite", excite, 13,
     "GlobalAveragePool; Conv 1x1 +sigmoid; Conv 1x1 gated; Conv 1x1 gated +add +relu; ReduceMax; Mul; Conv "
     "1x1"},
    {"self gate", self_gate, 13, "GlobalAveragePool; Conv 1x1 +hsigmoid; Add; Mul"},
};

/* --- running ------------------------------------------------------------------------------------------- */

struct setting {
    int64_t batch;
    bool passes, layout, kernels;
};

static struct mo_plan *plan_of(struct ob *b, const struct setting *s) {
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    struct mo_frontend_options options = {
        .batch = s->batch, .no_passes = !s->passes, .no_layout = !s->layout};
    struct mo_plan_options planning = {.isa = mo_isa_detect(), .reference_only = !s->kernels};
    struct mo_graph *g = NULL;
    struct mo_plan *plan = NULL;
    moire_error err = {0};
    if (mo_frontend_parse(&b->env, bytes, n, NULL, &options, &g, &err)) fail_msg("%s", err.message);
    if (mo_plan_build(g, &planning, &plan, &err)) fail_msg("%s", err.message);
    return plan;
}

static struct mo_instance *run(struct ob *b, const struct mo_plan *plan) {
    struct mo_instance *instance;
    moire_error err = {0};
    if (mo_instance_create(plan, &instance, &err)) fail_msg("%s", err.message);
    uint64_t seed = 5;
    for (int i = 0; i < plan->graph->n_inputs; i++) {
        const struct mo_tensor *t = plan->graph->tensors[plan->graph->inputs[i]];
        moire_tensor in = {.dtype = t->dtype, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
        memcpy(in.shape, t->shape.d, sizeof in.shape);
        float *values = in.data = ob_alloc(b, in.bytes);
        for (size_t k = 0; k < in.bytes / 4; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            values[k] = (float)(seed >> 40) / 8388608.0f - 1;
        }
        if (mo_instance_set_input(instance, i, &in, &err)) fail_msg("%s", err.message);
    }
    void *scratch = ob_alloc(b, (size_t)plan->scratch_bytes + 64);
    if (mo_instance_run(instance, 0, plan->n_steps, scratch)) fail_msg("%s", mo_instance_message(instance));
    return instance;
}

/* Largest difference of any output, relative to that output's range. */
static double difference(struct ob *b, const struct setting *one, const struct setting *two) {
    struct mo_plan *p = plan_of(b, one), *q = plan_of(b, two);
    struct mo_instance *x = run(b, p), *y = run(b, q);
    double worst = 0;
    assert_int_equal(p->graph->n_outputs, q->graph->n_outputs);
    for (int k = 0; k < p->graph->n_outputs; k++) {
        moire_tensor s, t;
        double range = 1e-6, most = 0;
        assert_string_equal(p->graph->tensors[p->graph->outputs[k]]->name,
                            q->graph->tensors[q->graph->outputs[k]]->name);
        assert_int_equal(mo_instance_output(x, k, &s) | mo_instance_output(y, k, &t), 0);
        assert_int_equal(s.bytes, t.bytes);
        for (size_t i = 0; i < s.bytes / 4; i++) {
            double u = ((const float *)s.data)[i], v = ((const float *)t.data)[i];
            range = fmax(range, fabs(u));
            most = fmax(most, isnan(u - v) ? INFINITY : fabs(u - v));
        }
        worst = fmax(worst, most / range);
    }
    mo_instance_destroy(x);
    mo_instance_destroy(y);
    mo_plan_destroy(p);
    mo_plan_destroy(q);
    return worst;
}

static void layers_text(const struct mo_graph *g, char *out, size_t n) {
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < g->n_nodes && at < n; i++) {
        char layer[100];
        mo_layer_text(g, g->nodes[i], layer, sizeof layer);
        at += (size_t)snprintf(out + at, n - at, "%s%s", i ? "; " : "", layer);
    }
}

static void passes_keep_results(void **state) {
    (void)state;
    static const struct setting after[] = {
        {0, true, false, false}, {0, true, true, false}, {0, true, true, true}};
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t batch = 1; batch <= 3; batch += 2)
            for (size_t s = 0; s < sizeof after / sizeof *after; s++) {
                struct ob *b = ob_create(cases[i].opset);
                struct setting before = {batch, false, false, false}, now = after[s];
                cases[i].build(b);
                now.batch = batch;
                double d = difference(b, &before, &now);
                if (!(d < 2e-5)) {
                    print_error("%s, batch %d, setting %zu: differs by %g\n", cases[i].name, (int)batch, s,
                                d);
                    wrong++;
                }
                ob_destroy(b);
            }
    assert_int_equal(wrong, 0);
}

static void passes_find_their_patterns(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(cases[i].opset);
        struct setting plain = {2, true, false, false};
        char text[1000];
        cases[i].build(b);
        struct mo_plan *plan = plan_of(b, &plain);
        layers_text(plan->graph, text, sizeof text);
        if (strcmp(text, cases[i].layers)) {
            print_error("%s: \"%s\"\n", cases[i].name, text);
            wrong++;
        }
        mo_plan_destroy(plan);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

/* Concat inputs lie in the output; the second Concat reads one tensor twice and copies. */
static void concat_inputs_lie_in_place(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    struct setting all = {3, true, true, true};
    concat(b);
    struct mo_plan *plan = plan_of(b, &all);
    int views = 0, copies = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        if (strcmp(plan->steps[i].node->op_type, "Concat")) continue;
        bool view = !strcmp(plan->steps[i].kind, "view");
        views += view;
        copies += !view;
    }
    assert_int_equal(views, 1);
    assert_int_equal(copies, 1);
    mo_plan_destroy(plan);
    ob_destroy(b);
}

/* The k-th allocation fails, for every k, over models that reach all passes. */
static void out_of_memory_everywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(cases[i].opset);
        cases[i].build(b);
        ways_without_memory(b);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_keep_results),
        cmocka_unit_test(passes_find_their_patterns),
        cmocka_unit_test(concat_inputs_lie_in_place),
        cmocka_unit_test(out_of_memory_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
