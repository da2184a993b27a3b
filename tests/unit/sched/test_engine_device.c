/* SPDX-License-Identifier: Apache-2.0
 * test_engine_device.c - the engine on devices of a few calls: whatever a device does, fails or loses, every
 * accepted query is answered once and released once; and a query that one device has failed is cancelled,
 * waited for and counted on the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/engine/device_impl.h"
#include "tests/unit/sched/toys.h"

/* --- one device ----------------------------------------------------------------------------------------- */
static void queries_of_many_threads_are_answered_once(void **state) {
    (void)state;
    struct toys *b = toys_lay(1);
    toys_submit_all(b);
    mo_engine_drain(b->engine);
    assert_int_equal(toys_answered(b), TOYS_QUERIES);
    assert_int_equal(toys_with_code(b, MOIRE_OK), TOYS_QUERIES);
    assert_true(b->toy[0].ended >= TOYS_QUERIES);
    toys_strike(b);
}

static void cancelled_queries_are_answered_once(void **state) {
    (void)state;
    struct toys *b = toys_lay(1);
    toy_hold(&b->toy[0], true);
    for (int i = 0; i < 3 * TOY_UNITS; i++)
        toys_submit(b); /* some run, the others wait */
    for (int i = 0; i < b->n; i += 2)
        assert_int_equal(mo_engine_cancel(b->engine, b->query[i].handle), MOIRE_OK);
    for (int i = 0; i < b->n; i += 2)
        assert_int_equal(mo_engine_cancel(b->engine, b->query[i].handle), MOIRE_ESTALE);
    while (toys_answered(b) < (b->n + 1) / 2) /* though no block ends and no timer is set */
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + 1000000);
    toy_hold(&b->toy[0], false);
    mo_engine_drain(b->engine);
    for (int i = 0; i < b->n; i++)
        assert_int_equal(b->query[i].code, i % 2 ? MOIRE_OK : MOIRE_ECANCELLED);
    assert_int_equal(mo_engine_cancel(b->engine, b->query[1].handle), MOIRE_ESTALE);
    assert_int_equal(mo_engine_cancel(b->engine, b->query[1].handle | UINT64_C(15) << 28), MOIRE_ESTALE);
    toys_strike(b);
}

static void *drain(void *bed) {
    struct toys *b = bed;
    mo_engine_drain(b->engine);
    return (void *)(intptr_t)toys_answered(b);
}

static void a_drain_waits_for_every_answer(void **state) {
    (void)state;
    struct toys *b = toys_lay(1);
    pthread_t thread;
    void *seen;
    toy_hold(&b->toy[0], true);
    for (int i = 0; i < 20; i++)
        toys_submit(b);
    assert_int_equal(pthread_create(&thread, NULL, drain, b), 0);
    toy_hold(&b->toy[0], false);
    pthread_join(thread, &seen);
    assert_int_equal((intptr_t)seen, 20);
    toys_strike(b);
}

static void an_abort_answers_what_is_open(void **state) {
    (void)state;
    struct toys *b = toys_lay(1);
    toy_hold(&b->toy[0], true);
    for (int i = 0; i < 20; i++)
        toys_submit(b);
    mo_engine_abort(b->engine, MOIRE_ESHUTDOWN);
    toy_hold(&b->toy[0], false);
    mo_engine_drain(b->engine);
    assert_int_equal(toys_with_code(b, MOIRE_ESHUTDOWN), 20);
    toys_strike(b);
}

static void *let_go(void *bed) {
    struct toys *b = bed;
    while (toys_answered(b) < b->n) /* what waited and what ran is answered while the blocks still run */
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + 1000000);
    toy_hold(&b->toy[0], false);
    return NULL;
}

static void a_tenant_that_leaves_is_waited_for(void **state) {
    (void)state;
    struct toys *b = toys_lay(1);
    pthread_t thread;
    toy_hold(&b->toy[0], true);
    for (int i = 0; i < 20; i += TOYS_TENANTS)
        for (int k = 0; k < TOYS_TENANTS; k++)
            toys_submit(b);
    mo_engine_cancel(b->engine, b->query[1].handle);
    for (int i = 3; i < b->n; i += 2)
        mo_engine_cancel(b->engine, b->query[i].handle); /* all of the other's */
    assert_int_equal(pthread_create(&thread, NULL, let_go, b), 0);
    mo_engine_close(b->engine, b->tenant[0].index[0], MOIRE_EUNLOADED);
    pthread_join(thread, NULL);
    assert_int_equal(toys_with_code(b, MOIRE_EUNLOADED), 10);
    for (int i = 0; i < b->n; i += TOYS_TENANTS)
        assert_int_equal(b->query[i].releases, 1);
    assert_int_equal(toys_open(b, 0, 0, NULL), MOIRE_OK); /* its place is free again */
    toys_submit(b);
    toys_strike(b);
}

