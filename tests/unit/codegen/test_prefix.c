/* SPDX-License-Identifier: Apache-2.0
 * test_prefix.c - Concats of a dense block become a chain that lies in one tensor; one of many inputs becomes
 * several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/plan/plan.h"
#include "tests/unit/codegen/ways_case.h"

enum { LAYERS = 5, MANY = 35 };

/* Each layer reads all that came before; `growth` channels a layer. */
static struct ob *dense_block(const char *growth) {
    struct ob *b = ob_create(13);
    char all[200] = "x0", name[40], words[80], shape[40];
    const int channels = (int)strtol(growth, NULL, 10);
    ob_input(b, "x", MOIRE_F32, "1,32,6,6");
    ob_random(b, "w", "32,32,1,1");
    ob_node(b, "Conv", "x w", "x0");
    for (int i = 1; i <= LAYERS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        snprintf(shape, sizeof shape, "%d,%d,3,3", channels, 32 + (i - 1) * channels);
        ob_random(b, name, shape);
        snprintf(words, sizeof words, "%s w%d", i == 1 ? "x0" : name, i);
        if (i > 1) snprintf(words, sizeof words, "c%d w%d", i - 1, i);
        snprintf(name, sizeof name, "x%d", i);
        ob_node(b, "Conv", words, name);
        ob_ints(b, "pads", "1,1,1,1");
        snprintf(all + strlen(all), sizeof all - strlen(all), " x%d", i);
        snprintf(name, sizeof name, "c%d", i);
        ob_node(b, "Concat", all, name);
        ob_int(b, "axis", i % 2 ? 1 : -3);
    }
    ob_node(b, "Relu", name, "y");
    ob_output(b, "y");
    return b;
}

static struct ob *many_inputs(void) {
    struct ob *b = ob_create(13);
    char all[400] = "", name[40];
    ob_input(b, "x", MOIRE_F32, "2,3,4,5");
    for (int i = 0; i < MANY; i++) {
        char factor[40], words[80];
        snprintf(factor, sizeof factor, "f%d", i);
        ob_scalar(b, factor, (float)i);
        snprintf(words, sizeof words, "x %s", factor);
        snprintf(name, sizeof name, "m%d", i);
        ob_node(b, "Mul", words, name);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", name);
    }
    ob_node(b, "Concat", all, "y");
    ob_int(b, "axis", 1);
    ob_output(b, "y");
    return b;
}

static void check_concats(struct ob *b, int concats, int most) {
    struct mo_graph *g = ways_graph(b, true, true);
    assert_int_equal(ways_count(g, "Concat"), concats);
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i]->op_type, "Concat")) assert_true(g->nodes[i]->n_in <= most);
    mo_graph_destroy(g);
}

static void a_dense_block_is_a_chain(void **state) {
    (void)state;
    struct ob *b = dense_block("16");
    check_concats(b, LAYERS, 2);
    assert_int_equal(ways_check(b, "growth 16", false, ways_near_largest), 0);
    struct mo_plan *plan;
    moire_error err = {0};
    const struct mo_plan_options planning = {.isa = mo_isa_detect()};
    assert_int_equal(mo_plan_build(ways_graph(b, true, true), &planning, &plan, &err), 0);
    for (int k = 0; k < plan->n_steps; k++) /* nothing is copied */
        if (!strcmp(plan->steps[k].node->op_type, "Concat")) assert_string_equal(plan->steps[k].kind, "view");
    mo_plan_destroy(plan);
    ob_destroy(b);
}

/* Blocks of 16 hold channels of two layers: they are copied, and right. */
static void odd_growth_is_right(void **state) {
    (void)state;
    struct ob *b = dense_block("12");
    check_concats(b, LAYERS, 2);
    assert_int_equal(ways_check(b, "growth 12", false, ways_near_largest), 0);
    ob_destroy(b);
}

static void many_inputs_are_joined_in_turn(void **state) {
    (void)state;
    struct ob *b = many_inputs();
    check_concats(b, 3, MO_KERNEL_IN);
    assert_int_equal(ways_check(b, "many", false, ways_near_largest), 0);
    ob_destroy(b);
}

static void out_of_memory_everywhere(void **state) {
    (void)state;
    struct ob *models[] = {dense_block("16"), many_inputs()};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        ways_without_memory(models[i]);
        ob_destroy(models[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_block_is_a_chain), cmocka_unit_test(odd_growth_is_right),
        cmocka_unit_test(many_inputs_are_joined_in_turn), cmocka_unit_test(out_of_memory_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
