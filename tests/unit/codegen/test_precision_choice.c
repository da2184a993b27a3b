/* SPDX-License-Identifier: Apache-2.0
 * test_precision_choice.c - which precision `auto` takes for a tolerance: from numbers, and on a model. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/settle_precision.h"
#include "codegen/precision_choice.h"
#include "tests/unit/codegen/onnx_build.h"

static struct mo_precision_trial trial(enum moire_precision p, double fp32, double ns, double difference) {
    return (struct mo_precision_trial){.precision = p, .fp32_ns = fp32, .ns = ns, .difference = difference};
}

/* --- numbers --- */
static void the_fastest_within_the_tolerance_is_taken(void **state) {
    (void)state;
    const struct mo_precision_trial two[] = {trial(MOIRE_PRECISION_BF16, 100, 30, 0.004),
                                             trial(MOIRE_PRECISION_FP16, 100, 60, 0.0004)};
    assert_int_equal(mo_precision_choose(two, 2, 0.01), 0);
    assert_int_equal(mo_precision_choose(two, 2, 0.001), 1);
    assert_int_equal(mo_precision_choose(two, 2, 0.0001), -1);
    assert_int_equal(mo_precision_choose(two, 0, 1), -1);
}

static void what_gains_nothing_is_not_taken(void **state) {
    (void)state;
    const struct mo_precision_trial slow = trial(MOIRE_PRECISION_BF16, 100, 120, 0),
                                    level = trial(MOIRE_PRECISION_BF16, 100, 98, 0),
                                    small = trial(MOIRE_PRECISION_BF16, 100, 96, 0);
    assert_int_equal(mo_precision_choose(&slow, 1, 1), -1);
    assert_int_equal(mo_precision_choose(&level, 1, 1), -1);
    assert_int_equal(mo_precision_choose(&small, 1, 1), 0);
}

static void a_model_of_8_bits_is_judged_by_time_only(void **state) {
    (void)state;
    struct mo_precision_trial t = trial(MOIRE_PRECISION_INT8, 100, 40, 0.5);
    assert_int_equal(mo_precision_choose(&t, 1, 0.01), -1);
    t.exempt = true;
    assert_int_equal(mo_precision_choose(&t, 1, 0.01), 0);
    t.ns = 110;
    assert_int_equal(mo_precision_choose(&t, 1, 0.01), -1);
}

static void the_line_says_why(void **state) {
    (void)state;
    char text[MO_PRECISION_TEXT];
    const struct mo_precision_trial t = trial(MOIRE_PRECISION_BF16, 290, 100, 0.0031);
    mo_precision_say(&t, 1, 0.01, text, sizeof text);
    assert_string_equal(text,
                        "bf16, 2.90 times as fast as fp32, differs by 0.31 % of the range (allowed 1 %)");
    mo_precision_say(&t, 1, 0.001, text, sizeof text);
    assert_string_equal(
        text, "fp32: bf16 is 2.90 times as fast as fp32, differs by 0.31 % of the range (allowed 0.1 %)");
    struct mo_precision_trial both[] = {trial(MOIRE_PRECISION_AUTO, 300, 200, 0), t};
    both[0].exempt = true; /* float32 on a matrix unit */
    mo_precision_say(both, 2, 0.001, text, sizeof text);
    assert_string_equal(text, "fp32 (matrix unit), 1.50 times as fast as fp32");
    assert_int_equal(mo_precision_choose(both, 2, 0.01), 1);
}

/* --- outputs --- */
static moire_tensor floats(float *data, int64_t n) {
    return (moire_tensor){
        .dtype = MOIRE_F32, .rank = 1, .shape = {n}, .data = data, .bytes = (size_t)n * sizeof *data};
}

static double gap_of(float *want, float *got, int64_t n) {
    struct mo_output_gap gap = {0};
    const moire_tensor a = floats(want, n), b = floats(got, n);
    mo_output_gap_add(&gap, &a, &b);
    return mo_output_gap_of(&gap);
}

