/* SPDX-License-Identifier: Apache-2.0
 * test_inline.c - branches that are known to be taken and loops of few known trips become part of the graph,
 * others do not; either way every way of running the model gives what its operators say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "tests/unit/control/control_case.h"
#include "tests/unit/codegen/ways_case.h"

static int64_t left(struct ob *b) {
    struct mo_graph *g = ways_graph(b, true, false);
    const int n = ways_count(g, "If") + ways_count(g, "Loop");
    mo_graph_destroy(g);
    return n;
}

/* So many operators of control flow are left, and the answers are right. */
static void expect(struct control *c, struct ob *b, const char *name, int n) {
    if (left(b) != n) fail_msg("%s: %d are left, not %d", name, (int)left(b), n);
    assert_int_equal(ways_check(b, name, false, ways_near_largest), 0);
    control_end(c);
}

/* --- If --------------------------------------------------------------------------------------------------
 */

/* y = 1x1 convolution of x where the width of x is 7, else x: what exporters guard code by. */
static struct ob *guarded(struct control *c, const char *shape) {
    struct ob *b = control_main(c, 13), *then = control_body(c), *other = control_body(c);
    ob_input(b, "x", MOIRE_F32, shape);
    ob_random(b, "w", "8,8,1,1");
    ob_node(b, "Shape", "x", "size");
    ob_int64s(b, "last", "3");
    ob_node(b, "Gather", "size last", "width");
    ob_int64s(b, "seven", "7");
    ob_node(b, "Equal", "width seven", "is");
    ob_node(then, "Conv", "x w", "t");
    ob_output(then, "t");
    ob_node(other, "Identity", "x", "e");
    ob_output(other, "e");
    ob_node(b, "If", "is", "z");
    ob_body(b, "then_branch", then);
    ob_body(b, "else_branch", other);
    ob_node(b, "Relu", "z", "y");
    ob_output(b, "y");
    return b;
}

static void a_known_branch_is_fused_with_what_follows(void **state) {
    struct control c;
    struct ob *b = guarded(&c, "1,8,7,7");
    (void)state;
    struct mo_graph *g = ways_graph(b, true, false);
    assert_int_equal(g->n_nodes, 1); /* the convolution with its Relu */
    mo_graph_destroy(g);
    expect(&c, b, "the branch of a convolution", 0);
    b = guarded(&c, "1,8,7,5");
    expect(&c, b, "the other branch", 0);
}

/* Both outputs of a branch are one tensor, which is the graph's input; and the graph's own output. */
static void a_branch_may_hand_on_what_it_is_given(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 13), *then = control_body(&c), *other = control_body(&c);
    (void)state;
    ob_input(b, "x", MOIRE_F32, "3,4");
    ob_integers(b, "yes", "1", MOIRE_BOOL);
    ob_node(then, "Identity", "x", "t");
    ob_output(then, "t");
    ob_output(then, "t");
    ob_node(other, "Neg", "x", "e");
    ob_output(other, "e");
    ob_output(other, "e");
    ob_node(b, "If", "yes", "y z");
    ob_body(b, "then_branch", then);
    ob_body(b, "else_branch", other);
    ob_output(b, "y");
    ob_output(b, "z");
    expect(&c, b, "handing on", 0);
}

/* --- Loop ------------------------------------------------------------------------------------------------
 */

/* Two states that change places, a number of the trip, scan outputs, and weights from outside. */
static struct ob *swapping(struct control *c, const char *trips, bool condition_changes) {
    struct ob *b = control_main(c, 13), *body = control_body(c);
    ob_input(b, "x", MOIRE_F32, "4,6");
    ob_input(b, "v", MOIRE_F32, "4,6");
    ob_random(b, "w", "6,6");
    ob_int64s(b, "trips", trips);
    ob_node(b, "Squeeze", "trips", "m");
    ob_loop_inputs(body);
    ob_input(body, "a", MOIRE_F32, NULL);
    ob_input(body, "s", MOIRE_F32, NULL);
    ob_node(body, "MatMul", "a w", "product");
    ob_node(body, "Cast", "i", "fi");
    ob_int(body, "to", MOIRE_F32);
    ob_node(body, "Add", "product fi", "sum");
    ob_node(body, "Tanh", "sum", "next");
    ob_int64s(body, "two", "2");
    ob_node(body, "Squeeze", "two", "limit");
    ob_node(body, "Less", "i limit", "early");
    ob_output(body, condition_changes ? "early" : "was");
    ob_output(body, "s");
    ob_output(body, "next");
    ob_output(body, "fi");
    ob_output(body, "product");
    ob_node(b, "Loop", "m - x v", "y z numbers products");
    ob_body(b, "body", body);
    ob_output(b, "y");
    ob_output(b, "z");
    ob_output(b, "numbers");
    ob_output(b, "products");
    return b;
}

static void few_known_trips_are_unrolled(void **state) {
    static const char *const trips[] = {"1", "2", "5", "16"};
    (void)state;
    for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) {
        struct control c;
        struct ob *b = swapping(&c, trips[i], false);
        expect(&c, b, trips[i], 0);
    }
}

static void other_loops_stay(void **state) {
    struct control c;
    struct ob *b = swapping(&c, "17", false);
    (void)state;
    expect(&c, b, "many trips", 1);
    b = swapping(&c, "5", true);
    expect(&c, b, "a condition that changes", 1);
    b = swapping(&c, "5", false);
    b->env.limits.loop_trips = 4; /* more would be an error: it stays one */
    assert_int_equal(left(b), 1);
    control_end(&c);
    b = swapping(&c, "5", false);
    ways_without_memory(b);
    control_end(&c);
}

