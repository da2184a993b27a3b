/* SPDX-License-Identifier: Apache-2.0
 * test_simd.c - the built-in kernels against the references: ragged shapes, both layouts, every ISA level
 * this machine has, any split of the units, nothing written outside, nothing read that was not written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include "tests/unit/kernels/layer_case.h"

static const struct layer_case products[] = {
    {"MatMul", "moire", 13, "1x37 c37x50", "", LAYER_PLAIN, 0},
    {"MatMul", "moire", 13, "2x130 c130x65 c65", "act:i=1", LAYER_PLAIN, 0},
    {"MatMul", "moire", 13, "3x33 c33x16", "", LAYER_PLAIN, 0},
    {"MatMul", "moire", 13, "29x700 c700x33 c33 29x33", "act:i=9 residual:i=3", LAYER_PLAIN, 0},
    {"MatMul", "moire", 13, "2x65x48 c48x100 c100", "act:i=5", LAYER_PLAIN, 0},
    {"MatMul", "moire", 13, "2x3x17x21 2x3x21x18", "act:i=1", LAYER_PLAIN, 0},
    {"MatMul", "moire", 13, "4x1x5 4x5x70", "", LAYER_PLAIN, 0},
    {"MatMul", "", 13, "2x1x7x9 3x9x5", "", LAYER_PLAIN, 0},
    {"MatMul", "", 13, "600x20 c20x15", "", LAYER_PLAIN, 0},
    {"MatMul", "", 13, "3x7x20 c20x15", "", LAYER_PLAIN, 0},
    {"MatMul", "moire", 1, "3x7x20 c20x33 c33 3x7x33", "residual:i=3 act:i=1", LAYER_PLAIN, 0},
    {"MatMul", "moire", 1, "50x20 c20x33 c33 50x33", "residual:i=3 act:i=1", LAYER_PLAIN, 0},
    {"Gemm", "", 13, "9x31 c20x31 c20", "transB:i=1 alpha:f=0.5 beta:f=2", LAYER_PLAIN, 0},
    {"Gemm", "", 13, "31x9 c31x20", "transA:i=1", LAYER_PLAIN, 0},
    {"Gemm", "", 13, "31x9 20x31", "transA:i=1 transB:i=1", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x3x19x16 2x3x23x16 2x3x23x16", "scale:f=0.25", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x2x150x20 1x2x150x20 1x2x150x24 1x1x1x150", "scale:f=0.2", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x2x5x4 2x2x40x4 2x2x40x17 2x1x5x40", "", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x3x1x64 2x3x128x64 2x3x128x64", "scale:f=0.125", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x2x3x83 1x2x37x83 1x2x37x101 1x2x3x37", "scale:f=0.2", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x4x2x5 2x2x30x5 2x30x2x3 b4x30", "order:v=1,0,1,1 fill:f=-3 keep:i=1",
     LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x2x3x30 1x1x3x30 1x1x3x47 b2x1", "order:v=1,1,1,1 fill:f=-2", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x19x3x16 2x23x3x16 2x23x3x20", "order:v=1,1,1,1", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x19x3x16 2x3x23x16 2x23x3x5 b3x1x23", "order:v=1,0,1,0 fill:f=-9",
     LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x9x2x8 2x2x30x8 2x30x2x16 b9x30", "order:v=1,0,1,1 fill:f=-3 keep:i=1",
     LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x33x6x8 1x33x6x8 1x33x6x8 b1",
     "order:v=1,1,1,1 heads:i=2 first:v=0,2,4 fill:f=-1", LAYER_PLAIN, 0},
    /* enough queries for vectors of them, with a rest that is by itself or a vector too */
    {"Attention", "moire", 1, "1x197x6x64 1x197x6x64 1x197x6x64",
     "order:v=1,1,1,1 heads:i=2 first:v=0,2,4 scale:f=0.125", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x3x49x32 2x3x49x32 2x3x49x32 3x49x49", "scale:f=0.2", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x2x62x17 2x2x33x17 2x2x33x35 2x1x62x33", "scale:f=-0.2", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x2x44x20 1x2x300x20 1x2x300x23", "scale:f=0.3", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x2x143x8 1x2x530x8 1x2x530x16 1x2x143x530", "", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x2x47x9 2x2x35x9 2x2x35x3 b47x35", "fill:f=-3 keep:i=1", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "2x2x33x9 2x2x35x9 2x2x35x3 b2x1x1x35", "fill:f=2", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x2x24x16 1x2x18x16 1x2x18x16 2x24x1", "", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x2x24x16 1x2x18x16 1x2x18x16 b2x24x1", "fill:f=1", LAYER_PLAIN, 0},
    {"Attention", "moire", 1, "1x2x97x16 1x2x1x16 1x2x1x16", "", LAYER_PLAIN, 0},
};

