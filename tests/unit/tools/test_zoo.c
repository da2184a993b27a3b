/* SPDX-License-Identifier: Apache-2.0
 * test_zoo.c - the model zoo: published parameter counts and MACs, layer shapes, same seed same file. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "models/zoo.h"

/* Within 2 % for every network: the counts by MLPerf are rounded. Exact for those of exact sources. */
static void counts_agree_with_published_ones(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    int n;
    const struct mo_zoo_model *table = mo_zoo_table(&n);
    assert_int_equal(n, 21);
    for (int i = 0; i < n; i++) {
        struct mo_zoo_stats stats;
        assert_int_equal(mo_zoo_count(&env, &table[i], &stats, NULL), MOIRE_OK);
        double mmacs = (double)stats.macs / 1e6;
        if (fabs(mmacs / table[i].mmacs - 1) > 0.005)
            fail_msg("%s: %.1f M MACs, published %.1f", table[i].name, mmacs, table[i].mmacs);
        if (strstr(table[i].source, "MLPerf") && !strstr(table[i].source, "reference"))
            assert_true(fabs((double)stats.params / (double)table[i].params - 1) < 0.02);
        else if (stats.params != table[i].params)
            fail_msg("%s: %lld parameters, published %lld", table[i].name, (long long)stats.params,
                     (long long)table[i].params);
    }
}

static void every_row_is_complete(void **state) {
    (void)state;
    int n;
    const struct mo_zoo_model *table = mo_zoo_table(&n);
    for (int i = 0; i < n; i++) {
        assert_ptr_equal(mo_zoo_find(table[i].name), &table[i]);
        assert_true(table[i].qos_ms > 0);
        assert_non_null(table[i].inputs[0].name);
    }
    assert_null(mo_zoo_find("nosuch"));
}

/* The builder's sizes for the map a network ends with, before its head. */
static void feature_maps_have_published_sizes(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_build b;
    assert_int_equal(mo_build_start(&env, "t", 1, &b, NULL), MOIRE_OK);
    b.count_only = true;
    struct mo_bv x = mo_zoo_resnet34_stages(&b, mo_b_image(&b, "a", 3, 1200, 1200), 3, 1);
    assert_int_equal(x.c, 256);
    assert_int_equal(x.h, 150);
    struct mo_bv mid;
    x = mo_zoo_mobilenet_v1_body(&b, mo_b_image(&b, "b", 3, 300, 300), &mid);
    assert_int_equal(mid.c, 512);
    assert_int_equal(mid.h, 19);
    assert_int_equal(x.c, 1024);
    assert_int_equal(x.w, 10);
    assert_int_equal(b.code, MOIRE_OK);
    mo_build_end(&b);
}

static char *slurp(const char *path, size_t *n) {
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    off_t size = lseek(fd, 0, SEEK_END);
    char *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
    close(fd);
    *n = (size_t)size;
    return bytes;
}

static void a_seed_names_a_file(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    const struct mo_zoo_model *lenet = mo_zoo_find("lenet");
    char folder[] = "/tmp/moire-zoo-XXXXXX", path[3][64];
    char *bytes[3];
    size_t n[3];
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d.onnx", folder, i);
        assert_int_equal(mo_zoo_build(&env, lenet, i == 2 ? 9 : 4, path[i], NULL, NULL), MOIRE_OK);
        bytes[i] = slurp(path[i], &n[i]);
        unlink(path[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    assert_int_equal(n[0], n[2]);
    assert_memory_not_equal(bytes[0], bytes[2], n[0]);
    for (int i = 0; i < 3; i++)
        free(bytes[i]);
    rmdir(folder);
}

static void cached_path_is_built_once(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[] = "/tmp/moire-zoo-XXXXXX", deep[64], path[128], again[128];
    assert_non_null(mkdtemp(folder));
    snprintf(deep, sizeof deep, "%s/a/b", folder);
    assert_int_equal(mo_zoo_path(&env, "lenet", deep, path, sizeof path, NULL), MOIRE_OK);
    assert_int_equal(truncate(path, 3), 0); /* a mark: a second build would undo it */
    assert_int_equal(mo_zoo_path(&env, "lenet", deep, again, sizeof again, NULL), MOIRE_OK);
    assert_string_equal(path, again);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 3);
    moire_error err;
    assert_int_equal(mo_zoo_path(&env, "lenot", deep, again, sizeof again, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "lenot"));
    unlink(path);
    rmdir(deep);
    snprintf(deep, sizeof deep, "%s/a", folder);
    rmdir(deep);
    rmdir(folder);
}

static void unwritable_folder_is_an_error(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    moire_error err;
    int code = mo_zoo_build(&env, mo_zoo_find("lenet"), 1, "/nonexistent/x.onnx", NULL, &err);
    assert_int_equal(code, MOIRE_EIO);
    assert_non_null(strstr(err.message, "/nonexistent/x.onnx"));
}

/* A sys table whose k-th allocation fails, and all after it; or whose disk is full after some bytes. */
struct weak {
    struct mo_sys sys;
    int allocations_left;
    int64_t bytes_left;
};
static void *weak_alloc(void *self, size_t align, size_t bytes) {
    struct weak *w = self;
    return w->allocations_left-- > 0 ? mo_sys_posix()->alloc(NULL, align, bytes) : NULL;
}
static ssize_t weak_write(void *self, int fd, const void *data, size_t n) {
    struct weak *w = self;
    if ((int64_t)n > w->bytes_left) return -ENOSPC;
    w->bytes_left -= (int64_t)n;
    return mo_sys_posix()->write(NULL, fd, data, n);
}

static void failures_leave_nothing_behind(void **state) {
    (void)state;
    char folder[] = "/tmp/moire-zoo-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/lenet.onnx", folder);
    struct weak weak = {.sys = *mo_sys_posix(), .bytes_left = 100000, .allocations_left = 1 << 30};
    weak.sys.self = &weak;
    weak.sys.alloc = weak_alloc;
    weak.sys.write = weak_write;
    struct mo_env env = mo_env_default();
    env.sys = &weak.sys;
    moire_error err;
    assert_int_equal(mo_zoo_build(&env, mo_zoo_find("lenet"), 1, path, NULL, &err), MOIRE_EIO);
    int code = MOIRE_ENOMEM;
    for (int k = 0; code == MOIRE_ENOMEM && k < 1000; k++) {
        weak.allocations_left = k;
        weak.bytes_left = 1 << 30;
        code = mo_zoo_build(&env, mo_zoo_find("lenet"), 1, path, NULL, &err);
        if (code) assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(code, MOIRE_OK);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* fails when a temporary file is left */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_agree_with_published_ones),  cmocka_unit_test(every_row_is_complete),
        cmocka_unit_test(feature_maps_have_published_sizes), cmocka_unit_test(a_seed_names_a_file),
        cmocka_unit_test(cached_path_is_built_once),         cmocka_unit_test(unwritable_folder_is_an_error),
        cmocka_unit_test(failures_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
