/* SPDX-License-Identifier: Apache-2.0
 * test_fused.c - trees of pointwise operators: which become one layer, and that its kernels give what the
 * single operators give, for every broadcast, type and instruction set, on special values too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/codegen/ways_case.h"

/* --- graphs -------------------------------------------------------------------------------------------- */

/* Rows, columns, scalars and whole tensors; x read twice. */
static void broadcasts(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "3,5,37");
    ob_input(b, "r", MOIRE_F32, "5,1");
    ob_random(b, "c", "37");
    ob_random(b, "n", "3,1,1");
    ob_scalar(b, "s", 0.7f);
    ob_node(b, "Mul", "x c", "a");
    ob_node(b, "Add", "a r", "d");
    ob_node(b, "Sub", "s d", "e");
    ob_node(b, "Mul", "e n", "f");
    ob_node(b, "Tanh", "f", "h");
    ob_node(b, "Mul", "h x", "y");
    ob_output(b, "y");
}

/* Columns longer than a strip; powers; results that die at different times. */
static void long_rows(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "3,1300");
    ob_input(b, "z", MOIRE_F32, "1,1300");
    ob_scalar(b, "two", 2);
    ob_scalar(b, "three", 3);
    ob_scalar(b, "half", 0.5f);
    ob_node(b, "Pow", "x two", "a");
    ob_node(b, "Pow", "x three", "c");
    ob_node(b, "Abs", "x", "d");
    ob_node(b, "Pow", "d half", "e");
    ob_node(b, "Add", "a c", "f");
    ob_node(b, "Mul", "f z", "h");
    ob_node(b, "Sub", "e h", "i");
    ob_node(b, "Add", "i x", "y");
    ob_output(b, "y");
}

/* One row, longer than the group of columns of a unit. */
static void one_row(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "9001");
    ob_scalar(b, "s", 1.5f);
    ob_node(b, "Mul", "x s", "a");
    ob_node(b, "Erf", "a", "c");
    ob_node(b, "Neg", "c", "d");
    ob_node(b, "Exp", "d", "y");
    ob_output(b, "y");
}

static void logic(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "4,6,19");
    ob_input(b, "z", MOIRE_F32, "6,1");
    ob_scalar(b, "zero", 0);
    ob_scalar(b, "low", -3);
    ob_node(b, "Less", "x z", "a");
    ob_node(b, "GreaterOrEqual", "x zero", "c");
    ob_node(b, "Or", "a c", "d");
    ob_node(b, "Not", "a", "e");
    ob_node(b, "Xor", "d e", "f");
    ob_node(b, "Where", "f x low", "y");
    ob_output(b, "y");
}

/* A tree that ends in a bool, which is an output. */
static void ends_in_bool(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "7,33");
    ob_random(b, "c", "7,1");
    ob_node(b, "Mul", "x c", "a");
    ob_node(b, "Equal", "a a", "d");
    ob_node(b, "LessOrEqual", "a c", "e");
    ob_node(b, "And", "d e", "y");
    ob_output(b, "y");
}

/* The masks of exporters: integers, casts, a bool mask. */
static void masks(struct ob *b) {
    ob_input(b, "i", MOIRE_I64, "2,1,1,21");
    ob_input(b, "x", MOIRE_F32, "2,3,4,21");
    ob_scalar(b, "one", 1);
    ob_scalar(b, "much", -1e4f);
    ob_node(b, "Cast", "i", "f");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Sub", "one f", "g");
    ob_node(b, "Mul", "g much", "h");
    ob_node(b, "Add", "x h", "y");
    ob_node(b, "Cast", "i", "m");
    ob_int(b, "to", MOIRE_BOOL);
    ob_node(b, "Where", "m x much", "z");
    ob_output(b, "y");
    ob_output(b, "z");
}

static void rounding(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "2,2,300");
    ob_input(b, "z", MOIRE_F32, "2,2,300");
    ob_node(b, "Floor", "x", "a");
    ob_node(b, "Ceil", "z", "c");
    ob_node(b, "Min", "a c", "d");
    ob_node(b, "Round", "x", "e");
    ob_node(b, "Max", "d e", "f");
    ob_node(b, "Sign", "z", "h");
    ob_node(b, "Mul", "f h", "y");
    ob_node(b, "Log", "x", "l");
    ob_node(b, "Sqrt", "z", "q");
    ob_node(b, "Div", "l q", "v");
    ob_node(b, "IsNaN", "v", "n");
    ob_node(b, "Where", "n x v", "w");
    ob_output(b, "y");
    ob_output(b, "w");
}