/* X has the products of the inputs; R, nothing, a GRU's bias, lengths, first states, peepholes. */
static const struct layer_case recurrences[] = {
    {"LSTM", "moire", 1, "5x1x80 c1x80x20", "", LAYER_PLAIN, 3},
    {"LSTM", "moire", 1, "5x7x264 c2x132x33 - - - 2x7x33 2x7x33 c2x99",
     "direction:s=bidirectional clip:f=0.7", LAYER_PLAIN, 3},
    {"LSTM", "moire", 1, "3x6x64 c1x64x16 - - - c1x6x16 1x6x16", "direction:s=reverse input_forget:i=1",
     LAYER_PLAIN, 2},
    {"LSTM", "moire", 1, "4x6x160 c2x80x20 - - - 4x2x20 c4x2x20 c2x60",
     "direction:s=bidirectional layout:i=1", LAYER_PLAIN, 3},
    {"GRU", "moire", 1, "4x2x63 c1x63x21 - c1x21", "linear_before_reset:i=1", LAYER_PLAIN, 2},
    {"GRU", "moire", 1, "4x5x102 c2x51x17 - - - 2x5x17", "direction:s=bidirectional", LAYER_PLAIN, 2},
    {"GRU", "moire", 1, "3x17x48 c1x48x16", "", LAYER_PLAIN, 1},
    {"GRU", "moire", 1, "2x15x1056 c1x1056x352", "", LAYER_PLAIN, 1}, /* more than a private cache has */
    {"RNN", "moire", 1, "4x1x40 c1x40x40", "", LAYER_PLAIN, 2},
    {"RNN", "moire", 1, "2x19x14 c2x7x7 - - - 2x19x7", "direction:s=bidirectional", LAYER_PLAIN, 1},
};

static const struct layer_case elementwise[] = {
    {"Relu", "", 13, "2x19x5x3", "", LAYER_C16, 0},
    {"Sigmoid", "", 13, "3x5000", "", LAYER_PLAIN, 0},
    {"Tanh", "", 13, "2x19x5x3", "", LAYER_C16, 0},
    {"LeakyRelu", "", 13, "77", "alpha:f=0.3", LAYER_PLAIN, 0},
    {"HardSigmoid", "", 13, "7x11", "", LAYER_PLAIN, 0},
    {"HardSwish", "", 14, "2x17x4x4", "", LAYER_C16, 0},
    {"Clip", "", 13, "9x9 f:-0.5 f:0.5", "", LAYER_PLAIN, 0},
    {"Exp", "", 13, "9x9", "", LAYER_PLAIN, 0},
    {"Erf", "", 13, "9x9", "", LAYER_PLAIN, 0},
    {"Abs", "", 13, "9x9", "", LAYER_PLAIN, 0},
    {"Neg", "", 13, "9x9", "", LAYER_PLAIN, 0},
    {"Activation", "moire", 1, "2x19x5x3", "act:i=5", LAYER_C16, 0},
    {"Activation", "moire", 1, "2x19x5x3", "act:i=9", LAYER_PLAIN, 0},
    {"Activation", "moire", 1, "2x19x5x3", "act:i=2", LAYER_C16, 0},
    {"Activation", "moire", 1, "2x19x5x3", "act:i=6", LAYER_C16, 0},
    {"Activation", "moire", 1, "2x19x5x3", "act:i=7", LAYER_C16, 0},
    {"BatchNormalization", "", 14, "2x19x5x3 c19 c19 c19 p19", "", LAYER_C16, 0},
    {"BatchNormalization", "", 14, "2x19x5x3 c19 c19 c19 p19", "", LAYER_PLAIN, 0},
};

