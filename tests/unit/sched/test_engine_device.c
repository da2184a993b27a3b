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
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/engine/engine.h"
#include "tests/history/recorded.h"
#include "tests/unit/sched/toy_device.h"

enum { QUERIES = 400, TENANTS = 2, DEVICES = 2, LAYERS = 3, SUBMITTERS = 4 };

struct query {
    struct bed *bed;
    int tenant;
    _Atomic int answers, releases;
    int code;
    uint64_t handle, said; /* as submit and the answer say */
};

struct tenant {
    struct bed *bed;
    int index[DEVICES]; /* in the engine; -1 = not loaded there */
};

struct bed {
    struct mo_env env;
    struct toy toy[DEVICES];
    struct mo_engine *engine;
    struct mo_profile *profile;
    int n_devices, accepted;
    _Atomic int n, moved;
    struct tenant tenant[TENANTS];
    struct query query[QUERIES];
};

static struct tenant *tenant_of(const struct query *q) {
    return &q->bed->tenant[q->tenant];
}

/* What the first device has failed goes to the second. */
static bool move(struct query *q, const struct mo_answer *a) {
    const struct tenant *t = tenant_of(q);
    if (a->code != MOIRE_EDEVICE || t->index[1] < 0 || a->known) return false;
    if (mo_engine_take_over(q->bed->engine, t->index[1], a->arrival, q, a->query, NULL)) return false;
    atomic_fetch_add(&q->bed->moved, 1);
    return true;
}

static void answer(void *model, const struct mo_answer *a) {
    struct query *q = a->user;
    (void)model;
    if (move(q, a)) return;
    q->code = a->code;
    q->said = a->query;
    atomic_fetch_add(&q->answers, 1);
}

static void release(void *model, void *user) {
    (void)model;
    atomic_fetch_add(&((struct query *)user)->releases, 1);
}

static const struct mo_model_ops model = {.answer = answer, .release = release};

/* --- a bed of toys -------------------------------------------------------------------------------------- */
static struct bed *bed_make(int n_devices) {
    static const int64_t layer[LAYERS] = {50000, 50000, 50000};
    struct bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->env = mo_env_default();
    b->n_devices = n_devices;
    b->profile = mo_profile_create(&b->env, LAYERS, TOY_UNITS);
    mo_profile_record(b->profile, 1, layer);
    mo_profile_finish(b->profile);
    return b;
}

static int bed_start(struct bed *b, moire_error *err) {
    struct mo_engine_config c = {.env = &b->env, .n_devices = b->n_devices};
    for (int i = 0; i < b->n_devices; i++)
        c.device[i] = (struct mo_device_config){.env = &b->env,
                                                .calls = &toy_device,
                                                .options = &b->toy[i],
                                                .policy = mo_policy_find("fcfs"), /* asks for no timer */
                                                .max_queries = QUERIES,
                                                .max_tenants = TENANTS,
                                                .events = 1 << 14};
    return mo_engine_create(&c, &b->engine, err);
}

static int bed_open(struct bed *b, int tenant, int device, moire_error *err) {
    struct tenant *t = &b->tenant[tenant];
    const struct mo_device_tenant c = {.sched = {.qos_ns = INT64_C(1000000000),
                                                 .queue = QUERIES,
                                                 .instances = TOY_UNITS + 2,
                                                 .profile = b->profile},
                                       .ops = &model,
                                       .model = t};
    t->bed = b;
    return mo_engine_open(b->engine, device, &c, &t->index[device], err);
}

/* Every tenant on every device. */
static struct bed *bed_lay(int n_devices) {
    struct bed *b = bed_make(n_devices);
    assert_int_equal(bed_start(b, NULL), MOIRE_OK);
    for (int i = 0; i < TENANTS; i++)
        for (int d = 0; d < DEVICES; d++) {
            b->tenant[i].index[d] = -1;
            if (d < n_devices) assert_int_equal(bed_open(b, i, d, NULL), MOIRE_OK);
        }
    return b;
}

