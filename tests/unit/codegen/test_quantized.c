/* SPDX-License-Identifier: Apache-2.0
 * test_quantized.c - operators on small integers: which become float32 layers between conversions, and that
 * they give what the operators give, to one step of the output where they round to 8 bits. */
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

/* Random ones around `zero`, in steps of 1/100. */
static void weights(struct ob *b, const char *name, const char *shape, const char *zero) {
    char real[24], in[64];
    snprintf(real, sizeof real, "%s_real", name);
    snprintf(in, sizeof in, "%s hundredth %s", real, zero);
    ob_random(b, real, shape);
    ob_node(b, "QuantizeLinear", in, name);
}

static void begin(struct ob *b, int dtype, const char *shape) {
    ob_input(b, "x", dtype, shape);
    ob_scalar(b, "hundredth", 0.01f);
    ob_scalar(b, "xs", 0.02f);
    ob_scalar(b, "ws", 0.01f);
    ob_scalar(b, "ys", 0.4123f); /* few sums lie just between two steps */
    ob_integers(b, "u0", "0", MOIRE_U8);
    ob_integers(b, "u7", "7", MOIRE_U8);
    ob_integers(b, "u128", "128", MOIRE_U8);
    ob_integers(b, "u255", "255", MOIRE_U8);
    ob_integers(b, "i0", "0", MOIRE_I8);
    ob_integers(b, "i5", "-5", MOIRE_I8);
}

/* One scale, zero points on both sides; padding stands for zero. */
static void conv_of_tensors(struct ob *b) {
    begin(b, MOIRE_U8, "2,5,9,9");
    weights(b, "w", "20,5,3,3", "u128");
    ob_node(b, "QLinearConv", "x xs u128 w ws u128 ys u7", "y");
    ob_ints(b, "pads", "1,1,1,1");
    ob_output(b, "y");
}

/* A scale a channel, a bias, groups, strides; signed. */
static void conv_of_channels(struct ob *b) {
    static const float scales[16] = {.01f,  .02f,  .005f, .01f,  .03f, .01f, .02f, .01f,
                                     .015f, .012f, .01f,  .005f, .01f, .04f, .01f, .02f};
    begin(b, MOIRE_I8, "1,16,10,7");
    ob_floats(b, "many", "16", scales);
    ob_integers(b, "bias", "100,-2000,3,0,5,70,-80,900,1,2,3,-4000,5,6,7,8", MOIRE_I32);
    weights(b, "w", "16,1,3,3", "i0");
    ob_node(b, "QLinearConv", "x xs i5 w many i0 ys i5 bias", "y");
    ob_int(b, "group", 16);
    ob_ints(b, "strides", "2,1");
    ob_output(b, "y");
}

/* Two convolutions: the numbers between them are converted in one layer. */
static void two_convs(struct ob *b) {
    begin(b, MOIRE_U8, "1,3,8,8");
    weights(b, "w", "20,3,3,3", "i0");
    weights(b, "v", "4,20,1,1", "i0");
    ob_node(b, "QLinearConv", "x xs u128 w ws i0 ys u128", "a");
    ob_node(b, "QLinearConv", "a ys u128 v ws i0 ys u255", "y");
    ob_output(b, "y");
}

static void product_of_columns(struct ob *b) {
    static const float scales[5] = {.01f, .02f, .005f, .01f, .03f};
    begin(b, MOIRE_U8, "3,7,33");
    ob_floats(b, "many", "5", scales);
    ob_integers(b, "zeros", "0,3,-3,9,1", MOIRE_I8);
    weights(b, "w", "33,5", "i0");
    ob_node(b, "QLinearMatMul", "x xs u128 w many zeros ys u7", "y");
    ob_output(b, "y");
}

static void product_of_two(struct ob *b) {
    begin(b, MOIRE_U8, "2,6,17");
    ob_input(b, "z", MOIRE_U8, "2,17,9");
    ob_node(b, "QLinearMatMul", "x xs u128 z ws u128 ys u7", "y");
    ob_output(b, "y");
}