static const struct layer_case binaries[] = {
    {"Add", "", 13, "2x20x9x7 2x20x9x7", "", LAYER_C16, 0},
    {"Add", "", 13, "2x20x9x7 2x20x9x7", "act:i=1", LAYER_PLAIN, 0},
    {"Mul", "", 13, "2x20x9x7 2x20x1x1", "", LAYER_C16, 0},
    {"Mul", "", 13, "2x20x1x1 2x20x9x7", "act:i=4", LAYER_C16, 0},
    {"Mul", "", 13, "2x20x9x7 1x20x1x1", "", LAYER_C16, 0},
    {"Mul", "", 13, "2x20x9x7 c20x1x1", "", LAYER_C16, 0},
    {"Sub", "", 13, "c1x20x1x1 2x20x9x7", "", LAYER_C16, 0},
    {"Div", "", 13, "2x20x9x7 p20x1x1", "", LAYER_C16, 0},
    {"Div", "", 13, "2x20x9x7 f:3", "", LAYER_C16, 0},
    {"Add", "", 13, "2x20x9x7 f:3", "", LAYER_C16, 0},
    {"Mul", "", 13, "2x20x9x7 2x20x1x7", "", LAYER_C16, 0},
    {"Mul", "", 13, "2x20x9x7 2x1x9x7", "", LAYER_PLAIN, 0},
    {"Add", "", 13, "2x30x70 c70", "", LAYER_PLAIN, 0},
    {"Add", "", 13, "30x1 1x70", "", LAYER_PLAIN, 0},
    {"Add", "", 13, "5x1x4x1 3x1x6", "", LAYER_PLAIN, 0},
    {"Add", "", 13, "4x2x3 2x3", "", LAYER_PLAIN, 0},
    {"Mul", "", 13, "2x1 4x2x1", "", LAYER_PLAIN, 0},
    {"Sub", "", 13, "4x3x2x3 3x1x3", "act:i=1", LAYER_PLAIN, 0},
    {"Max", "", 13, "4x5 4x5", "", LAYER_PLAIN, 0},
    {"Min", "", 13, "4x5 5", "", LAYER_PLAIN, 0},
    {"PRelu", "", 13, "2x20x9x7 c20x1x1", "", LAYER_C16, 0},
    {"Sub", "", 13, "20000 20000", "", LAYER_PLAIN, 0},
    {"Pow", "", 13, "50 f:2", "", LAYER_PLAIN, 0},
};

