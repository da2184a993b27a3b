/* SPDX-License-Identifier: Apache-2.0
 * test_images.c - convolutions that become convolutions over images: what they compute, by every kernel, and
 * that no layer of them is left to the reference. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/codegen/ways_case.h"

enum { DRAWS = 40 };

/* --- models --------------------------------------------------------------------------------------------- */

/* A residual block, a concat, pools, sums with constants, a mean: all of it stays with images. */
static void chain(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "2,3,64");
    ob_random(b, "w1", "16,3,7");
    ob_random(b, "w2", "16,16,3");
    ob_random(b, "w3", "24,16,1");
    ob_random(b, "v", "10,40");
    ob_random(b, "slope", "16,1");
    ob_scalar(b, "half", 0.5f);
    ob_node(b, "Conv", "x w1", "a");
    ob_ints(b, "strides", "2");
    ob_ints(b, "pads", "3,3");
    ob_batch_norm(b, "a", "b", "16");
    ob_node(b, "Relu", "b", "c");
    ob_node(b, "MaxPool", "c", "d");
    ob_ints(b, "kernel_shape", "3");
    ob_ints(b, "strides", "2");
    ob_ints(b, "pads", "1,1");
    ob_node(b, "Conv", "d w2", "e");
    ob_ints(b, "pads", "2,2");
    ob_ints(b, "dilations", "2");
    ob_node(b, "Add", "e d", "f");
    ob_node(b, "Relu", "f", "g");
    ob_node(b, "Mul", "g slope", "h");
    ob_node(b, "Sub", "half h", "i");
    ob_node(b, "Conv", "g w3", "j");
    ob_node(b, "Concat", "i j", "k");
    ob_int(b, "axis", 1);
    ob_node(b, "GlobalAveragePool", "k", "l");
    ob_node(b, "Flatten", "l", "m");
    ob_node(b, "Gemm", "m v", "y");
    ob_int(b, "transB", 1);
    ob_output(b, "y");
    ob_output(b, "h");
}

/* Readers that need the tensors themselves, and a tensor that two layers need as images. */
static void borders(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,16,20");
    ob_random(b, "w1", "16,16,3");
    ob_random(b, "w2", "16,16,2");
    ob_node(b, "Conv", "x w1", "a");
    ob_ints(b, "pads", "1,1");
    ob_node(b, "Softmax", "a", "b");
    ob_int(b, "axis", 2);
    ob_node(b, "ConvTranspose", "b w2", "c");
    ob_ints(b, "strides", "2");
    ob_node(b, "Conv", "b w1", "d");
    ob_ints(b, "pads", "1,1");
    ob_node(b, "Transpose", "d", "e");
    ob_ints(b, "perm", "0,2,1");
    ob_node(b, "AveragePool", "c", "f");
    ob_ints(b, "kernel_shape", "3");
    ob_ints(b, "strides", "2");
    ob_ints(b, "pads", "1,0");
    ob_node(b, "Sigmoid", "a", "g");
    ob_output(b, "a");
    ob_output(b, "e");
    ob_output(b, "f");
    ob_output(b, "g");
}

/* A gate for each channel. */
static void squeeze(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "2,16,33");
    ob_random(b, "w1", "32,16,3");
    ob_random(b, "w2", "32,32,1");
    ob_random(b, "w3", "16,32,1");
    ob_node(b, "Conv", "x w1", "a");
    ob_string(b, "auto_pad", "SAME_LOWER");
    ob_node(b, "GlobalAveragePool", "a", "b");
    ob_node(b, "Conv", "b w2", "c");
    ob_node(b, "Sigmoid", "c", "d");
    ob_node(b, "Mul", "a d", "e");
    ob_node(b, "Conv", "e w3", "y");
    ob_output(b, "y");
}

