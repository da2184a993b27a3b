/* SPDX-License-Identifier: Apache-2.0
 * test_pbtxt.c - config.pbtxt: what is read, what is refused and with which line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/repository/model_settings.h"
#include "serve/repository/pbtxt.h"

static void gives(const char *text, const char *json) {
    moire_error err = {0};
    json_t *read, *wanted = json_loads(json, 0, NULL);
    const int rc = ms_pbtxt_parse(text, strlen(text), &read, &err);
    if (rc) print_message("%s: %s\n", text, err.message);
    assert_int_equal(rc, MOIRE_OK);
    assert_non_null(wanted);
    char *shown = json_dumps(read, JSON_COMPACT);
    if (!json_equal(read, wanted)) print_message("%s gives %s\n", text, shown);
    assert_true(json_equal(read, wanted));
    free(shown);
    json_decref(read);
    json_decref(wanted);
}

static void refuses(const char *text, const char *why) {
    moire_error err = {0};
    json_t *read;
    assert_int_not_equal(ms_pbtxt_parse(text, strlen(text), &read, &err), MOIRE_OK);
    assert_null(read);
    if (!strstr(err.message, why)) print_message("%s: %s\n", text, err.message);
    assert_non_null(strstr(err.message, why));
}

static void test_forms(void **state) {
    (void)state;
    gives("", "{}");
    gives("# only a comment", "{}");
    gives("name: \"a\" max_batch_size: 8", "{\"name\":\"a\",\"max_batch_size\":8}");
    gives("name: 'a' 'b';x:-1,y:0x10", "{\"name\":\"ab\",\"x\":-1,\"y\":16}");
    gives("a { b: true } c: { d: 1.5 }", "{\"a\":{\"b\":true},\"c\":{\"d\":1.5}}");
    gives("kind: KIND_CPU s: \"\\n\\\"\"", "{\"kind\":\"KIND_CPU\",\"s\":\"\\n\\\"\"}");
}

static void test_repeated_fields_and_maps(void **state) {
    (void)state;
    gives("dims: 3", "{\"dims\":[3]}");
    gives("dims: [ 3, 224, -1 ]", "{\"dims\":[3,224,-1]}");
    gives("dims: []", "{\"dims\":[]}");
    gives("input [ { name: \"x\" }, { name: \"y\" } ]", "{\"input\":[{\"name\":\"x\"},{\"name\":\"y\"}]}");
    gives("input { name: \"x\" } input { name: \"y\" }", "{\"input\":[{\"name\":\"x\"},{\"name\":\"y\"}]}");
    gives("parameters { key: \"k\" value: { string_value: \"v\" } }",
          "{\"parameters\":{\"k\":{\"string_value\":\"v\"}}}");
    gives("parameters [ { key: \"k\" value { string_value: \"v\" } }, { key: \"l\" value { string_value: "
          "\"w\" } } ]",
          "{\"parameters\":{\"k\":{\"string_value\":\"v\"},\"l\":{\"string_value\":\"w\"}}}");
}

static void test_faults(void **state) {
    (void)state;
    refuses("name \"a\"", "line 1: ':' or '{' is missing behind 'name'");
    refuses("\n\nname: \"a", "line 3: a string does not end");
    refuses("a {", "the file ends too early");
    refuses("a: 1 a: 2", "the field 'a' stands twice");
    refuses("dims: [ 1, 2", "a list lacks its ']'");
    refuses("x: 1e999", "malformed or out of range");
    refuses("x: \"\\q\"", "an escape that is not known");
    refuses("x: \"\xff\"", "not UTF-8");
    refuses("parameters { key: \"k\" }", "an entry of a map");
    refuses("}", "a name or a value is missing");
    char deep[200];
    memset(deep, 0, sizeof deep);
    for (int i = 0; i < 40; i++)
        strncat(deep, "a {", sizeof deep - strlen(deep) - 1);
    refuses(deep, "nested deeper");
}

struct lines {
    char text[4000];
};
static void keep(void *user, bool fault, const char *line) {
    struct lines *l = user;
    if (!fault) return;
    strncat(l->text, line, sizeof l->text - strlen(l->text) - 1);
    strncat(l->text, "\n", sizeof l->text - strlen(l->text) - 1);
}

/* Faults of a configuration; "" where there are none. */
static struct ms_settings settings(const char *text, struct lines *lines) {
    struct ms_faults faults = {.say = keep, .user = lines};
    struct ms_settings s;
    json_t *read;
    *lines = (struct lines){0};
    assert_int_equal(ms_pbtxt_parse(text, strlen(text), &read, NULL), MOIRE_OK);
    ms_settings_read(read, "m", &s, &faults);
    return s;
}

