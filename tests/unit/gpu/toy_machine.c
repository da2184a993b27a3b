/* SPDX-License-Identifier: Apache-2.0
 * toy_machine.c - see toy_machine.h. */
#include "tests/unit/gpu/toy_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/gpu/loader.h"

struct toy_machine toy_machine;

static int open_system(const struct mo_gpu_config *config, struct mo_gpu_system **out, moire_error *err) {
    struct toy_gpu toy;
    (void)err;
    toy_gpu_open(&toy, config->env, 1, TOY_UNITS);
    *out = toy_machine.system = toy.system;
    toy_machine.open++;
    return MOIRE_OK;
}

static void close_system(struct mo_gpu_system *system) {
    struct toy_gpu toy = {&toy_machine.ops, system};
    struct toy_gpu_counts c = toy_gpu_counts(&toy);
    assert_int_equal(c.broken, 0);
    assert_int_equal(c.lets, 0);
    assert_int_equal(c.programs, 0);
    assert_int_equal(c.staging, 0);
    toy_gpu_close(&toy);
    toy_machine.open--;
}

static void *count_alloc(void *self, size_t align, size_t bytes) {
    atomic_fetch_add(&toy_machine.taken, (int64_t)bytes);
    return mo_sys_posix()->alloc(self, align, bytes);
}

static const struct mo_gpu_ops *plugin(void) {
    return &toy_machine.ops;
}
static void *dl_open(void *self, const char *path, char *reason, size_t n) {
    (void)self, (void)reason, (void)n;
    return strstr(path, "libmoire-cuda.so") ? &toy_machine : NULL;
}
static void *dl_sym(void *self, void *object, const char *symbol) {
    mo_gpu_plugin_function *f = plugin;
    void *out;
    (void)self, (void)object, (void)symbol;
    memcpy(&out, &f, sizeof out);
    return out;
}
static void dl_close(void *self, void *object) {
    (void)self, (void)object;
}

void toy_machine_set_up(moire_config *c) {
    struct toy_gpu toy;
    toy_machine.sys = *mo_sys_posix();
    toy_machine.env = mo_env_default();
    toy_gpu_open(&toy, &toy_machine.env, 1, 1);
    toy_machine.ops = *toy.ops;
    toy_gpu_close(&toy);
    toy_machine.ops.open = open_system;
    toy_machine.ops.close = close_system;
    toy_machine.sys.alloc = count_alloc;
    toy_machine.sys.dl_open = dl_open;
    toy_machine.sys.dl_sym = dl_sym;
    toy_machine.sys.dl_close = dl_close;
    toy_machine.env.sys = &toy_machine.sys;
    moire_config_init(c);
    c->generic_only = 1;
    c->threads = 2;
    c->device = "cuda";
    c->device_batch = 8;
}