static struct query *submit(struct bed *b) {
    const int at = atomic_fetch_add(&b->n, 1);
    struct query *q = &b->query[at];
    q->bed = b;
    q->tenant = at % TENANTS;
    assert_int_equal(mo_engine_submit(b->engine, tenant_of(q)->index[0], 0, q, &q->handle, NULL), MOIRE_OK);
    return q;
}

static void *submit_many(void *bed) {
    for (int i = 0; i < QUERIES / SUBMITTERS; i++)
        submit(bed);
    return NULL;
}

static void submit_all(struct bed *b) {
    pthread_t thread[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, submit_many, b), 0);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(thread[i], NULL);
}

static int answered(const struct bed *b) {
    int n = 0;
    for (int i = 0; i < b->n; i++)
        n += atomic_load(&b->query[i].answers) > 0;
    return n;
}

static int with_code(const struct bed *b, int code) {
    int n = 0;
    for (int i = 0; i < b->n; i++)
        n += b->query[i].code == code;
    return n;
}

static void check_history(struct bed *b, int device) {
    struct mo_device *d = mo_engine_device(b->engine, device);
    struct mo_sched_stats stats;
    mo_device_stats(d, &stats);
    assert_int_equal(stats.refused, 0);
    history_of_events(mo_device_events(d), mo_device_units(d), device ? b->moved : b->n);
}

/* Answered once, under its handle, and released by every device that had it; nothing is left behind. */
static void bed_strike(struct bed *b) {
    struct mo_sched_stats stats;
    int releases = 0;
    mo_engine_drain(b->engine);
    for (int i = 0; i < TENANTS; i++)
        for (int d = 0; d < b->n_devices; d++)
            mo_engine_close(b->engine, b->tenant[i].index[d], MOIRE_EUNLOADED);
    mo_engine_stats(b->engine, &stats);
    assert_int_equal(stats.accepted, b->n);
    assert_int_equal(stats.ok, with_code(b, MOIRE_OK));
    assert_int_equal(stats.cancelled, with_code(b, MOIRE_ECANCELLED));
    assert_int_equal(stats.shutdown, with_code(b, MOIRE_ESHUTDOWN));
    assert_int_equal(stats.unloaded, with_code(b, MOIRE_EUNLOADED));
    assert_int_equal(stats.failed,
                     with_code(b, MOIRE_EDEVICE) + with_code(b, MOIRE_ENOMEM) + with_code(b, MOIRE_EFAILED));
    for (int i = 0; i < b->n; i++) {
        assert_int_equal(b->query[i].answers, 1);
        assert_true(b->query[i].said == b->query[i].handle);
        releases += b->query[i].releases;
    }
    assert_int_equal(releases, b->n + b->moved);
    for (int d = 0; d < b->n_devices; d++)
        check_history(b, d);
    mo_engine_destroy(b->engine);
    for (int d = 0; d < b->n_devices; d++) {
        assert_int_equal(b->toy[d].opened, 1);
        assert_int_equal(b->toy[d].closed, 1);
        assert_int_equal(b->toy[d].forgotten, b->toy[d].admitted);
    }
    mo_profile_destroy(b->profile);
    free(b);
}

/* --- one device ----------------------------------------------------------------------------------------- */
static void queries_of_many_threads_are_answered_once(void **state) {
    (void)state;
    struct bed *b = bed_lay(1);
    submit_all(b);
    mo_engine_drain(b->engine);
    assert_int_equal(answered(b), QUERIES);
    assert_int_equal(with_code(b, MOIRE_OK), QUERIES);
    assert_true(b->toy[0].ended >= QUERIES);
    bed_strike(b);
}

static void cancelled_queries_are_answered_once(void **state) {
    (void)state;
    struct bed *b = bed_lay(1);
    toy_hold(&b->toy[0], true);
    for (int i = 0; i < 3 * TOY_UNITS; i++)
        submit(b); /* some run, the others wait */
    for (int i = 0; i < b->n; i += 2)
        assert_int_equal(mo_engine_cancel(b->engine, b->query[i].handle), MOIRE_OK);
    for (int i = 0; i < b->n; i += 2)
        assert_int_equal(mo_engine_cancel(b->engine, b->query[i].handle), MOIRE_ESTALE);
    while (answered(b) < (b->n + 1) / 2) /* though no block ends and no timer is set */
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + 1000000);
    toy_hold(&b->toy[0], false);
    mo_engine_drain(b->engine);
    for (int i = 0; i < b->n; i++)
        assert_int_equal(b->query[i].code, i % 2 ? MOIRE_OK : MOIRE_ECANCELLED);
    assert_int_equal(mo_engine_cancel(b->engine, b->query[1].handle), MOIRE_ESTALE);
    assert_int_equal(mo_engine_cancel(b->engine, b->query[1].handle | UINT64_C(15) << 28), MOIRE_ESTALE);
    bed_strike(b);
}

