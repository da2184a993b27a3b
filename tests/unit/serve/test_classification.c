/* SPDX-License-Identifier: Apache-2.0
 * test_classification.c - the highest values of an output as text, and the files that have their names. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "serve/protocol/kserve_values.h"
#include "serve/query/classification.h"

/* The classes as JSON. */
static void gives(const moire_tensor *scores, int64_t top, bool is_batch, const struct ms_labels *labels,
                  const char *wanted) {
    struct ms_bytes text = {0}, json = {0};
    moire_tensor out;
    moire_error err = {0};
    ms_bytes_put(&text, "before", 6);
    assert_int_equal(ms_classes_write(scores, "y", top, is_batch, labels, &text, &out, &err), MOIRE_OK);
    out.data = text.at + 6;
    assert_int_equal(text.n, 6 + out.bytes);
    assert_int_equal(ms_values_write(&out, "y", &json, &err), MOIRE_OK);
    ms_bytes_put(&json, "", 1);
    assert_string_equal(json.at, wanted);
    ms_bytes_free(&json);
    ms_bytes_free(&text);
}

static void test_of_reals(void **state) {
    (void)state;
    float v[] = {1, 3, 2, 3, NAN, -1};
    const char *line[] = {"ant", "", "cat"};
    const struct ms_labels labels = {.line = line, .n = 3}, none = {0};
    moire_tensor t = {.dtype = MOIRE_F32, .rank = 2, .shape = {2, 3}, .data = v, .bytes = sizeof v};
    gives(&t, 2, false, &none, "[\"3.000000:1\",\"3.000000:3\"]");
    gives(&t, 100, false, &labels,
          "[\"3.000000:1\",\"3.000000:3\",\"2.000000:2:cat\",\"1.000000:0:ant\",\"-1.000000:5\",\"nan:4\"]");
    gives(&t, 1, true, &labels, "[\"3.000000:1\",\"3.000000:0:ant\"]");
    t.shape[0] = 0, t.bytes = 0;
    gives(&t, 1, true, &labels, "[]");
    gives(&t, 1, false, &labels, "[]");
}

static void test_of_whole_numbers(void **state) {
    (void)state;
    const struct ms_labels none = {0};
    int8_t small[] = {-3, 5, 0};
    uint64_t large[] = {1, UINT64_MAX};
    const moire_tensor a = {.dtype = MOIRE_I8, .rank = 1, .shape = {3}, .data = small, .bytes = sizeof small},
                       b = {
                           .dtype = MOIRE_U64, .rank = 1, .shape = {2}, .data = large, .bytes = sizeof large};
    gives(&a, 3, false, &none, "[\"5:1\",\"0:2\",\"-3:0\"]");
    gives(&b, 2, false, &none, "[\"18446744073709551615:1\",\"1:0\"]");
}

/* Against a sort, for sizes around those of a heap. */
static void test_order(void **state) {
    (void)state;
    double v[40];
    unsigned seed = 1;
    for (int round = 0; round < 200; round++) {
        const size_t n = 1 + (size_t)round % 40, top = 1 + (size_t)(round * 7) % 45;
        for (size_t i = 0; i < n; i++)
            v[i] = (int)((seed = seed * 1103515245 + 12345) >> 16) % 10;
        const moire_tensor t = {
            .dtype = MOIRE_F64, .rank = 1, .shape = {(int64_t)n}, .data = v, .bytes = n * 8};
        struct ms_bytes text = {0};
        moire_tensor out;
        assert_int_equal(
            ms_classes_write(&t, "y", (int64_t)top, false, &(struct ms_labels){0}, &text, &out, NULL),
            MOIRE_OK);
        assert_int_equal(out.shape[0], top < n ? top : n);
        double last = INFINITY;
        size_t last_index = 0;
        const char *at = text.at;
        for (int64_t k = 0; k < out.shape[0]; k++) {
            uint32_t length;
            memcpy(&length, at, 4);
            char one[64];
            snprintf(one, sizeof one, "%.*s", (int)length, at + 4);
            char *colon, *end;
            const double value = strtod(one, &colon);
            assert_true(*colon == ':');
            const size_t index = strtoul(colon + 1, &end, 10);
            assert_true(end > colon + 1 && !*end && index < n);
            assert_true(value == v[index]);
            assert_true(value < last || (value == last && index > last_index));
            last = value, last_index = index;
            at += 4 + length;
        }
        size_t above = 0;
        for (size_t i = 0; i < n; i++)
            above += v[i] > last;
        assert_true(above < (size_t)out.shape[0]);
        ms_bytes_free(&text);
    }
}

static void test_types_without_an_order(void **state) {
    (void)state;
    static const moire_dtype types[] = {MOIRE_BOOL, MOIRE_F16, MOIRE_BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char v[8] = {0};
        const moire_tensor t = {
            .dtype = types[i], .rank = 1, .shape = {1}, .data = v, .bytes = ms_type_bytes(types[i])};
        struct ms_bytes text = {0};
        moire_tensor out;
        moire_error err = {0};
        assert_int_equal(ms_classes_write(&t, "y", 1, false, &(struct ms_labels){0}, &text, &out, &err),
                         MOIRE_EINVAL);
        assert_non_null(strstr(err.message, "'y'"));
    }
}

/* --- files of labels --- */
static void put(const char *folder, const char *name, const char *data, size_t n) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static int opens(const char *folder, const char *file, struct ms_labels *out) {
    moire_error err = {0};
    json_t *config = json_pack("{s:[{s:s, s:s}]}", "output", "name", "y", "label_filename", file);
    const int rc = ms_labels_open(folder, config, "y", out, &err);
    json_decref(config);
    return rc;
}

static void test_files(void **state) {
    (void)state;
    char folder[] = "/tmp/moire-labels-XXXXXX", path[200];
    struct ms_labels l;
    assert_non_null(mkdtemp(folder));
    put(folder, "good", "ant\r\n\nbee", 9);
    put(folder, "empty", "", 0);
    put(folder, "bad", "\xff\n", 2);
    assert_int_equal(opens(folder, "good", &l), MOIRE_OK);
    assert_int_equal(l.n, 3);
    assert_string_equal(ms_label(&l, 0), "ant");
    assert_string_equal(ms_label(&l, 1), "");
    assert_string_equal(ms_label(&l, 2), "bee");
    assert_string_equal(ms_label(&l, 3), "");
    ms_labels_close(&l);
    assert_int_equal(opens(folder, "empty", &l), MOIRE_OK);
    assert_string_equal(ms_label(&l, 0), "");
    ms_labels_close(&l);
    assert_int_equal(opens(folder, "", &l), MOIRE_OK);
    assert_int_equal(opens(folder, "bad", &l), MOIRE_EINVAL);
    assert_int_equal(opens(folder, "nope", &l), MOIRE_EIO);
    assert_int_equal(opens(folder, ".", &l), MOIRE_EINVAL);
    assert_int_equal(opens(folder, "../good", &l), MOIRE_EINVAL);
    assert_int_equal(opens(folder, "/dev/zero", &l), MOIRE_EINVAL);
    snprintf(path, sizeof path, "%s/large", folder);
    put(folder, "large", "", 0);
    assert_int_equal(truncate(path, MS_LABEL_BYTES + 1), 0);
    assert_int_equal(opens(folder, "large", &l), MOIRE_ELIMIT);
    static const char *const made[] = {"good", "empty", "bad", "large"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, made[i]);
        unlink(path);
    }
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_reals), cmocka_unit_test(test_of_whole_numbers),
        cmocka_unit_test(test_order),    cmocka_unit_test(test_types_without_an_order),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
