/* SPDX-License-Identifier: Apache-2.0
 * test_compile.c - the search: what is stored, what is rejected, what happens when things go wrong. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "toy_family.h"
#include "variants/store.h"

static void print_log(void *user, int level, const char *line) {
    (void)user, (void)level;
    if (0) fprintf(stderr, "%s\n", line);
}

static struct mo_env quiet_env(void) {
    struct mo_env env = mo_env_default();
    env.log = print_log;
    return env;
}

/* A compiled layer is found, loads and computes. */
static void best_variant_is_stored_and_found(void **state) {
    (void)state;
    struct mo_env env = quiet_env();
    char folder[64], signature[256];
    moire_error err = {0};
    toy_folder(folder);
    assert_int_equal(toy_search(&env, folder, 2, "m", toy_families, NULL, &err), MOIRE_OK);
    struct mo_store *store;
    assert_int_equal(mo_store_open(&env, folder, &store, &err), MOIRE_OK);
    for (int i = 0; i < 2; i++) {
        struct mo_variant v;
        toy_signature(i, signature);
        assert_true(mo_store_find(store, signature, MO_ISA_BASE, &v));
        assert_int_equal(v.units, 4 + i + 1);
        assert_string_equal(v.name, "toy");
    }
    assert_int_equal(mo_store_stats(store).found, 2);
    mo_store_close(store);
    toy_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_variant_is_stored_and_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