static void *drain(void *bed) {
    struct bed *b = bed;
    mo_engine_drain(b->engine);
    return (void *)(intptr_t)answered(b);
}

static void a_drain_waits_for_every_answer(void **state) {
    (void)state;
    struct bed *b = bed_lay(1);
    pthread_t thread;
    void *seen;
    toy_hold(&b->toy[0], true);
    for (int i = 0; i < 20; i++)
        submit(b);
    assert_int_equal(pthread_create(&thread, NULL, drain, b), 0);
    toy_hold(&b->toy[0], false);
    pthread_join(thread, &seen);
    assert_int_equal((intptr_t)seen, 20);
    bed_strike(b);
}

static void an_abort_answers_what_is_open(void **state) {
    (void)state;
    struct bed *b = bed_lay(1);
    toy_hold(&b->toy[0], true);
    for (int i = 0; i < 20; i++)
        submit(b);
    mo_engine_abort(b->engine, MOIRE_ESHUTDOWN);
    toy_hold(&b->toy[0], false);
    mo_engine_drain(b->engine);
    assert_int_equal(with_code(b, MOIRE_ESHUTDOWN), 20);
    bed_strike(b);
}

static void *let_go(void *bed) {
    struct bed *b = bed;
    while (answered(b) < b->n) /* what waited and what ran is answered while the blocks still run */
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + 1000000);
    toy_hold(&b->toy[0], false);
    return NULL;
}

static void a_tenant_that_leaves_is_waited_for(void **state) {
    (void)state;
    struct bed *b = bed_lay(1);
    pthread_t thread;
    toy_hold(&b->toy[0], true);
    for (int i = 0; i < 20; i += TENANTS)
        for (int k = 0; k < TENANTS; k++)
            submit(b);
    mo_engine_cancel(b->engine, b->query[1].handle);
    for (int i = 3; i < b->n; i += 2)
        mo_engine_cancel(b->engine, b->query[i].handle); /* all of the other's */
    assert_int_equal(pthread_create(&thread, NULL, let_go, b), 0);
    mo_engine_close(b->engine, b->tenant[0].index[0], MOIRE_EUNLOADED);
    pthread_join(thread, NULL);
    assert_int_equal(with_code(b, MOIRE_EUNLOADED), 10);
    for (int i = 0; i < b->n; i += TENANTS)
        assert_int_equal(b->query[i].releases, 1);
    assert_int_equal(bed_open(b, 0, 0, NULL), MOIRE_OK); /* its place is free again */
    submit(b);
    bed_strike(b);
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
        struct bed *b = bed_lay(1);
        b->toy[0].refuse = rows[i].refuse;
        b->toy[0].fail_from = rows[i].fail_from;
        b->toy[0].code = rows[i].code;
        for (int k = 0; k < 100; k++)
            submit(b);
        mo_engine_drain(b->engine);
        int failed = with_code(b, rows[i].said);
        assert_int_equal(failed + with_code(b, MOIRE_OK), 100);
        assert_true(rows[i].fail_from ? failed >= 100 - rows[i].fail_from : failed == 1);
        bed_strike(b);
    }
}

/* --- two devices ---------------------------------------------------------------------------------------- */
static void what_the_first_loses_the_second_answers(void **state) {
    (void)state;
    struct bed *b = bed_lay(2);
    b->toy[0].fail_from = 30;
    b->toy[0].code = MOIRE_EDEVICE;
    submit_all(b);
    mo_engine_drain(b->engine); /* both: nothing is on its way between them */
    assert_int_equal(answered(b), QUERIES);
    assert_int_equal(with_code(b, MOIRE_OK), QUERIES);
    assert_true(b->moved > QUERIES / 2);
    bed_strike(b);
}

