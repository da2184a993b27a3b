/* SPDX-License-Identifier: Apache-2.0
 * test_regions.c - shared memory of clients: what can be registered, and what a shortened region does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "serve/query/regions.h"

static char key[64];

static int make(void **state) {
    (void)state;
    snprintf(key, sizeof key, "/moire-unit-%d", (int)getpid());
    const int fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, 100)) return 1;
    close(fd);
    return 0;
}
static int unmake(void **state) {
    (void)state;
    return shm_unlink(key);
}

static void cut(off_t size) {
    const int fd = shm_open(key, O_RDWR, 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

static void what_is_refused(void **state) {
    (void)state;
    struct ms_regions *off = ms_regions_open(NULL, 100), *r = ms_regions_open("/moire-unit-", 64);
    moire_error err = {0};
    assert_int_equal(ms_regions_register(off, "a", key, 0, 10, &err), MOIRE_EUNSUPPORTED);
    static const char *const keys[] = {"",     "/", "a", "/other", "/moire-unit-/x", "/moire-unit-/../x",
                                       "/../x"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_int_equal(ms_regions_register(r, "a", keys[i], 0, 10, &err), MOIRE_EINVAL);
    assert_int_equal(ms_regions_register(r, "a", "/moire-unit-none", 0, 10, &err), MOIRE_ESTALE);
    static const int64_t ranges[][2] = {{-1, 10}, {0, 0},         {0, -1},       {0, 101},
                                        {91, 10}, {INT64_MAX, 1}, {1, INT64_MAX}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        assert_int_equal(ms_regions_register(r, "a", key, ranges[i][0], ranges[i][1], &err), MOIRE_EINVAL);
    assert_int_equal(ms_regions_register(r, "", key, 0, 10, &err), MOIRE_EINVAL);
    char path[100];
    snprintf(path, sizeof path, "%s-link", key);
    char link[120];
    snprintf(link, sizeof link, "/dev/shm%s", path);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    assert_int_equal(ms_regions_register(r, "a", path, 0, 10, &err), MOIRE_ESTALE);
    unlink(link);
    if (!geteuid()) { /* another user's */
        snprintf(link, sizeof link, "/dev/shm%s", key);
        assert_int_equal(chown(link, 12345, (gid_t)-1), 0);
        assert_int_equal(ms_regions_register(r, "a", key, 0, 10, &err), MOIRE_ESTALE);
        assert_int_equal(chown(link, 0, (gid_t)-1), 0);
    }
    assert_int_equal(ms_regions_register(r, "a", key, 0, 10, &err), MOIRE_OK);
    assert_int_equal(ms_regions_register(r, "a", key, 0, 10, &err), MOIRE_EINVAL);
    ms_regions_close(off);
    ms_regions_close(r);
}

static void ranges_of_a_region(void **state) {
    (void)state;
    struct ms_regions *r = ms_regions_open("/moire-unit-", 64);
    struct ms_region *region;
    moire_error err = {0};
    assert_int_equal(ms_regions_register(r, "a", key, 20, 80, &err), MOIRE_OK);
    assert_int_equal(ms_regions_take(r, "b", 0, 1, &region, &err), MOIRE_ESTALE);
    assert_int_equal(ms_regions_take(r, "a", 0, 65, &region, &err), MOIRE_ELIMIT);
    assert_int_equal(ms_regions_take(r, "a", 20, 61, &region, &err), MOIRE_EINVAL);
    assert_int_equal(ms_regions_take(r, "a", -1, 1, &region, &err), MOIRE_EINVAL);
    assert_int_equal(ms_regions_take(r, "a", INT64_MAX, 1, &region, &err), MOIRE_EINVAL);
    assert_int_equal(ms_regions_take(r, "a", 40, 40, &region, &err), MOIRE_OK);
    char out[40], in[40];
    for (int i = 0; i < 40; i++)
        out[i] = (char)i;
    assert_int_equal(ms_region_write(region, 40, out, sizeof out, &err), MOIRE_OK);
    assert_int_equal(ms_region_read(region, 40, in, sizeof in, &err), MOIRE_OK);
    assert_memory_equal(in, out, sizeof in);
    cut(90); /* as a client may at any time */
    assert_int_equal(ms_region_read(region, 40, in, sizeof in, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "shorter"));
    assert_int_equal(ms_region_write(region, 40, out, sizeof out, &err), MOIRE_EINVAL);
    struct stat s;
    char path[100];
    snprintf(path, sizeof path, "/dev/shm%s", key);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 90); /* and it was not made longer */
    cut(100);
    ms_regions_unregister(r, "a"); /* while it is used */
    assert_int_equal(ms_region_read(region, 40, in, sizeof in, &err), MOIRE_OK);
    ms_regions_give(r, region);
    ms_regions_close(r);
}

static void a_full_table(void **state) {
    (void)state;
    struct ms_regions *r = ms_regions_open("/moire-unit-", 64);
    moire_error err = {0};
    json_t *list;
    char name[16];
    for (int i = 0; i <= MS_REGIONS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        assert_int_equal(ms_regions_register(r, name, key, 0, 10, &err),
                         i < MS_REGIONS ? MOIRE_OK : MOIRE_ELIMIT);
    }
    assert_int_equal(ms_regions_status(r, "", &list, &err), MOIRE_OK);
    assert_int_equal(json_array_size(list), MS_REGIONS);
    json_decref(list);
    ms_regions_unregister(r, "r7");
    assert_int_equal(ms_regions_status(r, "r7", &list, &err), MOIRE_ESTALE);
    assert_int_equal(ms_regions_register(r, "r7", key, 0, 10, &err), MOIRE_OK);
    ms_regions_close(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_refused, make, unmake),
        cmocka_unit_test_setup_teardown(ranges_of_a_region, make, unmake),
        cmocka_unit_test_setup_teardown(a_full_table, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
