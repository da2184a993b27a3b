/* SPDX-License-Identifier: Apache-2.0
 * test_calibrate.c - layer times: what a core did for others does not count, no worker is needed, and tenants
 * that serve have answers while a long layer is measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include "runtime/engine/calibrate.h"
#include "runtime/serve/runtime.h"
#include "tests/unit/sched/serve_bed.h"

enum { MS = 1000000, LAYERS = 3, WORKS = 4 * MS, SLEEPS = 30 * MS, PIECES = 40 };

/* Layer 0 computes for 4 ms, layer 1 is kept from its core for 30 ms, layer 2 is shared, in pieces. */
struct toy {
    const struct mo_env *env;
    _Atomic int pieces, width;
};

static void compute(const struct mo_env *env, int64_t ns) {
    const struct mo_sys *sys = env->sys;
    for (int64_t until = sys->thread_time(sys->self) + ns; sys->thread_time(sys->self) < until;)
        ;
}

static int step(void *model, int instance, int layer, int width, void *scratch) {
    struct toy *toy = model;
    const struct mo_sys *sys = toy->env->sys;
    (void)instance;
    memset(scratch, 1, 4096);
    if (layer == 0) compute(toy->env, WORKS);
    if (layer == 1) sys->sleep_until(sys->self, mo_now(toy->env) + SLEEPS);
    if (layer == 2) atomic_store(&toy->width, width);
    return layer == 2 ? PIECES : 0;
}

static void pieces(void *model, int instance, int layer, int from, int to, int of, void *scratch) {
    struct toy *toy = model;
    (void)instance, (void)layer, (void)of;
    memset(scratch, 1, 4096);
    atomic_fetch_add(&toy->pieces, to - from);
    compute(toy->env, MS / 10);
}

static const struct mo_model_ops ops = {.step = step, .pieces = pieces};

static moire_runtime *runtime(int lend) {
    const moire_config config = {
        .size = sizeof config, .threads = 2, .no_pin = 1, .generic_only = 1, .lend_workers = lend};
    moire_runtime *rt;
    assert_int_equal(moire_runtime_create(&config, &rt, NULL), MOIRE_OK);
    return rt;
}

static struct mo_profile *measure(moire_runtime *rt, struct toy *toy) {
    struct mo_profile *profile;
    moire_error err = {0};
    toy->env = &rt->env;
    const int rc = mo_calibrate(rt->cores, &rt->env, &ops, toy, 0, LAYERS, 4096, 2, 2, 0, &profile, &err);
    if (rc) fail_msg("%s", err.message);
    return profile;
}

static void check(const struct mo_profile *p, struct toy *toy) {
    for (int cores = 1; cores <= 2; cores++) {
        assert_true(mo_profile_time(p, cores, 0, 1) >= WORKS);
        /* nobody computed: what was slept is lost time, however long it was */
        assert_true(mo_profile_time(p, cores, 1, 2) < SLEEPS / 2);
        assert_true(mo_profile_time(p, cores, 2, 3) >= PIECES * (MS / 10) / cores);
    }
    assert_int_equal(toy->width, 2);
    assert_int_equal(toy->pieces, 2 * 2 * PIECES); /* repetitions at one core and at two */
}

static void time_without_a_core_does_not_count(void **state) {
    (void)state;
    struct toy toy = {0};
    moire_runtime *rt = runtime(0);
    struct mo_profile *p = measure(rt, &toy);
    check(p, &toy);
    mo_profile_destroy(p);
    moire_runtime_destroy(rt, 0);
}

/* Nobody has lent a worker, and none is waited for. */
static void workers_are_not_needed(void **state) {
    (void)state;
    struct toy toy = {0};
    moire_runtime *rt = runtime(1);
    struct mo_profile *p = measure(rt, &toy);
    check(p, &toy);
    mo_profile_destroy(p);
    moire_runtime_destroy(rt, 0);
}

/* A layer that waits for an answer of another tenant: where cores were held for it, both would wait for ever.
 */
struct asker {
    moire_tenant *tenant;
    float pixels[SERVE_SIDE * SERVE_SIDE], out[SERVE_SIDE * SERVE_SIDE];
    int rc;
};

static int ask(void *model, int instance, int layer, int width, void *scratch) {
    struct asker *a = model;
    moire_tensor in = serve_input(a->pixels), out = {.data = a->out, .bytes = sizeof a->out};
    (void)instance, (void)layer, (void)width, (void)scratch;
    a->rc |= moire_run(a->tenant, &in, 1, &out, 1, NULL);
    return 0;
}

static void tenants_are_answered_meanwhile(void **state) {
    (void)state;
    static const struct mo_model_ops asks = {.step = ask};
    const moire_config config = serve_config();
    moire_runtime *rt = serve_start(&config);
    assert_false(mo_device_serves(rt->cores));
    struct asker a = {.tenant = serve_load(rt, "neighbour", 0, 0)};
    struct mo_profile *profile;
    assert_true(mo_device_serves(rt->cores));
    assert_int_equal(mo_calibrate(rt->cores, &rt->env, &asks, &a, 0, 2, 64, 2, 1, 0, &profile, NULL), 0);
    assert_int_equal(a.rc, MOIRE_OK);
    mo_profile_destroy(profile);
    moire_runtime_destroy(rt, 1);
}

static void *go_to_background(void *niceness) {
    assert_int_equal(moire_background(), MOIRE_OK);
    assert_int_equal(moire_background(), MOIRE_OK); /* it may be so already */
    *(int *)niceness = getpriority(PRIO_PROCESS, 0);
    return NULL;
}

static void only_the_calling_thread_goes_to_the_background(void **state) {
    (void)state;
    const int before = getpriority(PRIO_PROCESS, 0);
    int niceness = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, go_to_background, &niceness), 0);
    pthread_join(thread, NULL);
    assert_int_equal(niceness, before > 10 ? before : 10);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

static void *go_to_foreground(void *niceness) {
    assert_int_equal(moire_foreground(), MOIRE_OK);
    *(int *)niceness = getpriority(PRIO_PROCESS, 0);
    assert_int_equal(moire_background(), MOIRE_OK); /* it may change its mind that way, */
    assert_int_equal(moire_foreground(), MOIRE_OK); /* and back as far as its slice goes */
    return NULL;
}

static void the_foreground_changes_no_niceness(void **state) {
    (void)state;
    const int before = getpriority(PRIO_PROCESS, 0);
    int niceness = before + 1;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, go_to_foreground, &niceness), 0);
    pthread_join(thread, NULL);
    assert_int_equal(niceness, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_without_a_core_does_not_count),
        cmocka_unit_test(workers_are_not_needed),
        cmocka_unit_test(tenants_are_answered_meanwhile),
        cmocka_unit_test(only_the_calling_thread_goes_to_the_background),
        cmocka_unit_test(the_foreground_changes_no_niceness),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
