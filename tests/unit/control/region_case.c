/* SPDX-License-Identifier: Apache-2.0
 * region_case.c - see region_case.h. */
#include "tests/unit/control/region_case.h"

static struct ob *rows_of(const char *x) {
    struct ob *b = ob_create(13);
    ob_input(b, "m", MOIRE_F32, "40");
    ob_input(b, "x", MOIRE_F32, x);
    ob_node(b, "NonZero", "m", "found");
    ob_int64s(b, "flat", "-1");
    ob_node(b, "Reshape", "found flat", "at");
    ob_node(b, "Gather", "x at", "rows");
    return b;
}

/* Products, what is fused with them, and a shape that is computed from a shape. */
struct ob *region_products(void) {
    struct ob *b = rows_of("40,64");
    ob_random(b, "w", "96,64");
    ob_random(b, "c", "96");
    ob_random(b, "v", "96,128");
    ob_node(b, "Gemm", "rows w c", "a");
    ob_int(b, "transB", 1);
    ob_node(b, "Relu", "a", "r");
    ob_node(b, "MatMul", "r v", "p");
    ob_node(b, "Shape", "p", "shape");
    ob_int64s(b, "zero", "0");
    ob_node(b, "Gather", "shape zero", "n");
    ob_int64s(b, "rest", "8,16");
    ob_node(b, "Concat", "n rest", "to");
    ob_int(b, "axis", 0);
    ob_node(b, "Reshape", "p to", "q");
    ob_scalar(b, "small", 0.05f); /* or Softmax makes much of what rounding does */
    ob_node(b, "Mul", "q small", "l");
    ob_node(b, "Softmax", "l", "y");
    ob_output(b, "y");
    ob_output(b, "r");
    return b;
}

/* As behind the regions of a detector. */
struct ob *region_convolutions(void) {
    struct ob *b = rows_of("40,24,9,9");
    ob_random(b, "w", "24,24,3,3");
    ob_random(b, "u", "24,16,2,2");
    ob_random(b, "v", "5,16,1,1");
    ob_node(b, "Conv", "rows w", "a");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Relu", "a", "r");
    ob_node(b, "ConvTranspose", "r u", "t");
    ob_ints(b, "strides", "2,2");
    ob_node(b, "Conv", "t v", "p");
    ob_scalar(b, "small", 0.05f);
    ob_node(b, "Mul", "p small", "l");
    ob_node(b, "Sigmoid", "l", "y");
    ob_output(b, "y");
    return b;
}

/* What a product makes is read behind a layer that no region takes, and joins what comes from there. */
struct ob *region_crossing(void) {
    struct ob *b = rows_of("40,64");
    ob_random(b, "w", "64,64");
    ob_node(b, "MatMul", "rows w", "a");
    ob_node(b, "Relu", "a", "r");
    ob_node(b, "NonZero", "r", "where");
    ob_node(b, "Cast", "where", "f");
    ob_int(b, "to", MOIRE_F32);
    ob_scalar(b, "small", 0.001f);
    ob_node(b, "Mul", "f small", "g");
    ob_int64s(b, "axes", "0,1");
    ob_node(b, "ReduceSum", "g axes", "s");
    ob_node(b, "Add", "r s", "t");
    ob_node(b, "MatMul", "t w", "y");
    ob_output(b, "y");
    return b;
}

/* A Reshape in the middle whose shape is an input: a region in a region. */
struct ob *region_told(void) {
    struct ob *b = rows_of("40,64");
    ob_input(b, "to", MOIRE_I64, "2");
    ob_random(b, "w", "64,128");
    ob_random(b, "v", "64,80");
    ob_node(b, "MatMul", "rows w", "a");
    ob_node(b, "Reshape", "a to", "r");
    ob_node(b, "MatMul", "r v", "y");
    ob_output(b, "y");
    return b;
}

/* The rows do not fit the filter, which nobody can know before there are any. */
struct ob *region_unfit(void) {
    struct ob *b = rows_of("40,24,9,9");
    ob_random(b, "w", "24,20,3,3");
    ob_node(b, "Conv", "rows w", "y");
    ob_output(b, "y");
    return b;
}

struct ob *region_light(void) {
    struct ob *b = rows_of("40,24");
    ob_random(b, "w", "24,24");
    ob_node(b, "MatMul", "rows w", "a");
    ob_node(b, "Sigmoid", "a", "y");
    ob_output(b, "y");
    return b;
}

/* Cuts out of an image, which are parts of one layer; the boxes are the rows' first four numbers. */
static struct ob *rois_of(const char *operands) {
    struct ob *b = rows_of("40,64");
    ob_random(b, "images", "1,3,24,24");
    ob_int64s(b, "first", "0");
    ob_int64s(b, "last", "4");
    ob_int64s(b, "axis", "1");
    ob_node(b, "Slice", "rows first last axis", "unit");
    ob_scalar(b, "size", 23.0f);
    ob_node(b, "Mul", "unit size", "boxes");
    ob_node(b, "Sub", "at at", "none");
    ob_int64s(b, "one", "1");
    ob_node(b, "Add", "none one", "second");
    ob_node(b, "RoiAlign", operands, "cut");
    ob_int(b, "output_height", 4);
    ob_int(b, "output_width", 4);
    ob_int(b, "sampling_ratio", 2);
    ob_output(b, "cut");
    return b;
}

struct ob *region_rois(void) {
    return rois_of("images boxes none");
}

struct ob *region_rois_of_no_image(void) {
    return rois_of("images boxes second");
}

struct ob *region_scattered(void) {
    struct ob *b = rows_of("40,3,5");
    ob_int64s(b, "column", "-1,1,1");
    ob_int64s(b, "ones", "1,3,5");
    ob_random(b, "ground", "40,3,5");
    ob_node(b, "Cast", "rows", "cast");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Reshape", "at column", "index");
    ob_node(b, "Expand", "index ones", "indices");
    ob_node(b, "ScatterElements", "ground indices cast", "y");
    ob_int(b, "axis", 0);
    ob_output(b, "y");
    return b;
}
