/* SPDX-License-Identifier: Apache-2.0
 * gpu_other_cases.c - models of the operators that generated kernels alone serve: other convolutions and
 * pools, resizing, moves within a map, choosing, integers, recurrence.  Layers before them make their inputs
 * lie channels last. */
#include <stdio.h>
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
    ob_scalar(b, "low", 0.1f);
    ob_scalar(b, "high", 0.4f);
    ob_node(b, "Clip", "n low high", "k");
    ob_node(b, "Concat", "k n", "u");
    ob_int(b, "axis", 1);
    ob_int64s(b, "pads", "0,0,1,2,0,0,1,0");
    ob_node(b, "Pad", "u pads", "y");
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
    ob_random(b, "w1", "6,2,2,3,2");
    ob_random(b, "b1", "4");
    ob_node(b, "ConvTranspose", "y w1 b1", "t");
    ob_ints(b, "strides", "2,1,2");
    ob_ints(b, "dilations", "1,2,1");
    ob_ints(b, "pads", "0,1,1,1,0,0");
    ob_int(b, "group", 2);
    ob_node(b, "Relu", "t", "z");
    ob_output(b, "c1");
    ob_output(b, "z");
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

/* One layer behind the other, of both directions and batch first. */
struct ob *gpu_case_recurrent(void) {
    struct ob *b = ob_create(14);
    ob_input(b, "x", MOIRE_F32, "3,66,4");
    ob_random(b, "w0", "2,20,4");
    ob_random(b, "r0", "2,20,5");
    ob_random(b, "b0", "2,40");
    ob_node(b, "LSTM", "x w0 r0 b0", "a - c");
    ob_int(b, "hidden_size", 5);
    ob_string(b, "direction", "bidirectional");
    ob_node(b, "Transpose", "a", "t");
    ob_ints(b, "perm", "2,0,1,3");
    ob_int64s(b, "shape", "66,3,10");
    ob_node(b, "Reshape", "t shape", "f");
    ob_int64s(b, "zero", "0");
    ob_int64s(b, "seven", "7");
    ob_node(b, "Slice", "f zero seven", "s");
    ob_random(b, "w1", "1,9,10");
    ob_random(b, "r1", "1,9,3");
    ob_node(b, "GRU", "s w1 r1", "- h");
    ob_int(b, "hidden_size", 3);
    ob_int(b, "linear_before_reset", 1);
    ob_int(b, "layout", 1);
    ob_string(b, "direction", "reverse");
    ob_output(b, "c");
    ob_output(b, "h");
    return b;
}

/* To 8 bits and back, not beside one another: both are kernels of their own. */
struct ob *gpu_case_quantized(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,4,5");
    ob_scalar(b, "scale", 0.007f);
    ob_scalar(b, "three", 3);
    ob_node(b, "Cast", "three", "zero");
    ob_int(b, "to", MOIRE_I8);
    ob_node(b, "QuantizeLinear", "x scale zero", "q");
    ob_node(b, "Transpose", "q", "t");
    ob_node(b, "DequantizeLinear", "t scale zero", "y");
    ob_node(b, "QuantizeLinear", "x scale", "u"); /* of unsigned numbers */
    ob_node(b, "Transpose", "u", "v");
    ob_node(b, "DequantizeLinear", "v scale", "z");
    ob_output(b, "y");
    ob_output(b, "z");
    return b;
}

/* Products in every order of labels, and what is none. */
struct ob *gpu_case_einsums(void) {
    static const struct {
        const char *equation, *inputs, *out;
    } nodes[] = {
        {"bhqd,bhkd->bhqk", "x y", "a"}, /* attention's scores */
        {"bhqk,bhkd->bqhd", "a z", "b"}, /* and its values, turned */
        {"bqhd,hde->bqe", "b w", "c"},   /* several summed labels */
        {"...e,ef->f...", "c v", "d"},   /* columns before rows */
        {"fbq,f->fbq", "d u", "e"},      /* nothing summed */
        {"iji->j", "s", "f"},            /* a diagonal, one operand */
        {"fbq,gbq,q->gf", "e e t", "g"}, /* three */
    };
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,4,5");
    ob_input(b, "y", MOIRE_F32, "2,3,2,5");
    ob_input(b, "z", MOIRE_F32, "1,3,2,6");
    ob_random(b, "w", "3,6,4");
    ob_random(b, "v", "4,7");
    ob_random(b, "u", "7");
    ob_random(b, "t", "4");
    ob_input(b, "s", MOIRE_F32, "4,3,4");
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        ob_node(b, "Einsum", nodes[i].inputs, nodes[i].out);
        ob_string(b, "equation", nodes[i].equation);
    }
    ob_output(b, "f");
    ob_output(b, "g");
    return b;
}

