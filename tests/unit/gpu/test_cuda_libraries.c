/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_libraries.c - driver and libraries are found in one way: in the folders that are named, else as
 * the loader finds them; and what is said of those that would not do.  A model is loaded so by the public
 * calls. */
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
#include "runtime/gpu/cuda/blas.h"
#include "runtime/gpu/cuda/dnn.h"
#include "runtime/gpu/cuda/rtc.h"
#include "tests/unit/gpu/cuda_case.h"

enum { SIDE = 32, CLASSES = 10, ROWS = 16 };

/* Opening one of them; NULL: it is there, and `file` says which. */
struct way {
    const char *name, *needs;
    int (*open)(struct cuda_case *c, const char *path, char *file, moire_error *err);
};

static void take(struct mo_cuda_object *object, char *file) {
    snprintf(file, sizeof object->file, "%s", object->file);
    mo_cuda_object_close(object);
}

static int open_driver(struct cuda_case *c, const char *path, char *file, moire_error *err) {
    struct mo_cuda_object object;
    struct mo_cuda_driver cu;
    const int rc = mo_cuda_driver_open(&object, &c->env, path, &cu, err);
    if (!rc) take(&object, file);
    return rc;
}

static int open_rtc(struct cuda_case *c, const char *path, char *file, moire_error *err) {
    struct mo_cuda_rtc rtc;
    const int rc = mo_cuda_rtc_open(&rtc, &c->env, path, err);
    if (!rc) take(&rtc.object, file);
    return rc;
}

static int open_blas(struct cuda_case *c, const char *path, char *file, moire_error *err) {
    struct mo_cuda_blas blas;
    const int rc = mo_cuda_blas_open(&blas, &c->env, path, err);
    if (!rc) snprintf(file, sizeof blas.object.file, "%s", blas.object.file);
    if (!rc) mo_cuda_blas_close(&blas);
    return rc;
}

static int open_dnn(struct cuda_case *c, const char *path, char *file, moire_error *err) {
    struct mo_cuda_dnn dnn;
    const int rc = mo_cuda_dnn_open(&dnn, &c->env, NULL, path, err);
    if (!rc) snprintf(file, sizeof dnn.object.file, "%s", dnn.object.file);
    if (!rc) mo_cuda_dnn_close(&dnn);
    return rc;
}

static const struct way ways[] = {
    {"libcuda.so.1", "the NVIDIA driver, R550 (CUDA 12.4) or newer", open_driver},
    {"libnvrtc.so.13", "NVRTC of CUDA 12 or 13", open_rtc},
    {"libcublasLt.so.13", "cuBLASLt of CUDA 12 or 13", open_blas},
    {"libcudnn.so.9", "cuDNN 9", open_dnn}};
enum { WAYS = sizeof ways / sizeof *ways };

/* The table below `sys`, with files that are not where they are, and without a function. */
static _Thread_local struct {
    const struct mo_sys *real;
    const char *fakes, *spoilt; /* folder where the loader looks; one whose files lack what is asked first */
    void *broken;
    bool nothing; /* is anywhere */
} world;

static void *open_in_world(void *self, const char *path, char *reason, size_t n) {
    char file[600];
    if (world.nothing) {
        snprintf(reason, n, "%s: no such file", path);
        return NULL;
    }
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const bool spoilt = world.spoilt && !strncmp(path, world.spoilt, strlen(world.spoilt));
    if (spoilt || (world.fakes && name == path)) {
        snprintf(file, sizeof file, "%s/%s", world.fakes, name);
        void *object = world.real->dl_open(self, file, reason, n);
        if (spoilt) world.broken = object;
        return object;
    }
    return world.real->dl_open(self, path, reason, n);
}

static void *find_in_world(void *self, void *object, const char *symbol) {
    return object == world.broken ? NULL : world.real->dl_sym(self, object, symbol);
}

static void close_in_world(void *self, void *object) {
    if (object == world.broken) world.broken = NULL;
    world.real->dl_close(self, object);
}

static void begin(struct cuda_case *c) {
    memset(&world, 0, sizeof world);
    cuda_case_begin(c, &(struct mo_fake_config){0});
    world.real = mo_sys_posix();
    c->sys.table.dl_open = open_in_world;
    c->sys.table.dl_sym = find_in_world;
    c->sys.table.dl_close = close_in_world;
}

static void folders_come_before_the_loader(void **state) {
    (void)state;
    struct cuda_case c;
    begin(&c);
    for (int i = 0; i < WAYS; i++) {
        char path[1000], want[600], file[600] = "";
        moire_error err = {0};
        snprintf(path, sizeof path, "/nowhere::%s:/elsewhere", c.folder);
        snprintf(want, sizeof want, "%s/%s", c.folder, ways[i].name);
        world.fakes = NULL;
        if (ways[i].open(&c, path, file, &err)) fail_msg("%s", err.message);
        assert_string_equal(file, want);
        world.fakes = c.folder;
        if (ways[i].open(&c, "/nowhere:", file, &err)) fail_msg("%s", err.message);
        assert_string_equal(file, ways[i].name);
        if (ways[i].open(&c, NULL, file, &err)) fail_msg("%s", err.message);
        assert_string_equal(file, ways[i].name);
    }
    cuda_case_end(&c);
}

static char said[700];
static void hear(void *user, int level, const char *line) {
    (void)user;
    if (level <= MOIRE_LOG_INFO) snprintf(said, sizeof said, "%s", line);
}