static void floats_differ_by_parts_of_the_range(void **state) {
    (void)state;
    float want[] = {-1, 3, 0}, got[] = {-1, 3, 0.25f}, lost[] = {-1, NAN, 0}, flat[] = {2, 2, 2};
    assert_true(gap_of(want, got, 3) == 0.25 / 4);
    assert_true(isinf(gap_of(want, lost, 3)));
    assert_true(isinf(gap_of(flat, want, 3)));
    assert_true(gap_of(lost, lost, 3) == 0);
}

static void integers_differ_by_shares(void **state) {
    (void)state;
    int64_t want[] = {1, 2, 3, 4}, got[] = {1, 2, 3, 5};
    moire_tensor a = {.dtype = MOIRE_I64, .rank = 1, .shape = {4}, .data = want, .bytes = sizeof want}, b = a;
    struct mo_output_gap gap = {0};
    b.data = got;
    mo_output_gap_add(&gap, &a, &b);
    mo_output_gap_add(&gap, &a, &a);
    assert_true(mo_output_gap_of(&gap) == 1.0 / 8);
    b.shape[0] = 3;
    mo_output_gap_add(&gap, &a, &b);
    assert_true(isinf(mo_output_gap_of(&gap)));
}

/* --- a model --- */
static char path[] = "/tmp/moire-precision-XXXXXX";

static int write_model(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    size_t n;
    ob_input(b, "x", MOIRE_F32, "4,64");
    ob_random(b, "w", "64,96");
    ob_node(b, "MatMul", "x w", "y");
    ob_output(b, "y");
    const uint8_t *bytes = ob_pack(b, &n);
    const int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) return -1;
    ob_destroy(b);
    return 0;
}

static int remove_model(void **state) {
    (void)state;
    return remove(path);
}

static struct mo_precision_settled settle(double tolerance, enum moire_precision asked) {
    const struct mo_env env = mo_env_default();
    const struct mo_frontend_options front = {.precision = asked, .any_unit = true};
    const struct mo_plan_options planning = {.isa = mo_isa_detect(), .units = MO_UNITS_MODEL};
    const struct mo_precision_ask ask = {
        .env = &env, .path = path, .front = &front, .planning = &planning, .tolerance = tolerance};
    return mo_precision_settle(&ask);
}

/* What is fastest is this machine's business, and this moment's; that something was measured shows. */
static void a_choice_is_made_and_said(void **state) {
    (void)state;
    const struct mo_precision_settled s = settle(0.02, MOIRE_PRECISION_AUTO);
    print_message("%s\n", s.said);
    assert_non_null(strstr(s.said, "times as fast as fp32"));
    assert_int_not_equal(s.precision, MOIRE_PRECISION_AUTO);
}

static void nothing_is_measured_unasked(void **state) {
    (void)state;
    struct mo_precision_settled s = settle(0, MOIRE_PRECISION_AUTO);
    assert_int_equal(s.precision, MOIRE_PRECISION_AUTO);
    assert_string_equal(s.said, "");
    s = settle(0.5, MOIRE_PRECISION_FP16);
    assert_int_equal(s.precision, MOIRE_PRECISION_FP16);
    assert_string_equal(s.said, "");
}

/* bfloat16 is off by some thousandths of the range. */
static void a_narrow_tolerance_keeps_float32(void **state) {
    (void)state;
    assert_int_equal(settle(1e-7, MOIRE_PRECISION_AUTO).precision, MOIRE_PRECISION_FP32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_within_the_tolerance_is_taken),
        cmocka_unit_test(what_gains_nothing_is_not_taken),
        cmocka_unit_test(a_model_of_8_bits_is_judged_by_time_only),
        cmocka_unit_test(the_line_says_why),
        cmocka_unit_test(floats_differ_by_parts_of_the_range),
        cmocka_unit_test(integers_differ_by_shares),
        cmocka_unit_test(a_choice_is_made_and_said),
        cmocka_unit_test(nothing_is_measured_unasked),
        cmocka_unit_test(a_narrow_tolerance_keeps_float32),
    };
    return cmocka_run_group_tests(tests, write_model, remove_model);
}
