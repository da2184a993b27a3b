/* SPDX-License-Identifier: Apache-2.0
 * test_control.c - If, Loop and Scan: what bodies see of the graphs around them, trips, early ends, scanned
 * axes, nesting, and files whose bodies do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/control/control_case.h"

/* --- If ------------------------------------------------------------------------------------------------- */

/* y = c ? x + w : x * w, both from outside; w a weight. */
static void branches(struct control *c) {
    struct ob *b = control_main(c, 13), *then = control_body(c), *other = control_body(c);
    ob_input(b, "c", MOIRE_BOOL, "");
    ob_input(b, "x", MOIRE_F32, "3");
    ob_floats(b, "w", "3", (const float[]){10, 20, 30});
    ob_node(then, "Add", "x w", "t");
    ob_output(then, "t");
    ob_node(other, "Mul", "w x", "e");
    ob_output(other, "e");
    ob_node(b, "If", "c", "y");
    ob_body(b, "then_branch", then);
    ob_body(b, "else_branch", other);
    ob_output(b, "y");
}

static void a_branch_sees_what_is_around(void **state) {
    (void)state;
    for (int taken = 0; taken < 2; taken++) {
        struct control c;
        const uint8_t flag = (uint8_t)taken;
        branches(&c);
        control_in(&c, MOIRE_BOOL, "", &flag);
        control_in(&c, MOIRE_F32, "3", (const float[]){1, 2, 3});
        control_expect(&c, 0, "3", taken ? (const float[]){11, 22, 33} : (const float[]){10, 40, 90});
        control_end(&c);
    }
}

/* A branch of a branch reads a value of the model, one of the branch around it, and hands on one that it does
 * not compute. */
static void branches_nest(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 13), *then = control_body(&c), *other = control_body(&c),
              *inner = control_body(&c), *inner_other = control_body(&c);
    const uint8_t yes = 1;
    (void)state;
    ob_input(b, "c", MOIRE_BOOL, "");
    ob_input(b, "x", MOIRE_F32, "2");
    ob_node(b, "Neg", "x", "minus");
    ob_node(then, "Add", "x x", "twice");
    ob_node(inner, "Mul", "twice minus", "product");
    ob_output(inner, "product");
    ob_output(inner_other, "x");
    ob_node(then, "If", "c", "r");
    ob_body(then, "then_branch", inner);
    ob_body(then, "else_branch", inner_other);
    ob_output(then, "r");
    ob_output(other, "minus");
    ob_node(b, "If", "c", "y");
    ob_body(b, "then_branch", then);
    ob_body(b, "else_branch", other);
    ob_output(b, "y");
    control_in(&c, MOIRE_BOOL, "", &yes);
    control_in(&c, MOIRE_F32, "2", (const float[]){3, 4});
    control_expect(&c, 0, "2", (const float[]){-18, -32});
    control_end(&c);
}

/* The other branch could not even be inferred: it is for other shapes. */
static void a_branch_for_other_shapes_is_no_error(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 13), *then = control_body(&c), *other = control_body(&c);
    const uint8_t no = 0;
    (void)state;
    ob_input(b, "c", MOIRE_BOOL, "");
    ob_input(b, "x", MOIRE_F32, "2,3");
    ob_int64s(b, "axis", "0");
    ob_node(then, "Squeeze", "x axis", "t");
    ob_output(then, "t");
    ob_node(other, "Identity", "x", "e");
    ob_output(other, "e");
    ob_node(b, "If", "c", "y");
    ob_body(b, "then_branch", then);
    ob_body(b, "else_branch", other);
    ob_output(b, "y");
    control_in(&c, MOIRE_BOOL, "", &no);
    control_in(&c, MOIRE_F32, "2,3", (const float[]){1, 2, 3, 4, 5, 6});
    control_expect(&c, 0, "2,3", (const float[]){1, 2, 3, 4, 5, 6});
    ((uint8_t *)c.in[0].data)[0] = 1;
    control_fails(&c, "'t' (Squeeze)");
    control_end(&c);
}

/* --- Loop ----------------------------------------------------------------------------------------------- */

/* s = s + x in every trip while s < 10 (of the first element); scan: s and the trip's number. */
static void counting(struct control *c, const char *inputs) {
    struct ob *b = control_main(c, 13), *body = control_body(c);
    ob_input(b, "m", MOIRE_I64, "");
    ob_input(b, "go", MOIRE_BOOL, "");
    ob_input(b, "s0", MOIRE_F32, "2");
    ob_input(b, "x", MOIRE_F32, "2");
    ob_loop_inputs(body);
    ob_input(body, "s", MOIRE_F32, "2");
    ob_scalar(body, "ten", 10);
    ob_int64s(body, "zero", "0");
    ob_int64s(body, "one", "1");
    ob_node(body, "Add", "s x", "next");
    ob_node(body, "Slice", "next zero one", "head");
    ob_node(body, "Squeeze", "head", "first");
    ob_node(body, "Less", "first ten", "on");
    ob_node(body, "Cast", "i", "number");
    ob_int(body, "to", MOIRE_F32);
    ob_output(body, "on");
    ob_output(body, "next");
    ob_output(body, "next");
    ob_output(body, "number");
    ob_node(b, "Loop", inputs, "last all numbers");
    ob_body(b, "body", body);
    ob_output(b, "last");
    ob_output(b, "all");
    ob_output(b, "numbers");
}

