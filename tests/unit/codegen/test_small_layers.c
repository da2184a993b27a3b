/* SPDX-License-Identifier: Apache-2.0
 * test_small_layers.c - layers between conversions compute with 8-bit numbers: which operators they become,
 * and that they give what the single operators give, to one step of the output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/codegen/ways_case.h"

/* --- graphs -------------------------------------------------------------------------------------------- */

static void begin(struct ob *b, const char *shape) {
    ob_input(b, "in", MOIRE_F32, shape);
    ob_scalar(b, "hundredth", 0.01f);
    ob_scalar(b, "xs", 0.0171f);
    ob_scalar(b, "ws", 0.0101f);
    ob_scalar(b, "ys", 0.0423f);
    ob_scalar(b, "zs", 0.0317f);
    ob_integers(b, "u0", "0", MOIRE_U8);
    ob_integers(b, "u7", "7", MOIRE_U8);
    ob_integers(b, "u128", "128", MOIRE_U8);
    ob_integers(b, "u255", "255", MOIRE_U8);
    ob_integers(b, "i0", "0", MOIRE_I8);
    ob_integers(b, "i5", "-5", MOIRE_I8);
}

/* `to` = what `from` stands for once it is rounded to 8 bits, "scale zero". */
static void there_and_back(struct ob *b, const char *from, const char *grid, const char *to) {
    char small[24], in[64];
    snprintf(small, sizeof small, "%s_small", to);
    snprintf(in, sizeof in, "%s %s", from, grid);
    ob_node(b, "QuantizeLinear", in, small);
    snprintf(in, sizeof in, "%s %s", small, grid);
    ob_node(b, "DequantizeLinear", in, to);
}

/* Random weights of 8 bits around `zero`, dequantized. */
static void weights(struct ob *b, const char *name, const char *shape, const char *zero) {
    char real[24], in[64], small[24];
    snprintf(real, sizeof real, "%s_real", name);
    snprintf(small, sizeof small, "%s_small", name);
    ob_random(b, real, shape);
    snprintf(in, sizeof in, "%s hundredth %s", real, zero);
    ob_node(b, "QuantizeLinear", in, small);
    snprintf(in, sizeof in, "%s ws %s", small, zero);
    ob_node(b, "DequantizeLinear", in, name);
}

static void end(struct ob *b, const char *from, const char *grid) {
    char in[64];
    snprintf(in, sizeof in, "%s %s", from, grid);
    ob_node(b, "QuantizeLinear", in, "y");
    ob_output(b, "y");
}

/* Padding stands for zero, which is no byte of 0. */
static void padded(struct ob *b) {
    begin(b, "1,20,9,37");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "33,20,3,3", "i0");
    ob_random(b, "bias", "33");
    ob_node(b, "Conv", "x w bias", "a");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Relu", "a", "r");
    end(b, "r", "ys u7");
}

/* Two images, two rows a tile, signed. */
static void signed_images(struct ob *b) {
    begin(b, "2,16,7,7");
    there_and_back(b, "in", "xs i5", "x");
    weights(b, "w", "48,16,3,3", "i5");
    ob_node(b, "Conv", "x w", "a");
    ob_ints(b, "pads", "1,1,1,1");
    there_and_back(b, "a", "ys i0", "c");
    weights(b, "v", "16,48,1,1", "u128");
    ob_node(b, "Conv", "c v", "d");
    end(b, "d", "ys i5");
}

static void first(struct ob *b) {
    begin(b, "1,3,31,45");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "24,3,7,7", "i0");
    ob_node(b, "Conv", "x w", "a");
    ob_ints(b, "pads", "3,3,3,3");
    ob_ints(b, "strides", "2,2");
    end(b, "a", "ys u128");
}

static void depthwise(struct ob *b) {
    begin(b, "1,24,17,33");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "24,1,3,3", "i0");
    ob_node(b, "Conv", "x w", "a");
    ob_int(b, "group", 24);
    ob_ints(b, "pads", "1,1,1,1");
    there_and_back(b, "a", "ys u7", "c");
    weights(b, "v", "24,1,5,5", "i0");
    ob_node(b, "Conv", "c v", "d");
    ob_int(b, "group", 24);
    ob_ints(b, "pads", "2,2,2,2");
    ob_ints(b, "strides", "2,2");
    end(b, "d", "ys u0");
}

