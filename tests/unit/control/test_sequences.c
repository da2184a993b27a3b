/* SPDX-License-Identifier: Apache-2.0
 * test_sequences.c - sequences and optionals within a model: made, changed, taken apart, carried by a loop,
 * and refused at the model's borders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/control/control_case.h"

/* seq = [x, -x, 2x], x = [1 2]. */
static struct ob *three(struct control *c) {
    struct ob *b = control_main(c, 17);
    ob_input(b, "x", MOIRE_F32, "1,2");
    ob_node(b, "Neg", "x", "minus");
    ob_node(b, "Add", "x x", "twice");
    ob_node(b, "SequenceConstruct", "x minus twice", "seq");
    control_in(c, MOIRE_F32, "1,2", (const float[]){1, 2});
    return b;
}

static void elements_go_in_and_out(void **state) {
    struct control c;
    struct ob *b = three(&c);
    (void)state;
    ob_int64s(b, "first", "0");
    ob_int64s(b, "last", "-1");
    ob_node(b, "SequenceErase", "seq first", "two");      /* -x 2x */
    ob_node(b, "SequenceInsert", "two x last", "middle"); /* -x x 2x */
    ob_node(b, "SequenceInsert", "middle minus", "four"); /* -x x 2x -x */
    ob_node(b, "SequenceErase", "four", "again");         /* -x x 2x */
    ob_node(b, "SequenceAt", "again last", "end");
    ob_node(b, "SequenceLength", "four", "length");
    ob_node(b, "ConcatFromSequence", "again", "joined");
    ob_int(b, "axis", 0);
    ob_node(b, "ConcatFromSequence", "four", "stacked");
    ob_int(b, "axis", -1);
    ob_int(b, "new_axis", 1);
    for (const char *const *out = (const char *const[]){"end", "length", "joined", "stacked", NULL}; *out;
         out++)
        ob_output(b, *out);
    control_expect(&c, 0, "1,2", (const float[]){2, 4});
    control_expect(&c, 1, "", (const float[]){4});
    control_expect(&c, 2, "3,2", (const float[]){-1, -2, 1, 2, 2, 4});
    control_expect(&c, 3, "1,2,4", (const float[]){-1, 1, 2, -1, -2, 2, 4, -2});
    control_end(&c);
}