static void counted(struct control *c, int64_t m, int go, float x) {
    const uint8_t flag = (uint8_t)go;
    const float step[] = {x, 1};
    control_in(c, MOIRE_I64, "", &m);
    control_in(c, MOIRE_BOOL, "", &flag);
    control_in(c, MOIRE_F32, "2", (const float[]){1, 0});
    control_in(c, MOIRE_F32, "2", step);
}

static void a_loop_ends_after_its_trips(void **state) {
    struct control c;
    (void)state;
    counting(&c, "m go s0");
    counted(&c, 3, 1, 2);
    control_expect(&c, 0, "2", (const float[]){7, 3});
    control_expect(&c, 1, "3,2", (const float[]){3, 1, 5, 2, 7, 3});
    control_expect(&c, 2, "3", (const float[]){0, 1, 2});
    control_end(&c);
}

static void a_loop_ends_when_its_condition_does(void **state) {
    struct control c;
    (void)state;
    counting(&c, "m go s0");
    counted(&c, 100, 1, 4);
    control_expect(&c, 0, "2", (const float[]){13, 3});
    control_expect(&c, 1, "3,2", (const float[]){5, 1, 9, 2, 13, 3});
    control_end(&c);
}

static void no_trips_leave_the_first_state(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) { /* none, fewer than none, or none allowed */
        struct control c;
        counting(&c, "m go s0");
        counted(&c, k == 2 ? 5 : -k, k != 2, 2);
        control_expect(&c, 0, "2", (const float[]){1, 0});
        control_expect(&c, 1, "0,2", NULL);
        control_expect(&c, 2, "0", NULL);
        control_end(&c);
    }
}

static void trips_and_condition_may_be_left_out(void **state) {
    struct control c;
    (void)state;
    counting(&c, "- - s0");
    counted(&c, 0, 0, 4);
    control_expect(&c, 0, "2", (const float[]){13, 3});
    control_end(&c);
}

static void an_endless_loop_meets_a_limit(void **state) {
    struct control c;
    (void)state;
    counting(&c, "- - s0");
    c.main->env.limits.loop_trips = 100;
    counted(&c, 0, 0, 0);
    control_fails(&c, "(Loop): its body would run more often than the limit loop_trips (100)");
    control_end(&c);
}

/* The state becomes longer in every trip. */
static void state_may_grow(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 13), *body = control_body(&c);
    const int64_t m = 3;
    (void)state;
    ob_input(b, "m", MOIRE_I64, "");
    ob_input(b, "x", MOIRE_F32, "1");
    ob_loop_inputs(body);
    ob_input(body, "s", MOIRE_F32, NULL);
    ob_node(body, "Neg", "s", "minus");
    ob_node(body, "Concat", "s minus", "longer");
    ob_int(body, "axis", 0);
    ob_node(body, "Shape", "longer", "size");
    ob_output(body, "was");
    ob_output(body, "longer");
    ob_output(body, "size");
    ob_node(b, "Loop", "m - x", "y sizes_");
    ob_body(b, "body", body);
    ob_node(b, "Cast", "sizes_", "sizes");
    ob_int(b, "to", MOIRE_F32);
    ob_output(b, "y");
    ob_output(b, "sizes");
    control_in(&c, MOIRE_I64, "", &m);
    control_in(&c, MOIRE_F32, "1", (const float[]){2});
    control_expect(&c, 0, "8", (const float[]){2, -2, -2, 2, -2, 2, 2, -2});
    control_expect(&c, 1, "3,1", (const float[]){2, 4, 8});
    control_end(&c);
}

/* A loop in a loop: the inner one counts to the outer one's number. */
static void loops_nest(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 13), *body = control_body(&c), *inner = control_body(&c);
    const int64_t m = 4;
    (void)state;
    ob_input(b, "m", MOIRE_I64, "");
    ob_input(b, "x", MOIRE_F32, "");
    ob_input(inner, "k", MOIRE_I64, "");
    ob_input(inner, "iwas", MOIRE_BOOL, "");
    ob_input(inner, "is", MOIRE_F32, "");
    ob_node(inner, "Add", "is x", "inext");
    ob_output(inner, "iwas");
    ob_output(inner, "inext");
    ob_loop_inputs(body);
    ob_input(body, "s", MOIRE_F32, "");
    ob_node(body, "Loop", "i - s", "next");
    ob_body(body, "body", inner);
    ob_output(body, "was");
    ob_output(body, "next");
    ob_output(body, "next");
    ob_node(b, "Loop", "m - x", "y all");
    ob_body(b, "body", body);
    ob_output(b, "y");
    ob_output(b, "all");
    control_in(&c, MOIRE_I64, "", &m);
    control_in(&c, MOIRE_F32, "", (const float[]){5});
    control_expect(&c, 0, "", (const float[]){35});
    control_expect(&c, 1, "4", (const float[]){5, 10, 20, 35});
    control_end(&c);
}