/* A start that the device refuses, and a device that is lost: what ran says why, in the code that users get.
 */
static void failures_are_answered_once(void **state) {
    (void)state;
    static const struct {
        int refuse, fail_from, code, said;
    } rows[] = {
        {5, 0, MOIRE_ENOMEM, MOIRE_ENOMEM},    {1, 0, MOIRE_EDEVICE, MOIRE_EDEVICE},
        {7, 0, MOIRE_EBUSY, MOIRE_EFAILED},    {0, 1, MOIRE_EDEVICE, MOIRE_EDEVICE},
        {0, 40, MOIRE_EDEVICE, MOIRE_EDEVICE}, {3, 9, MOIRE_EDEVICE, MOIRE_EDEVICE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct toys *b = toys_lay(1);
        b->toy[0].refuse = rows[i].refuse;
        b->toy[0].fail_from = rows[i].fail_from;
        b->toy[0].code = rows[i].code;
        for (int k = 0; k < 100; k++)
            toys_submit(b);
        mo_engine_drain(b->engine);
        int failed = toys_with_code(b, rows[i].said);
        assert_int_equal(failed + toys_with_code(b, MOIRE_OK), 100);
        assert_true(rows[i].fail_from ? failed >= 100 - rows[i].fail_from : failed == 1);
        toys_strike(b);
    }
}

/* Whoever writes the log may take long: nobody has the device's lock then. */
struct heard {
    struct mo_device *_Atomic device;
    _Atomic int lines, locked;
};

static void hear(void *user, int level, const char *line) {
    struct heard *h = user;
    struct mo_device *d = atomic_load(&h->device);
    const struct mo_sys *sys = d->env->sys;
    int tries = 1000;
    while (tries && !mo_lock_try(&d->lock)) {
        sys->sleep_until(sys->self, sys->now(sys->self) + 1000000);
        tries--;
    }
    if (tries)
        mo_lock_drop(sys, &d->lock);
    else
        atomic_fetch_add(&h->locked, 1);
    assert_true(level == MOIRE_LOG_WARN && strstr(line, "late"));
    atomic_fetch_add(&h->lines, 1);
}

static void the_log_is_written_without_the_lock(void **state) {
    (void)state;
    struct heard heard = {.lines = 0};
    struct toys *b = toys_make(1);
    b->env.log = hear;
    b->env.log_user = &heard;
    assert_int_equal(toys_start(b, NULL), MOIRE_OK);
    atomic_store(&heard.device, mo_engine_device(b->engine, 0));
    for (int i = 0; i < TOYS_TENANTS; i++) {
        assert_int_equal(toys_open(b, i, 0, NULL), MOIRE_OK);
        b->tenant[i].index[1] = -1;
    }
    toy_hold(&b->toy[0], true);
    toys_submit(b); /* its block is late, and nothing else happens */
    while (!atomic_load(&heard.lines))
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + 1000000);
    toy_hold(&b->toy[0], false);
    mo_engine_drain(b->engine);
    assert_int_equal(heard.locked, 0);
    toys_strike(b);
}

/* --- two devices ---------------------------------------------------------------------------------------- */
static void what_the_first_loses_the_second_answers(void **state) {
    (void)state;
    struct toys *b = toys_lay(2);
    b->toy[0].fail_from = 30;
    b->toy[0].code = MOIRE_EDEVICE;
    toys_submit_all(b);
    mo_engine_drain(b->engine); /* both: nothing is on its way between them */
    assert_int_equal(toys_answered(b), TOYS_QUERIES);
    assert_int_equal(toys_with_code(b, MOIRE_OK), TOYS_QUERIES);
    assert_true(b->moved > TOYS_QUERIES / 2);
    toys_strike(b);
}

