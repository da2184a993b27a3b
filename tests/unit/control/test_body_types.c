/* SPDX-License-Identifier: Apache-2.0
 * test_body_types.c - tensors of 16 and 8 bits in the bodies of If, Loop and Scan: products, convolutions,
 * conversions, state and scan outputs, in bodies that stay (by plans and by the references) and in those that
 * become part of the graph.  What is expected is what ONNX says of float32 between conversions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/control/control_case.h"
#include "tests/unit/codegen/ways_case.h"

/* Many trips: the loop stays.  Few: it becomes part of the graph. */
static const char *const trips[] = {"17", "3"};

static void begin_body(struct ob *body, int state) {
    ob_loop_inputs(body);
    ob_input(body, "s", state, NULL);
}

static void put_loop(struct ob *b, struct ob *body, const char *n, const char *state, const char *out) {
    char inputs[40];
    ob_int64s(b, "trips", n);
    ob_node(b, "Squeeze", "trips", "m");
    snprintf(inputs, sizeof inputs, "m - %s", state);
    ob_node(b, "Loop", inputs, out);
    ob_body(b, "body", body);
}

static void cast(struct ob *b, const char *from, const char *to, int type) {
    ob_node(b, "Cast", from, to);
    ob_int(b, "to", type);
}

/* --- 16 bits ---------------------------------------------------------------------------------------------
 */

/* Whole numbers, which halves hold: s <- s * 1 + x in half precision, so the answer is exact. */
static void halves_in_a_loop(void **state) {
    static const int types[] = {MOIRE_F16, MOIRE_BF16};
    (void)state;
    for (int k = 0; k < 4; k++) {
        const float n = k & 1 ? 3 : 17;
        struct control c;
        struct ob *b = control_main(&c, 13), *body = control_body(&c);
        ob_input(b, "x", MOIRE_F32, "2,2");
        ob_floats(b, "eye", "2,2", (const float[]){1, 0, 0, 1});
        cast(b, "x", "h", types[k / 2]);
        cast(b, "eye", "w", types[k / 2]);
        begin_body(body, types[k / 2]);
        ob_node(body, "MatMul", "s w", "product");
        ob_node(body, "Add", "product h", "next");
        ob_output(body, "was");
        ob_output(body, "next");
        ob_output(body, "product");
        put_loop(b, body, trips[k & 1], "h", "last all");
        cast(b, "last", "y", MOIRE_F32);
        cast(b, "all", "z", MOIRE_F32);
        ob_output(b, "y");
        ob_output(b, "z");
        control_in(&c, MOIRE_F32, "2,2", (const float[]){1, -2, 3, 0});
        control_expect(&c, 0, "2,2", (const float[]){1 + n, -2 * (1 + n), 3 * (1 + n), 0});
        control_end(&c);
    }
}

/* A convolution by weights of the file in half precision, in each branch. */
static void halves_in_branches(void **state) {
    (void)state;
    for (int taken = 0; taken < 2; taken++) {
        const uint8_t flag = (uint8_t)taken;
        struct control c;
        struct ob *b = control_main(&c, 13), *then = control_body(&c), *other = control_body(&c);
        ob_input(b, "c", MOIRE_BOOL, "");
        ob_input(b, "x", MOIRE_F32, "1,1,2,2");
        cast(b, "x", "h", MOIRE_F16);
        ob_floats(then, "w2", "1,1,1,1", (const float[]){2});
        cast(then, "w2", "wt", MOIRE_F16);
        ob_node(then, "Conv", "h wt", "t");
        ob_output(then, "t");
        ob_floats(other, "w3", "1,1,1,1", (const float[]){3});
        cast(other, "w3", "we", MOIRE_F16);
        ob_node(other, "Conv", "h we", "e");
        ob_output(other, "e");
        ob_node(b, "If", "c", "z");
        ob_body(b, "then_branch", then);
        ob_body(b, "else_branch", other);
        cast(b, "z", "y", MOIRE_F32);
        ob_output(b, "y");
        control_in(&c, MOIRE_BOOL, "", &flag);
        control_in(&c, MOIRE_F32, "1,1,2,2", (const float[]){1, 2, -4, 8});
        const float by = taken ? 2 : 3;
        control_expect(&c, 0, "1,1,2,2", (const float[]){by, 2 * by, -4 * by, 8 * by});
        control_end(&c);
    }
}

/* --- 8 bits ----------------------------------------------------------------------------------------------
 */