static const struct layer_case pools[] = {
    {"MaxPool", "", 12, "2x20x15x13", "kernel_shape:v=3,3 strides:v=2,2 pads:v=1,1,1,1", LAYER_C16, 0},
    {"MaxPool", "", 12, "2x20x15x13", "kernel_shape:v=3,3 strides:v=2,2 pads:v=1,1,1,1", LAYER_PLAIN, 0},
    {"MaxPool", "", 12, "1x20x9x7", "kernel_shape:v=3,3 pads:v=1,1,1,1", LAYER_C16, 0},
    {"MaxPool", "", 12, "2x16x2x1", "kernel_shape:v=3,3 strides:v=3,1 pads:v=2,2,2,2", LAYER_C16, 0},
    {"MaxPool", "", 12, "2x20x2x3", "kernel_shape:v=2,2 strides:v=3,3 pads:v=2,2,0,0", LAYER_C16, 0},
    {"MaxPool", "", 12, "1x20x8x8", "kernel_shape:v=2,2 strides:v=2,2", LAYER_C16, 0},
    {"MaxPool", "", 12, "1x20x7x9", "kernel_shape:v=5,4 strides:v=1,3 pads:v=2,1,2,2", LAYER_C16, 0},
    {"MaxPool", "", 12, "1x17x11x11", "kernel_shape:v=3,3 dilations:v=2,2 strides:v=1,1", LAYER_C16, 0},
    {"MaxPool", "", 12, "1x17x7x7", "kernel_shape:v=3,3 strides:v=2,2 ceil_mode:i=1", LAYER_C16, 0},
    {"MaxPool", "", 12, "1x17x7x7", "kernel_shape:v=2,2 auto_pad:s=SAME_UPPER strides:v=2,2", LAYER_C16, 0},
    {"MaxPool", "", 12, "1x3x31", "kernel_shape:v=3 strides:v=2", LAYER_PLAIN, 0},
    {"AveragePool", "", 11, "2x20x15x13", "kernel_shape:v=3,3 strides:v=2,2 pads:v=1,1,1,1", LAYER_C16, 0},
    {"AveragePool", "", 11, "2x20x15x13", "kernel_shape:v=3,3 pads:v=1,1,1,1 count_include_pad:i=1",
     LAYER_C16, 0},
    {"AveragePool", "", 11, "2x20x15x13", "kernel_shape:v=2,5 pads:v=0,2,1,2 count_include_pad:i=1",
     LAYER_PLAIN, 0},
    {"AveragePool", "", 11, "1x5x2x2", "kernel_shape:v=3,3 strides:v=1,1 pads:v=2,2,2,2", LAYER_C16, 0},
    {"Frames", "moire", 1, "12x5x3x7", "window:v=0,6,3,1,1,1,6,5", LAYER_PLAIN, 0},
    {"Frames", "moire", 1, "8x18x9x9", "window:v=0,4,2,2,3,2,3,32", LAYER_C16, 0},
    {"Frames", "moire", 1, "8x18x9x9", "window:v=0,4,2,2,3,2,3,32", LAYER_PLAIN, 0},
    {"Frames", "moire", 1, "10x18x40x29", "window:v=0,5,1,2,1,0,3,18", LAYER_C16, 0},
    {"Frames", "moire", 1, "10x18x5x5", "window:v=1,5,3,2,1,1,3,18", LAYER_C16, 0},
    {"Frames", "moire", 1, "10x18x5x5", "window:v=2,5,3,2,1,1,3,18", LAYER_C16, 0},
    {"TapSum", "moire", 1, "2x32x5x21", "window:v=3,9,1,1,4,21", LAYER_LEAVE, 0},
    {"TapSum", "moire", 1, "1x16x3x30", "window:v=1,5,2,3,5,11", LAYER_LEAVE, 0},
    {"TapSum", "moire", 1, "1x16x1x4", "window:v=4,4,1,2,9,16", LAYER_LEAVE, 0},
    {"Frames", "moire", 1, "6x20x60x70", "window:v=2,3,2,1,2,1,2,20", LAYER_PLAIN, 0},
    {"GlobalAveragePool", "", 11, "2x20x7x7", "", LAYER_C16, 0},
    {"GlobalAveragePool", "", 11, "2x20x7x7", "", LAYER_PLAIN, 0},
    {"GlobalAveragePool", "", 11, "2x20x7x7", "", LAYER_LEAVE, 0},
    {"GlobalMaxPool", "", 11, "2x20x7x5", "", LAYER_C16, 0},
    {"ReduceMean", "", 13, "2x20x7x7", "axes:v=2,3", LAYER_C16, 0},
    {"ReduceMean", "", 13, "2x20x7x7", "axes:v=2,3 keepdims:i=0", LAYER_LEAVE, 0},
};

