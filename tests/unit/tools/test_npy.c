/* SPDX-License-Identifier: Apache-2.0
 * test_npy.c - NumPy files: what is written is read back; what is wrong is refused. */
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
#include "tools/moire/run_shapes.h"
#include "tools/moire/verify/npy.h"

static void round_trip(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char path[] = "/tmp/moire-npy-XXXXXX";
    close(mkstemp(path));
    int64_t values[6] = {1, -2, 3, 4, 5, INT64_MAX};
    moire_tensor back,
        in = {.dtype = MOIRE_I64, .rank = 2, .shape = {2, 3}, .data = values, .bytes = sizeof values};
    assert_int_equal(mo_npy_write(&env, path, &in, NULL), MOIRE_OK);
    assert_int_equal(mo_npy_read(&env, path, &back, NULL), MOIRE_OK);
    assert_int_equal(back.dtype, MOIRE_I64);
    assert_int_equal(back.rank, 2);
    assert_int_equal(back.shape[1], 3);
    assert_memory_equal(back.data, values, sizeof values);
    mo_free(&env, back.data);
    in = (moire_tensor){.dtype = MOIRE_F32, .rank = 0, .data = values, .bytes = 4};
    assert_int_equal(mo_npy_write(&env, path, &in, NULL), MOIRE_OK);
    assert_int_equal(mo_npy_read(&env, path, &back, NULL), MOIRE_OK);
    assert_int_equal(back.rank, 0);
    assert_int_equal(back.bytes, 4);
    mo_free(&env, back.data);
    unlink(path);
}

static int read_text(const char *header, size_t data) {
    struct mo_env env = mo_env_default();
    char path[] = "/tmp/moire-npy-XXXXXX", fixed[10] = "\x93NUMPY\1", zeros[64] = {0};
    int fd = mkstemp(path);
    fixed[7] = 0;
    fixed[8] = (char)strlen(header);
    fixed[9] = 0;
    assert_int_equal(write(fd, fixed, 10), 10);
    assert_int_equal(write(fd, header, strlen(header)), strlen(header));
    assert_int_equal(write(fd, zeros, data), data);
    close(fd);
    moire_tensor t;
    int code = mo_npy_read(&env, path, &t, NULL);
    if (!code) mo_free(&env, t.data);
    unlink(path);
    return code;
}

static void bad_files_are_refused(void **state) {
    (void)state;
    assert_int_equal(read_text("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24), MOIRE_OK);
    assert_int_equal(read_text("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23),
                     MOIRE_EFORMAT);
    assert_int_equal(read_text("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", 8),
                     MOIRE_EUNSUPPORTED);
    assert_int_equal(read_text("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8),
                     MOIRE_EUNSUPPORTED);
    assert_int_equal(read_text("{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", 24),
                     MOIRE_EFORMAT);
    assert_int_equal(read_text("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 8),
                     MOIRE_EFORMAT);
    assert_int_equal(
        read_text("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }", 8),
        MOIRE_EFORMAT);
    assert_int_equal(read_text("{'descr': '<f4', 'fortran_order': False, 'shape': (1", 8), MOIRE_EFORMAT);
    assert_int_equal(read_text("", 0), MOIRE_EFORMAT);
}

/* A file says how large its input is, --shape comes first, and what is no file is told. */
static void files_give_shapes(void **state) {
    (void)state;
    static struct mo_options o;
    static struct mo_run_shapes shapes;
    struct mo_env env = mo_env_default();
    float data[6] = {0};
    moire_tensor in = {.dtype = MOIRE_F32, .rank = 2, .shape = {2, 3}, .data = data, .bytes = sizeof data},
                 seen;
    moire_error err = {0};
    char path[] = "/tmp/moire-npy-XXXXXX", first[64], second[64];
    close(mkstemp(path));
    assert_int_equal(mo_npy_write(&env, path, &in, NULL), MOIRE_OK);
    assert_int_equal(mo_npy_look(&env, path, &seen, NULL), MOIRE_OK);
    assert_true(seen.rank == 2 && seen.shape[1] == 3 && seen.bytes == sizeof data && !seen.data);
    snprintf(first, sizeof first, "x=%s", path);
    snprintf(second, sizeof second, "y=%s", path);
    o = (struct mo_options){.inputs = {.word = {first, second}, .n = 2},
                            .shapes = {.shape = {{"y", 1, {6}}}, .n = 1}};
    assert_int_equal(mo_run_shapes(&env, &o, &shapes, &err), MOIRE_OK);
    assert_int_equal(shapes.n, 2);
    assert_true(!strcmp(shapes.shape[0].input, "y") && shapes.shape[0].rank == 1);
    assert_true(!strcmp(shapes.shape[1].input, "x") && shapes.shape[1].rank == 2 &&
                shapes.shape[1].shape[0] == 2);
    unlink(path);
    assert_int_equal(mo_run_shapes(&env, &o, &shapes, &err), MOIRE_EIO);
    o.inputs.word[0] = "x";
    assert_int_equal(mo_run_shapes(&env, &o, &shapes, &err), MOIRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(files_give_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
