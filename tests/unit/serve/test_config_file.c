/* SPDX-License-Identifier: Apache-2.0
 * test_config_file.c - the file of --config: what is refused with which words, and how entries override. */
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
#include "serve/config_file.h"
#include "serve/repository/model_settings.h"
#include "serve/repository/overlay.h"

static char path[] = "/tmp/moire-config-XXXXXX";

static int read_text(const char *text, struct ms_config_file *out, moire_error *err) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    *err = (moire_error){0};
    return ms_config_file_open(path, out, err);
}

static void test_faults_say_where(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *says;
    } rows[] = {
        {"{\n \"threads\": 2,\n}", MOIRE_EFORMAT, "line 3"},
        {"[]", MOIRE_EINVAL, "is no object"},
        {"{\"thread\": 2}", MOIRE_EINVAL, "there is no key 'thread'"},
        {"{\"threads\": 0}", MOIRE_EINVAL, ".threads must be a whole number from 1 to 1024"},
        {"{\"threads\": \"2\"}", MOIRE_EINVAL, ".threads must be a whole number"},
        {"{\"host\": 2}", MOIRE_EINVAL, ".host must be a text"},
        {"{\"http_port\": 65536}", MOIRE_EINVAL, ".http_port must be"},
        {"{\"models\": {}}", MOIRE_EINVAL, ".models must be a list"},
        {"{\"load_first\": 1}", MOIRE_EINVAL, ".load_first must be true or false"},
        {"{\"drain_seconds\": -1}", MOIRE_EINVAL, ".drain_seconds must be a whole number from 0 to 3600"},
        {"{\"models\": [1]}", MOIRE_EINVAL, "models[0] is no object"},
        {"{\"models\": [{}]}", MOIRE_EINVAL, "models[0] needs a \"name\""},
        {"{\"models\": [{\"name\": \"a/b\"}]}", MOIRE_EINVAL, "models[0] needs a \"name\""},
        {"{\"models\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", MOIRE_EINVAL, "'a' is models[0] already"},
        {"{\"models\": [{\"name\": \"a\", \"qosms\": 3}]}", MOIRE_EINVAL,
         "models[0]: there is no key 'qosms'"},
        {"{\"models\": [{\"name\": \"a\", \"qos_ms\": \"3\"}]}", MOIRE_EINVAL,
         "models[0].qos_ms must be a number"},
        {"{\"models\": [{\"name\": \"a\", \"config\": []}]}", MOIRE_EINVAL,
         "models[0].config must be an object"},
        {"{\"models\": [{\"name\": \"a\", \"shapes\": [[1]]}]}", MOIRE_EINVAL, "shapes[0] must be a text"},
        {"{\"threads\": 1, \"threads\": 2}", MOIRE_EFORMAT, "duplicate"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ms_config_file f;
        moire_error err;
        assert_int_equal(read_text(rows[i].text, &f, &err), rows[i].code);
        if (!strstr(err.message, rows[i].says)) print_message("case %zu: %s\n", i, err.message);
        assert_non_null(strstr(err.message, rows[i].says));
        assert_null(f.document);
    }
    struct ms_config_file f;
    moire_error err;
    assert_int_equal(ms_config_file_open("/nonexistent", &f, &err), MOIRE_EIO);
}

static void quiet(void *user, bool fault, const char *line) {
    (void)user;
    if (fault) print_message("%s\n", line);
}

static void test_entries_override(void **state) {
    (void)state;
    struct ms_config_file f;
    struct ms_settings s;
    struct ms_faults faults = {.say = quiet};
    moire_error err;
    assert_int_equal(
        read_text(
            "{\"threads\": 3, \"models\": [{\"name\": \"b\"}, {\"name\": \"a\", \"qos_ms\": 2.5,"
            "\"class\": \"best-effort\", \"priority\": -3, \"max_batch_size\": 4,"
            "\"tolerance\": 0.01, \"max_queue_size\": 7, \"config\": {\"version_policy\": {\"all\": {}}}}]}",
            &f, &err),
        MOIRE_OK);
    assert_string_equal(f.folder, "/tmp");
    assert_int_equal(ms_config_file_whole(&f, "threads", 1), 3);
    assert_int_equal(ms_config_file_whole(&f, "http_port", 8000), 8000);
    assert_string_equal(ms_config_file_text(&f, "host", "here"), "here");
    const json_t *models = ms_config_file_models(&f), *entry = ms_overlay_entry(models, "a");
    assert_non_null(entry);
    assert_null(ms_overlay_entry(models, "c"));
    json_t *before =
        json_pack("{s:i, s:{s:{s:s}}}", "max_batch_size", 8, "parameters", "qos_ms", "string_value", "9");
    ms_settings_read(ms_overlay_apply(entry, before), "a", &s, &faults);
    assert_int_equal(faults.n, 0);
    assert_int_equal(s.qos_ns, 2500000);
    assert_int_equal(s.cls, MOIRE_BEST_EFFORT);
    assert_int_equal(s.priority, -3);
    assert_true(s.tolerance == 0.01);
    assert_int_equal(s.max_batch, 4);
    assert_int_equal(s.policy[0].most, 7);
    assert_false(s.policy[0].timeout_is_fixed);
    assert_int_equal(s.versions, 0);
    ms_settings_close(&s);
    /* what an entry does not say stays */
    before = json_pack("{s:i}", "max_batch_size", 8);
    ms_settings_read(ms_overlay_apply(ms_overlay_entry(models, "b"), before), "b", &s, &faults);
    assert_int_equal(s.max_batch, 8);
    ms_settings_close(&s);
    ms_config_file_close(&f);
}

/* The list of an entry is one parameter, however long. */
static void test_long_lists_stay_whole(void **state) {
    (void)state;
    enum { N = 900 };
    json_t *list = json_array(), *entry;
    for (int i = 0; i < N; i++)
        json_array_append_new(list, json_sprintf("x=1,3,%d,%d", 100 + i, 100 + i));
    entry = json_pack("{s:s, s:o}", "name", "a", "shapes", list);
    json_t *config = ms_overlay_apply(entry, NULL);
    const char *text = json_string_value(
        json_object_get(json_object_get(json_object_get(config, "parameters"), "shapes"), "string_value"));
    int parts = 1;
    assert_non_null(text);
    for (const char *at = text; *at; at++)
        parts += *at == ';';
    assert_int_equal(parts, N);
    assert_non_null(strstr(text, ";x=1,3,999,999"));
    json_decref(config);
    json_decref(entry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_say_where),
        cmocka_unit_test(test_entries_override),
        cmocka_unit_test(test_long_lists_stay_whole),
    };
    const int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return rc;
}