static const struct layer_case rows[] = {
    {"Softmax", "", 13, "5x37", "axis:i=-1", LAYER_PLAIN, 0},
    {"Softmax", "", 13, "3x9x300", "axis:i=1", LAYER_PLAIN, 0},
    {"Softmax", "", 11, "3x9x30", "axis:i=1", LAYER_PLAIN, 0},
    {"LogSoftmax", "", 13, "5x37", "axis:i=-1", LAYER_PLAIN, 0},
    {"LogSoftmax", "", 13, "5x7x6", "axis:i=0", LAYER_PLAIN, 0},
    {"LayerNormalization", "", 17, "6x50 c50 c50", "", LAYER_PLAIN, 0},
    {"LayerNormalization", "", 17, "2x6x35 c35", "epsilon:f=0.01", LAYER_PLAIN, 0},
    {"LayerNormalization", "", 17, "9x96 c96", "", LAYER_PLAIN, 0},
    {"LayerNormalization", "", 17, "5x183 c183 c183", "", LAYER_PLAIN, 0},
    {"LayerNormalization", "", 17, "4x2x35 2x35 2x35", "axis:i=1", LAYER_PLAIN, 0},
    {"RMSNormalization", "", 23, "6x50 c50", "", LAYER_PLAIN, 0},
    {"RMSNormalization", "", 23, "5x183 c183", "epsilon:f=0.01", LAYER_PLAIN, 0},
    {"RMSNormalization", "", 23, "4x2x35 2x35", "axis:i=1", LAYER_PLAIN, 0},
    {"RotaryEmbedding", "", 23, "2x3x5x40 2x5x20 2x5x20", "", LAYER_PLAIN, 0},
    {"RotaryEmbedding", "", 23, "2x5x111 2x5x18 2x5x18", "num_heads:i=3 rotary_embedding_dim:i=36",
     LAYER_PLAIN, 0},
    {"RotaryEmbedding", "", 23, "1x4x7x10 1x7x5 1x7x5", "interleaved:i=1", LAYER_PLAIN, 0},
    {"InstanceNormalization", "", 6, "2x5x70 c5 c5", "", LAYER_PLAIN, 0},
    {"InstanceNormalization", "", 6, "2x3x7x5 3 3", "epsilon:f=0.01", LAYER_PLAIN, 0},
    {"InstanceNormalization", "", 6, "1x2x100x67 c2 c2", "", LAYER_PLAIN, 0},
    {"InstanceNormalization", "", 6, "2x21x9x13 c21 c21", "", LAYER_C16, 0},
    {"InstanceNormalization", "", 6, "1x32x40x30 c32 c32", "", LAYER_C16, 0},
    {"InstanceNormalization", "", 6, "3x16x1x1 c16 c16", "", LAYER_C16, 0},
    {"ReduceMean", "", 13, "4x6x50", "axes:v=-1", LAYER_PLAIN, 0},
    {"ReduceMean", "", 13, "4x6x300", "axes:v=1", LAYER_PLAIN, 0},
    {"ReduceSum", "", 13, "4x6x50 i:0,1", "", LAYER_PLAIN, 0},
    {"ReduceMax", "", 13, "4x6x50", "axes:v=2", LAYER_PLAIN, 0},
    {"ReduceMin", "", 13, "4x6x50", "axes:v=0", LAYER_PLAIN, 0},
};

