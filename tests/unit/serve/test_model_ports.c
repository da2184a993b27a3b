/* SPDX-License-Identifier: Apache-2.0
 * test_model_ports.c - moire_model_*: what a file says before it is loaded. */
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
#include "models/zoo.h"

static char folder[] = "/tmp/moire-ports-XXXXXX";
static char path[512];

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

static moire_model *open_zoo(const char *name) {
    struct mo_env env = mo_env_default();
    moire_model *m = NULL;
    moire_error err = {0};
    assert_int_equal(mo_zoo_path(&env, name, folder, path, sizeof path, NULL), MOIRE_OK);
    const int rc = moire_model_open(path, &m, &err);
    if (rc) print_message("%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    unlink(path); /* the model needs it no more */
    return m;
}

static void test_ports(void **state) {
    (void)state;
    moire_model *m = open_zoo("lenet");
    moire_port p;
    assert_int_equal(moire_model_n_inputs(m), 1);
    assert_int_equal(moire_model_n_outputs(m), 1);
    assert_int_equal(moire_model_input(m, 0, &p), MOIRE_OK);
    assert_string_equal(p.name, "input");
    assert_int_equal(p.dtype, MOIRE_F32);
    assert_int_equal(p.rank, 4);
    assert_int_equal(p.shape[0], -1); /* open in the file */
    assert_int_equal(p.shape[3], 32);
    assert_int_equal(moire_model_output(m, 0, &p), MOIRE_OK);
    assert_string_equal(p.name, "output");
    moire_model_close(m);
}

static void test_wrong_arguments(void **state) {
    (void)state;
    moire_model *m = open_zoo("lenet");
    moire_port p;
    moire_error err;
    assert_int_equal(moire_model_input(m, 1, &p), MOIRE_EINVAL);
    assert_int_equal(moire_model_input(m, -1, &p), MOIRE_EINVAL);
    assert_int_equal(moire_model_output(m, 0, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_model_input(NULL, 0, &p), MOIRE_EINVAL);
    assert_int_equal(moire_model_n_inputs(NULL), 0);
    assert_int_equal(moire_model_n_outputs(NULL), 0);
    moire_model_close(m);
    moire_model_close(NULL);
    assert_int_equal(moire_model_open(NULL, &m, &err), MOIRE_EINVAL);
    assert_int_equal(moire_model_open("x", NULL, &err), MOIRE_EINVAL);
}

static void test_files_that_are_no_models(void **state) {
    (void)state;
    moire_model *m = (moire_model *)folder;
    moire_error err;
    assert_int_equal(moire_model_open("/nonexistent.onnx", &m, &err), MOIRE_EIO);
    assert_null(m);
    snprintf(path, sizeof path, "%s/bad.onnx", folder);
    FILE *f = fopen(path, "w");
    fputs("no model", f);
    fclose(f);
    assert_int_equal(moire_model_open(path, &m, &err), MOIRE_EFORMAT);
    assert_null(m);
    unlink(path);
}

static int rows_of(const char *name, int64_t rows, moire_error *err) {
    moire_model *m = open_zoo(name);
    moire_shape shapes[4];
    moire_port p;
    const int n = moire_model_n_inputs(m);
    assert_in_range(n, 1, 4);
    for (int i = 0; i < n; i++) {
        assert_int_equal(moire_model_input(m, i, &p), MOIRE_OK);
        shapes[i] = (moire_shape){.input = p.name, .rank = p.rank};
        memcpy(shapes[i].shape, p.shape, sizeof p.shape);
        shapes[i].shape[0] = rows;
    }
    *err = (moire_error){0};
    assert_int_equal(moire_model_rows_are_separate(m, shapes, n, err), MOIRE_EIO); /* open_zoo removed it */
    struct mo_env env = mo_env_default();
    assert_int_equal(mo_zoo_path(&env, name, folder, path, sizeof path, NULL), MOIRE_OK);
    *err = (moire_error){0};
    const int rc = moire_model_rows_are_separate(m, shapes, n, err);
    unlink(path);
    moire_model_close(m);
    return rc;
}

static void test_rows_are_separate(void **state) {
    (void)state;
    static const char *const names[] = {"lenet", "resnet18", "mobilenet-v2", "googlenet", "efficientnet-b0"};
    moire_error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int rc = rows_of(names[i], 2 + (int64_t)i, &err);
        if (rc) print_message("%s: %s\n", names[i], err.message);
        assert_int_equal(rc, MOIRE_OK);
    }
}

static void test_rows_need_one_batch(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    moire_model *m = open_zoo("lenet");
    moire_shape shape = {.input = "input", .rank = 4, .shape = {1, 1, 32, 32}};
    moire_error err = {0};
    assert_int_equal(moire_model_rows_are_separate(m, &shape, 1, &err), MOIRE_EINVAL);
    assert_int_equal(moire_model_rows_are_separate(NULL, &shape, 1, &err), MOIRE_EINVAL);
    assert_int_equal(moire_model_rows_are_separate(m, NULL, 1, &err), MOIRE_EINVAL);
    assert_int_equal(mo_zoo_path(&env, "lenet", folder, path, sizeof path, NULL), MOIRE_OK);
    shape = (moire_shape){.input = "input", .rank = 4, .shape = {4, 3, 32, 32}};
    assert_int_equal(moire_model_rows_are_separate(m, &shape, 1, &err), MOIRE_ESHAPE);
    unlink(path);
    moire_model_close(m);
}

static void test_positions_are_separate(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    moire_model *m = open_zoo("lenet");
    moire_shape shape = {.input = "input", .rank = 4, .shape = {4, 1, 32, 32}};
    moire_error err = {0};
    int axis[1] = {-1};
    assert_int_equal(moire_model_positions_are_separate(m, &shape, 1, 0, NULL, &err), MOIRE_EINVAL);
    assert_int_equal(moire_model_positions_are_separate(m, &shape, 1, 4, axis, &err), MOIRE_EINVAL);
    assert_int_equal(moire_model_positions_are_separate(m, &shape, 1, -1, axis, &err), MOIRE_EINVAL);
    assert_int_equal(moire_model_positions_are_separate(m, &shape, 1, 1, axis, &err), MOIRE_EINVAL); /* one */
    assert_int_equal(mo_zoo_path(&env, "lenet", folder, path, sizeof path, NULL), MOIRE_OK);
    assert_int_equal(moire_model_positions_are_separate(m, &shape, 1, 0, axis, &err), MOIRE_OK);
    assert_int_equal(axis[0], 0);
    assert_int_equal(moire_model_positions_are_separate(m, &shape, 1, 2, axis, &err),
                     MOIRE_ESHAPE); /* fixed */
    unlink(path);
    moire_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_separate),   cmocka_unit_test(test_positions_are_separate),
        cmocka_unit_test(test_rows_need_one_batch), cmocka_unit_test(test_ports),
        cmocka_unit_test(test_wrong_arguments),     cmocka_unit_test(test_files_that_are_no_models),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