/* Clips: a residual block with strides in depth, pools of frames and of both, a mean of all. */
static void clips(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "2,3,6,12,10");
    ob_random(b, "w1", "16,3,3,5,5");
    ob_random(b, "w2", "18,16,1,3,3");
    ob_random(b, "w3", "32,18,3,1,1");
    ob_random(b, "w4", "32,16,1,1,1");
    ob_random(b, "v", "10,64");
    ob_random(b, "slope", "32,1,1,1");
    ob_node(b, "Conv", "x w1", "a");
    ob_ints(b, "strides", "1,2,2");
    ob_ints(b, "pads", "1,2,2,1,2,2");
    ob_batch_norm(b, "a", "b", "16");
    ob_node(b, "Relu", "b", "c");
    ob_node(b, "Conv", "c w2", "d");
    ob_ints(b, "pads", "0,1,1,0,1,1");
    ob_node(b, "Relu", "d", "e");
    ob_node(b, "Conv", "e w3", "f");
    ob_ints(b, "strides", "2,1,1");
    ob_ints(b, "pads", "1,0,0,1,0,0");
    ob_node(b, "Conv", "c w4", "g");
    ob_ints(b, "strides", "2,1,1");
    ob_node(b, "Add", "f g", "h");
    ob_node(b, "Relu", "h", "i");
    ob_node(b, "MaxPool", "i", "j");
    ob_ints(b, "kernel_shape", "3,3,3");
    ob_ints(b, "pads", "1,1,1,1,1,1");
    ob_node(b, "Mul", "j slope", "k");
    ob_node(b, "Concat", "k i", "l");
    ob_int(b, "axis", 1);
    ob_node(b, "AveragePool", "l", "m");
    ob_ints(b, "kernel_shape", "2,1,1");
    ob_node(b, "GlobalAveragePool", "m", "n");
    ob_node(b, "Flatten", "n", "o");
    ob_node(b, "Gemm", "o v", "y");
    ob_int(b, "transB", 1);
    ob_output(b, "y");
    ob_output(b, "g");
}

/* Groups over one frame and over several, filters that are computed, a clip of one frame. */
static void odd_clips(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,16,1,7,6");
    ob_input(b, "u", MOIRE_F32, "4,16,1,1,1");
    ob_random(b, "w1", "16,4,1,3,3");
    ob_random(b, "w2", "16,1,3,3,3");
    ob_node(b, "Conv", "x w1", "a");
    ob_int(b, "group", 4);
    ob_ints(b, "pads", "2,1,1,1,1,1");
    ob_node(b, "Conv", "a w2", "b");
    ob_int(b, "group", 16);
    ob_ints(b, "pads", "1,1,1,1,1,1");
    ob_node(b, "Conv", "b u", "c");
    ob_node(b, "AveragePool", "c", "d");
    ob_ints(b, "kernel_shape", "3,3,3");
    ob_ints(b, "pads", "1,1,1,1,1,1");
    ob_int(b, "count_include_pad", 1);
    ob_node(b, "GlobalMaxPool", "a", "e");
    ob_node(b, "Sigmoid", "a", "f");
    ob_output(b, "d");
    ob_output(b, "e");
    ob_output(b, "f");
}

/* Filters of more frames than are gathered, with all that an epilogue has. */
static void deep(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "2,18,11,5,6");
    ob_random(b, "w1", "18,18,9,3,3");
    ob_random(b, "w2", "20,18,10,1,1");
    ob_random(b, "bias", "18");
    ob_node(b, "Conv", "x w1 bias", "a");
    ob_ints(b, "pads", "4,1,1,4,1,1");
    ob_node(b, "Add", "a x", "b");
    ob_node(b, "Relu", "b", "c");
    ob_node(b, "Conv", "c w2", "y");
    ob_ints(b, "strides", "2,1,1");
    ob_ints(b, "pads", "5,0,0,3,0,0");
    ob_output(b, "y");
}

/* --- draws ---------------------------------------------------------------------------------------------- */

static int pick(uint64_t *seed, int n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((*seed >> 33) % (uint64_t)n);
}

/* "2,1,3": `n` numbers from `least` on, of `range`. */
static const char *numbers(uint64_t *seed, int n, int least, int range, char out[60]) {
    int at = 0;
    for (int i = 0; i < n; i++)
        at += snprintf(out + at, 60 - (size_t)at, "%s%d", i ? "," : "", least + pick(seed, range));
    return out;
}

static void window(struct ob *b, uint64_t *seed, int dims) {
    char text[60];
    ob_ints(b, "strides", numbers(seed, dims, 1, 3, text));
    ob_ints(b, "dilations", numbers(seed, dims, 1, 2, text));
    if (pick(seed, 4))
        ob_ints(b, "pads", numbers(seed, 2 * dims, 0, 3, text));
    else
        ob_string(b, "auto_pad", pick(seed, 2) ? "SAME_UPPER" : "SAME_LOWER");
}

/* A convolution, what fuses with it, and another one behind, of any window. */
static void drawn(struct ob *b, uint64_t seed, int dims) {
    static const char *const channels[] = {"1", "3", "16", "18", "32", "40"};
    const char *c0 = channels[pick(&seed, 6)], *c1 = channels[pick(&seed, 6)];
    char text[60], shape[100];
    snprintf(shape, sizeof shape, "%d,%s,%s", 1 + pick(&seed, 2), c0, numbers(&seed, dims, 8, 9, text));
    ob_input(b, "x", MOIRE_F32, shape);
    snprintf(shape, sizeof shape, "%s,%s,%s", c1, c0, numbers(&seed, dims, 1, 3, text));
    ob_random(b, "w1", shape);
    snprintf(shape, sizeof shape, "20,%s,%s", c1, numbers(&seed, dims, 1, 2, text));
    ob_random(b, "w2", shape);
    ob_random(b, "bias", c1);
    ob_node(b, "Conv", pick(&seed, 2) ? "x w1" : "x w1 bias", "a");
    window(b, &seed, dims);
    ob_batch_norm(b, "a", "b", c1);
    ob_node(b, "Relu", "b", "c");
    ob_node(b, "Conv", "c w2", "y");
    ob_output(b, "y");
}

