/* SPDX-License-Identifier: Apache-2.0
 * test_openmp.c - the threads of an OpenMP team as the runtime's workers. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>
#include "models/zoo.h"
#include "moire.h"

static int answers_of_a_team(const char *model, moire_runtime *rt) {
    static float pixels[32 * 32];
    float out[10];
    moire_tensor in = {
        .dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, 32, 32}, .data = pixels, .bytes = sizeof pixels};
    moire_tensor result = {.data = out, .bytes = sizeof out};
    moire_tenant *t;
    int ok = 0;
    if (moire_load(rt, model, NULL, &t, NULL)) return 0;
    for (int i = 0; i < 20; i++)
        ok += moire_run(t, &in, 1, &result, 1, NULL) == MOIRE_OK;
    return ok;
}

static void an_openmp_team_works(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char folder[] = "/tmp/moire-omp-XXXXXX", model[512];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(mo_zoo_path(&env, "lenet", folder, model, sizeof model, NULL), MOIRE_OK);
    moire_config c;
    moire_config_init(&c);
    c.generic_only = c.lend_workers = c.threads = 1;
    moire_runtime *rt;
    assert_int_equal(moire_runtime_create(&c, &rt, NULL), MOIRE_OK);
    int ok = 0, worked = MOIRE_EINTERNAL;
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num()) {
            worked = moire_work(rt, omp_get_thread_num() - 1);
        } else {
            ok = answers_of_a_team(model, rt);
            moire_runtime_destroy(rt, 1);
        }
    }
    assert_int_equal(ok, 20);
    assert_int_equal(worked, MOIRE_OK);
    unlink(model);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_openmp_team_works)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