static const struct layer_case moves[] = {
    {"Identity", "", 13, "2x35x23x17", "", LAYER_C16, 0},
    {"Transpose", "", 13, "33x47", "", LAYER_PLAIN, 0},
    {"Transpose", "", 13, "2x5x7x6", "perm:v=0,2,1,3", LAYER_PLAIN, 0},
    {"Transpose", "", 13, "2x40x35x3", "perm:v=0,3,2,1", LAYER_PLAIN, 0},
    {"Transpose", "", 13, "2x19x40x35", "perm:v=0,2,3,1", LAYER_PLAIN, 0},
    {"Transpose", "", 13, "2x35x19x7", "perm:v=0,2,3,1", LAYER_LEAVE, 0},
    {"Transpose", "", 13, "1x5x3x3", "perm:v=0,2,3,1", LAYER_LEAVE, 0},
    {"Transpose", "", 13, "3x32x41", "perm:v=0,2,1", LAYER_LEAVE, 0},
    {"Transpose", "", 13, "2x19x40x32", "perm:v=0,3,1,2", LAYER_ENTER, 0},
    {"Transpose", "", 13, "3x41x48", "perm:v=0,2,1", LAYER_ENTER, 0},
    {"Transpose", "", 13, "2x60x50x20", "perm:v=0,3,1,2", LAYER_PLAIN, 0},
    {"Transpose", "", 13, "900x33", "", LAYER_PLAIN, 0},
    {"Concat", "", 13, "2x5x7 2x3x7 2x1x7", "axis:i=1", LAYER_PLAIN, 0},
    {"Concat", "", 13, "5x7 c2x7", "axis:i=0", LAYER_PLAIN, 0},
    {"Concat", "", 13, "2x24x5x7 2x24x5x7 2x24x5x7", "axis:i=1", LAYER_C16, 0},
    {"Concat", "", 13, "2x3x5x70 2x37x5x70 2x1x5x70 2x7x5x70", "axis:i=-3", LAYER_C16, 0},
    {"Concat", "", 13, "1x16x3x3 1x32x3x3", "axis:i=1", LAYER_C16, 0},
    {"Split", "", 11, "4x9x5", "axis:i=1 split:v=2,3,4", LAYER_PLAIN, 3},
    {"Split", "", 11, "4x9x5", "axis:i=1 split:v=9,0", LAYER_PLAIN, 2},
    {"Split", "", 11, "4x9x5", "axis:i=-1 split:v=2,0,3", LAYER_PLAIN, 3},
    {"Slice", "", 13, "4x9x5 i:1,2 i:9,1000 i:0,1 i:2,3", "", LAYER_PLAIN, 0},
    {"Slice", "", 13, "4x9x5 i:-1 i:-100 i:1 i:-2", "", LAYER_PLAIN, 0},
    {"Expand", "", 13, "3x1 i:2,3,6", "", LAYER_PLAIN, 0},
    {"Pad", "", 13, "2x3x4 i:1,0,2,0,1,3 f:0.5", "", LAYER_PLAIN, 0},
    {"Reshape", "", 13, "100x700 i:700,100", "", LAYER_PLAIN, 0},
};

static const struct layer_case images[] = {
    {"Resize", "", 13, "2x20x5x7 - f:1,1,2,2", "mode:s=nearest nearest_mode:s=floor", LAYER_C16, 0},
    {"Resize", "", 13, "2x20x5x7 - f:1,1,2,2", "mode:s=linear", LAYER_C16, 0},
    {"Resize", "", 13, "1x3x5x7 - f:1,1,1.6,0.7", "mode:s=linear", LAYER_PLAIN, 0},
    {"Resize", "", 13, "1x3x5x7 - - i:1,3,9,4",
     "coordinate_transformation_mode:s=align_corners mode:s=linear", LAYER_PLAIN, 0},
    {"Resize", "", 13, "1x3x6x6 - f:1,1,1.5,2.5", "coordinate_transformation_mode:s=asymmetric", LAYER_PLAIN,
     0},
    {"LRN", "", 13, "2x37x5x6", "size:i=5 alpha:f=0.5", LAYER_C16, 0},
    {"LRN", "", 13, "2x37x5x6", "size:i=3 alpha:f=0.5 bias:f=0", LAYER_C16, 0},
    {"LRN", "", 13, "2x37x5x6", "size:i=4 alpha:f=0.5 beta:f=0.6", LAYER_PLAIN, 0},
    {"ConvTranspose", "", 11, "2x20x9x15 c20x1x2x2 c1", "strides:v=2,2 act:i=4", LAYER_LEAVE, 0},
    {"ConvTranspose", "", 11, "1x7x5x6 c7x3x1x4", "strides:v=1,4", LAYER_LEAVE, 0},
    {"ConvTranspose", "", 11, "2x20x9x7 c20x19x2x2 c19", "strides:v=2,2 act:i=1", LAYER_C16, 0},
    {"ConvTranspose", "", 11, "1x16x2x14 c16x18x2x2 c18", "strides:v=2,2", LAYER_C16, 0},
    {"ConvTranspose", "", 11, "1x16x3x3 c16x16x3x2", "strides:v=2,2", LAYER_C16, 0},
    {"ConvTranspose", "", 11, "1x16x2x26 c16x16x2x4 c16", "strides:v=2,2 pads:v=0,1,0,1", LAYER_C16, 0},
    {"ConvTranspose", "", 11, "1x17x9x19 c17x5x3x3", "strides:v=2,2 pads:v=1,1,1,1 output_padding:v=1,1",
     LAYER_C16, 0},
    {"ConvTranspose", "", 11, "1x4x5x6 c4x33x4x3 c33 1x33x8x18", "strides:v=1,3 dilations:v=1,1 residual:i=3",
     LAYER_C16, 0},
};