static void test_settings_are_read(void **state) {
    (void)state;
    struct lines l;
    struct ms_settings s = settings(
        "name: \"m\" max_batch_size: 8 version_policy { all { } } dynamic_batching { priority_levels: 3 "
        "default_priority_level: 2 default_queue_policy { max_queue_size: 5 default_timeout_microseconds: "
        "700 "
        "allow_timeout_override: true timeout_action: DELAY } priority_queue_policy { key: 3 value { "
        "max_queue_size: 7 } } preferred_batch_size: [4, 6] max_queue_delay_microseconds: 250 "
        "preserve_ordering: true } parameters { key: \"max_queue\" value { string_value: \"9\" } } "
        "parameters { key: \"max_in_flight\" value { string_value: \"12\" } } parameters { key: "
        "\"max_memory\" value { string_value: \"4096\" } } parameters { key: \"admission\" value { "
        "string_value: \"predicted\" } } parameters { key: \"qos_ms\" value { "
        "string_value: "
        "\"1.5\" } } parameters { key: \"class\" value { string_value: \"best-effort\" } } parameters { key: "
        "\"priority\" value { string_value: \"-3\" } } parameters { key: \"cores\" value { string_value: "
        "\"2\" } } parameters { key: \"weight\" value { string_value: \"2.5\" } } "
        "parameters { key: \"precision\" value { string_value: \"bf16\" } }",
        &l);
    assert_string_equal(l.text, "");
    assert_int_equal(s.qos_ns, 1500000);
    assert_int_equal(s.cls, MOIRE_BEST_EFFORT);
    assert_int_equal(s.priority, -3);
    assert_int_equal(s.cores, 2);
    assert_true(s.weight == 2.5);
    assert_int_equal(s.precision, MOIRE_PRECISION_BF16);
    assert_int_equal(s.max_batch, 8);
    for (int level = 0; level <= 3; level++) {
        const struct ms_queue_policy *p = &s.policy[level];
        assert_int_equal(p->most, level == 3 ? 7 : 5);
        assert_int_equal(p->timeout_us, level == 3 ? 0 : 700);
        assert_int_equal(p->delays, level != 3);
        assert_int_equal(p->timeout_is_fixed, level == 3);
    }
    assert_true(s.batching.is_asked && s.batching.keeps_order);
    assert_int_equal(s.batching.n_preferred, 2);
    assert_int_equal(s.batching.preferred[1], 6);
    assert_int_equal(s.batching.delay_ns, 250000);
    assert_int_equal(s.quota.waiting, 9);
    assert_int_equal(s.quota.in_flight, 12);
    assert_int_equal(s.quota.bytes, 4096);
    assert_true(s.is_predicted);
    assert_int_equal(s.levels, 3);
    assert_int_equal(s.level, 2);
    assert_int_equal(s.versions, 0);
    ms_settings_close(&s);
}

static void test_every_fault_of_the_settings_is_said(void **state) {
    (void)state;
    static const char *const wanted[] = {"there is no field 'nmae'",
                                         "'sequence_batching' is not served",
                                         "the name is 'other'",
                                         "backend is 'python'",
                                         "'max_batch_size' must be",
                                         "'default_priority_level' must be",
                                         "'timeout_action' is REJECT",
                                         "'preferred_batch_size' must be",
                                         "'priority_queue_policy' has the key '5'",
                                         "max_queue is '0'",
                                         "admission is 'some'",
                                         "qos_ms is 'soon'",
                                         "class is 'gold'",
                                         "weight is '-2'",
                                         "cores is 'two'",
                                         "precision is 'half'"};
    struct lines l;
    struct ms_settings s = settings(
        "nmae: 1 name: \"other\" backend: \"python\" sequence_batching { } max_batch_size: -1 "
        "parameters { key: \"max_queue\" value { string_value: \"0\" } } parameters { key: \"admission\" "
        "value { string_value: \"some\" } } "
        "dynamic_batching { preferred_batch_size: 4 priority_queue_policy { key: 5 value { } } "
        "priority_levels: 2 default_priority_level: 3 default_queue_policy { timeout_action: WAIT } } "
        "parameters { key: \"qos_ms\" value { string_value: \"soon\" } } parameters { key: \"class\" value { "
        "string_value: \"gold\" } } parameters { key: \"weight\" value { string_value: \"-2\" } } "
        "parameters { key: \"cores\" value { string_value: \"two\" } } "
        "parameters { key: \"precision\" value { string_value: \"half\" } }",
        &l);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!strstr(l.text, wanted[i])) print_message("not said: %s\n%s", wanted[i], l.text);
        assert_non_null(strstr(l.text, wanted[i]));
    }
    ms_settings_close(&s);
}

static void test_ensembles_leave_cores_to_their_models(void **state) {
    (void)state;
    static const struct {
        const char *parameter, *value;
        bool is_fault;
    } rows[] = {{"cores", "2", true}, {"weight", "2", true}, {"weight", "1", false}, {"qos_ms", "5", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        struct lines l;
        snprintf(text, sizeof text,
                 "platform: \"ensemble\" parameters { key: \"%s\" value { string_value: \"%s\" } }",
                 rows[i].parameter, rows[i].value);
        struct ms_settings s = settings(text, &l);
        assert_true(s.is_ensemble);
        assert_int_equal(strstr(l.text, "belong to the models of an ensemble") != NULL, rows[i].is_fault);
        ms_settings_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_repeated_fields_and_maps),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_settings_are_read),
        cmocka_unit_test(test_every_fault_of_the_settings_is_said),
        cmocka_unit_test(test_ensembles_leave_cores_to_their_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
