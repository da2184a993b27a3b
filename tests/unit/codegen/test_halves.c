/* SPDX-License-Identifier: Apache-2.0
 * test_halves.c - layers of bfloat16, rounded or as terms of float32: on whole numbers, of which nothing is
 * rounded, a matrix unit and its model give the bits of the reference in float32; on others, errors are those
 * of the rounding. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/codegen/used_memory.h"
#include "tests/unit/codegen/ways_case.h"
#include "tools/moire/verify/ways.h"
#include "variants/matrix/matrix.h"

enum residual { NONE, BEFORE, AFTER };
static const struct layer {
    const char *name, *x, *weights, *pads, *strides, *dilations;
    int group;
    const char *act; /* NULL: none */
    enum residual residual;
} layers[] = {
    {"1x1", "1,64,9,7", "48,64,1,1", "0,0,0,0", "1,1", "1,1", 1, "Relu", NONE},
    {"1x1, batch", "3,24,5,7", "40,24,1,1", "0,0,0,0", "1,1", "1,1", 1, NULL, BEFORE},
    {"1x1, stride 2", "1,32,9,13", "17,32,1,1", "0,0,0,0", "2,2", "1,1", 1, NULL, NONE},
    {"3x3", "2,20,21,30", "40,20,3,3", "1,1,1,1", "1,1", "1,1", 1, "Relu", BEFORE},
    {"3x3, no padding", "1,64,10,14", "16,64,3,3", "0,0,0,0", "1,1", "1,1", 1, "LeakyRelu", NONE},
    {"3x3, uneven padding", "1,33,11,9", "16,33,3,3", "2,0,0,1", "1,1", "1,1", 1, NULL, AFTER},
    {"3x3, wide rows", "1,16,5,70", "16,16,3,3", "1,1,1,1", "1,1", "1,1", 1, "LeakyRelu", AFTER},
    {"3x3, stride 2", "1,48,15,17", "32,48,3,3", "1,1,1,1", "2,2", "1,1", 1, "Relu", NONE},
    {"3x3, stride 3", "1,80,15,17", "32,80,3,3", "1,1,1,1", "3,3", "1,1", 1, NULL, NONE},
    {"5x5", "1,24,12,11", "16,24,5,5", "2,2,2,2", "1,1", "1,1", 1, NULL, NONE},
    {"1x3", "1,32,8,9", "16,32,1,3", "0,1,0,1", "1,3", "1,1", 1, NULL, NONE},
    {"dilated", "1,40,13,17", "24,40,3,3", "2,2,2,2", "1,1", "2,2", 1, "Relu", NONE},
    {"dilated, stride 2", "1,16,13,17", "24,16,3,3", "3,3,3,3", "2,2", "3,3", 1, NULL, NONE},
    {"groups", "1,64,8,9", "64,16,3,3", "1,1,1,1", "1,1", "1,1", 4, NULL, BEFORE},
    {"groups of 4", "1,32,9,8", "32,4,3,3", "1,1,1,1", "1,1", "1,1", 8, NULL, NONE},
    {"groups of 5", "1,15,9,8", "12,5,3,3", "1,1,1,1", "1,1", "1,1", 3, NULL, NONE},
    {"first, 7x7", "1,3,33,41", "24,3,7,7", "3,3,3,3", "2,2", "1,1", 1, "Relu", NONE},
    {"first, 3x3", "2,3,18,37", "16,3,3,3", "1,1,1,1", "1,1", "1,1", 1, "Relu", NONE},
    {"first, one channel", "1,1,9,13", "16,1,5,5", "2,2,2,2", "1,1", "1,1", 1, NULL, NONE},
    {"first, dilated", "1,4,9,13", "16,4,3,3", "2,2,2,2", "1,1", "2,2", 1, NULL, NONE},
    {"product", "3,7,48", "48,33", NULL, NULL, NULL, 1, "Relu", NONE},
    {"product, one row", "1,320", "320,64", NULL, NULL, NULL, 1, NULL, BEFORE},
    {"product, odd sizes", "2,19,35", "35,10", NULL, NULL, NULL, 1, NULL, BEFORE},
    {"product, many rows", "70,16", "16,80", NULL, NULL, NULL, 1, "LeakyRelu", AFTER},
    {"product, slabs", "97,2120", "2120,49", NULL, NULL, NULL, 1, "Relu", AFTER},
};
/* Of more columns than slabs keep sums for: too much for the model. */
static const struct layer wide = {
    "product, wide slabs", "250,704", "704,1060", NULL, NULL, NULL, 1, NULL, NONE};

