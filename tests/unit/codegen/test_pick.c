/* SPDX-License-Identifier: Apache-2.0
 * test_pick.c - a Gather of one known place becomes a Slice; of what is picked twice, one Slice of the
 * source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "runtime/plan/plan.h"
#include "tests/unit/codegen/ways_case.h"

/* An index without dimensions. */
static void place(struct ob *b, const char *name, const char *value, moire_dtype type) {
    char wide[40];
    snprintf(wide, sizeof wide, "%s_wide", name);
    ob_int64s(b, wide, value)->n_dims = 0;
    ob_node(b, "Cast", wide, name);
    ob_int(b, "to", type);
}

static void gather(struct ob *b, const char *words, const char *out, int64_t axis) {
    ob_node(b, "Gather", words, out);
    ob_int(b, "axis", axis);
}

/* Keys and values of three layers in one tensor, as decoders keep them. */
static struct ob *kept(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "3,2,4,5,6");
    place(b, "zero", "0", MOIRE_I64);
    place(b, "last", "-1", MOIRE_I64);
    place(b, "two", "2", MOIRE_I32);
    gather(b, "x last", "layer", 0); /* [2,4,5,6] */
    gather(b, "layer zero", "keys", 0);
    gather(b, "layer last", "values", -4); /* [4,5,6] */
    gather(b, "values two", "row", 1);     /* [4,6]: axis 3 of x */
    gather(b, "row zero", "column", 0);    /* [6]: axis 2 of x */
    ob_node(b, "Relu", "keys", "a");
    ob_node(b, "Neg", "values", "b");
    ob_node(b, "Mul", "row column", "c");
    ob_output(b, "a");
    ob_output(b, "b");
    ob_output(b, "c");
    return b;
}

static void one_slice_takes_all_places(void **state) {
    (void)state;
    struct ob *b = kept();
    struct mo_graph *g = ways_graph(b, true, true);
    assert_int_equal(ways_count(g, "Gather"), 0);
    assert_int_equal(ways_count(g, "Slice"), 4); /* the layer as a whole is read by nobody */
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i]->op_type, "Slice")) assert_true(g->tensors[g->nodes[i]->in[0]]->is_input);
    mo_graph_destroy(g);
    assert_int_equal(ways_check(b, "kept", false, ways_near), 0);
    ob_destroy(b);
}

/* Those in one piece are read where they lie, others are copied by a kernel, not by the operator's reference;
 * the Reshapes cost nothing. */
static void picks_run_by_kernels(void **state) {
    (void)state;
    struct ob *b = kept();
    struct mo_plan *plan;
    moire_error err = {0};
    const struct mo_plan_options planning = {.isa = mo_isa_detect()};
    assert_int_equal(mo_plan_build(ways_graph(b, true, true), &planning, &plan, &err), MOIRE_OK);
    int copied = 0;
    for (int k = 0; k < plan->n_steps; k++) {
        const char *op = plan->steps[k].node->op_type, *kind = plan->steps[k].kind;
        if (!strcmp(op, "Reshape") || (!strcmp(op, "Slice") && strcmp(kind, "generic")))
            assert_string_equal(kind, "view");
        copied += !strcmp(op, "Slice") && !strcmp(kind, "generic");
    }
    assert_int_equal(copied, 1); /* the row, whose numbers lie apart */
    mo_plan_destroy(plan);
    ob_destroy(b);
}

/* A list of places keeps its axis, and an index that a query brings is known to nobody. */
static void others_stay(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "3,4,5");
    ob_input(b, "which", MOIRE_I64, "1");
    ob_int64s(b, "list", "2");
    gather(b, "x list", "a", 0);
    gather(b, "x which", "b", 1);
    ob_output(b, "a");
    ob_output(b, "b");
    struct mo_graph *g = ways_graph(b, true, true);
    assert_int_equal(ways_count(g, "Gather"), 2);
    assert_int_equal(ways_count(g, "Slice"), 0);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void out_of_memory_everywhere(void **state) {
    (void)state;
    struct ob *b = kept();
    ways_without_memory(b);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_slice_takes_all_places),
                                       cmocka_unit_test(picks_run_by_kernels), cmocka_unit_test(others_stay),
                                       cmocka_unit_test(out_of_memory_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
