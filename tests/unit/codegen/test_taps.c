/* SPDX-License-Identifier: Apache-2.0
 * test_taps.c - filters lose the rows and columns that only meet padding, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "codegen/passes/passes.h"
#include "tests/unit/codegen/ways_case.h"

static const struct taps_case {
    const char *name, *x, *w, *pads, *dilations, *strides;
    int64_t h, width; /* of the filter that is left */
} cases[] = {
    {"the centre alone", "1,20,16,16", "24,20,3,3", "24,24,24,24", "24,24", "1,1", 1, 1},
    {"just outside", "1,20,16,16", "24,20,3,3", "16,16,16,16", "16,16", "1,1", 1, 1},
    {"just inside", "1,20,16,16", "24,20,3,3", "15,15,15,15", "15,15", "1,1", 3, 3},
    {"one side", "1,20,16,9", "24,20,3,3", "0,9,1,9", "1,9", "1,1", 3, 1},
    {"five taps", "2,16,7,7", "16,16,5,5", "8,8,8,8", "4,4", "1,1", 3, 3},
    {"with strides", "1,16,8,8", "16,16,3,3", "9,9,9,9", "9,9", "2,2", 1, 1},
    {"first rows only", "1,16,4,12", "16,16,3,1", "6,0,0,0", "3,1", "1,1", 2, 1},
    {"whole", "1,16,7,7", "16,16,3,3", "1,1,1,1", "1,1", "1,1", 3, 3},
    {"within the image", "1,20,16,16", "24,20,3,3", "12,12,12,12", "12,12", "1,1", 3, 3},
};

static struct ob *build(const struct taps_case *c) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, c->x);
    ob_random(b, "w", c->w);
    ob_random(b, "bias", strncmp(c->w, "24", 2) ? "16" : "24");
    ob_node(b, "Conv", "x w bias", "y");
    ob_ints(b, "pads", c->pads);
    ob_ints(b, "dilations", c->dilations);
    ob_ints(b, "strides", c->strides);
    ob_output(b, "y");
    return b;
}

static void outer_taps_go(void **state) {
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = build(&cases[i]);
        struct mo_graph *g = ways_graph(b, true, false);
        for (int k = 0; k < g->n_nodes; k++) {
            if (strcmp(g->nodes[k]->op_type, "Conv") != 0) continue;
            const int64_t *d = g->tensors[g->nodes[k]->in[1]]->shape.d;
            if (d[2] != cases[i].h || d[3] != cases[i].width)
                fail_msg("%s: %d x %d is left", cases[i].name, (int)d[2], (int)d[3]);
        }
        mo_graph_destroy(g);
        wrong += ways_check(b, cases[i].name, false, ways_near);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

/* What is no number times nothing is no number. */
static void odd_weights_stay(void **state) {
    moire_error err = {0};
    (void)state;
    struct ob *b = build(&cases[0]);
    struct mo_graph *g = ways_graph(b, false, false);
    const struct mo_node *conv = g->nodes[0];
    float *w = g->tensors[conv->in[1]]->data;
    w[0] = INFINITY;
    assert_int_equal(mo_pass_taps(g, &err), 0);
    assert_int_equal(g->tensors[conv->in[1]]->shape.d[2], 3);
    w[0] = 1;
    assert_int_equal(mo_pass_taps(g, &err), 0);
    assert_int_equal(g->tensors[conv->in[1]]->shape.d[2], 1);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void out_of_memory_everywhere(void **state) {
    (void)state;
    struct ob *b = build(&cases[0]);
    ways_without_memory(b);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(outer_taps_go), cmocka_unit_test(odd_weights_stay),
                                       cmocka_unit_test(out_of_memory_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