/* A constant of whole numbers from -4 to 4. */
static void whole(struct ob *b, const char *name, const char *shape) {
    char real[40], more[40];
    snprintf(real, sizeof real, "%s real", name);
    snprintf(more, sizeof more, "%s more", name);
    for (char *s = real; *s; s++)
        if (*s == ' ') *s = '_';
    for (char *s = more; *s; s++)
        if (*s == ' ') *s = '_';
    char inputs[100];
    ob_random(b, real, shape);
    snprintf(inputs, sizeof inputs, "%s four", real);
    ob_node(b, "Mul", inputs, more);
    ob_node(b, "Round", more, name);
}

static void add_layer(struct ob *b, const struct layer *l, const char *inputs, const char *out) {
    ob_node(b, l->pads ? "Conv" : "MatMul", inputs, out);
    if (!l->pads) return;
    ob_ints(b, "pads", l->pads);
    ob_ints(b, "strides", l->strides);
    ob_ints(b, "dilations", l->dilations);
    ob_int(b, "group", l->group);
}

/* The residual is a second layer of the same kind, so that it has the right shape. */
static struct ob *build(const struct layer *l) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, l->x);
    ob_scalar(b, "four", 4);
    whole(b, "w", l->weights);
    whole(b, "v", l->weights);
    add_layer(b, l, "x w", "c");
    const char *y = "c";
    if (l->residual != NONE) add_layer(b, l, "x v", "r");
    if (l->residual == BEFORE) {
        ob_node(b, "Add", "c r", "s");
        y = "s";
    }
    if (l->act) {
        ob_node(b, l->act, y, "a");
        if (!strcmp(l->act, "LeakyRelu")) ob_float(b, "alpha", 0.5f);
        y = "a";
    }
    if (l->residual == AFTER) {
        char inputs[20];
        snprintf(inputs, sizeof inputs, "%s r", y);
        ob_node(b, "Add", inputs, "t");
        y = "t";
    }
    ob_output(b, y);
    return b;
}

/* Whole numbers that a byte holds, or any. */
static void fill(const moire_tensor *in, bool any) {
    uint64_t seed = 5;
    for (size_t i = 0; i < in->bytes / 4; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const float x = (float)(int8_t)(seed >> 56);
        ((float *)in->data)[i] = any ? x * 0.0371f : x;
    }
}

/* Numbers rounded to bfloat16, or as three terms, on every unit that there is; a machine without one computes
 * in float32, by its vectors. */
