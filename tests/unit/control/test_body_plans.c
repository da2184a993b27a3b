/* SPDX-License-Identifier: Apache-2.0
 * test_body_plans.c - bodies of fixed shapes run by plans of their own, and give what the references give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/plan/plan.h"
#include "tests/unit/control/control_case.h"
#include "tests/unit/codegen/ways_case.h"

/* Trips of a convolution and what follows it, between other layers: too many to be inlined. */
static struct ob *convolving(struct control *c) {
    struct ob *b = control_main(c, 13), *body = control_body(c);
    ob_input(b, "x", MOIRE_F32, "1,24,9,9");
    ob_random(b, "w", "24,24,3,3");
    ob_random(b, "v", "24,24,1,1");
    ob_node(b, "Conv", "x v", "s0");
    ob_int64s(b, "trips", "17");
    ob_node(b, "Squeeze", "trips", "m");
    ob_loop_inputs(body);
    ob_input(body, "s", MOIRE_F32, NULL);
    ob_node(body, "Conv", "s w", "conv");
    ob_ints(body, "pads", "1,1,1,1");
    ob_scalar(body, "small", 0.05f); /* rounding errors do not grow from trip to trip */
    ob_node(body, "Mul", "conv small", "scaled");
    ob_node(body, "Tanh", "scaled", "act");
    ob_node(body, "Add", "act s", "next");
    ob_output(body, "was");
    ob_output(body, "next");
    ob_output(body, "act");
    ob_node(b, "Loop", "m - s0", "last all");
    ob_body(b, "body", body);
    ob_node(b, "Relu", "last", "y");
    ob_output(b, "y");
    ob_output(b, "all");
    return b;
}

static void every_way_gives_the_same(void **state) {
    struct control c;
    struct ob *b = convolving(&c);
    (void)state;
    assert_int_equal(ways_check(b, "a loop of convolutions", false, ways_near_largest), 0);
    ways_without_memory(b);
    control_end(&c);
}

static void a_body_of_fixed_shapes_has_a_plan(void **state) {
    const struct mo_plan_options options = {.isa = mo_isa_detect()};
    struct control c;
    struct mo_plan *plan;
    int convolutions = 0;
    (void)state;
    assert_int_equal(mo_plan_build(ways_graph(convolving(&c), true, true), &options, &plan, NULL), MOIRE_OK);
    assert_int_equal(plan->n_bodies, 1);
    const struct mo_plan *body = plan->bodies[0].plan;
    for (int k = 0; k < body->n_steps; k++)
        if (!strcmp(body->steps[k].node->op_type, "Conv") && body->steps[k].run) convolutions++;
    assert_int_equal(convolutions, 1);
    mo_plan_destroy(plan);
    control_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_gives_the_same),
        cmocka_unit_test(a_body_of_fixed_shapes_has_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
