/* SPDX-License-Identifier: Apache-2.0
 * test_thin.c - convolutions with few outputs become sums of columns where that is less work, and nowhere
 * else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/codegen/ways_case.h"

static const struct thin_case {
    const char *name, *x, *w, *bias, *pads, *dilations, *strides, *act;
    bool thin;
} cases[] = {
    {"9x9 to an image", "1,32,20,21", "3,32,9,9", "3", "4,4,4,4", "1,1", "1,1", "Tanh", true},
    {"3x3 to an image", "2,16,9,17", "3,16,3,3", "3", "1,1,1,1", "1,1", "1,1", "Relu", true},
    {"one output", "1,20,7,40", "1,20,5,14", NULL, "2,7,2,6", "1,1", "1,1", NULL, true},
    {"two outputs, no padding", "1,9,11,30", "2,9,1,8", "2", "0,0,0,0", "1,1", "1,1", "Sigmoid", true},
    {"four outputs", "1,16,12,12", "4,16,3,8", "4", "1,3,1,4", "1,1", "1,1", NULL, true},
    {"dilated", "1,16,14,25", "3,16,3,5", "3", "2,4,2,4", "2,2", "1,1", NULL, true},
    {"strides", "1,16,15,40", "2,16,3,7", NULL, "1,3,1,3", "1,1", "2,2", NULL, true},
    {"far outside", "1,16,5,8", "1,16,3,9", "1", "1,9,1,9", "1,1", "1,1", NULL, true},
    {"uneven padding", "1,16,9,30", "3,16,4,5", "3", "0,4,3,0", "1,1", "1,1", "Relu", true},
    {"five outputs", "1,16,9,17", "5,16,3,3", "5", "1,1,1,1", "1,1", "1,1", NULL, false},
    {"one column", "1,16,9,17", "3,16,9,1", "3", "4,0,4,0", "1,1", "1,1", NULL, false},
    {"strides leave too little", "1,16,9,33", "3,16,3,3", "3", "1,1,1,1", "1,1", "3,3", NULL, false},
    {"few inputs", "1,3,9,17", "3,3,3,3", "3", "1,1,1,1", "1,1", "1,1", NULL, false},
};

static struct ob *build(const struct thin_case *c) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, c->x);
    ob_random(b, "w", c->w);
    if (c->bias) ob_random(b, "bias", c->bias);
    ob_node(b, "Conv", c->bias ? "x w bias" : "x w", c->act ? "z" : "y");
    ob_ints(b, "pads", c->pads);
    ob_ints(b, "dilations", c->dilations);
    ob_ints(b, "strides", c->strides);
    if (c->act) ob_node(b, c->act, "z", "y");
    ob_output(b, "y");
    return b;
}

static int count(const struct mo_graph *g, const char *op) {
    int n = 0;
    for (int k = 0; k < g->n_nodes; k++)
        n += !strcmp(g->nodes[k]->op_type, op);
    return n;
}

static void columns_become_outputs(void **state) {
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = build(&cases[i]);
        struct mo_graph *g = ways_graph(b, true, true);
        if (count(g, "TapSum") != cases[i].thin) fail_msg("%s: %d sums", cases[i].name, count(g, "TapSum"));
        assert_int_equal(count(g, "Activation"), 0);
        mo_graph_destroy(g);
        wrong += ways_check(b, cases[i].name, false, ways_near);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void out_of_memory_everywhere(void **state) {
    (void)state;
    struct ob *b = build(&cases[0]);
    ways_without_memory(b);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_become_outputs),
                                       cmocka_unit_test(out_of_memory_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