/* Every way to sample a map by a grid, and regions of it. */
struct ob *gpu_case_sampled(void) {
    static const char *const modes[] = {"nearest", "bilinear", "bicubic"}, *const paddings[] = {"zeros",
                                                                                                "border",
                                                                                                "reflection"};
    struct ob *b = ob_create(16);
    char names[16], sum[8] = "c", next[8];
    ob_input(b, "x", MOIRE_F32, "3,3,4,5");
    ob_input(b, "grid", MOIRE_F32, "3,4,5,2");
    ob_input(b, "rois", MOIRE_F32, "5,4");
    ob_input(b, "image", MOIRE_I64, "5");
    conv3(b, "x w0", "8,3,3,3", "c");
    ob_scalar(b, "wide", 1.4f); /* beyond the map's border */
    ob_node(b, "Mul", "grid wide", "at");
    for (int i = 0; i < 18; i++) {
        snprintf(next, sizeof next, "g%d", i);
        ob_node(b, "GridSample", "c at", next);
        ob_string(b, "mode", modes[i / 3 % 3]);
        ob_string(b, "padding_mode", paddings[i % 3]);
        ob_int(b, "align_corners", i / 9);
        snprintf(names, sizeof names, "%s g%d", sum, i);
        snprintf(next, sizeof next, "s%d", i);
        ob_node(b, "Add", names, next);
        snprintf(sum, sizeof sum, "s%d", i);
    }
    ob_scalar(b, "pixels", 5);
    ob_node(b, "Mul", "rois pixels", "boxes");
    for (int i = 0; i < 2; i++) {
        ob_node(b, "RoiAlign", "c boxes image", i ? "r1" : "r0");
        ob_int(b, "output_height", 2);
        ob_int(b, "output_width", 3);
        ob_string(b, "mode", i ? "max" : "avg");
        ob_int(b, "sampling_ratio", 2 * i);
        ob_string(b, "coordinate_transformation_mode", i ? "half_pixel" : "output_half_pixel");
    }
    ob_scalar(b, "small", 0.05f);
    ob_node(b, "Mul", "s17 small", "scaled");
    ob_int64s(b, "first", "0,0");
    ob_int64s(b, "end", "2,2");
    ob_int64s(b, "axes", "2,3");
    ob_node(b, "Slice", "scaled first end axes", "square");
    ob_node(b, "Det", "square", "y");
    ob_output(b, "s17");
    ob_output(b, "r0");
    ob_output(b, "r1");
    ob_output(b, "y");
    return b;
}

/* Losses of a map: every reduction, ignored labels, weights of classes. */
struct ob *gpu_case_losses(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,4,5");
    ob_input(b, "labels", MOIRE_I64, "2,4,5");
    conv3(b, "x w0", "8,3,3,3", "c");
    ob_random(b, "r", "8");
    ob_node(b, "Exp", "r", "weights");
    ob_node(b, "SoftmaxCrossEntropyLoss", "c labels weights", "mean log");
    ob_int(b, "ignore_index", 2);
    ob_node(b, "NegativeLogLikelihoodLoss", "log labels", "sum");
    ob_string(b, "reduction", "sum");
    ob_node(b, "NegativeLogLikelihoodLoss", "log labels weights", "each");
    ob_string(b, "reduction", "none");
    ob_int(b, "ignore_index", 0);
    ob_output(b, "mean");
    ob_output(b, "log");
    ob_output(b, "sum");
    ob_output(b, "each");
    return b;
}

/* Transforms cut, padded, windowed and inverse; and a pool undone. */
struct ob *gpu_case_signals(void) {
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_F32, "2,41");
    ob_random(b, "window", "12");
    ob_int64s(b, "step", "7")->n_dims = 0;
    ob_int64s(b, "length", "16")->n_dims = 0;
    ob_node(b, "STFT", "x step window length", "f");
    ob_int64s(b, "six", "6")->n_dims = 0;
    ob_node(b, "DFT", "f six", "d");
    ob_int(b, "axis", 2);
    ob_int(b, "inverse", 1);
    ob_node(b, "DFT", "d six", "e");
    ob_int(b, "axis", 1);
    ob_int(b, "onesided", 0);
    ob_input(b, "m", MOIRE_F32, "2,3,6,4");
    ob_node(b, "MaxPool", "m", "v i");
    ob_ints(b, "kernel_shape", "2,2");
    ob_ints(b, "strides", "2,2");
    ob_int64s(b, "shape", "2,3,6,5");
    ob_node(b, "MaxUnpool", "v i shape", "u");
    ob_ints(b, "kernel_shape", "2,2");
    ob_ints(b, "strides", "2,2");
    ob_output(b, "f");
    ob_output(b, "e");
    ob_output(b, "v");
    ob_output(b, "u");
    return b;
}

/* A layer for cores between products: it fails where the first number of an image names no class of 3. */
struct ob *gpu_case_labelled(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,4");
    ob_random(b, "w", "4,3");
    ob_node(b, "MatMul", "x w", "scores");
    ob_int64s(b, "zero", "0");
    ob_int64s(b, "one", "1");
    ob_node(b, "Slice", "x zero one one", "first");
    ob_int64s(b, "flat", "2");
    ob_node(b, "Reshape", "first flat", "number");
    ob_node(b, "Cast", "number", "label");
    ob_int(b, "to", MOIRE_I64);
    ob_node(b, "NegativeLogLikelihoodLoss", "scores label", "loss");
    ob_string(b, "reduction", "none");
    ob_node(b, "Relu", "loss", "r");
    ob_int64s(b, "column", "2,1");
    ob_node(b, "Reshape", "r column", "rows");
    ob_node(b, "Add", "rows x", "y"); /* so the input stays where it is to the end */
    ob_output(b, "y");
    return b;
}