/* --- Scan ----------------------------------------------------------------------------------------------- */

/* Running sums along axis 1 from the end, each multiplied with the slice of another input; outputs along axis
 * 1 from the end, too. */
static void a_scan_goes_along_any_axis(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 11), *body = control_body(&c);
    (void)state;
    ob_input(b, "s0", MOIRE_F32, "2");
    ob_input(b, "x", MOIRE_F32, "2,3");
    ob_input(b, "z", MOIRE_F32, "3,2");
    ob_input(b, "w", MOIRE_F32, "");
    ob_input(body, "s", MOIRE_F32, "2");
    ob_input(body, "xs", MOIRE_F32, "2");
    ob_input(body, "zs", MOIRE_F32, "2");
    ob_node(body, "Add", "s xs", "sum");
    ob_node(body, "Mul", "sum zs", "scaled");
    ob_node(body, "Add", "scaled w", "out");
    ob_output(body, "sum");
    ob_output(body, "out");
    ob_node(b, "Scan", "s0 x z", "last all");
    ob_int(b, "num_scan_inputs", 2);
    ob_ints(b, "scan_input_axes", "-1,0");
    ob_ints(b, "scan_input_directions", "1,0");
    ob_ints(b, "scan_output_axes", "1");
    ob_ints(b, "scan_output_directions", "1");
    ob_body(b, "body", body);
    ob_output(b, "last");
    ob_output(b, "all");
    control_in(&c, MOIRE_F32, "2", (const float[]){0, 100});
    control_in(&c, MOIRE_F32, "2,3", (const float[]){1, 2, 3, 4, 5, 6});
    control_in(&c, MOIRE_F32, "3,2", (const float[]){1, 1, 2, 2, 3, 3});
    control_in(&c, MOIRE_F32, "", (const float[]){0.5f});
    control_expect(&c, 0, "2", (const float[]){6, 115});
    control_expect(&c, 1, "2,3", (const float[]){18.5f, 10.5f, 3.5f, 345.5f, 222.5f, 106.5f});
    control_end(&c);
}

/* --- files that do not fit ------------------------------------------------------------------------------ */

static void wrong_bodies_are_named(void **state) {
    static const char *const says[] = {
        "needs the graph attribute 'else_branch'",       "else_branch has 1 inputs and 1 outputs",
        "else_branch has 0 inputs and 2 outputs",        "else_branch: graph output 'nowhere'",
        "else_branch: node 0 'e' (Mul): reads a tensor", "has 0 inputs, the operator takes 1"};
    (void)state;
    for (int k = 0; k < 6; k++) {
        struct control c;
        branches(&c);
        struct ob *b = c.main, *other = c.body[1];
        if (k == 0) b->nodes[0]->n_attribute = 1;
        if (k == 1) ob_input(other, "more", MOIRE_F32, "1");
        if (k == 2) ob_output(other, "w");
        if (k == 3) other->outputs[0]->name = ob_text(other, "nowhere");
        if (k == 4) other->nodes[0]->input[0] = ob_text(other, "nowhere");
        if (k == 5) b->nodes[0]->n_input = 0;
        control_refused(&c, MOIRE_EFORMAT, "(If)", says[k]);
        control_end(&c);
    }
}

/* Deeper than messages may nest: refused before anything is read of it. */
static void depth_is_bounded(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 13), *around = b;
    (void)state;
    ob_input(b, "c", MOIRE_BOOL, "");
    for (int i = 0; i < 15; i++) {
        struct ob *inner = control_body(&c);
        ob_node(around, "If", "c", "y");
        ob_body(around, "then_branch", inner);
        ob_body(around, "else_branch", inner);
        ob_output(around, "y");
        around = inner;
    }
    ob_node(around, "Not", "c", "y");
    ob_output(around, "y");
    control_refused(&c, MOIRE_ELIMIT, "message_depth", "message_depth");
    control_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_branch_sees_what_is_around),
        cmocka_unit_test(branches_nest),
        cmocka_unit_test(a_branch_for_other_shapes_is_no_error),
        cmocka_unit_test(a_loop_ends_after_its_trips),
        cmocka_unit_test(a_loop_ends_when_its_condition_does),
        cmocka_unit_test(no_trips_leave_the_first_state),
        cmocka_unit_test(trips_and_condition_may_be_left_out),
        cmocka_unit_test(an_endless_loop_meets_a_limit),
        cmocka_unit_test(state_may_grow),
        cmocka_unit_test(loops_nest),
        cmocka_unit_test(a_scan_goes_along_any_axis),
        cmocka_unit_test(wrong_bodies_are_named),
        cmocka_unit_test(depth_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