static void tensors_are_split(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 17);
    (void)state;
    ob_input(b, "x", MOIRE_F32, "2,5");
    ob_int64s(b, "parts", "1,4");
    ob_int64s(b, "two", "2");
    ob_int64s(b, "at", "1");
    ob_node(b, "Squeeze", "two", "each");
    ob_node(b, "SplitToSequence", "x parts", "s1");
    ob_int(b, "axis", 1);
    ob_node(b, "SplitToSequence", "x each", "s2"); /* 2, 2, 1 */
    ob_int(b, "axis", -1);
    ob_node(b, "SplitToSequence", "x", "s3");
    ob_int(b, "axis", 0);
    ob_int(b, "keepdims", 0);
    ob_node(b, "SequenceAt", "s1 at", "y1");
    ob_node(b, "SequenceLength", "s2", "y2");
    ob_node(b, "SequenceAt", "s3 at", "y3");
    ob_output(b, "y1");
    ob_output(b, "y2");
    ob_output(b, "y3");
    control_in(&c, MOIRE_F32, "2,5", (const float[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    control_expect(&c, 0, "2,4", (const float[]){1, 2, 3, 4, 6, 7, 8, 9});
    control_expect(&c, 1, "", (const float[]){3});
    control_expect(&c, 2, "5", (const float[]){5, 6, 7, 8, 9});
    control_end(&c);
}

static void what_does_not_fit_is_named(void **state) {
    static const char *const says[] = {
        "(SequenceAt): position 7 is outside a sequence of 3", "does not go into a sequence of float32",
        "(ConcatFromSequence): element 3 does not fit the first", "(Relu): input 0 is a sequence",
        "(SequenceLength): input 0 is no sequence"};
    (void)state;
    for (int k = 0; k < 5; k++) {
        struct control c;
        struct ob *b = three(&c);
        ob_int64s(b, "seven", "7");
        ob_random(b, "other", "1,3");
        if (k == 0) ob_node(b, "SequenceAt", "seq seven", "y");
        if (k == 1) ob_node(b, "SequenceInsert", "seq seven", "s");
        if (k == 1) ob_node(b, "SequenceLength", "s", "y");
        if (k == 2) ob_node(b, "SequenceInsert", "seq other", "s");
        if (k == 2) ob_node(b, "ConcatFromSequence", "s", "y");
        if (k == 2) ob_int(b, "axis", 0);
        if (k == 3) ob_node(b, "Relu", "seq", "y");
        if (k == 4) ob_node(b, "Optional", "seq", "s");
        if (k == 4) ob_node(b, "SequenceLength", "s", "y");
        ob_output(b, "y");
        control_fails(&c, says[k]);
        control_end(&c);
    }
}

/* A loop collects its state, and begins with no element. */
static void a_loop_collects(void **state) {
    struct control c;
    struct ob *b = control_main(&c, 17), *body = control_body(&c);
    const int64_t m = 3;
    (void)state;
    ob_input(b, "m", MOIRE_I64, "");
    ob_input(b, "x", MOIRE_F32, "1");
    ob_node(b, "SequenceEmpty", "", "none");
    ob_loop_inputs(body);
    ob_input(body, "s", MOIRE_F32, NULL)->type = NULL;
    ob_input(body, "v", MOIRE_F32, "1");
    ob_node(body, "SequenceInsert", "s v", "more");
    ob_node(body, "Add", "v x", "next");
    ob_output(body, "was");
    ob_output(body, "more");
    ob_output(body, "next");
    ob_node(b, "Loop", "m - none x", "all last");
    ob_body(b, "body", body);
    ob_node(b, "ConcatFromSequence", "all", "y");
    ob_int(b, "axis", 0);
    ob_output(b, "y");
    control_in(&c, MOIRE_I64, "", &m);
    control_in(&c, MOIRE_F32, "1", (const float[]){2});
    control_expect(&c, 0, "3", (const float[]){2, 4, 6});
    control_end(&c);
}

static void a_map_runs_its_body_for_each(void **state) {
    struct control c;
    struct ob *b = three(&c), *body = control_body(&c);
    (void)state;
    ob_input(body, "e", MOIRE_F32, NULL);
    ob_input(body, "t", MOIRE_F32, NULL);
    ob_node(body, "Mul", "e t", "product");
    ob_node(body, "Sub", "product twice", "r");
    ob_output(body, "r");
    ob_node(b, "SequenceMap", "seq x", "mapped");
    ob_body(b, "body", body);
    ob_node(b, "ConcatFromSequence", "mapped", "y");
    ob_int(b, "axis", 0);
    ob_output(b, "y");
    control_expect(&c, 0, "3,2", (const float[]){-1, 0, -3, -8, 0, 4});
    control_end(&c);
}

static void an_optional_has_something_or_not(void **state) {
    struct control c;
    struct ob *b = three(&c);
    (void)state;
    ob_node(b, "Optional", "seq", "some");
    ob_node(b, "Optional", "", "nothing");
    ob_node(b, "OptionalHasElement", "some", "y0");
    ob_node(b, "OptionalHasElement", "nothing", "y1");
    ob_node(b, "OptionalGetElement", "some", "inner");
    ob_node(b, "SequenceLength", "inner", "y2");
    ob_output(b, "y0");
    ob_output(b, "y1");
    ob_output(b, "y2");
    control_expect(&c, 0, "", (const float[]){1});
    control_expect(&c, 1, "", (const float[]){0});
    control_expect(&c, 2, "", (const float[]){3});
    control_end(&c);
    b = three(&c);
    ob_node(b, "Optional", "", "nothing");
    ob_node(b, "OptionalGetElement", "nothing", "y");
    ob_output(b, "y");
    control_fails(&c, "(OptionalGetElement): the optional is empty");
    control_end(&c);
}

/* Declared as what it is: refused with what to do.  Declared as a tensor: no answer. */
static void a_model_gives_tensors_only(void **state) {
    (void)state;
    for (int honest = 0; honest < 2; honest++) {
        struct control c;
        struct ob *b = three(&c);
        Onnx__ValueInfoProto *out = ob_output(b, "seq");
        if (honest) {
            out->type->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
            out->type->sequence_type = ob_alloc(b, sizeof *out->type->sequence_type);
            onnx__type_proto__sequence__init(out->type->sequence_type);
            control_refused(&c, MOIRE_EUNSUPPORTED, "graph output 'seq' is a sequence", "ConcatFromSequence");
        } else {
            control_no_answer(&c);
        }
        control_end(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_go_in_and_out),       cmocka_unit_test(tensors_are_split),
        cmocka_unit_test(what_does_not_fit_is_named),   cmocka_unit_test(a_loop_collects),
        cmocka_unit_test(a_map_runs_its_body_for_each), cmocka_unit_test(an_optional_has_something_or_not),
        cmocka_unit_test(a_model_gives_tensors_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