static void dilated(struct ob *b) {
    begin(b, "1,3,17,19");
    there_and_back(b, "in", "xs u0", "x");
    weights(b, "w", "3,1,3,3", "i0");
    ob_node(b, "Conv", "x w", "a");
    ob_int(b, "group", 3);
    ob_ints(b, "dilations", "2,2");
    there_and_back(b, "a", "ys u7", "c");
    weights(b, "v", "40,3,3,3", "i0");
    ob_node(b, "Conv", "c v", "d");
    ob_ints(b, "dilations", "3,2");
    end(b, "d", "ys u128");
}

static void groups(struct ob *b) {
    begin(b, "1,16,6,11");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "32,4,3,3", "i0");
    ob_node(b, "Conv", "x w", "a");
    ob_int(b, "group", 4);
    ob_ints(b, "pads", "1,0,1,2");
    end(b, "a", "ys u128");
}

/* Nothing quantizes the result, and no clamp is its activation. */
static void real_result(struct ob *b) {
    begin(b, "1,16,5,9");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "24,16,1,1", "i0");
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "Sigmoid", "a", "s");
    ob_node(b, "Mul", "a s", "y");
    ob_output(b, "y");
}

/* With a scale and a zero point for each channel, and an activation before the result is quantized. */
static void channels(struct ob *b) {
    static const float scales[16] = {.01f,  .02f,  .005f, .01f,  .03f, .01f, .02f, .01f,
                                     .015f, .012f, .01f,  .005f, .01f, .04f, .01f, .02f};
    begin(b, "1,32,8,8");
    there_and_back(b, "in", "xs u7", "x");
    ob_floats(b, "many", "16", scales);
    ob_integers(b, "zeros", "0,1,-2,3,0,0,1,0,5,0,0,-4,0,0,2,0", MOIRE_I8);
    ob_random(b, "w_real", "16,32,1,1");
    ob_node(b, "QuantizeLinear", "w_real hundredth i0", "w_wide");
    ob_node(b, "DequantizeLinear", "w_wide many zeros", "w");
    ob_int(b, "axis", 0);
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "Sigmoid", "a", "s");
    ob_node(b, "Mul", "a s", "m");
    end(b, "m", "zs u7");
}

static void gemm(struct ob *b) {
    begin(b, "3,48");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "21,48", "i0");
    ob_random(b, "bias", "21");
    ob_node(b, "Gemm", "x w bias", "a");
    ob_int(b, "transB", 1);
    end(b, "a", "ys u128");
}

/* Rows as long as a pixel of floats. */
static void rows_of_64(struct ob *b) {
    begin(b, "2,5,4,64");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "64,48", "i5");
    ob_node(b, "MatMul", "x w", "a");
    end(b, "a", "ys u7");
}

static void matmul(struct ob *b) {
    begin(b, "2,19,32");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "32,40", "u128");
    ob_random(b, "bias", "40");
    ob_node(b, "MatMul", "x w", "a");
    ob_node(b, "Add", "bias a", "c");
    ob_node(b, "Relu", "c", "d");
    there_and_back(b, "d", "ys u0", "e");
    weights(b, "v", "40,5", "i0");
    ob_node(b, "MatMul", "e v", "y"); /* 40 is no multiple of 16 */
    ob_output(b, "y");
}

/* The range is found at run time, and so is the zero point; two products read one tensor. */
static void dynamic(struct ob *b) {
    begin(b, "2,6,48");
    ob_integers(b, "many", "0,1,-2,3,0,0,1,0,5,0,0,-4,0,0,2,0,7", MOIRE_I8);
    ob_random(b, "w_real", "48,17");
    ob_node(b, "QuantizeLinear", "w_real hundredth i0", "w");
    ob_random(b, "v_real", "48,8");
    ob_node(b, "QuantizeLinear", "v_real hundredth u128", "v");
    ob_node(b, "DynamicQuantizeLinear", "in", "q s z");
    ob_node(b, "MatMulInteger", "q w z many", "a");
    ob_node(b, "MatMulInteger", "q v z u128", "c");
    ob_node(b, "Cast", "a", "d");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Cast", "c", "e");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Mul", "s ws", "f");
    ob_node(b, "Mul", "d f", "y");
    ob_node(b, "Mul", "e f", "t");
    ob_output(b, "y");
    ob_output(b, "t");
}

