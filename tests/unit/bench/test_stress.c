/* SPDX-License-Identifier: Apache-2.0
 * test_stress.c - the calibrated neighbour: walkers move bytes at levels above 0 only, end when told, and
 * leave nothing behind; what fails on the way is reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "codegen/tune/stress.h"
#include "tests/unit/base/fault_sys.h"

enum { SMALL_L2 = 256 << 10, SMALL_L3 = 1 << 20 };

static struct mo_stress_config small(const struct mo_env *env, int n) {
    return (struct mo_stress_config){
        .env = env, .kind = MO_STRESS_L3, .n = n, .l2_bytes = SMALL_L2, .l3_bytes = SMALL_L3};
}

/* Waits (at most some seconds) until the walkers have moved more than `than`. */
static bool moves_past(const struct mo_env *env, const struct mo_stress *s, int64_t than) {
    for (int64_t until = mo_now(env) + INT64_C(20000000000); mo_now(env) < until;)
        if (mo_stress_bytes(s) > than) return true;
    return false;
}

static void levels_move_bytes(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    for (int kind = 0; kind < MO_STRESS_KINDS; kind++) {
        struct mo_stress_config c = small(&env, 2);
        struct mo_stress *s;
        c.kind = (enum mo_stress_kind)kind;
        assert_int_equal(mo_stress_create(&c, &s, NULL), MOIRE_OK);
        assert_int_equal(mo_stress_level(s), 0);
        for (int level = 1; level < MO_STRESS_LEVELS; level++) {
            mo_stress_set(s, level);
            assert_true(moves_past(&env, s, mo_stress_bytes(s)));
        }
        mo_stress_set(s, 99);
        assert_int_equal(mo_stress_level(s), MO_STRESS_LEVELS - 1);
        mo_stress_set(s, -1);
        assert_int_equal(mo_stress_level(s), 0);
        mo_stress_destroy(s);
    }
}

static void bursts_on_the_same_core(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_stress_config c = small(&env, 1);
    struct mo_stress *s;
    c.bursts = true;
    assert_int_equal(mo_stress_create(&c, &s, NULL), MOIRE_OK);
    mo_stress_set(s, 5);
    assert_true(moves_past(&env, s, 4 * SMALL_L2)); /* more than one burst */
    mo_stress_destroy(s);
}

static void eviction_covers_its_share(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_stress_config c = small(&env, 0);
    struct mo_stress *s;
    struct mo_stress_effect effect;
    assert_int_equal(mo_stress_create(&c, &s, NULL), MOIRE_OK);
    assert_int_equal(mo_stress_evict_bytes(s, 0), 0);
    assert_int_equal(mo_stress_evict_bytes(s, 5), 2 * SMALL_L2);
    for (int level = 1; level < MO_STRESS_LEVELS; level++) {
        assert_true(mo_stress_evict_bytes(s, level) > mo_stress_evict_bytes(s, level - 1));
        mo_stress_evict(s, level);
    }
    mo_stress_measure(s, 5, &effect); /* nobody walks */
    assert_true(effect.gbs == 0 && effect.solo_gbs > 0 && effect.victim_gbs > 0);
    mo_stress_destroy(s);
    mo_stress_destroy(NULL);
}

static int create_and_destroy(void *ctx) {
    struct mo_env env = mo_env_default();
    struct mo_stress *s = NULL;
    env.sys = &((struct fault_sys *)ctx)->table;
    struct mo_stress_config c = small(&env, 2);
    int rc = mo_stress_create(&c, &s, NULL);
    mo_stress_destroy(s);
    return rc;
}

static void out_of_memory_is_reported(void **state) {
    (void)state;
    struct fault_sys f;
    fault_sys_init(&f);
    assert_true(fault_sys_sweep(&f, create_and_destroy, &f, MOIRE_ENOMEM) >= 6);
}

/* The second thread does not start: the first is joined. */
struct refusing {
    struct mo_sys table;
    int left;
};

static int refuse_threads(void *self, struct mo_thread *out, void *(*fn)(void *), void *arg) {
    struct refusing *r = self;
    if (r->left-- <= 0) return -EAGAIN;
    return mo_sys_posix()->thread_start(mo_sys_posix()->self, out, fn, arg);
}

static void threads_that_do_not_start_are_reported(void **state) {
    (void)state;
    struct refusing r = {*mo_sys_posix(), 1};
    struct mo_env env = mo_env_default();
    moire_error err = {0};
    r.table.self = &r;
    r.table.thread_start = refuse_threads;
    env.sys = &r.table;
    struct mo_stress_config c = small(&env, 2);
    struct mo_stress *s;
    assert_int_equal(mo_stress_create(&c, &s, &err), MOIRE_EIO);
    assert_null(s);
    assert_non_null(strstr(err.message, "stress thread 2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_move_bytes),
        cmocka_unit_test(bursts_on_the_same_core),
        cmocka_unit_test(eviction_covers_its_share),
        cmocka_unit_test(out_of_memory_is_reported),
        cmocka_unit_test(threads_that_do_not_start_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