/* Its user knows the handle that the first device gave. */
static void a_query_that_was_taken_over_can_be_cancelled(void **state) {
    (void)state;
    enum { N = 20 };
    struct bed *b = bed_lay(2);
    b->toy[0].fail_from = 1;
    b->toy[0].code = MOIRE_EDEVICE;
    toy_hold(&b->toy[1], true);
    for (int i = 0; i < N; i++)
        submit(b);
    while (atomic_load(&b->moved) < N)
        b->env.sys->sleep_until(NULL, mo_now(&b->env) + 100000);
    assert_int_equal(answered(b), 0);
    for (int i = 0; i < N; i += 2)
        assert_int_equal(mo_engine_cancel(b->engine, b->query[i].handle), MOIRE_OK);
    for (int i = 0; i < N; i += 2)
        assert_int_equal(mo_engine_cancel(b->engine, b->query[i].handle), MOIRE_ESTALE);
    toy_hold(&b->toy[1], false);
    mo_engine_drain(b->engine);
    for (int i = 0; i < N; i++)
        assert_int_equal(b->query[i].code, i % 2 ? MOIRE_OK : MOIRE_ECANCELLED);
    bed_strike(b);
}

static void both_may_lose_a_query(void **state) {
    (void)state;
    struct bed *b = bed_lay(2);
    b->toy[0].fail_from = 20;
    b->toy[1].fail_from = 10;
    b->toy[0].code = b->toy[1].code = MOIRE_EDEVICE;
    submit_all(b);
    mo_engine_drain(b->engine);
    assert_int_equal(with_code(b, MOIRE_OK) + with_code(b, MOIRE_EDEVICE), QUERIES);
    assert_true(with_code(b, MOIRE_EDEVICE) > QUERIES / 2);
    bed_strike(b);
}

/* --- what cannot be made -------------------------------------------------------------------------------- */
/* Whichever device and call it is: the error is the device's, and what was opened is closed. */
static void a_device_that_cannot_start_leaves_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 2 * DEVICES; i++) {
        struct bed *b = bed_make(DEVICES);
        struct toy *bad = &b->toy[i / 2];
        moire_error err = {0};
        *(i % 2 ? &bad->fail_begin : &bad->fail_open) = 1;
        bad->code = MOIRE_ENOMEM;
        assert_int_equal(bed_start(b, &err), MOIRE_ENOMEM);
        assert_string_equal(err.message, i % 2 ? "toy: begin" : "toy: open");
        for (int d = 0; d < DEVICES; d++)
            assert_int_equal(b->toy[d].opened, b->toy[d].closed);
        mo_profile_destroy(b->profile);
        free(b);
    }
}

static void a_tenant_that_cannot_be_loaded_is_none(void **state) {
    (void)state;
    struct bed *b = bed_make(1);
    moire_error err = {0};
    b->toy[0].fail_admit = 2;
    b->toy[0].code = MOIRE_ENOMEM;
    assert_int_equal(bed_start(b, NULL), MOIRE_OK);
    assert_int_equal(bed_open(b, 0, 0, NULL), MOIRE_OK);
    assert_int_equal(bed_open(b, 1, 0, &err), MOIRE_ENOMEM);
    assert_string_equal(err.message, "toy: admit");
    assert_int_equal(bed_open(b, 1, 0, NULL), MOIRE_OK);
    assert_int_equal(mo_engine_index(b->tenant[1].index[0]), 1);
    for (int i = 0; i < 10; i++)
        submit(b);
    b->toy[0].admitted--;
    bed_strike(b);
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
        cmocka_unit_test(what_the_first_loses_the_second_answers),
        cmocka_unit_test(a_query_that_was_taken_over_can_be_cancelled),
        cmocka_unit_test(both_may_lose_a_query),
        cmocka_unit_test(a_device_that_cannot_start_leaves_nothing),
        cmocka_unit_test(a_tenant_that_cannot_be_loaded_is_none),
        cmocka_unit_test(an_engine_without_devices_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
