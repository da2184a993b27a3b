/* SPDX-License-Identifier: Apache-2.0
 * test_stalling.c - threads that keep cores from their work, on a clock that only their own looks move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include "bench/load/stalling.h"
#include "tests/unit/base/fault_sys.h"

enum { MS = 1000000, TICK = 10000 };

/* Real threads; time passes by TICK with every look at the clock, and at once in a sleep with an end. */
static struct world {
    struct fault_sys f;
    _Atomic int64_t now;
    int refused; /* what go_first() answers */
    _Atomic int first;
} world;

static int64_t world_now(void *self) {
    (void)self;
    return atomic_fetch_add(&world.now, TICK);
}

static void world_wait(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline) {
    (void)self;
    int64_t now = atomic_load(&world.now);
    if (!deadline) {
        world.f.real->futex_wait(world.f.real->self, word, value, 0);
        return;
    }
    while (atomic_load(word) == value && now < deadline &&
           !atomic_compare_exchange_weak(&world.now, &now, deadline))
        continue;
}

static int world_go_first(void) {
    atomic_fetch_add(&world.first, 1);
    return world.refused;
}

static struct mo_env set_up(int refused) {
    struct mo_env env = mo_env_default();
    memset(&world, 0, sizeof world);
    atomic_store(&world.now, MS); /* 0 means never */
    fault_sys_init(&world.f);
    world.refused = refused;
    world.f.table.now = world_now;
    world.f.table.futex_wait = world_wait;
    env.sys = &world.f.table;
    return env;
}

/* On one core. */
static int start(const struct mo_env *env, const struct mo_bench_stalls *stalls, int64_t length,
                 struct mo_bench_stalling **out, moire_error *err) {
    return mo_bench_stalling_start(&(struct mo_bench_stalling_config){.env = env,
                                                                      .stalls = stalls,
                                                                      .n_cores = 1,
                                                                      .length_ns = length,
                                                                      .seed = 1,
                                                                      .go_first = world_go_first},
                                   out, err);
}

static void no_stalls_need_no_thread(void **state) {
    (void)state;
    struct mo_env env = set_up(0);
    struct mo_bench_stalling *s = (void *)&env;
    assert_int_equal(start(&env, &(struct mo_bench_stalls){0}, MS, &s, NULL), MOIRE_OK);
    assert_null(s);
    assert_int_equal(mo_bench_stalling_stop(s), 0);
    assert_int_equal(world.first, 0);
}

/* From 1 ns on everything takes twice its time: each of 50 steps of 1 ms is burnt to a half. */
static void half_of_a_slow_machines_time_is_burnt(void **state) {
    (void)state;
    struct mo_env env = set_up(0);
    struct mo_bench_stalls slow = {0};
    struct mo_bench_stalling *s;
    assert_true(mo_bench_slow_parse("2:1e-9:1e4", &slow));
    int64_t begin = atomic_load(&world.now);
    assert_int_equal(start(&env, &slow, 49 * MS, &s, NULL), MOIRE_OK);
    while (atomic_load(&world.now) < begin + 49 * MS + MS / 2)
        sched_yield();
    int64_t burnt = mo_bench_stalling_stop(s);
    assert_in_range(burnt, 24 * MS, 26 * MS);
    assert_int_equal(world.first, 1);
    assert_int_equal(fault_sys_live(&world.f), 0);
}

static void it_ends_when_it_is_told_to(void **state) {
    (void)state;
    struct mo_env env = set_up(0);
    struct mo_bench_stalls stalls = {0};
    struct mo_bench_stalling *s;
    assert_true(mo_bench_stalls_parse("1000:10000", &stalls)); /* it stands still for ten seconds */
    assert_int_equal(start(&env, &stalls, 60000 * (int64_t)MS, &s, NULL), MOIRE_OK);
    mo_bench_stalling_stop(s);
    assert_int_equal(fault_sys_live(&world.f), 0);
}

static void without_the_right_to_it_the_run_is_refused(void **state) {
    (void)state;
    struct mo_env env = set_up(EPERM);
    struct mo_bench_stalls stalls = {0};
    struct mo_bench_stalling *s;
    moire_error err = {0};
    assert_true(mo_bench_stalls_parse("2:10-50", &stalls));
    assert_int_equal(start(&env, &stalls, MS, &s, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "CAP_SYS_NICE"));
    assert_int_equal(fault_sys_live(&world.f), 0);
}

static int start_and_stop(void *ctx) {
    struct mo_bench_stalls stalls = {0};
    struct mo_bench_stalling *s;
    if (!mo_bench_stalls_parse("2:10-50", &stalls)) return MOIRE_EINVAL;
    int code = start(ctx, &stalls, MS, &s, NULL);
    mo_bench_stalling_stop(s);
    return code;
}

static void memory_that_runs_out_leaves_nothing_behind(void **state) {
    (void)state;
    struct mo_env env = set_up(0);
    assert_true(fault_sys_sweep(&world.f, start_and_stop, &env, MOIRE_ENOMEM) > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_stalls_need_no_thread),
        cmocka_unit_test(half_of_a_slow_machines_time_is_burnt),
        cmocka_unit_test(it_ends_when_it_is_told_to),
        cmocka_unit_test(without_the_right_to_it_the_run_is_refused),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