/* Quantized state: dequantized, multiplied by an int8 constant, quantized again. */
static void bytes_in_a_loop(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct control c;
        struct ob *b = control_main(&c, 13), *body = control_body(&c);
        ob_input(b, "x", MOIRE_F32, "2,2");
        ob_scalar(b, "half", 0.5f);
        ob_integers(b, "zero", "3", MOIRE_U8);
        ob_integers(b, "none", "0", MOIRE_I8);
        ob_int64s(b, "flat", "0,2,2,0");
        ob_int64s(b, "square", "2,2");
        ob_node(b, "Reshape", "flat square", "swap64");
        cast(b, "swap64", "swap", MOIRE_I8);
        ob_node(b, "QuantizeLinear", "x half zero", "q");
        begin_body(body, MOIRE_U8);
        ob_node(body, "DequantizeLinear", "s half zero", "f");
        ob_node(body, "DequantizeLinear", "swap half none", "w");
        ob_node(body, "MatMul", "f w", "product");
        ob_node(body, "QuantizeLinear", "product half zero", "next");
        ob_output(body, "was");
        ob_output(body, "next");
        ob_output(body, "f");
        put_loop(b, body, trips[k], "q", "last all");
        ob_node(b, "DequantizeLinear", "last half zero", "y");
        ob_output(b, "y");
        ob_output(b, "all");
        /* columns change places in each trip, an odd number of times */
        control_in(&c, MOIRE_F32, "2,2", (const float[]){1, -1.5f, 30, 0.5f});
        control_expect(&c, 0, "2,2", (const float[]){-1.5f, 1, 0.5f, 30});
        control_end(&c);
    }
}

/* The operators on 8-bit numbers themselves, by every kind of kernel. */
static void quantized_operators_in_a_loop(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct control c;
        struct ob *b = control_main(&c, 13), *body = control_body(&c);
        ob_input(b, "x", MOIRE_F32, "1,16,6,6");
        ob_random(b, "weights", "16,16,3,3");
        ob_scalar(b, "sw", 0.0078125f);
        ob_scalar(b, "sx", 0.03125f);
        ob_integers(b, "zx", "128", MOIRE_U8);
        ob_integers(b, "zw", "0", MOIRE_I8);
        ob_node(b, "QuantizeLinear", "weights sw zw", "w");
        ob_node(b, "QuantizeLinear", "x sx zx", "q");
        begin_body(body, MOIRE_U8);
        ob_node(body, "QLinearConv", "s sx zx w sw zw sx zx", "conv");
        ob_ints(body, "pads", "1,1,1,1");
        ob_node(body, "DequantizeLinear", "conv sx zx", "f");
        ob_node(body, "Tanh", "f", "t");
        ob_node(body, "QuantizeLinear", "t sx zx", "next");
        ob_output(body, "was");
        ob_output(body, "next");
        put_loop(b, body, k ? "1" : "17", "q", "last");
        ob_node(b, "DequantizeLinear", "last sx zx", "y");
        ob_output(b, "y");
        struct mo_graph *g = ways_graph(b, true, false);
        assert_int_equal(ways_count(g, "Loop"), !k);
        mo_graph_destroy(g);
        /* one trip: within a step.  In 17 trips steps add up and the kinds part, so all must only answer */
        if (k) assert_int_equal(ways_check(b, "QLinearConv in a loop", false, ways_near), 0);
        control_end(&c);
    }
}

/* Slices of int8, of which the sum is taken. */
static void bytes_in_a_scan(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 13), *body = control_body(&c);
    (void)state;
    ob_input(b, "x", MOIRE_I8, "3,2");
    ob_int64s(b, "zeros", "0,0");
    cast(b, "zeros", "none", MOIRE_I32);
    ob_input(body, "sum", MOIRE_I32, NULL);
    ob_input(body, "row", MOIRE_I8, NULL);
    cast(body, "row", "wide", MOIRE_I32);
    ob_node(body, "Add", "sum wide", "next");
    cast(body, "next", "narrow", MOIRE_I8);
    ob_output(body, "next");
    ob_output(body, "narrow");
    ob_node(b, "Scan", "none x", "total sums");
    ob_int(b, "num_scan_inputs", 1);
    ob_body(b, "body", body);
    ob_output(b, "total");
    ob_output(b, "sums");
    control_in(&c, MOIRE_I8, "3,2", (const int8_t[]){100, -100, 20, -20, -3, 4});
    control_expect(&c, 0, "2", (const float[]){117, -116});
    control_expect(&c, 1, "3,2", (const float[]){100, -100, 120, -120, 117, -116});
    control_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_in_a_loop), cmocka_unit_test(halves_in_branches),
        cmocka_unit_test(bytes_in_a_loop),  cmocka_unit_test(quantized_operators_in_a_loop),
        cmocka_unit_test(bytes_in_a_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