/* Its user knows the handle that the first device gave. */
static void a_query_that_was_taken_over_can_be_cancelled(void **state) {
    (void)state;
    enum { N = 20 };
    struct toys *b = toys_lay(2);
    b->toy[0].fail_from = 1;
    b->toy[0].code = MOIRE_EDEVICE;
    toy_hold(&b->toy[1], true);
    for (int i = 0; i < N; i++)
        toys_submit(b);
    while (atomic_load(&b->moved) < N)
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + 100000);
    assert_int_equal(toys_answered(b), 0);
    for (int i = 0; i < N; i += 2)
        assert_int_equal(mo_engine_cancel(b->engine, b->query[i].handle), MOIRE_OK);
    for (int i = 0; i < N; i += 2)
        assert_int_equal(mo_engine_cancel(b->engine, b->query[i].handle), MOIRE_ESTALE);
    toy_hold(&b->toy[1], false);
    mo_engine_drain(b->engine);
    for (int i = 0; i < N; i++)
        assert_int_equal(b->query[i].code, i % 2 ? MOIRE_OK : MOIRE_ECANCELLED);
    toys_strike(b);
}

static void both_may_lose_a_query(void **state) {
    (void)state;
    struct toys *b = toys_lay(2);
    b->toy[0].fail_from = 20;
    b->toy[1].fail_from = 10;
    b->toy[0].code = b->toy[1].code = MOIRE_EDEVICE;
    toys_submit_all(b);
    mo_engine_drain(b->engine);
    assert_int_equal(toys_with_code(b, MOIRE_OK) + toys_with_code(b, MOIRE_EDEVICE), TOYS_QUERIES);
    assert_true(toys_with_code(b, MOIRE_EDEVICE) > TOYS_QUERIES / 2);
    toys_strike(b);
}

/* --- what cannot be made -------------------------------------------------------------------------------- */
/* Whichever device and call it is: the error is the device's, and what was opened is closed. */
static void a_device_that_cannot_start_leaves_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 2 * TOYS_DEVICES; i++) {
        struct toys *b = toys_make(TOYS_DEVICES);
        struct toy *bad = &b->toy[i / 2];
        moire_error err = {0};
        *(i % 2 ? &bad->fail_begin : &bad->fail_open) = 1;
        bad->code = MOIRE_ENOMEM;
        assert_int_equal(toys_start(b, &err), MOIRE_ENOMEM);
        assert_string_equal(err.message, i % 2 ? "toy: begin" : "toy: open");
        for (int d = 0; d < TOYS_DEVICES; d++)
            assert_int_equal(b->toy[d].opened, b->toy[d].closed);
        mo_profile_destroy(b->profile);
        free(b);
    }
}

static void a_tenant_that_cannot_be_loaded_is_none(void **state) {
    (void)state;
    struct toys *b = toys_make(1);
    moire_error err = {0};
    b->toy[0].fail_admit = 2;
    b->toy[0].code = MOIRE_ENOMEM;
    assert_int_equal(toys_start(b, NULL), MOIRE_OK);
    assert_int_equal(toys_open(b, 0, 0, NULL), MOIRE_OK);
    assert_int_equal(toys_open(b, 1, 0, &err), MOIRE_ENOMEM);
    assert_string_equal(err.message, "toy: admit");
    assert_int_equal(toys_open(b, 1, 0, NULL), MOIRE_OK);
    assert_int_equal(mo_engine_index(b->tenant[1].index[0]), 1);
    for (int i = 0; i < 10; i++)
        toys_submit(b);
    b->toy[0].admitted--;
    toys_strike(b);
}

static void an_engine_without_devices_is_refused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_engine *engine = NULL;
    for (int n = 0; n <= MO_ENGINE_DEVICES + 1; n += MO_ENGINE_DEVICES + 1)
        assert_int_equal(
            mo_engine_create(&(struct mo_engine_config){.env = &env, .n_devices = n}, &engine, NULL),
            MOIRE_EINVAL);
    assert_null(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_of_many_threads_are_answered_once),
        cmocka_unit_test(cancelled_queries_are_answered_once),
        cmocka_unit_test(a_drain_waits_for_every_answer),
        cmocka_unit_test(an_abort_answers_what_is_open),
        cmocka_unit_test(a_tenant_that_leaves_is_waited_for),
        cmocka_unit_test(failures_are_answered_once),
        cmocka_unit_test(the_log_is_written_without_the_lock),
        cmocka_unit_test(what_the_first_loses_the_second_answers),
        cmocka_unit_test(a_query_that_was_taken_over_can_be_cancelled),
        cmocka_unit_test(both_may_lose_a_query),
        cmocka_unit_test(a_device_that_cannot_start_leaves_nothing),
        cmocka_unit_test(a_tenant_that_cannot_be_loaded_is_none),
        cmocka_unit_test(an_engine_without_devices_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
