/* SPDX-License-Identifier: Apache-2.0
 * test_caches.c - the user's cache folders: one rule, by which a server finds what the command has compiled.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bench/load/session.h"
#include "moire.h"
#include "runtime/base/caches.h"
#include "runtime/base/trusted.h"
#include "tools/moire/paths.h"

static char root[64]; /* <root>/real is a folder, <root>/link leads to it */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int make_root(void **state) {
    (void)state;
    char path[128], link[128];
    snprintf(root, sizeof root, "/tmp/moire-caches-XXXXXX");
    if (!mkdtemp(root)) return -1;
    snprintf(path, sizeof path, "%s/real", root);
    snprintf(link, sizeof link, "%s/link", root);
    return mkdir(path, 0755) || symlink("real", link);
}

static int remove_root(void **state) {
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* NULL: not set; "/..." below the root. */
static void set(const char *name, const char *value) {
    char path[128];
    snprintf(path, sizeof path, "%s%s", value && *value == '/' ? root : "", value ? value : "");
    assert_int_equal(value ? setenv(name, path, 1) : unsetenv(name), 0);
}

static void the_rule(void **state) {
    (void)state;
    static const struct {
        const char *cache, *home, *want; /* NULL: below the home of the user database */
    } rows[] = {
        {"/real", "/other", "/real/moire/x"},
        {NULL, "/real", "/real/.cache/moire/x"},
        {"", "/real", "/real/.cache/moire/x"},
        {"not/absolute", "/real", "/real/.cache/moire/x"},
        {"/link", NULL, "/real/moire/x"},
        {NULL, "/link", "/real/.cache/moire/x"},
        {"/link/new", NULL, "/real/new/moire/x"},
        {NULL, NULL, NULL},
        {NULL, "not/absolute", NULL},
        {"", "", NULL},
    };
    struct passwd *user = getpwuid(geteuid());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char want[512], got[MO_CACHES_PATH];
        if (!rows[i].want && !(user && user->pw_dir && *user->pw_dir == '/')) continue;
        set("XDG_CACHE_HOME", rows[i].cache);
        set("HOME", rows[i].home);
        if (rows[i].want)
            snprintf(want, sizeof want, "%s%s", root, rows[i].want);
        else
            snprintf(want, sizeof want, "%s/.cache/moire/x", user->pw_dir);
        assert_int_equal(mo_caches_folder(mo_sys_posix(), "x", got, sizeof got, NULL), MOIRE_OK);
        if (rows[i].want)
            assert_string_equal(got, want);
        else
            assert_non_null(strstr(got, "/.cache/moire/x"));
    }
}

static int no_caches(void *self, char *out, size_t n) {
    (void)self, (void)out, (void)n;
    return -2;
}

static void nobody_knows_and_too_long(void **state) {
    (void)state;
    struct mo_sys sys = *mo_sys_posix();
    moire_error err = {0};
    char out[MO_CACHES_PATH], long_path[MO_CACHES_PATH + 8];
    set("XDG_CACHE_HOME", "/real");
    assert_int_equal(mo_caches_folder(&sys, "x", out, 8, &err), MOIRE_EINVAL);
    sys.caches = no_caches;
    assert_int_equal(mo_caches_folder(&sys, "x", out, sizeof out, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "XDG_CACHE_HOME"));
    memset(long_path, 'a', sizeof long_path);
    long_path[sizeof long_path - 1] = 0;
    assert_int_equal(mo_caches_real(mo_sys_posix(), long_path, out, sizeof out, &err), MOIRE_EINVAL);
    assert_int_equal(mo_caches_real(mo_sys_posix(), "", out, sizeof out, &err), MOIRE_EINVAL);
}

struct lines {
    char store[1024]; /* the one about the store */
};

static void keep_line(void *user, int level, const char *line) {
    struct lines *l = user;
    (void)level;
    if (strstr(line, "variant store")) snprintf(l->store, sizeof l->store, "%s", line);
}

static void create(struct lines *l) {
    moire_config c;
    moire_config_init(&c);
    c.threads = 1;
    c.no_pin = 1;
    c.log = keep_line;
    c.log_user = l;
    moire_runtime *rt = NULL;
    moire_error err = {0};
    *l = (struct lines){{0}};
    assert_int_equal(moire_runtime_create(&c, &rt, &err), MOIRE_OK);
    moire_runtime_destroy(rt, 1);
}

/* Where the command writes is where a runtime without a `store` looks, symbolic links on the way or not. */
static void a_runtime_looks_where_the_command_writes(void **state) {
    (void)state;
    static const char *const caches[] = {"/real", "/link", NULL};
    for (int i = 0; i < 3; i++) {
        char path[MO_CACHES_PATH], want[MO_CACHES_PATH + 2];
        struct lines l;
        set("XDG_CACHE_HOME", caches[i]);
        set("HOME", "/link");
        assert_int_equal(mo_path_store(NULL, path, sizeof path, NULL), MOIRE_OK);
        create(&l);
        snprintf(want, sizeof want, "'%s'", path);
        assert_non_null(strstr(l.store, want));
        assert_non_null(strstr(l.store, "moire compile")); /* nothing is there, and the line says so */
    }
}

/* A folder that others may write to is looked at, and refused. */
static void the_default_store_is_trusted_no_more_than_another(void **state) {
    (void)state;
    char path[MO_CACHES_PATH];
    struct lines l;
    set("XDG_CACHE_HOME", "/real");
    assert_int_equal(mo_path_store(NULL, path, sizeof path, NULL), MOIRE_OK);
    struct mo_env env = mo_env_default();
    assert_int_equal(mo_trusted_make(&env, path, NULL), MOIRE_OK);
    assert_int_equal(chmod(path, 0777), 0);
    create(&l);
    assert_non_null(strstr(l.store, "not used"));
    assert_non_null(strstr(l.store, path));
}

/* The bench builds its models where the command does. */
static void the_bench_asks_the_same_rule(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_bench_session session = {.env = &env};
    struct mo_bench_tenant tenant = {.model = "lenet"};
    struct mo_region *region = mo_region_create(&env);
    char want[256];
    const char *model;
    char path[MO_PATH_CAP];
    set("XDG_CACHE_HOME", "not/absolute");
    set("HOME", "/link");
    assert_int_equal(mo_bench_resolve(&session, region, &tenant, NULL), MOIRE_OK);
    assert_int_equal(mo_path_model(&env, "lenet", path, sizeof path, &model, NULL), MOIRE_OK);
    assert_string_equal(tenant.model, model);
    snprintf(want, sizeof want, "%s/real/.cache/moire/models/", root);
    assert_int_equal(strncmp(model, want, strlen(want)), 0);
    mo_region_destroy(region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule),
        cmocka_unit_test(nobody_knows_and_too_long),
        cmocka_unit_test(a_runtime_looks_where_the_command_writes),
        cmocka_unit_test(the_default_store_is_trusted_no_more_than_another),
        cmocka_unit_test(the_bench_asks_the_same_rule),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
