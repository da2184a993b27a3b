/* SPDX-License-Identifier: Apache-2.0
 * gpu_other_cases.c - models of the operators that generated kernels alone serve: other convolutions and
 * pools, resizing, moves within a map, choosing, integers.  Layers before them make their inputs lie channels
 * last. */
#include "tests/cuda/gpu_cases.h"

static void conv3(struct ob *b, const char *in, const char *weights, const char *y) {
    ob_random(b, "w0", weights);
    ob_node(b, "Conv", in, y);
    ob_ints(b, "pads", "1,1,1,1");
}

struct ob *gpu_case_resampled(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,6,5");
    conv3(b, "x w0", "8,3,3,3", "a");
    ob_random(b, "w1", "8,3,3,2");
    ob_random(b, "b1", "6");
    ob_node(b, "ConvTranspose", "a w1 b1", "t");
    ob_ints(b, "strides", "2,3");
    ob_ints(b, "pads", "1,0,0,1");
    ob_int(b, "group", 2);
    ob_node(b, "Relu", "t", "t1");
    ob_floats(b, "scales", "4", (const float[]){1, 1, 2, 0.5f});
    ob_node(b, "Resize", "t1 - scales", "r");
    ob_string(b, "mode", "linear");
    ob_node(b, "LRN", "r", "n");
    ob_int(b, "size", 3);
    ob_int64s(b, "times", "1,2,1,1");
    ob_node(b, "Tile", "n times", "u");
    ob_node(b, "DepthToSpace", "u", "s");
    ob_int(b, "blocksize", 2);
    ob_int64s(b, "pads", "0,0,1,2,0,0,1,0");
    ob_node(b, "Pad", "s pads", "y");
    ob_string(b, "mode", "reflect");
    ob_output(b, "n");
    ob_output(b, "y");
    return b;
}

struct ob *gpu_case_volumes(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,4,5,6,7");
    ob_random(b, "w", "6,2,3,3,3");
    ob_random(b, "bias", "6");
    ob_node(b, "Conv", "x w bias", "c");
    ob_ints(b, "pads", "1,0,1,1,0,1");
    ob_int(b, "group", 2);
    ob_node(b, "Sigmoid", "c", "c1");
    ob_node(b, "AveragePool", "c1", "a");
    ob_ints(b, "kernel_shape", "2,2,3");
    ob_ints(b, "pads", "0,1,1,0,0,1");
    ob_node(b, "MaxPool", "a", "y");
    ob_ints(b, "kernel_shape", "2,2,2");
    ob_ints(b, "strides", "1,2,1");
    ob_output(b, "c1");
    ob_output(b, "y");
    return b;
}

struct ob *gpu_case_plain_products(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "3,4,6");
    ob_input(b, "z", MOIRE_F32, "5,1,6,7");
    ob_random(b, "v", "7");
    ob_random(b, "c", "1,3");
    ob_node(b, "MatMul", "x z", "a");
    ob_node(b, "MatMul", "a v", "m");
    ob_int64s(b, "flat", "12,5");
    ob_node(b, "Reshape", "m flat", "f");
    ob_random(b, "w", "3,12");
    ob_node(b, "Gemm", "f w c", "y");
    ob_int(b, "transA", 1);
    ob_int(b, "transB", 1);
    ob_float(b, "alpha", 0.25f);
    ob_float(b, "beta", 0.5f);
    ob_output(b, "y");
    return b;
}

struct ob *gpu_case_chosen(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,4,6");
    conv3(b, "x w0", "8,3,3,3", "c");
    ob_int64s(b, "k", "3");
    ob_node(b, "TopK", "c k", "v i");
    ob_int(b, "axis", 1);
    ob_node(b, "GatherElements", "c i", "g");
    ob_int(b, "axis", 1);
    ob_node(b, "Elu", "g", "e");
    ob_int64s(b, "last", "3");
    ob_node(b, "CumSum", "e last", "s");
    ob_node(b, "LpNormalization", "s", "y");
    ob_int(b, "axis", 2);
    ob_output(b, "v");
    ob_output(b, "y");
    return b;
}