/* As tools quantize transformers: the range is found at run time, and two products read one tensor. */
static void dynamic(struct ob *b) {
    begin(b, MOIRE_F32, "2,6,40");
    weights(b, "w", "40,24", "i0");
    weights(b, "v", "40,8", "u128");
    ob_node(b, "DynamicQuantizeLinear", "x", "q s z");
    ob_node(b, "MatMulInteger", "q w z", "a");
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

/* All that it says is an output, and everything is zero. */
static void range(struct ob *b) {
    begin(b, MOIRE_F32, "3,50");
    ob_node(b, "Sub", "x x", "o");
    ob_node(b, "DynamicQuantizeLinear", "x", "y s z");
    ob_node(b, "DynamicQuantizeLinear", "o", "a c d");
    ob_output(b, "y");
    ob_output(b, "s");
    ob_output(b, "z");
    ob_output(b, "a");
    ob_output(b, "d");
}

static void conv_of_integers(struct ob *b) {
    begin(b, MOIRE_U8, "1,4,9,9");
    weights(b, "w", "18,4,3,3", "i0");
    ob_node(b, "ConvInteger", "x w u128", "a");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Cast", "a", "y");
    ob_int(b, "to", MOIRE_F32);
    ob_output(b, "y");
}

/* A sum that is read as an integer must be exact. */
static void sums(struct ob *b) {
    begin(b, MOIRE_U8, "4,12");
    weights(b, "w", "12,6", "i0");
    ob_node(b, "MatMulInteger", "x w u7", "y");
    ob_output(b, "y");
}

static const struct quantized_case {
    const char *name;
    void (*build)(struct ob *b);
    int layers;    /* after the passes but those of layouts */
    int reference; /* of them, operators on integers that have no kernel */
} cases[] = {
    {"conv of tensors", conv_of_tensors, 3, 0},
    {"conv of channels", conv_of_channels, 3, 0},
    {"two convs", two_convs, 5, 0},
    {"product of columns", product_of_columns, 3, 0},
    {"product of two", product_of_two, 4, 0},
    {"dynamic", dynamic, -1, 0},
    {"range", range, -1, 0},
    {"conv of integers", conv_of_integers, 2, 0},
    {"sums", sums, 1, 1},
};

/* --- running ------------------------------------------------------------------------------------------- */

static int differences(const char *what, const moire_tensor *got, const moire_tensor *want) {
    size_t element = mo_dtype_bytes(want->dtype), n = want->bytes / element, steps = 0;
    assert_int_equal(got->bytes, want->bytes);
    assert_int_equal(got->dtype, want->dtype);
    for (size_t i = 0; i < n; i++) {
        double d = ways_distance(got, want, i);
        if (!(d <= 1)) {
            print_error("%s: element %zu is %g off\n", what, i, d);
            return 1;
        }
        steps += d > 0 && element == 1;
    }
    if (steps * 50 <= n + 49) return 0;
    print_error("%s: %zu of %zu elements are a step off\n", what, steps, n);
    return 1;
}

static bool on_integers(const struct mo_node *node) {
    return strstr(node->op_type, "QLinear") || strstr(node->op_type, "Integer") ||
           strstr(node->op_type, "Quantize") || strstr(node->op_type, "Dequantize");
}

static void operators_become_layers(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(13);
        cases[i].build(b);
        struct mo_graph *g = ways_graph(b, true, false);
        int left = 0;
        for (int k = 0; k < g->n_nodes; k++)
            left += on_integers(g->nodes[k]);
        if ((cases[i].layers >= 0 && g->n_nodes != cases[i].layers) || left != cases[i].reference) {
            print_error("%s: %d layers, %d on integers\n", cases[i].name, g->n_nodes, left);
            ways_show(g);
            wrong++;
        }
        mo_graph_destroy(g);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void layers_match_the_operators(void **state) {
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(operators_become_layers),
                                       cmocka_unit_test(layers_match_the_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
