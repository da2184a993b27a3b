/* SPDX-License-Identifier: Apache-2.0
 * test_parts.c - parts that lie in their whole as they are: slices that are read where they are, and inputs
 * of a Concat that are written one behind the other.  Each model is also compared with what its operators
 * say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "runtime/plan/plan.h"
#include "tests/unit/codegen/ways_case.h"

static struct mo_plan *plan_of(struct ob *b) {
    struct mo_plan *plan;
    moire_error err = {0};
    const struct mo_plan_options planning = {.isa = mo_isa_detect()};
    assert_int_equal(mo_plan_build(ways_graph(b, true, true), &planning, &plan, &err), MOIRE_OK);
    return plan;
}

/* Layers of an operator that move nothing (or those that do). */
static int views(const struct mo_plan *plan, const char *op, bool view) {
    int n = 0;
    for (int k = 0; k < plan->n_steps; k++)
        if (!strcmp(plan->steps[k].node->op_type, op)) n += !strcmp(plan->steps[k].kind, "view") == view;
    return n;
}

/* The model computes what its operators say, and so many layers of `op` move nothing, so many move something.
 */
static void expect(struct ob *b, const char *op, int none, int some) {
    struct mo_plan *plan = plan_of(b);
    assert_int_equal(views(plan, op, true), none);
    assert_int_equal(views(plan, op, false), some);
    mo_plan_destroy(plan);
    assert_int_equal(ways_check(b, op, false, ways_near), 0);
}

/* Text that lives as long as the model. */
static char *text(struct ob *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static char *text(struct ob *b, const char *format, ...) {
    char room[200];
    va_list more;
    va_start(more, format);
    vsnprintf(room, sizeof room, format, more);
    va_end(more);
    return ob_text(b, room);
}

static void slice(struct ob *b, const char *from, const char *to, int start, int end, int axis) {
    ob_int64s(b, text(b, "%s_start", to), text(b, "%d", start));
    ob_int64s(b, text(b, "%s_end", to), text(b, "%d", end));
    ob_int64s(b, text(b, "%s_axis", to), text(b, "%d", axis));
    ob_node(b, "Slice", text(b, "%s %s_start %s_end %s_axis", from, to, to, to), to);
}

static void join(struct ob *b, const char *in, const char *out, int64_t axis) {
    ob_node(b, "Concat", in, out);
    ob_int(b, "axis", axis);
}

static void stand(struct ob *b, const char *in, const char *out) {
    ob_node(b, "Unsqueeze", text(b, "%s zero", in), out);
}

/* Keys (0) or values (1) of layer `i`, named `to`: the past ones and a new one, whose head moves before its
 * row.
 */
static void keep(struct ob *b, int i, int which, const char *to) {
    slice(b, "past", text(b, "%s_layer", to), i, i + 1, 0);
    slice(b, text(b, "%s_layer", to), text(b, "%s_past", to), which, which + 1, 1);
    ob_node(b, "Reshape", text(b, "%s_past heads", to), text(b, "%s_old", to)); /* [1,2,5,8] */
    slice(b, "qkv", text(b, "%s_part", to), 16 + 16 * which, 32 + 16 * which, 2);
    ob_node(b, "Reshape", text(b, "%s_part rows", to), text(b, "%s_row", to));
    ob_node(b, "Transpose", text(b, "%s_row", to), text(b, "%s_new", to));
    ob_ints(b, "perm", "0,2,1,3");
    join(b, text(b, "%s_old %s_new", to, to), to, 2);
}

/* A step of a decoder of two layers, which gives what it keeps as one tensor. */
static struct ob *decoder(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,1,16");
    ob_input(b, "past", MOIRE_F32, "2,2,1,2,5,8");
    ob_random(b, "w", "16,48");
    ob_int64s(b, "heads", "1,2,5,8");
    ob_int64s(b, "rows", "1,1,2,8");
    ob_int64s(b, "zero", "0");
    ob_node(b, "MatMul", "x w", "qkv");
    for (int i = 0; i < 2; i++) {
        keep(b, i, 0, text(b, "k%d", i));
        keep(b, i, 1, text(b, "v%d", i));
        stand(b, text(b, "k%d", i), text(b, "keys%d", i));
        stand(b, text(b, "v%d", i), text(b, "values%d", i));
        join(b, text(b, "keys%d values%d", i, i), text(b, "both%d", i), 0); /* [2,1,2,6,8] */
        stand(b, text(b, "both%d", i), text(b, "all%d", i));
        ob_node(b, "Tanh", text(b, "k%d", i), text(b, "y%d", i)); /* reads keys where they are kept */
        ob_output(b, text(b, "y%d", i));
    }
    join(b, "all0 all1", "present", 0);
    ob_output(b, "present");
    return b;
}

static void a_decoder_copies_its_past_once(void **state) {
    (void)state;
    struct ob *b = decoder();
    struct mo_plan *plan = plan_of(b);
    assert_int_equal(views(plan, "Slice", false), 0);
    assert_int_equal(views(plan, "Transpose", false), 0);
    assert_int_equal(views(plan, "Unsqueeze", false), 0);
    assert_int_equal(views(plan, "Concat", true), 3);  /* of keys with values, and of the layers */
    assert_int_equal(views(plan, "Concat", false), 4); /* of past rows with new ones, head by head */
    mo_plan_destroy(plan);
    assert_int_equal(ways_check(b, "decoder", false, ways_near), 0);
    ob_destroy(b);
}

/* Two images each, one pair behind the other; then beside others in each of four images, which is a copy. */
static void batches_one_behind_the_other(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,5");
    ob_input(b, "z", MOIRE_F32, "4,2,5");
    ob_node(b, "Relu", "x", "a");
    ob_node(b, "Tanh", "x", "c");
    join(b, "a c", "pairs", 0);
    ob_node(b, "Neg", "z", "n");
    join(b, "pairs n", "y", -2);
    ob_node(b, "Softmax", "c", "rows");
    ob_node(b, "Exp", "pairs", "e");
    ob_output(b, "y");
    ob_output(b, "rows");
    ob_output(b, "e");
    expect(b, "Concat", 1, 1);
    ob_destroy(b);
}

/* A part of every image is no run, nor is every second one; parts of one image, and whole images, are. */
static void runs_are_told_from_what_has_gaps(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "4,6,5");
    slice(b, "x", "images", 1, 3, 0);
    slice(b, "images", "one", -1, 9, 0);
    slice(b, "one", "rows", 2, 5, 1);
    slice(b, "x", "gaps", 2, 5, 1);
    slice(b, "one", "columns", 2, 5, 2);
    ob_node(b, "Relu", "images", "a");
    ob_node(b, "Softmax", "rows", "c");
    ob_node(b, "Relu", "gaps", "d");
    ob_node(b, "Neg", "columns", "e");
    ob_output(b, "a");
    ob_output(b, "c");
    ob_output(b, "d");
    ob_output(b, "e");
    expect(b, "Slice", 3, 2);
    ob_destroy(b);
}