/* What moves, joins, adds and multiplies bytes. */
static void between(struct ob *b) {
    begin(b, "1,16,12,10");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "16,16,1,1", "i0");
    ob_node(b, "Conv", "x w", "a");
    there_and_back(b, "a", "ys u128", "c");
    ob_node(b, "MaxPool", "c", "p");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "pads", "1,1,1,1");
    there_and_back(b, "p", "ys u128", "d");
    ob_node(b, "Add", "c d", "e");
    ob_node(b, "Relu", "e", "f");
    there_and_back(b, "f", "zs u7", "g");
    ob_node(b, "Concat", "g d", "h");
    ob_int(b, "axis", 1);
    there_and_back(b, "h", "ys u7", "i");
    ob_node(b, "GlobalAveragePool", "i", "j");
    ob_node(b, "Sigmoid", "j", "k");
    ob_node(b, "Mul", "i k", "l");
    there_and_back(b, "l", "ys u0", "m");
    ob_node(b, "LeakyRelu", "m", "n");
    end(b, "n", "zs u128");
}

/* Zero points at the end of the type. */
static void far_zeros(struct ob *b) {
    begin(b, "1,16,4,4");
    there_and_back(b, "in", "xs u128", "x");
    weights(b, "w", "16,16,1,1", "u0");
    ob_node(b, "Conv", "x w", "a");
    end(b, "a", "ys u128");
}

static const struct small_case {
    const char *name;
    void (*build)(struct ob *b);
    const char *operator;
    int count; /* of it after the passes */
} cases[] = {
    {"padded", padded, "QConv", 1},
    {"signed images", signed_images, "QConv", 2},
    {"first", first, "QConv", 1},
    {"depthwise", depthwise, "QConv", 2},
    {"dilated", dilated, "QConv", 2},
    {"groups", groups, "QConv", 1},
    {"real result", real_result, "QConv", 1},
    {"channels", channels, "QConv", 1},
    {"gemm", gemm, "QMatMul", 1},
    {"rows of 64", rows_of_64, "QMatMul", 1},
    {"matmul", matmul, "QMatMul", 1},
    {"dynamic", dynamic, "QMatMul", 2},
    {"between", between, "QGlobalAveragePool", 1},
    {"far zeros", far_zeros, "QConv", 1},
};

/* --- running ------------------------------------------------------------------------------------------- */

/* A step where a sum lies between two of them; more where what is rounded was rounded before. */
static int differences(const char *what, const moire_tensor *got, const moire_tensor *want) {
    size_t element = mo_dtype_bytes(want->dtype), n = want->bytes / element, steps = 0;
    bool rounds = strstr(what, "between") || strstr(what, "signed") || strstr(what, "matmul");
    assert_int_equal(got->bytes, want->bytes);
    assert_int_equal(got->dtype, want->dtype);
    for (size_t i = 0; i < n; i++) {
        double d = ways_distance(got, want, i), most = rounds && element == 1 ? 2 : 1;
        if (strstr(what, "matmul")) most = 3000; /* a step of the tensor between is so much of a sum */
        if (!(d <= most)) {
            print_error("%s: element %zu is %g off\n", what, i, d);
            return 1;
        }
        steps += d > 0 && element == 1;
    }
    if (steps * 50 <= n + 49) return 0;
    print_error("%s: %zu of %zu elements are a step off\n", what, steps, n);
    return 1;
}

static void layers_become_small(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(13);
        cases[i].build(b);
        struct mo_graph *g =
            ways_graph_of(b, &(struct mo_frontend_options){.precision = MOIRE_PRECISION_INT8});
        const int found = ways_count(g, cases[i].operator);
        if (found != cases[i].count) {
            print_error("%s: %d of %s\n", cases[i].name, found, cases[i].operator);
            ways_show(g);
            wrong++;
        }
        mo_graph_destroy(g);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void small_layers_match_the_operators(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(13);
        cases[i].build(b);
        wrong += ways_check(b, cases[i].name, false, differences);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_become_small),
                                       cmocka_unit_test(small_layers_match_the_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
