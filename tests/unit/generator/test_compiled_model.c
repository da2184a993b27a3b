/* SPDX-License-Identifier: Apache-2.0
 * test_compiled_model.c - a whole small network through the real generator: compiled on every ISA level the
 * machine has, served by the store, equal to its references. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "codegen/compile/compile.h"
#include "models/zoo.h"
#include "tools/moire/verify/ways.h"
#include "tests/unit/generator/toy_family.h"
#include "variants/store.h"

enum { INPUT = 32 * 32, CLASSES = 10 };

static void run_way(const struct mo_env *env, const struct mo_way_target *target, const char *file,
                    float *to) {
    static float x[INPUT];
    moire_tensor in = {.dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, 32, 32}, .data = x, .bytes = sizeof x},
                 out[4];
    moire_error err = {0};
    int n = 0;
    for (int i = 0; i < INPUT; i++)
        x[i] = sinf((float)i);
    int rc = mo_way_run(env, target, file, &(struct mo_frontend_options){0}, &in, 1, out, 4, &n, &err);
    if (rc) fprintf(stderr, "%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    assert_int_equal(out[0].bytes, CLASSES * sizeof(float));
    memcpy(to, out[0].data, CLASSES * sizeof(float));
    mo_way_free(env, out, n);
}

static void compile_for(const struct mo_env *env, const char *file, const char *folder, enum mo_isa isa) {
    struct mo_compile_options options = {
        .files = &file, .n_files = 1, .search = {.store = folder, .isa = isa, .jobs = 2, .points = 1}};
    struct mo_search *search;
    moire_error err = {0};
    int rc = mo_compile_models(env, &options, &search, &err);
    if (rc) fprintf(stderr, "%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    struct mo_compile_totals t = mo_compile_totals(search);
    assert_int_equal(t.layers, 5);
    assert_int_equal(t.rejected, 0);
    assert_int_equal(t.failed + t.pending, 0);
    assert_int_equal(t.compiled + t.generic, 5);
    mo_search_destroy(search);
}

static void compiled_network_equals_its_reference(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[64], file[96];
    float want[CLASSES], got[CLASSES];
    moire_error err = {0};
    toy_folder(folder);
    snprintf(file, sizeof file, "%s/lenet.onnx", folder);
    assert_int_equal(mo_zoo_build(&env, mo_zoo_find("lenet"), MO_ZOO_SEED, file, NULL, &err), MOIRE_OK);
    struct mo_way_target target = {.way = MO_WAY_REFERENCE};
    run_way(&env, &target, file, want);
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        struct mo_store *store;
        compile_for(&env, file, folder, (enum mo_isa)isa);
        assert_int_equal(mo_store_open(&env, folder, &store, &err), MOIRE_OK);
        target = (struct mo_way_target){.way = MO_WAY_STORE, .isa = (enum mo_isa)isa, .store = store};
        run_way(&env, &target, file, got);
        for (int i = 0; i < CLASSES; i++)
            assert_true(fabsf(got[i] - want[i]) < 1e-4f);
        struct mo_store_stats stats = mo_store_stats(store);
        assert_int_equal(stats.damaged + stats.stale, 0);
        assert_int_equal(stats.found + stats.missing, 5); /* missing: the built-in kernel was faster */
        mo_store_close(store);
    }
    toy_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_network_equals_its_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