static const struct way {
    enum moire_precision precision;
    enum mo_units units;
} ways[] = {
    {MOIRE_PRECISION_BF16, MO_UNITS_OWN},     {MOIRE_PRECISION_BF16, MO_UNITS_MODEL},
    {MOIRE_PRECISION_BF16, MO_UNITS_VECTORS}, {MOIRE_PRECISION_BF16, MO_UNITS_NONE},
    {MOIRE_PRECISION_AUTO, MO_UNITS_OWN},     {MOIRE_PRECISION_AUTO, MO_UNITS_MODEL},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

static const char *say(const struct way *way) {
    static char text[60];
    snprintf(text, sizeof text, "%s, units %d", mo_precision_name(way->precision), (int)way->units);
    return text;
}

/* NULL: the reference, in float32. */
static void run(struct ob *b, const struct way *way, const moire_tensor *in, moire_tensor *out) {
    const struct mo_frontend_options front = {.precision = way ? way->precision : MOIRE_PRECISION_FP32,
                                              .any_unit = true};
    const struct mo_plan_options options = {.isa = way ? mo_isa_detect() : MO_ISA_BASE,
                                            .units = way ? way->units : MO_UNITS_NONE,
                                            .reference_only = !way};
    struct mo_graph *g = ways_graph_of(b, &front);
    moire_error err = {0};
    if (way && way->precision == MOIRE_PRECISION_BF16) assert_string_equal(mo_precision_used(g), "bf16");
    if (way && way->precision == MOIRE_PRECISION_AUTO) assert_int_equal(g->terms, MO_TERMS_ALWAYS);
    if (run_graph_in_used_memory(g, &options, in, 1, out, &err))
        fail_msg("%s: %s", way ? say(way) : "reference", err.message);
}

static moire_tensor input_of(struct ob *b) {
    struct mo_graph *plain = ways_graph(b, false, false);
    const struct mo_tensor *t = plain->tensors[plain->inputs[0]];
    moire_tensor in = {.dtype = MOIRE_F32, .rank = t->shape.rank, .bytes = (size_t)mo_tensor_bytes(t)};
    memcpy(in.shape, t->shape.d, sizeof in.shape);
    in.data = ob_alloc(b, in.bytes);
    mo_graph_destroy(plain);
    return in;
}

/* A residual may be rounded in memory.  Vectors may go by Winograd's algorithm, which rounds. */
static int compare(const struct layer *l, bool model) {
    struct ob *b = build(l);
    moire_tensor in = input_of(b), want = {0}, got = {0};
    int wrong = 0;
    fill(&in, false);
    run(b, NULL, &in, &want);
    for (int k = 0; k < N_WAYS; k++) {
        const struct way *way = &ways[k];
        const double room = way->precision == MOIRE_PRECISION_BF16 && l->residual != NONE ? 40 : 0;
        if (way->units == MO_UNITS_NONE || (way->units == MO_UNITS_MODEL && !model)) continue;
        if (way->precision == MOIRE_PRECISION_AUTO && way->units == MO_UNITS_OWN &&
            !mo_matrix_of(mo_isa_detect(), MO_MATRIX_FLOATS))
            continue;
        run(b, way, &in, &got);
        assert_int_equal(got.bytes, want.bytes);
        int here = 0;
        for (size_t i = 0; i < want.bytes / 4; i++) {
            const float g = ((const float *)got.data)[i], w = ((const float *)want.data)[i];
            here += !(fabs((double)g - (double)w) <= room);
        }
        if (here) print_error("%s, %s: %d differences\n", l->name, say(way), here);
        wrong += here;
        mo_way_free(&b->env, &got, 1);
    }
    mo_way_free(&b->env, &want, 1);
    ob_destroy(b);
    return wrong;
}

static void whole_numbers_are_exact(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        wrong += compare(&layers[i], true);
    wrong += compare(&wide, false);
    assert_int_equal(wrong, 0);
}

/* First layer, pool, a block with a residual, a gate, the mean, a product. */
static struct ob *network(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,37,45");
    ob_random(b, "w0", "32,3,7,7");
    ob_node(b, "Conv", "x w0", "a0");
    ob_ints(b, "pads", "3,3,3,3");
    ob_ints(b, "strides", "2,2");
    ob_node(b, "Relu", "a0", "a1");
    ob_node(b, "MaxPool", "a1", "p");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "strides", "2,2");
    ob_ints(b, "pads", "1,1,1,1");
    ob_random(b, "w1", "48,32,3,3");
    ob_node(b, "Conv", "p w1", "b0");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Sigmoid", "b0", "b1");
    ob_random(b, "w2", "32,48,1,1");
    ob_node(b, "Conv", "b1 w2", "c0");
    ob_node(b, "Add", "c0 p", "c1");
    ob_node(b, "Relu", "c1", "c2");
    ob_node(b, "GlobalAveragePool", "c2", "g0");
    ob_random(b, "w3", "32,32,1,1");
    ob_node(b, "Conv", "g0 w3", "g1");
    ob_node(b, "Sigmoid", "g1", "g2");
    ob_node(b, "Mul", "c2 g2", "d0");
    ob_random(b, "w4", "20,32,1,1");
    ob_node(b, "Conv", "d0 w4", "d1");
    ob_node(b, "GlobalAveragePool", "d1", "e");
    ob_node(b, "Flatten", "e", "f");
    ob_random(b, "w5", "20,10");
    ob_node(b, "MatMul", "f w5", "y");
    ob_output(b, "y");
    return b;
}