/* Layers whose results ONNX defines for every number, NaN and infinities among them. */
static const struct layer_case special[] = {
    {"Max", "", 13, "40x50 40x50", "", LAYER_PLAIN, 0},
    {"Min", "", 13, "2x20x9x7 2x20x9x7", "", LAYER_C16, 0},
    {"Max", "", 13, "2x20x9x7 f:0.5", "", LAYER_C16, 0},
    {"Add", "", 13, "2x20x9x7 2x20x9x7", "act:i=1", LAYER_C16, 0},
    {"Mul", "", 13, "30x70 30x70", "", LAYER_PLAIN, 0},
    {"PRelu", "", 13, "2x20x9x7 c20x1x1", "", LAYER_C16, 0},
    {"Relu", "", 13, "2x19x5x3", "", LAYER_C16, 0},
    {"LeakyRelu", "", 13, "777", "alpha:f=0.3", LAYER_PLAIN, 0},
    {"Clip", "", 13, "9x90 f:-0.5 f:0.5", "", LAYER_PLAIN, 0},
    {"Sigmoid", "", 13, "9x90", "", LAYER_PLAIN, 0},
    {"Tanh", "", 13, "9x90", "", LAYER_PLAIN, 0},
    {"HardSigmoid", "", 13, "9x90", "", LAYER_PLAIN, 0},
    {"Exp", "", 13, "9x90", "", LAYER_PLAIN, 0},
    {"Erf", "", 13, "9x90", "", LAYER_PLAIN, 0},
    {"ReduceMax", "", 13, "40x53", "axes:v=1", LAYER_PLAIN, 0},
    {"ReduceMin", "", 13, "40x53", "axes:v=1", LAYER_PLAIN, 0},
    {"ReduceMax", "", 13, "40x53", "axes:v=0", LAYER_PLAIN, 0},
    {"ReduceMin", "", 13, "4x6x50", "axes:v=1", LAYER_PLAIN, 0},
    {"Transpose", "", 13, "33x47", "", LAYER_PLAIN, 0},
    {"Concat", "", 13, "2x24x5x7 2x24x5x7", "axis:i=1", LAYER_C16, 0},
    {"LSTM", "moire", 1, "5x2x76 c1x76x19", "", LAYER_PLAIN, 1},
    {"GRU", "moire", 1, "5x2x57 c1x57x19", "clip:f=3", LAYER_PLAIN, 1},
};

static void special_values_match(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
            const char *bad = layer_case_check_special(&special[i], (enum mo_isa)isa);
            if (!bad) continue;
            wrong++;
            print_error("%s(%s), %s: %s\n", special[i].op_type, special[i].inputs,
                        mo_isa_name((enum mo_isa)isa), bad);
        }
    assert_int_equal(wrong, 0);
}