/* A file that lacks a function is passed over, and the log says so. */
static void a_file_that_will_not_do_is_told(void **state) {
    (void)state;
    struct cuda_case c;
    begin(&c);
    c.env.log = hear;
    for (int i = 0; i < WAYS; i++) {
        char want[300], file[600] = "";
        moire_error err = {0};
        said[0] = 0;
        world.spoilt = "/spoilt";
        world.fakes = c.folder;
        if (ways[i].open(&c, "/spoilt", file, &err)) fail_msg("%s", err.message);
        assert_string_equal(file, ways[i].name);
        snprintf(want, sizeof want, "%s is used, for /spoilt/%s has no c", ways[i].name, ways[i].name);
        if (i == 1)
            snprintf(want, sizeof want, "%s is used, for /spoilt/%s has no n", ways[i].name, ways[i].name);
        if (strncmp(said, want, strlen(want)) != 0) fail_msg("'%s' is not '%s...'", said, want);
    }
    cuda_case_end(&c);
}

/* Every file, why not, and what is needed, in one line. */
static void what_is_missing_is_told(void **state) {
    (void)state;
    struct cuda_case c;
    begin(&c);
    world.nothing = true;
    for (int i = 0; i < WAYS; i++) {
        char file[600], first[400], last[400];
        moire_error err = {0};
        assert_int_equal(ways[i].open(&c, "/nowhere", file, &err), MOIRE_EUNSUPPORTED);
        snprintf(first, sizeof first, "/nowhere/%s cannot be loaded (no such file); ", ways[i].name);
        if (strncmp(err.message, first, strlen(first)) != 0)
            fail_msg("'%s' is not '%s...'", err.message, first);
        snprintf(last, sizeof last, "(no such file); moire needs %s", ways[i].needs);
        if (!strstr(err.message, last)) fail_msg("'%s' does not say '%s'", err.message, last);
    }
    cuda_case_end(&c);
}

/* --- by the public calls -------------------------------------------------------------------------------- */
static void ask(moire_tenant *t) {
    static float pixels[SIDE * SIDE];
    float classes[CLASSES];
    const moire_tensor in = {
        .dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, SIDE, SIDE}, .data = pixels, .bytes = sizeof pixels};
    moire_tensor out = {
        .dtype = MOIRE_F32, .rank = 2, .shape = {1, CLASSES}, .data = classes, .bytes = sizeof classes};
    moire_error err = {0};
    if (moire_run(t, &in, 1, &out, 1, &err)) fail_msg("%s", err.message);
}

/* LeNet has two convolutions and three products, in every batch and on every let. */
static void check_ways(moire_tenant *t) {
    moire_way_row rows[ROWS];
    int n = -1, few = -1;
    moire_error err = {0};
    assert_int_equal(moire_ways(NULL, rows, ROWS, &n, &err), MOIRE_EINVAL);
    assert_int_equal(moire_ways(t, NULL, 1, &n, &err), MOIRE_EINVAL);
    assert_int_equal(moire_ways(t, rows, ROWS, &n, &err), MOIRE_OK);
    assert_int_equal(moire_ways(t, NULL, 0, &few, &err), MOIRE_OK);
    assert_int_equal(few, n);
    assert_true(n >= 4 && n <= ROWS && n % 4 == 0);
    for (int i = 0; i < n; i++) {
        const moire_way_row *w = &rows[i];
        const int all = w->cudnn + w->cublaslt + w->generated;
        assert_true(w->gpu == 0 && w->batch >= 1 && w->sms >= 8 && w->sms <= 132);
        if (!strcmp(w->kind, "convolution")) assert_true(all == 2 && !w->cublaslt && !w->fallen);
        if (!strcmp(w->kind, "product")) assert_true(all == 3 && !w->cudnn && w->fallen == w->generated);
        if (!strcmp(w->kind, "other")) assert_true(all == w->generated && !w->fallen);
        assert_int_equal(w->cores, 0);
        if (!strcmp(w->kind, "core")) assert_int_equal(all, 0);
    }
}

static void a_model_is_served_by_libraries_of_a_folder(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_env env = mo_env_default();
    char folder[] = "/tmp/moire-found-XXXXXX", model[600], device[600];
    moire_runtime *rt;
    moire_tenant *t;
    moire_config config;
    moire_tenant_config tenant;
    moire_error err = {0};
    cuda_case_begin(&c, &(struct mo_fake_config){.memory = (size_t)1 << 30});
    assert_non_null(mkdtemp(folder));
    assert_int_equal(mo_zoo_path(&env, "lenet", folder, model, sizeof model, &err), MOIRE_OK);
    snprintf(device, sizeof device, "cuda:%s/../../libmoire-cuda.so", c.folder);
    moire_config_init(&config);
    config.device = device;
    config.device_libraries = c.folder;
    config.device_batch = 1;
    config.device_cache = "";
    if (moire_runtime_create(&config, &rt, &err)) fail_msg("%s", err.message);
    moire_tenant_config_init(&tenant);
    tenant.device_only = 1;
    if (moire_load(rt, model, &tenant, &t, &err)) fail_msg("%s", err.message);
    ask(t);
    check_ways(t);
    moire_runtime_destroy(rt, 1);
    unlink(model);
    rmdir(folder);
    cuda_case_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders_come_before_the_loader),
                                       cmocka_unit_test(a_file_that_will_not_do_is_told),
                                       cmocka_unit_test(what_is_missing_is_told),
                                       cmocka_unit_test(a_model_is_served_by_libraries_of_a_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