/* Parts of a Split and the whole, in layers that would like to write where they read. */
static void parts_keep_their_bytes(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,4,6");
    ob_node(b, "Tanh", "x", "t");
    ob_node(b, "Split", "t", "p q");
    ob_int(b, "axis", 1);
    ob_node(b, "Exp", "p", "e");
    ob_node(b, "Mul", "e q", "m");
    ob_node(b, "Add", "p m", "y");
    ob_node(b, "Neg", "t", "z");
    ob_output(b, "y");
    ob_output(b, "z");
    expect(b, "Split", 1, 0);
    ob_output(
        b, "q"); /* has bytes of its own, which the layer writes, and then it writes the other part's, too */
    expect(b, "Split", 0, 1);
    ob_destroy(b);
}

/* A part that a Concat can place is copied there, and the Concat moves nothing. */
static void a_concat_keeps_its_places(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,4,6");
    slice(b, "x", "part", 1, 3, 1);
    ob_node(b, "Relu", "x", "r");
    join(b, "part r", "y", 1);
    ob_node(b, "Tanh", "part", "t");
    ob_output(b, "y");
    ob_output(b, "t");
    expect(b, "Concat", 1, 0);
    ob_destroy(b);
}

/* The middle rows of the input, negative ones as 0. */
static void check_rows(struct mo_plan *plan, struct mo_instance *instance, const float *x) {
    moire_tensor y;
    assert_int_equal(mo_instance_run(instance, 0, plan->n_steps, NULL), MOIRE_OK);
    assert_int_equal(mo_instance_output(instance, 0, &y), MOIRE_OK);
    for (int i = 0; i < 200 * 300; i++)
        assert_true(((float *)y.data)[i] == (x[i + 30000] > 0 ? x[i + 30000] : 0));
}

/* An input that is read where it lies, then one that is copied, which must not go there; a part follows it.
 */
static void inputs_are_read_where_they_lie(void **state) {
    (void)state;
    enum { N = 400 * 300 };
    _Alignas(64) static float data[3][N + 16];
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,400,300");
    slice(b, "x", "rows", 100, 300, 1);
    ob_node(b, "Relu", "rows", "y");
    ob_output(b, "y");
    struct mo_plan *plan = plan_of(b);
    assert_int_equal(views(plan, "Slice", true), 1);
    struct mo_instance *instance;
    assert_int_equal(mo_instance_create(plan, &instance, NULL), MOIRE_OK);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < N + 16; i++)
            data[k][i] = (float)((i * 7 + k * 13) % 31 - 15);
    const int input = plan->graph->inputs[0];
    const char *at = (const char *)data[0];
    mo_instance_read_inputs(instance, &at);
    assert_ptr_equal(mo_instance_value(instance, input)->data, data[0]);
    check_rows(plan, instance, data[0]);
    const moire_tensor t = {
        .dtype = MOIRE_F32, .rank = 3, .shape = {1, 400, 300}, .data = data[1], .bytes = N * sizeof(float)};
    assert_int_equal(mo_instance_set_input(instance, 0, &t, NULL), MOIRE_OK);
    assert_ptr_not_equal(mo_instance_value(instance, input)->data, data[0]);
    check_rows(plan, instance, data[1]);
    assert_true(data[0][1] == -8);
    at = (const char *)&data[2][1]; /* its place does not suit kernels */
    mo_instance_read_inputs(instance, &at);
    check_rows(plan, instance, &data[2][1]);
    mo_instance_destroy(instance);
    mo_plan_destroy(plan);
    ob_destroy(b);
}

static void out_of_memory_everywhere(void **state) {
    (void)state;
    struct ob *b = decoder();
    ways_without_memory(b);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decoder_copies_its_past_once),   cmocka_unit_test(batches_one_behind_the_other),
        cmocka_unit_test(runs_are_told_from_what_has_gaps), cmocka_unit_test(parts_keep_their_bytes),
        cmocka_unit_test(a_concat_keeps_its_places),        cmocka_unit_test(inputs_are_read_where_they_lie),
        cmocka_unit_test(out_of_memory_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