static void check(const struct layer_case *cases, size_t n) {
    int wrong = 0;
    for (size_t i = 0; i < n; i++)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
            const char *bad = layer_case_check(&cases[i], (enum mo_isa)isa);
            if (!bad) continue;
            wrong++;
            print_error("%s(%s) [%s] layout %d, %s: %s\n", cases[i].op_type, cases[i].inputs,
                        cases[i].attributes, (int)cases[i].layout, mo_isa_name((enum mo_isa)isa), bad);
        }
    assert_int_equal(wrong, 0);
}

enum {
    N_PRODUCTS = sizeof products / sizeof *products,
    N_RECURRENCES = sizeof recurrences / sizeof *recurrences,
    N_ELEMENTWISE = sizeof elementwise / sizeof *elementwise,
    N_BINARIES = sizeof binaries / sizeof *binaries,
    N_POOLS = sizeof pools / sizeof *pools,
    N_ROWS = sizeof rows / sizeof *rows,
    N_MOVES = sizeof moves / sizeof *moves,
    N_IMAGES = sizeof images / sizeof *images
};

static void products_match(void **state) {
    (void)state;
    check(products, N_PRODUCTS);
}

/* Masks that leave a query few keys, or none, and scores that grow from block to block of keys. */
enum mask_kind { ENDS_EARLY, BEGINS_LATE, LEAVES_NONE, LEAVES_ALL_ALIKE, GROWS, SHRINKS, MASK_KINDS };
enum { MASKED_KEYS = 300 };

static float mask_of(enum mask_kind kind, int key) {
    switch (kind) {
    case ENDS_EARLY:
        return key < 20 ? 0 : -INFINITY;
    case BEGINS_LATE:
        return key < 280 ? -INFINITY : 0;
    case LEAVES_NONE:
        return -INFINITY;
    case LEAVES_ALL_ALIKE:
        return -3.4e38f;
    case GROWS:
        return 0.5f * (float)key;
    default:
        return 0.5f * (float)-key;
    }
}

static void masks_match(void **state) {
    (void)state;
    static const char *const operands[] = {"1x2x20x8 1x2x300x8 1x2x300x8", "1x2x5x8 1x2x300x8 1x2x300x8",
                                           "1x2x3x8 1x2x300x8 1x2x300x8"};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        for (enum mask_kind kind = 0; kind < MASK_KINDS; kind++) {
            char inputs[MASKED_KEYS * 16 + 64];
            size_t at = (size_t)snprintf(inputs, sizeof inputs, "%s f:", operands[i]);
            for (int k = 0; k < MASKED_KEYS; k++)
                at += (size_t)snprintf(inputs + at, sizeof inputs - at, "%s%g", k ? "," : "",
                                       (double)mask_of(kind, k));
            const struct layer_case c = {"Attention", "moire", 1, inputs, "", LAYER_PLAIN, 0};
            check(&c, 1);
        }
}

static void recurrences_match(void **state) {
    (void)state;
    check(recurrences, N_RECURRENCES);
}
static void elementwise_match(void **state) {
    (void)state;
    check(elementwise, N_ELEMENTWISE);
}
static void binaries_match(void **state) {
    (void)state;
    check(binaries, N_BINARIES);
}
static void pools_match(void **state) {
    (void)state;
    check(pools, N_POOLS);
}
static void rows_match(void **state) {
    (void)state;
    check(rows, N_ROWS);
}
static void moves_match(void **state) {
    (void)state;
    check(moves, N_MOVES);
}
static void images_match(void **state) {
    (void)state;
    check(images, N_IMAGES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match),       cmocka_unit_test(recurrences_match),
        cmocka_unit_test(elementwise_match),    cmocka_unit_test(binaries_match),
        cmocka_unit_test(pools_match),          cmocka_unit_test(rows_match),
        cmocka_unit_test(moves_match),          cmocka_unit_test(images_match),
        cmocka_unit_test(special_values_match), cmocka_unit_test(masks_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
