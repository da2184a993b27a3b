/* SPDX-License-Identifier: Apache-2.0
 * test_old_broadcast.c - operands that met by attributes before opset 7: constants and computed ones, by the
 * references and by kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/control/control_case.h"

/* y = op(x, b), b of `shape` with elements 1, 2, ...: a weight, or computed from an input. */
static void one(struct control *c, const char *op, const char *shape, bool computed, int broadcast,
                const char *axis) {
    struct ob *b = control_main(c, 6);
    static const float values[] = {1, 2, 3, 4, 5, 6};
    ob_input(b, "x", MOIRE_F32, "1,2,3");
    if (computed) {
        ob_input(b, "from", MOIRE_F32, shape);
        ob_node(b, "Identity", "from", "b");
    } else {
        ob_floats(b, "b", shape, values);
    }
    ob_node(b, op, "x b", "y");
    if (broadcast) ob_int(b, "broadcast", 1);
    if (axis) ob_int(b, "axis", *axis == '-' ? -(axis[1] - '0') : *axis - '0');
    ob_output(b, "y");
    control_in(c, MOIRE_F32, "1,2,3", (const float[]){-1, 2, -3, 4, -5, 6});
    if (computed) control_in(c, MOIRE_F32, shape, values);
}

static void operands_meet_by_attributes(void **state) {
    static const struct {
        const char *op, *shape;
        int broadcast;
        const char *axis;
        float want[6];
    } cases[] = {
        {"Add", "3", 1, NULL, {0, 4, 0, 5, -3, 9}},      {"Add", "2", 1, "1", {0, 3, -2, 6, -3, 8}},
        {"Mul", "1,2", 1, "0", {-1, 2, -3, 8, -10, 12}}, {"Sub", "2", 1, "-2", {-2, 1, -4, 2, -7, 4}},
        {"Div", "", 1, NULL, {-1, 2, -3, 4, -5, 6}},     {"PRelu", "2", 0, NULL, {-1, 2, -3, 4, -10, 6}},
        {"PRelu", "1", 0, NULL, {-1, 2, -3, 4, -5, 6}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int computed = 0; computed < 2; computed++) {
            struct control c;
            one(&c, cases[i].op, cases[i].shape, computed, cases[i].broadcast, cases[i].axis);
            control_expect(&c, 0, "1,2,3", cases[i].want);
            control_end(&c);
        }
}

static void an_axis_outside_is_refused(void **state) {
    struct control c;
    (void)state;
    one(&c, "Add", "2", false, 1, "3");
    control_refused(&c, MOIRE_EFORMAT, "'y' (Add)", "axis (3)");
    control_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_meet_by_attributes),
        cmocka_unit_test(an_axis_outside_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