/* Between convs, in blocks of channels: 20 channels leave padding. */
static void blocked(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "2,3,6,6");
    ob_random(b, "w", "20,3,3,3");
    ob_random(b, "v", "4,20,1,1");
    ob_random(b, "c", "1,20,1,1");
    ob_scalar(b, "s", 0.7f);
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "GlobalAveragePool", "a", "p");
    ob_node(b, "Mul", "a p", "d");
    ob_node(b, "Add", "d c", "e");
    ob_node(b, "Max", "e s", "f");
    ob_node(b, "Sub", "a f", "h");
    ob_node(b, "Conv", "h v", "y");
    ob_output(b, "y");
}

/* A result that is read outside, or is an output, stays. */
static void shared(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "5,18");
    ob_random(b, "c", "18");
    ob_node(b, "Mul", "x c", "a");
    ob_node(b, "Exp", "a", "d");
    ob_node(b, "Sub", "d x", "y");
    ob_node(b, "Neg", "d", "e");
    ob_node(b, "Add", "e c", "z");
    ob_output(b, "y");
    ob_output(b, "z");
    ob_output(b, "a");
}

/* More operands than a layer takes: two layers, and the second one's list is not the one that was too long.
 */
static void many_operands(struct ob *b) {
    char in[32], out[16] = "x";
    ob_input(b, "x", MOIRE_F32, "5,18");
    for (int i = 0; i < 18; i++) {
        snprintf(in, sizeof in, "%s c%d", out, i);
        ob_random(b, strchr(in, ' ') + 1, "18");
        snprintf(out, sizeof out, i == 17 ? "y" : "a%d", i);
        ob_node(b, i % 2 ? "Sub" : "Mul", in, out);
    }
    ob_output(b, "y");
}

/* A zero point: a constant of 8 bits. */
static void zero_point(struct ob *b, const char *name, const char *value, moire_dtype type) {
    char wide[16];
    snprintf(wide, sizeof wide, "%s_wide", name);
    ob_int64s(b, wide, value);
    ob_node(b, "Cast", wide, name);
    ob_int(b, "to", type);
}

/* To unsigned numbers and back, then to signed ones, which are the output. */
static void quantizers(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "4,6,19");
    ob_scalar(b, "s", 0.013f);
    ob_scalar(b, "t", 1.0f / 128);
    zero_point(b, "u", "90", MOIRE_U8);
    zero_point(b, "i", "-128", MOIRE_I8);
    ob_node(b, "QuantizeLinear", "x s u", "a");
    ob_node(b, "DequantizeLinear", "a s u", "c");
    ob_node(b, "Mul", "c c", "d");
    ob_node(b, "QuantizeLinear", "d t i", "y");
    ob_output(b, "y");
}

/* Small integers come in; a scale a channel is no step of a program. */
static void small_integers(struct ob *b) {
    ob_input(b, "i", MOIRE_I8, "5,18");
    ob_input(b, "x", MOIRE_F32, "5,18");
    ob_scalar(b, "s", 0.3f);
    ob_random(b, "many", "18");
    ob_node(b, "DequantizeLinear", "i s", "a");
    ob_node(b, "Add", "a x", "c");
    ob_node(b, "QuantizeLinear", "c s", "y");
    ob_node(b, "DequantizeLinear", "i many", "z");
    ob_output(b, "y");
    ob_output(b, "z");
}

/* Each reader has a dequantizer of its own, and they are the same; another says something else. */
static void dequantized_twice(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "5,18");
    ob_scalar(b, "s", 0.02f);
    ob_scalar(b, "same", 0.02f);
    ob_scalar(b, "other", 0.03f);
    zero_point(b, "u", "7", MOIRE_U8);
    ob_node(b, "QuantizeLinear", "x s u", "a");
    ob_node(b, "DequantizeLinear", "a s u", "c");
    ob_node(b, "DequantizeLinear", "a same u", "d");
    ob_node(b, "Exp", "c", "y");
    ob_node(b, "Abs", "d", "z");
    ob_output(b, "y");
    ob_output(b, "z");
    ob_node(b, "QuantizeLinear", "x other u", "e");
    ob_node(b, "DequantizeLinear", "e other u", "w");
    ob_output(b, "w");
}

