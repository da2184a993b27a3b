/* SPDX-License-Identifier: Apache-2.0
 * test_query_trace.c - which queries are traced, and what settings are refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "serve/protocol/log.h"
#include "serve/query/query_trace.h"
#include "serve/query/trace_settings.h"

static int change(struct ms_trace_rules *r, const char *model, const char *text) {
    moire_error err = {0};
    json_t *wanted = json_loads(text, 0, NULL);
    assert_non_null(wanted);
    const int rc = ms_trace_rules_change(r, model, true, wanted, &err);
    json_decref(wanted);
    return rc;
}

static int taken(struct ms_trace_rules *r, const char *model, int n) {
    int k = 0;
    for (int i = 0; i < n; i++)
        k += ms_trace_rules_take(r, model);
    return k;
}

static void rates_and_counts(void **state) {
    (void)state;
    struct ms_trace_rules r;
    ms_trace_rules_init(&r);
    assert_false(ms_trace_rules_are_on(&r));
    assert_int_equal(taken(&r, "a", 5000), 0);
    assert_int_equal(change(&r, "", "{\"trace_level\":[\"TIMESTAMPS\"]}"), MOIRE_OK);
    assert_true(ms_trace_rules_are_on(&r));
    assert_int_equal(taken(&r, "a", 5000), 5);
    assert_int_equal(change(&r, "b", "{\"trace_rate\":\"10\",\"trace_count\":\"3\"}"), MOIRE_OK);
    assert_int_equal(taken(&r, "b", 100), 3);
    assert_int_equal(taken(&r, "a", 1000), 1);
    assert_int_equal(change(&r, "b", "{\"trace_count\":null,\"trace_level\":[]}"), MOIRE_OK);
    assert_int_equal(taken(&r, "b", 100), 0);
    assert_int_equal(change(&r, "b", "{\"trace_level\":null}"), MOIRE_OK);
    assert_int_equal(taken(&r, "b", 100), 10);
    assert_int_equal(change(&r, "", "{\"trace_level\":[\"OFF\"]}"), MOIRE_OK);
    assert_false(ms_trace_rules_are_on(&r));
    ms_trace_rules_free(&r);
}

static void what_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int rc;
    } rows[] = {
        {"[]", MOIRE_EINVAL},
        {"{\"trace_file\":\"/tmp/x\"}", MOIRE_EUNSUPPORTED},
        {"{\"trace_level\":[\"TENSORS\"]}", MOIRE_EUNSUPPORTED},
        {"{\"trace_level\":[1]}", MOIRE_EINVAL},
        {"{\"trace_rate\":\"0\"}", MOIRE_EINVAL},
        {"{\"trace_rate\":\"\"}", MOIRE_EINVAL},
        {"{\"trace_rate\":\"1x\"}", MOIRE_EINVAL},
        {"{\"trace_rate\":[]}", MOIRE_EINVAL},
        {"{\"trace_count\":\"-2\"}", MOIRE_EINVAL},
        {"{\"trace_count\":\"99999999999999999999\"}", MOIRE_EINVAL},
        {"{\"log_frequency\":\"-1\"}", MOIRE_EINVAL},
        {"{\"trace_mode\":\"opentelemetry\"}", MOIRE_EINVAL},
        {"{\"trace_rate\":\"5\",\"nope\":\"1\"}", MOIRE_EINVAL},
    };
    struct ms_trace_rules r;
    ms_trace_rules_init(&r);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(change(&r, "", rows[i].text), rows[i].rc);
    assert_int_equal(r.server.value[MS_TRACE_RATE], 1000); /* all or none */
    assert_int_equal(change(&r, "m", "{\"log_frequency\":\"1\"}"), MOIRE_EUNSUPPORTED);
    assert_int_equal(r.n, 0);
    char name[16];
    for (int i = 0; i <= MS_MODELS; i++) {
        snprintf(name, sizeof name, "m%d", i);
        assert_int_equal(change(&r, name, "{}"), i < MS_MODELS ? MOIRE_OK : MOIRE_ELIMIT);
    }
    ms_trace_rules_free(&r);
}

static size_t read_file(const char *path, char *text, size_t room) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, room - 1, f);
    text[n] = 0;
    fclose(f);
    return n;
}

static void files(void **state) {
    (void)state;
    char folder[] = "/tmp/moire-trace-XXXXXX", path[100], text[4096];
    struct ms_trace *t;
    moire_error err = {0};
    json_t *shown, *on = json_pack("{s:[s], s:s}", "trace_level", "TIMESTAMPS", "trace_rate", "1");
    const struct ms_traced q = {
        .model = "a\"b", .version = "2", .id = "\xff", .request_start = 5, .request_end = 9};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/none/t", folder);
    assert_int_equal(ms_trace_open(path, &t, &err), MOIRE_EIO);
    assert_int_equal(ms_trace_open(NULL, &t, &err), MOIRE_OK);
    assert_int_equal(ms_trace_settings(t, "", on, &shown, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--trace-file"));
    ms_trace_query(t, &q);
    ms_trace_close(t);
    snprintf(path, sizeof path, "%s/t", folder);
    assert_int_equal(ms_trace_open(path, &t, &err), MOIRE_OK);
    ms_trace_query(t, &q); /* off */
    assert_int_equal(ms_trace_settings(t, "", on, &shown, &err), MOIRE_OK);
    json_decref(shown);
    for (int i = 0; i < 3; i++)
        ms_trace_query(t, &q);
    ms_trace_close(t);
    read_file(path, text, sizeof text);
    json_t *read = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(read), 6);
    assert_string_equal(json_string_value(json_object_get(json_array_get(read, 0), "model_name")), "a\"b");
    assert_int_equal(json_array_size(json_object_get(json_array_get(read, 5), "timestamps")), 2);
    json_decref(read);
    json_decref(on);
    assert_int_equal(ms_trace_open(path, &t, &err), MOIRE_OK); /* without a trace it is an empty list */
    ms_trace_close(t);
    read_file(path, text, sizeof text);
    assert_string_equal(text, "[]\n");
    unlink(path);
    rmdir(folder);
}

static void log_settings(void **state) {
    (void)state;
    static const char *const bad[] = {"[]",
                                      "{\"log_file\":\"x\"}",
                                      "{\"log_info\":1}",
                                      "{\"log_verbose_level\":-1}",
                                      "{\"log_verbose_level\":9999}",
                                      "{\"log_format\":1}",
                                      "{\"a\":1}",
                                      "{\"log_info\":false,\"a\":1}"};
    struct ms_log log = {0};
    moire_error err = {0};
    json_t *shown;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *v = json_loads(bad[i], 0, NULL);
        assert_int_not_equal(ms_log_settings(&log, v, &shown, &err), MOIRE_OK);
        json_decref(v);
    }
    assert_int_equal(ms_log_settings(&log, NULL, &shown, &err), MOIRE_OK);
    assert_true(json_is_true(json_object_get(shown, "log_info"))); /* all or none */
    json_decref(shown);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_and_counts),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(files),
        cmocka_unit_test(log_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
