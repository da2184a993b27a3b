/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sched/toys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include "tests/history/recorded.h"

static struct toys_tenant *tenant_of(const struct toys_query *q) {
    return &q->toys->tenant[q->tenant];
}

/* What the first device has failed goes to the second. */
static bool move(struct toys_query *q, const struct mo_answer *a) {
    const struct toys_tenant *t = tenant_of(q);
    if (a->code != MOIRE_EDEVICE || t->index[1] < 0 || a->known) return false;
    const struct mo_arrival arrival = {.arrival = a->arrival, .user = q};
    if (mo_engine_take_over(q->toys->engine, t->index[1], &arrival, a->query, NULL)) return false;
    atomic_fetch_add(&q->toys->moved, 1);
    return true;
}

static void answer(void *model, const struct mo_answer *a) {
    struct toys_query *q = a->user;
    (void)model;
    if (move(q, a)) return;
    q->code = a->code;
    q->said = a->query;
    atomic_fetch_add(&q->answers, 1);
}

static void release(void *model, void *user) {
    (void)model;
    atomic_fetch_add(&((struct toys_query *)user)->releases, 1);
}

static const struct mo_model_ops model = {.answer = answer, .release = release};

struct toys *toys_make(int n_devices) {
    static const int64_t layer[TOYS_LAYERS] = {50000, 50000, 50000};
    struct toys *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->env = mo_env_default();
    b->n_devices = n_devices;
    b->profile = mo_profile_create(&b->env, TOYS_LAYERS, TOY_UNITS);
    mo_profile_record(b->profile, 1, layer);
    mo_profile_finish(b->profile);
    return b;
}

int toys_start(struct toys *b, moire_error *err) {
    struct mo_engine_config c = {.env = &b->env, .n_devices = b->n_devices};
    for (int i = 0; i < b->n_devices; i++)
        c.device[i] = (struct mo_device_config){.env = &b->env,
                                                .calls = &toy_device,
                                                .options = &b->toy[i],
                                                .policy = mo_policy_find("fcfs"), /* asks for no timer */
                                                .max_queries = TOYS_QUERIES,
                                                .max_tenants = TOYS_TENANTS,
                                                .events = 1 << 14};
    return mo_engine_create(&c, &b->engine, err);
}

int toys_open(struct toys *b, int tenant, int device, moire_error *err) {
    struct toys_tenant *t = &b->tenant[tenant];
    const struct mo_device_tenant c = {.sched = {.qos_ns = INT64_C(1000000000),
                                                 .queue = TOYS_QUERIES,
                                                 .instances = TOY_UNITS + 2,
                                                 .profile = b->profile},
                                       .ops = &model,
                                       .model = t};
    t->toys = b;
    return mo_engine_open(b->engine, device, &c, &t->index[device], err);
}

/* Every tenant on every device. */
struct toys *toys_lay(int n_devices) {
    struct toys *b = toys_make(n_devices);
    assert_int_equal(toys_start(b, NULL), MOIRE_OK);
    for (int i = 0; i < TOYS_TENANTS; i++)
        for (int d = 0; d < TOYS_DEVICES; d++) {
            b->tenant[i].index[d] = -1;
            if (d < n_devices) assert_int_equal(toys_open(b, i, d, NULL), MOIRE_OK);
        }
    return b;
}

struct toys_query *toys_submit(struct toys *b) {
    const int at = atomic_fetch_add(&b->n, 1);
    struct toys_query *q = &b->query[at];
    q->toys = b;
    q->tenant = at % TOYS_TENANTS;
    assert_int_equal(mo_engine_submit(b->engine, tenant_of(q)->index[0], 0, q, &q->handle, NULL), MOIRE_OK);
    return q;
}

static void *submit_many(void *bed) {
    for (int i = 0; i < TOYS_QUERIES / TOYS_SUBMITTERS; i++)
        toys_submit(bed);
    return NULL;
}

void toys_submit_all(struct toys *b) {
    pthread_t thread[TOYS_SUBMITTERS];
    for (int i = 0; i < TOYS_SUBMITTERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, submit_many, b), 0);
    for (int i = 0; i < TOYS_SUBMITTERS; i++)
        pthread_join(thread[i], NULL);
}

int toys_answered(const struct toys *b) {
    int n = 0;
    for (int i = 0; i < b->n; i++)
        n += atomic_load(&b->query[i].answers) > 0;
    return n;
}

int toys_with_code(const struct toys *b, int code) {
    int n = 0;
    for (int i = 0; i < b->n; i++)
        n += b->query[i].code == code;
    return n;
}

static void check_history(struct toys *b, int device) {
    struct mo_device *d = mo_engine_device(b->engine, device);
    struct mo_sched_stats stats;
    mo_device_stats(d, &stats);
    assert_int_equal(stats.refused, 0);
    history_of_device(d, device ? b->moved : b->n);
}

/* Answered once, under its handle, and released by every device that had it; nothing is left behind. */
void toys_strike(struct toys *b) {
    struct mo_sched_stats stats;
    int releases = 0;
    mo_engine_drain(b->engine);
    for (int i = 0; i < TOYS_TENANTS; i++)
        for (int d = 0; d < b->n_devices; d++)
            mo_engine_close(b->engine, b->tenant[i].index[d], MOIRE_EUNLOADED);
    mo_engine_stats(b->engine, &stats);
    assert_int_equal(stats.accepted, b->n);
    assert_int_equal(stats.ok, toys_with_code(b, MOIRE_OK));
    assert_int_equal(stats.cancelled, toys_with_code(b, MOIRE_ECANCELLED));
    assert_int_equal(stats.shutdown, toys_with_code(b, MOIRE_ESHUTDOWN));
    assert_int_equal(stats.unloaded, toys_with_code(b, MOIRE_EUNLOADED));
    assert_int_equal(stats.failed, toys_with_code(b, MOIRE_EDEVICE) + toys_with_code(b, MOIRE_ENOMEM) +
                                       toys_with_code(b, MOIRE_EFAILED));
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
