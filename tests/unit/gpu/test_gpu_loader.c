/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_loader.c - plugins of GPUs: what is no plugin is refused in one line that says so, and what a
 * plugin sees becomes a machine of the scheduler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/loader.h"
#include "tests/unit/gpu/toy_gpu.h"

static void what_is_no_plugin_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *device;
        int code;
        const char *says;
    } rows[] = {
        {"", MOIRE_EINVAL, "no device"},
        {"cuda:", MOIRE_EINVAL, "no device"},
        {"../cuda", MOIRE_EINVAL, "no device"},
        {"nothere", MOIRE_EUNSUPPORTED, "libmoire-nothere.so"},
        {"cuda:/nowhere/at/all.so", MOIRE_EUNSUPPORTED, "/nowhere/at/all.so"},
        {"cuda:libjansson.so.4", MOIRE_EUNSUPPORTED, "no plugin of moire"},
    };
    struct mo_env env = mo_env_default();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mo_gpu_device d;
        moire_error err = {0};
        assert_int_equal(mo_gpu_device_open(&env, rows[i].device, NULL, &d, &err), rows[i].code);
        assert_non_null(strstr(err.message, rows[i].says));
        assert_null(strchr(err.message, '\n'));
        mo_gpu_device_close(&d);
    }
}

/* A plugin in this program: what dl_open() and dl_sym() give. */
struct builtin {
    struct mo_sys table;
    struct mo_gpu_ops ops;
    int opened, closed;
    char file[64];
};
static struct builtin *the_builtin;

static const struct mo_gpu_ops *plugin(void) {
    return &the_builtin->ops;
}
static void *dl_open(void *self, const char *path, char *reason, size_t n) {
    struct builtin *b = self;
    (void)reason, (void)n;
    strncpy(b->file, path, sizeof b->file - 1);
    b->opened++;
    return b;
}
static void *dl_sym(void *self, void *object, const char *symbol) {
    mo_gpu_plugin_function *f = plugin;
    void *out;
    (void)self, (void)object;
    memcpy(&out, &f, sizeof out);
    return strcmp(symbol, "mo_gpu_plugin") ? NULL : out;
}
static void dl_close(void *self, void *object) {
    (void)object;
    ((struct builtin *)self)->closed++;
}

static void lay(struct builtin *b, struct mo_env *env) {
    struct toy_gpu toy;
    *env = mo_env_default();
    *b = (struct builtin){.table = *mo_sys_posix()};
    toy_gpu_open(&toy, env, 1, 1);
    b->ops = *toy.ops;
    toy_gpu_close(&toy);
    b->table.dl_open = dl_open;
    b->table.dl_sym = dl_sym;
    b->table.dl_close = dl_close;
    b->table.self = b;
    env->sys = &b->table;
    the_builtin = b;
}

static void a_plugin_of_another_build_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct builtin b;
        struct mo_env env;
        struct mo_gpu_device d;
        moire_error err = {0};
        lay(&b, &env);
        if (i)
            b.ops.abi++;
        else
            b.ops.env_bytes++;
        assert_int_equal(mo_gpu_device_open(&env, "cuda", NULL, &d, &err), MOIRE_EUNSUPPORTED);
        assert_non_null(strstr(err.message, "libmoire-cuda.so is of another version"));
        assert_int_equal(b.opened, b.closed);
        mo_gpu_device_close(&d);
    }
}

static void gpus_become_units(void **state) {
    (void)state;
    struct builtin b;
    struct mo_env env;
    struct mo_gpu_device d;
    struct mo_gpus gpus;
    lay(&b, &env);
    assert_int_equal(mo_gpu_device_open(&env, "cuda", NULL, &d, NULL), MOIRE_OK);
    assert_string_equal(b.file, "libmoire-cuda.so");
    assert_int_equal(mo_gpu_device_gpus(&d, 0, &gpus, NULL), MOIRE_OK);
    assert_int_equal(gpus.n_gpus, TOY_GPUS);
    assert_int_equal(gpus.n_kinds, 1);
    assert_string_equal(gpus.kinds[0].name, "toy");
    assert_int_equal(gpus.n_units, TOY_GPUS * TOY_UNITS);
    assert_int_equal(gpus.kinds[0].n_sizes, TOY_UNITS);
    assert_int_equal(gpus.kinds[0].max_lets, TOY_UNITS);
    assert_true(gpus.kinds[0].shared_weights);
    assert_int_equal(mo_gpu_device_gpus(&d, 2, &gpus, NULL), MOIRE_OK);
    assert_int_equal(gpus.kinds[0].max_lets, 2);
    mo_gpu_device_close(&d);
    assert_int_equal(b.closed, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_plugin_is_refused),
        cmocka_unit_test(a_plugin_of_another_build_is_refused),
        cmocka_unit_test(gpus_become_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
