/* SPDX-License-Identifier: Apache-2.0
 * test_layout.c - a Transpose to channels first writes blocks where all its readers run in blocks, else plain
 * tensors, and the outputs are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/codegen/ways_case.h"

static const struct layout_case {
    const char *name, *x, *filter, *channels;
    bool convolves, plain_reader;
    int entering, reorders; /* Transposes that write blocks; Reorders that are left */
} cases[] = {
    {"whole blocks", "2,7,9,32", "32,1,3,3", "32", true, false, 2, 0},
    {"a block and a half", "2,7,9,24", "24,1,3,3", "24", true, false, 0, 1},
    {"a reader of rows", "2,7,9,32", "32,1,3,3", "32", true, true, 0, 1},
    {"no convolution", "2,7,9,32", "32,1,3,3", "32", false, false, 0, 0},
};

/* A depthwise convolution, a norm over the channels, and what came in added: a block of ConvNeXt. */
static struct ob *build(const struct layout_case *c) {
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_F32, c->x);
    ob_random(b, "w", c->filter);
    ob_random(b, "g", c->channels);
    ob_node(b, "Transpose", "x", "a");
    ob_ints(b, "perm", "0,3,1,2");
    if (c->convolves) {
        ob_node(b, "Conv", "a w", "c");
        ob_ints(b, "pads", "1,1,1,1");
        ob_int(b, "group", strtol(c->channels, NULL, 10));
    } else {
        ob_node(b, "Relu", "a", "c");
    }
    ob_node(b, "Transpose", "c", "d");
    ob_ints(b, "perm", "0,2,3,1");
    ob_node(b, "LayerNormalization", "d g", "e");
    ob_node(b, "Transpose", "e", "f");
    ob_ints(b, "perm", "0,3,1,2");
    ob_node(b, "Add", "f a", "h");
    ob_node(b, "Transpose", "h", "y");
    ob_ints(b, "perm", "0,2,3,1");
    ob_output(b, "y");
    if (!c->plain_reader) return b;
    ob_node(b, "CumSum", "a axis", "z");
    ob_int64s(b, "axis", "2");
    ob_output(b, "z");
    return b;
}

/* A Transpose of what becomes the weights of a convolution: no activations, and read plain. */
static void computed_weights_stay_plain(void **state) {
    (void)state;
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_F32, "1,32,9,9");
    ob_input(b, "w", MOIRE_F32, "16,3,3,32");
    ob_node(b, "Transpose", "w", "f");
    ob_ints(b, "perm", "0,3,1,2");
    ob_node(b, "Conv", "x f", "y");
    ob_output(b, "y");
    struct mo_graph *g = ways_graph(b, true, true);
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i]->op_type, "Transpose"))
            assert_int_equal(g->tensors[g->nodes[i]->out[0]]->layout, MO_PLAIN);
    mo_graph_destroy(g);
    assert_int_equal(ways_check(b, "computed weights", false, ways_near_largest), 0);
    ob_destroy(b);
}

static int count_entering(const struct mo_graph *g) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += !strcmp(g->nodes[i]->op_type, "Transpose") && g->tensors[g->nodes[i]->out[0]]->layout == MO_C16;
    return n;
}

static void transposes_enter_blocks(void **state) {
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = build(&cases[i]);
        struct mo_graph *g = ways_graph(b, true, true);
        const int reorders = ways_count(g, "Reorder"), entering = count_entering(g);
        if (reorders != cases[i].reorders || entering != cases[i].entering) {
            print_error("%s: %d reorders, %d enter\n", cases[i].name, reorders, entering);
            ways_show(g);
            wrong++;
        }
        mo_graph_destroy(g);
        wrong += ways_check(b, cases[i].name, false, ways_near_largest);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(transposes_enter_blocks),
                                       cmocka_unit_test(computed_weights_stay_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