/* Between convs: 20 channels leave padding. */
static void quantized_blocks(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "2,3,6,6");
    ob_random(b, "w", "20,3,3,3");
    ob_random(b, "v", "4,20,1,1");
    ob_scalar(b, "s", 1);
    zero_point(b, "u", "100", MOIRE_U8);
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "QuantizeLinear", "a s u", "c");
    ob_node(b, "DequantizeLinear", "c s u", "d");
    ob_node(b, "Conv", "d v", "y");
    ob_output(b, "y");
}

/* Halves of each of two images are quantized apart, and the numbers lie in one tensor again. */
static void quantized_slices(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "2,6,5,7");
    ob_scalar(b, "s", 0.02f);
    ob_scalar(b, "t", 0.05f);
    zero_point(b, "u", "100", MOIRE_U8);
    ob_node(b, "Split", "x", "a c");
    ob_int(b, "axis", 1);
    ob_node(b, "QuantizeLinear", "a s u", "d");
    ob_node(b, "QuantizeLinear", "c t u", "e");
    ob_node(b, "Concat", "d e", "f");
    ob_int(b, "axis", 1);
    ob_node(b, "DequantizeLinear", "f t u", "y");
    ob_output(b, "f");
    ob_output(b, "y");
}

static const struct fused_case {
    const char *name;
    void (*build)(struct ob *b);
    int layers, fused; /* after the passes but the layout ones */
    bool special;      /* works on infinities, NaN and denormals */
} cases[] = {
    {"broadcasts", broadcasts, 1, 1, true},
    {"long rows", long_rows, 1, 1, false},
    {"one row", one_row, 1, 1, true},
    {"logic", logic, 1, 1, true},
    {"ends in bool", ends_in_bool, 1, 1, true},
    {"masks", masks, 4, 3, true},
    {"rounding", rounding, 2, 2, true},
    {"blocked", blocked, 4, 1, false},
    {"shared", shared, 4, 1, true},
    {"many operands", many_operands, 2, 2, true},
    {"quantizers", quantizers, 1, 1, true},
    {"small integers", small_integers, 2, 1, true},
    {"dequantized twice", dequantized_twice, 4, 2, true},
    {"quantized blocks", quantized_blocks, 3, 1, false},
    {"quantized slices", quantized_slices, 5, 3, true},
};

/* --- running ------------------------------------------------------------------------------------------- */

/* Denormals may be flushed; NaN and infinities must agree. */
static bool close_to(float got, float want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return fabsf(got - want) <= 3e-6f * fabsf(want) + 2e-6f;
}

static int differences(const char *what, const moire_tensor *got, const moire_tensor *want) {
    assert_int_equal(got->bytes, want->bytes);
    assert_int_equal(got->dtype, want->dtype);
    if (want->dtype != MOIRE_F32) return memcmp(got->data, want->data, want->bytes) != 0;
    for (size_t i = 0; i < want->bytes / 4; i++) {
        float g = ((const float *)got->data)[i], w = ((const float *)want->data)[i];
        if (close_to(g, w)) continue;
        print_error("%s: element %zu is %g, the operators give %g\n", what, i, (double)g, (double)w);
        return 1;
    }
    return 0;
}

static void trees_become_one_layer(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(13);
        cases[i].build(b);
        struct mo_graph *g = ways_graph(b, true, false);
        int fused = 0;
        for (int k = 0; k < g->n_nodes; k++)
            fused += !strcmp(g->nodes[k]->op_type, "Fused");
        if (g->n_nodes != cases[i].layers || fused != cases[i].fused) {
            print_error("%s: %d layers, %d fused\n", cases[i].name, g->n_nodes, fused);
            wrong++;
        }
        mo_graph_destroy(g);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void kernels_match_the_operators(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(13);
        cases[i].build(b);
        wrong += ways_check(b, cases[i].name, false, differences);
        if (cases[i].special) wrong += ways_check(b, cases[i].name, true, differences);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(trees_become_one_layer),
                                       cmocka_unit_test(kernels_match_the_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
