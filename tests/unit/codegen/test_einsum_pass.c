/* SPDX-License-Identifier: Apache-2.0
 * test_einsum_pass.c - Einsum of two operands becomes MatMul where it is one, and gives what the operator
 * gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "tests/unit/codegen/ways_case.h"

static const struct einsum_case {
    const char *equation, *a, *b;
    bool constant; /* the second operand */
    int products;
} cases[] = {
    {"ij,jk->ik", "3,5", "5,7", false, 1},
    {"ij,jk->ik", "3,5", "5,7", true, 1},
    {"ij, kj -> ki", "3,5", "7,5", true, 1},
    {"bhqd,bhkd->bhqk", "2,3,4,5", "2,3,6,5", false, 1},
    {"bhqk,bhkd->bqhd", "2,3,4,6", "2,3,6,5", false, 1},
    {"BXHqd,BXHkd->BXHqk", "1,2,3,4,5", "1,2,3,6,5", false, 1},
    {"abc,cde->abde", "2,3,4", "4,5,6", true, 1},
    {"abc,dca->bad", "2,3,4", "5,4,2", false, 1},
    {"abc,abc->a", "2,3,4", "2,3,4", false, 1},
    {"ab,ab->", "3,4", "3,4", false, 1},
    {"ab,b->a", "3,4", "4", false, 1},
    {"acb,cd->dab", "2,4,3", "4,5", true, 1},
    {"ab,cd->abcd", "2,3", "4,5", false, 0},  /* nothing is summed over */
    {"ii,ij->j", "3,3", "3,4", false, 0},     /* a diagonal */
    {"abc,cd->ad", "2,3,4", "4,5", false, 0}, /* a sum of the first alone */
    {"...ab,...bc->...ac", "2,3,4", "2,4,5", false, 1},
    {"...ij,...kj->...ik", "2,3,5,8", "2,3,4,8", false, 1},
    {"i...j,k...j->...ik", "5,2,3,8", "4,2,3,8", false, 1},
    {"...ij,jk->...ik", "2,3,5,8", "8,4", true, 1},
    {"...ij,...jk->...ik", "5,8", "8,4", false, 1}, /* dots that are nothing */
    {"...ij,...jk->...ik", "2,5,8", "8,4", false, 1},
    {"...ij,...jk->...ik", "3,2,5,8", "2,8,4", false, 0}, /* they broadcast */
    {"...ij,...jk->...ik", "1,5,8", "2,8,4", false, 0},
    {"...i...j,jk->ik", "2,8", "8,4", false, 0},
    {"ab,bc", "3,4", "4,5", false, 0}, /* the result is not said */
};

static void build(struct ob *b, const struct einsum_case *c) {
    ob_input(b, "x", MOIRE_F32, c->a);
    if (c->constant)
        ob_random(b, "w", c->b);
    else
        ob_input(b, "w", MOIRE_F32, c->b);
    ob_node(b, "Einsum", "x w", "y");
    ob_string(b, "equation", c->equation);
    ob_output(b, "y");
}

static void products_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(13);
        build(b, &cases[i]);
        struct mo_graph *g = ways_graph(b, true, false);
        const int left = ways_count(g, "Einsum"), products = ways_count(g, "MatMul");
        if (products != cases[i].products || left != 1 - products) {
            ways_show(g);
            fail_msg("%s: %d products, %d left", cases[i].equation, products, left);
        }
        mo_graph_destroy(g);
        ob_destroy(b);
    }
}

static void they_give_the_same(void **state) {
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(13);
        build(b, &cases[i]);
        wrong += ways_check(b, cases[i].equation, false, ways_near);
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
}

static void out_of_memory_everywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = ob_create(13);
        build(b, &cases[i]);
        ways_without_memory(b);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_found),
                                       cmocka_unit_test(they_give_the_same),
                                       cmocka_unit_test(out_of_memory_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
