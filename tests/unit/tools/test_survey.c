/* SPDX-License-Identifier: Apache-2.0
 * test_survey.c - the networks of `moire bench survey`, their data as a batch, and answers told right from
 * wrong. */
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
#include <sys/stat.h>
#include "tests/unit/codegen/onnx_build.h"
#include "tools/moire/command_line/options.h"
#include "tools/moire/survey/survey.h"
#include "tools/moire/verify/npy.h"

static char folder[] = "/tmp/moire-survey-XXXXXX";
static const struct mo_env *env(void) {
    static struct mo_env e;
    e = mo_env_default();
    return &e;
}

static void path_of(char *out, size_t n, const char *name) {
    snprintf(out, n, "%s/%s", folder, name);
}

static void write_file(const char *name, const void *bytes, size_t n) {
    char path[200];
    path_of(path, sizeof path, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* y = 2 x + 1, of any number of rows of 3. */
static void write_model(const char *name) {
    struct ob *b = ob_create(13);
    size_t n;
    ob_input(b, "x", MOIRE_F32, "N,3");
    ob_scalar(b, "two", 2);
    ob_scalar(b, "one", 1);
    ob_node(b, "Mul", "x two", "t");
    ob_node(b, "Add", "t one", "y");
    ob_output(b, "y");
    const uint8_t *bytes = ob_pack(b, &n);
    write_file(name, bytes, n);
    ob_destroy(b);
}

static void write_row(const char *name, const float v[3]) {
    char path[200];
    moire_error err = {0};
    moire_tensor t = {.dtype = MOIRE_F32, .rank = 2, .shape = {1, 3}, .data = (void *)v, .bytes = 12};
    path_of(path, sizeof path, name);
    assert_int_equal(mo_npy_write(env(), path, &t, &err), 0);
}

static int make_folder(void **state) {
    static const char *const folders[] = {"good", "good/data", "bad", "bad/data", "none"};
    char path[200];
    (void)state;
    if (!mkdtemp(folder)) return -1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        path_of(path, sizeof path, folders[i]);
        if (mkdir(path, 0700)) return -1;
    }
    write_model("good/model.onnx");
    write_model("bad/model.onnx");
    write_model("alone.onnx");
    write_row("good/data/x.npy", (float[]){1, 2, -3});
    write_row("good/data/y.npy", (float[]){3, 5, -5});
    write_row("bad/data/x.npy", (float[]){1, 2, -3});
    write_row("bad/data/y.npy", (float[]){3, 5, -4});
    return 0;
}

static int remove_folder(void **state) {
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* --- lists --------------------------------------------------------------------------------------------- */
static void list_of(const char *word, struct mo_survey_list *list, int code) {
    moire_error err = {0};
    const struct mo_words words = {.word = {word}, .n = 1};
    assert_int_equal(mo_survey_list_make(env(), &words, list, &err), code);
    if (code) assert_non_null(strstr(err.message, word));
}

static void a_folder_has_networks(void **state) {
    static const char *const names[] = {"alone", "bad", "good"};
    struct mo_survey_list list;
    (void)state;
    list_of(folder, &list, 0);
    assert_int_equal(list.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(list.entry[i].name, names[i]);
        assert_int_equal(list.entry[i].data != NULL, i > 0);
    }
    mo_survey_list_free(env(), &list);
}

static void a_list_has_a_path_a_line(void **state) {
    char text[400], path[200];
    struct mo_survey_list list;
    (void)state;
    snprintf(text, sizeof text, "# two\n%s/good/model.onnx\n\n%s/alone.onnx\n", folder, folder);
    write_file("list", text, strlen(text));
    path_of(path, sizeof path, "list");
    list_of(path, &list, 0);
    assert_int_equal(list.n, 2);
    assert_string_equal(list.entry[0].name, "good");
    assert_string_equal(list.entry[1].name, "alone");
    mo_survey_list_free(env(), &list);
    write_file("list", "nowhere.onnx\n", 13);
    list_of(path, &list, MOIRE_EINVAL);
    mo_survey_list_free(env(), &list);
    remove(path);
}

static void what_is_not_there_is_an_error(void **state) {
    char path[200];
    struct mo_survey_list list;
    (void)state;
    path_of(path, sizeof path, "none");
    list_of(path, &list, MOIRE_EINVAL);
    mo_survey_list_free(env(), &list);
    path_of(path, sizeof path, "nothing");
    list_of(path, &list, MOIRE_EIO);
    mo_survey_list_free(env(), &list);
}

/* --- answers ------------------------------------------------------------------------------------------- */
static double off_by(const char *name, int batch) {
    char model[200], data[200];
    double worst = -1;
    moire_error err = {0};
    struct mo_dataset set;
    snprintf(model, sizeof model, "%s/%s/model.onnx", folder, name);
    snprintf(data, sizeof data, "%s/%s/data", folder, name);
    const struct mo_survey_entry entry = {name, model, data};
    assert_int_equal(mo_dataset_open(env(), model, data, &set, &err), 0);
    assert_int_equal(mo_survey_batch(&set, batch, &err), 0);
    assert_int_equal(set.shape[0].shape[0], batch);
    const struct mo_frontend_options front = {.shapes = set.shape, .n_shapes = set.n_in};
    assert_int_equal(mo_survey_check(env(), &entry, &set, &front, NULL, &worst, &err), 0);
    mo_dataset_close(&set);
    return worst;
}

static void right_is_told_from_wrong(void **state) {
    (void)state;
    assert_true(off_by("good", 1) < 1e-6);
    assert_true(off_by("good", 5) < 1e-6);
    assert_true(fabs(off_by("bad", 1) - 1.0 / 9) < 1e-6); /* of a range from -4 to 5 */
    assert_true(fabs(off_by("bad", 5) - 1.0 / 9) < 1e-6);
}

static void a_batch_is_made_of_one(void **state) {
    char model[200], data[200];
    moire_error err = {0};
    struct mo_dataset set;
    (void)state;
    path_of(model, sizeof model, "good/model.onnx");
    path_of(data, sizeof data, "good/data");
    assert_int_equal(mo_dataset_open(env(), model, data, &set, &err), 0);
    assert_int_equal(mo_survey_batch(&set, 2, &err), 0);
    assert_int_equal(mo_survey_batch(&set, 3, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "batch of 1"));
    mo_dataset_close(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_has_networks),         cmocka_unit_test(a_list_has_a_path_a_line),
        cmocka_unit_test(what_is_not_there_is_an_error), cmocka_unit_test(right_is_told_from_wrong),
        cmocka_unit_test(a_batch_is_made_of_one),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