/* Its length is unknown in the loop, and known in each trip. */
static void state_that_grows_has_known_shapes(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 13), *body = control_body(&c);
    (void)state;
    ob_input(b, "x", MOIRE_F32, "2,3");
    ob_int64s(b, "trips", "3");
    ob_node(b, "Squeeze", "trips", "m");
    ob_loop_inputs(body);
    ob_input(body, "s", MOIRE_F32, NULL);
    ob_node(body, "Concat", "s x", "longer");
    ob_int(body, "axis", 0);
    ob_output(body, "was");
    ob_output(body, "longer");
    ob_node(b, "Loop", "m - x", "y");
    ob_body(b, "body", body);
    ob_output(b, "y");
    struct mo_graph *g = ways_graph(b, true, false);
    const struct mo_tensor *y = g->tensors[g->outputs[0]];
    assert_false(y->dynamic);
    assert_int_equal(y->shape.d[0], 8);
    mo_graph_destroy(g);
    expect(&c, b, "growing", 0);
}

/* A loop of one trip takes the loop in it over; of several, the inner one is unrolled first. */
static void loops_nest(void **state) {
    static const char *const outer[] = {"1", "3"}, *const inner[] = {"40", "2"};
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            struct control c;
            struct ob *b = control_main(&c, 13), *around = control_body(&c), *body = control_body(&c);
            ob_input(b, "x", MOIRE_F32, "4,6");
            ob_scalar(b, "small", 0.03f);
            ob_int64s(b, "outer", outer[i]);
            ob_node(b, "Squeeze", "outer", "m");
            ob_int64s(around, "inner", inner[k]);
            ob_node(around, "Squeeze", "inner", "n");
            ob_loop_inputs(around);
            ob_input(around, "s", MOIRE_F32, NULL);
            ob_input(body, "j", MOIRE_I64, "");
            ob_input(body, "were", MOIRE_BOOL, "");
            ob_input(body, "t", MOIRE_F32, NULL);
            ob_node(body, "Mul", "t small", "scaled");
            ob_node(body, "Add", "scaled s", "next");
            ob_output(body, "were");
            ob_output(body, "next");
            ob_node(around, "Loop", "n - s", "last");
            ob_body(around, "body", body);
            ob_output(around, "was");
            ob_output(around, "last");
            ob_node(b, "Loop", "m - x", "y");
            ob_body(b, "body", around);
            ob_output(b, "y");
            expect(&c, b, "nested", k ? 0 : 1);
        }
}

/* --- any body --------------------------------------------------------------------------------------------
 */

static unsigned draw(uint64_t *rng, unsigned n) {
    *rng = *rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*rng >> 33) % n;
}

/* A chain of operators on [4,6], each of a value before it or from outside. */
static void draw_body(struct ob *body, uint64_t *rng, int n) {
    static const char *const one[] = {"Tanh", "Sigmoid", "Neg", "Abs", "Softmax"};
    static const char *const two[] = {"Add", "Sub", "Mul", "Max"};
    for (int i = 0; i < n; i++) {
        char in[40], out[20];
        const char *from[] = {"s", "x", "w4"};
        char before[20];
        snprintf(before, sizeof before, "v%d", i - 1);
        const char *a = i ? before : "s", *other = from[draw(rng, 3)];
        snprintf(out, sizeof out, "v%d", i);
        const unsigned kind = draw(rng, 3);
        snprintf(in, sizeof in, kind == 0 ? "%s" : "%s %s", a, kind == 2 ? "w6" : other);
        ob_node(body, kind == 0 ? one[draw(rng, 5)] : kind == 1 ? two[draw(rng, 4)] : "MatMul", in, out);
    }
    char last[20];
    snprintf(last, sizeof last, "v%d", n - 1);
    ob_node(body, "Tanh", last, "next");
}

static void random_bodies_give_what_they_give_in_loops(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct control c;
        uint64_t rng = seed;
        char trips[20], name[40];
        struct ob *b = control_main(&c, 13), *body = control_body(&c);
        ob_input(b, "x", MOIRE_F32, "4,6");
        ob_random(b, "w4", "4,6");
        ob_random(b, "w6", "6,6");
        snprintf(trips, sizeof trips, "%u", 1 + draw(&rng, 6));
        snprintf(name, sizeof name, "seed %d, %s trips", (int)seed, trips);
        ob_int64s(b, "trips", trips);
        ob_node(b, "Squeeze", "trips", "m");
        ob_loop_inputs(body);
        ob_input(body, "s", MOIRE_F32, NULL);
        draw_body(body, &rng, 1 + (int)draw(&rng, 5));
        ob_output(body, "was");
        ob_output(body, "next");
        ob_output(body, "v0");
        ob_node(b, "Loop", "m - x", "y all");
        ob_body(b, "body", body);
        ob_output(b, "y");
        ob_output(b, "all");
        expect(&c, b, name, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_branch_is_fused_with_what_follows),
        cmocka_unit_test(a_branch_may_hand_on_what_it_is_given),
        cmocka_unit_test(few_known_trips_are_unrolled),
        cmocka_unit_test(other_loops_stay),
        cmocka_unit_test(state_that_grows_has_known_shapes),
        cmocka_unit_test(loops_nest),
        cmocka_unit_test(random_bodies_give_what_they_give_in_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