/* A pool of any window behind a convolution. */
static void drawn_pool(struct ob *b, uint64_t seed, int dims) {
    const int max = pick(&seed, 2);
    char text[60], shape[100];
    snprintf(shape, sizeof shape, "2,18,%s", numbers(&seed, dims, 6, 9, text));
    ob_input(b, "x", MOIRE_F32, shape);
    snprintf(shape, sizeof shape, "18,18,%s", numbers(&seed, dims, 1, 1, text));
    ob_random(b, "w", shape);
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, max ? "MaxPool" : "AveragePool", "a", "y");
    ob_ints(b, "kernel_shape", numbers(&seed, dims, 2, 2, text));
    ob_ints(b, "strides", numbers(&seed, dims, 1, 3, text));
    ob_ints(b, "pads", numbers(&seed, 2 * dims, 0, 2, text));
    ob_int(b, "ceil_mode", pick(&seed, 2));
    if (!max) ob_int(b, "count_include_pad", pick(&seed, 2));
    ob_output(b, "y");
}

/* --- tests ---------------------------------------------------------------------------------------------- */

static int layers_over(struct ob *b, int rank) {
    struct mo_graph *g = ways_graph(b, true, true);
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct mo_tensor *x = mo_node_in(g, g->nodes[i], 0);
        const char *op = g->nodes[i]->op_type;
        n += (strstr(op, "Conv") || strstr(op, "Pool")) && x->shape.rank == rank;
    }
    mo_graph_destroy(g);
    return n;
}

static const struct {
    const char *name;
    void (*make)(struct ob *b);
    int rank, left, moves; /* layers left over tensors of this rank; Reshapes and Transposes in the end */
} models[] = {
    {"chain", chain, 3, 0, 3}, {"borders", borders, 3, 0, 7},     {"squeeze", squeeze, 3, 0, 2},
    {"clips", clips, 5, 0, 5}, {"odd clips", odd_clips, 5, 3, 6}, {"deep", deep, 5, 0, 4},
};

static void models_compute_the_same(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct ob *b = ob_create(13);
        models[i].make(b);
        wrong += ways_check(b, models[i].name, false, ways_near_largest);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void nothing_else_is_moved(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct ob *b = ob_create(13);
        models[i].make(b);
        assert_int_equal(layers_over(b, models[i].rank), models[i].left);
        struct mo_graph *g = ways_graph(b, true, true);
        const int moves = ways_count(g, "Reshape") + ways_count(g, "Transpose");
        if (moves != models[i].moves) {
            ways_show(g);
            fail_msg("%s: %d moves", models[i].name, moves);
        }
        mo_graph_destroy(g);
        ob_destroy(b);
    }
}

static void any_window_computes_the_same(void **state) {
    (void)state;
    int wrong = 0;
    for (uint64_t seed = 1; seed <= DRAWS; seed++)
        for (int k = 0; k < 4; k++) {
            const int dims = k % 2 ? 3 : 1;
            struct ob *b = ob_create(13);
            char name[40];
            snprintf(name, sizeof name, "%d-D %s, seed %d", dims, k < 2 ? "Conv" : "pool", (int)seed);
            if (k < 2)
                drawn(b, seed, dims);
            else
                drawn_pool(b, seed, dims);
            assert_true(layers_over(b, 2 + dims) <= (k == 3));
            wrong += ways_check(b, name, false, ways_near_largest);
            ob_destroy(b);
        }
    assert_int_equal(wrong, 0);
}

/* Each sum of a chain is there before the next frames are: only one copy of the images at a time. */
static void chains_keep_their_order(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    deep(b);
    struct mo_graph *g = ways_graph(b, true, true);
    int copies = 0, most = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (!strcmp(g->nodes[i]->op_type, "Frames")) copies++;
        if (!strcmp(g->nodes[i]->op_type, "Conv")) copies = 0;
        if (copies > most) most = copies;
    }
    assert_int_equal(most, 1);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void out_of_memory_everywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct ob *b = ob_create(13);
        models[i].make(b);
        ways_without_memory(b);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_compute_the_same),  cmocka_unit_test(nothing_else_is_moved),
        cmocka_unit_test(chains_keep_their_order),  cmocka_unit_test(any_window_computes_the_same),
        cmocka_unit_test(out_of_memory_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