/* Sizes that fill neither blocks nor steps; with a mask that is added. */
static struct ob *attention(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,45,24");
    ob_scalar(b, "half", 0.5f);
    ob_scalar(b, "scale", 0.02f);
    ob_random(b, "mask", "1,1,45,45");
    ob_node(b, "Mul", "x half", "k");
    ob_node(b, "Transpose", "k", "kt");
    ob_ints(b, "perm", "0,1,3,2");
    ob_node(b, "Neg", "x", "v");
    ob_node(b, "MatMul", "x kt", "s0");
    ob_node(b, "Mul", "s0 scale", "s1");
    ob_node(b, "Add", "s1 mask", "s2");
    ob_node(b, "Softmax", "s2", "s3");
    ob_int(b, "axis", -1);
    ob_node(b, "MatMul", "s3 v", "y0");
    ob_random(b, "w", "24,16");
    ob_node(b, "MatMul", "y0 w", "y");
    ob_output(b, "y");
    return b;
}

/* The gate of an image that is the model's input, of so few channels that a first layer could read it. */
static struct ob *gated_input(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,4,9,11");
    ob_node(b, "GlobalAveragePool", "x", "g0");
    ob_random(b, "w0", "4,4,1,1");
    ob_node(b, "Conv", "g0 w0", "g1");
    ob_node(b, "Sigmoid", "g1", "g2");
    ob_node(b, "Mul", "x g2", "d");
    ob_random(b, "w1", "24,4,1,1");
    ob_node(b, "Conv", "d w1", "y");
    ob_output(b, "y");
    return b;
}

/* A product of more rows than a band could hold, and its columns. */
static struct ob *tall(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "9000,64");
    ob_random(b, "w", "64,16");
    ob_node(b, "MatMul", "x w", "y");
    ob_output(b, "y");
    return b;
}

static void loses_little(struct ob *b, const char *operator, int tensors) {
    moire_tensor in = input_of(b), want = {0}, got = {0};
    fill(&in, true);
    const struct mo_frontend_options front = {.precision = MOIRE_PRECISION_BF16, .any_unit = true};
    struct mo_graph *g = ways_graph_of(b, &front);
    int halves = 0;
    for (int i = 0; i < g->n_tensors; i++)
        halves += g->tensors[i]->layout == MO_C16_HALVES && g->tensors[i]->n_uses > 0;
    bool there = false;
    for (int i = 0; i < g->n_nodes; i++)
        there = there || !strcmp(g->nodes[i]->op_type, operator);
    assert_true(there);
    assert_true(halves >= tensors);
    mo_graph_destroy(g);
    run(b, NULL, &in, &want);
    for (int k = 0; k < N_WAYS; k++) {
        const double room = ways[k].precision == MOIRE_PRECISION_BF16 ? 0.02 : 2e-6;
        run(b, &ways[k], &in, &got);
        double most = 0, error = 0;
        for (size_t i = 0; i < want.bytes / 4; i++) {
            const double v = (double)((const float *)want.data)[i];
            error = fmax(error, fabs((double)((const float *)got.data)[i] - v));
            most = fmax(most, fabs(v));
        }
        if (!(error <= room * most)) fail_msg("%s: error %g of %g", say(&ways[k]), error, most);
        mo_way_free(&b->env, &got, 1);
    }
    mo_way_free(&b->env, &want, 1);
    ob_destroy(b);
}

static void networks_lose_little(void **state) {
    (void)state;
    loses_little(network(), "MaxPool", 4); /* a1, p, b1, c2 */
    loses_little(attention(), "Attention", 0);
    loses_little(gated_input(), "Conv", 0);
    loses_little(tall(), "MatMul", 0);
}

static void halves_are_rounded_to_even(void **state) {
    (void)state;
    static const struct {
        uint32_t bits;
        uint16_t half;
    } cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82},
                 {0x3f808001, 0x3f81}, {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80},
                 {0xff800001, 0xffc0}, {0x80000000, 0x8000}, {0x00018000, 0x0002}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x;
        memcpy(&x, &cases[i].bits, sizeof x);
        assert_int_equal(mo_bfloat16(x), cases[i].half);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(halves_are_rounded_to_even),
                                       cmocka_unit_test(whole_numbers_are_exact),
                                       cmocka_unit_test(networks_lose_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
