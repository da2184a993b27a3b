/* SPDX-License-Identifier: Apache-2.0
 * test_resize_live.c - the live engine under a policy that gives running blocks other cores all the time:
 * every piece of every layer is run once and in order, every query is answered once, the history is sound,
 * and a core that stands still holds nobody up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/lock.h"
#include "runtime/device/topology.h"
#include "runtime/engine/device_impl.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/engine_cores.h"
#include "tests/history/recorded.h"
#include "tests/unit/resize/restless.h"

enum { CORES = 4, LAYERS = 9, PIECES = 24, INSTANCES = 6, TENANTS = 3, QUERIES = 900 };

/* A model whose layers check that the one before them is complete; each third is for one core. */
struct toy {
    struct bed *bed;
    int layer[INSTANCES];               /* that was begun last */
    int ran[INSTANCES][LAYERS][PIECES]; /* plain memory: the team has to order what its members do */
    int index;
};

struct query {
    _Atomic int answers, releases;
    int code;
};

struct bed {
    struct mo_env env;
    struct mo_topology *topology;
    struct mo_profile *profile;
    struct mo_engine *engine;
    struct mo_device *device;
    struct toy toy[TENANTS];
    struct query query[QUERIES];
    _Atomic int wrong;
    int fails_at; /* a layer of tenant 0 that fails; -1 = none */
};

static void answer(void *model, const struct mo_answer *a) {
    struct query *q = a->user;
    (void)model;
    q->code = a->code;
    atomic_fetch_add(&q->answers, 1);
}

static void release(void *model, void *user) {
    (void)model;
    atomic_fetch_add(&((struct query *)user)->releases, 1);
}

static int begin_query(void *model, int instance, void *user) {
    struct toy *t = model;
    (void)user;
    t->layer[instance] = -1;
    memset(t->ran[instance], 0, sizeof t->ran[instance]);
    return MOIRE_OK;
}

static void spend(int n) {
    for (int i = 0; i < n; i++)
        mo_cpu_relax();
}

static int step(void *model, int instance, int layer, int width, void *scratch) {
    struct toy *t = model;
    (void)scratch;
    bool once = layer == t->layer[instance] + 1 && width >= 1 && width <= CORES;
    for (int i = 0; layer && once && (layer - 1) % 3 && i < PIECES; i++)
        once = t->ran[instance][layer - 1][i] == 1;
    if (!once) atomic_fetch_add(&t->bed->wrong, 1);
    t->layer[instance] = layer;
    if (t->index == 0 && layer == t->bed->fails_at) return MOIRE_EFAILED;
    if (layer % 3 && width > 1) return PIECES;
    spend(100);
    for (int i = 0; i < PIECES; i++)
        t->ran[instance][layer][i]++;
    return 0;
}

static void pieces(void *model, int instance, int layer, int from, int to, int of, void *scratch) {
    struct toy *t = model;
    (void)scratch;
    if (of != PIECES || layer != t->layer[instance]) atomic_fetch_add(&t->bed->wrong, 1);
    for (int i = from; i < to; i++) {
        spend((i * 7 + layer) % 40);
        t->ran[instance][layer][i]++;
    }
}

static const struct mo_model_ops ops = {
    .answer = answer, .release = release, .begin = begin_query, .step = step, .pieces = pieces};

static struct bed *lay(const struct mo_sys *sys) {
    static const char *const cores = "core:4 pu:1";
    struct bed *b = calloc(1, sizeof *b);
    moire_error err = {0};
    assert_non_null(b);
    b->env = mo_env_default();
    if (sys) b->env.sys = sys;
    b->fails_at = -1;
    if (mo_topology_create(&b->env, cores, CORES, "", &b->topology, &err)) fail_msg("%s", err.message);
    b->profile = mo_profile_create(&b->env, LAYERS, CORES);
    int64_t layer[LAYERS];
    for (int n = 1; n <= CORES; n++) {
        for (int k = 0; k < LAYERS; k++)
            layer[k] = k % 3 ? 20000 / n : 5000;
        mo_profile_record(b->profile, n, layer);
    }
    mo_profile_finish(b->profile);
    struct mo_engine_cores_options o = {.topology = b->topology, .no_pin = true};
    struct mo_engine_config c = {.env = &b->env, .n_devices = 1};
    c.device[0] = (struct mo_device_config){.env = &b->env,
                                            .calls = &mo_engine_cores,
                                            .options = &o,
                                            .policy = &restless,
                                            .max_queries = QUERIES,
                                            .max_tenants = TENANTS,
                                            .block_ns = 100000,
                                            .events = 1 << 18};
    if (mo_engine_create(&c, &b->engine, &err)) fail_msg("%s", err.message);
    b->device = mo_engine_device(b->engine, 0);
    return b;
}

static int open_model(struct bed *b, struct toy *toy) {
    const struct mo_device_tenant t = {.sched = {.qos_ns = INT64_C(1000000000),
                                                 .queue = QUERIES,
                                                 .instances = INSTANCES,
                                                 .profile = b->profile},
                                       .ops = &ops,
                                       .model = toy};
    int tenant;
    toy->bed = b;
    assert_int_equal(mo_engine_open(b->engine, 0, &t, &tenant, NULL), MOIRE_OK);
    return tenant;
}

static int open_tenant(struct bed *b, int i) {
    b->toy[i].index = i;
    return open_model(b, &b->toy[i]);
}

static void strike(struct bed *b) {
    mo_engine_destroy(b->engine);
    mo_profile_destroy(b->profile);
    mo_topology_destroy(b->topology);
    free(b);
}

static void serve(struct bed *b, struct mo_sched_stats *stats) {
    int tenant[TENANTS];
    for (int i = 0; i < TENANTS; i++)
        tenant[i] = open_tenant(b, i);
    for (int i = 0; i < QUERIES; i++) {
        uint64_t handle;
        assert_int_equal(mo_engine_submit(b->engine, tenant[i % TENANTS], 0, &b->query[i], &handle, NULL),
                         MOIRE_OK);
        if (i % 10 == 0) b->env.sys->sleep_until(b->env.sys->self, mo_now(&b->env) + 200000);
    }
    mo_engine_drain(b->engine);
    for (int i = 0; i < TENANTS; i++)
        mo_engine_close(b->engine, tenant[i], MOIRE_EUNLOADED);
    mo_device_stats(b->device, stats);
    assert_int_equal(b->wrong, 0);
    assert_int_equal(stats->refused, 0);
    for (int i = 0; i < QUERIES; i++) {
        assert_int_equal(b->query[i].answers, 1);
        assert_int_equal(b->query[i].releases, 1);
        bool fails = b->fails_at >= 0 && i % TENANTS == 0;
        assert_int_equal(b->query[i].code, fails ? MOIRE_EFAILED : MOIRE_OK);
    }
    history_of_device(b->device, QUERIES);
}

static void blocks_are_right_whoever_comes_and_goes(void **state) {
    struct mo_sched_stats stats;
    (void)state;
    for (int fails_at = -1; fails_at < LAYERS; fails_at += 5) {
        struct bed *b = lay(NULL);
        b->fails_at = fails_at;
        serve(b, &stats);
        assert_true(stats.resized > 20);
        strike(b);
    }
}

/* A system in which every few waits take some milliseconds longer, so that workers are late for their blocks.
 */
struct slow {
    struct mo_sys table; /* first: its self points to this struct */
    const struct mo_sys *real;
    _Atomic int waits;
};

static void slow_wait(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline) {
    struct slow *s = self;
    s->real->futex_wait(s->real->self, word, value, deadline);
    if (atomic_fetch_add(&s->waits, 1) % 16 == 0)
        s->real->sleep_until(s->real->self, s->real->now(s->real->self) + 3000000);
}

static void late_cores_hold_nobody_up(void **state) {
    struct slow slow = {.real = mo_sys_posix()};
    struct mo_sched_stats stats;
    (void)state;
    slow.table = *slow.real;
    slow.table.self = &slow;
    slow.table.futex_wait = slow_wait;
    struct bed *b = lay(&slow.table);
    serve(b, &stats);
    strike(b);
}

/* Tenants come and leave while their blocks run: those that are late for a block find its model gone. */
enum { ROUNDS = 60, PER_ROUND = QUERIES / ROUNDS };

static void submit_round(struct bed *b, int tenant, int round) {
    for (int i = 0; i < PER_ROUND; i++) {
        uint64_t handle;
        struct query *q = &b->query[round * PER_ROUND + i];
        assert_int_equal(mo_engine_submit(b->engine, tenant, 0, q, &handle, NULL), MOIRE_OK);
        if (i % 4 == 1) mo_engine_cancel(b->engine, handle); /* it may have been answered before */
    }
}

static void close_round(struct bed *b, int tenant, struct toy *toy, int round) {
    mo_engine_close(b->engine, tenant, MOIRE_EUNLOADED);
    free(toy);
    for (int i = 0; i < PER_ROUND; i++) {
        const struct query *q = &b->query[round * PER_ROUND + i];
        assert_int_equal(q->answers, 1);
        assert_int_equal(q->releases, 1);
        assert_true(q->code == MOIRE_OK || q->code == MOIRE_ECANCELLED || q->code == MOIRE_EUNLOADED);
    }
}

static void who_is_late_needs_no_tenant(void **state) {
    struct slow slow = {.real = mo_sys_posix()};
    struct toy *toy[ROUNDS];
    int tenant[ROUNDS];
    (void)state;
    slow.table = *slow.real;
    slow.table.self = &slow;
    slow.table.futex_wait = slow_wait;
    struct bed *b = lay(&slow.table);
    for (int i = 0; i <= ROUNDS; i++) { /* two at a time */
        if (i < ROUNDS) {
            toy[i] = calloc(1, sizeof *toy[i]);
            assert_non_null(toy[i]);
            tenant[i] = open_model(b, toy[i]);
            submit_round(b, tenant[i], i);
        }
        if (i) close_round(b, tenant[i - 1], toy[i - 1], i - 1);
    }
    mo_engine_drain(b->engine);
    assert_int_equal(b->wrong, 0);
    history_of_device(b->device, QUERIES);
    strike(b);
}

/* A system that tells of calls that wake somebody while the device's lock is held by who calls. */
struct watchful {
    struct mo_sys table; /* first: its self points to this struct */
    const struct mo_sys *real;
    struct mo_device *_Atomic device;
    _Atomic int woken, locked;
};

static void watched_wake(void *self, _Atomic uint32_t *word, int n) {
    struct watchful *w = self;
    struct mo_device *d = atomic_load(&w->device);
    int tries = d && word != &d->lock.word && !atomic_load(&w->locked) ? 1000 : 0;
    for (; tries && !mo_lock_try(&d->lock); tries--) {
        if (tries == 1) atomic_fetch_add(&w->locked, 1);
        w->real->sleep_until(w->real->self, w->real->now(w->real->self) + 1000000);
    }
    if (tries) {
        mo_lock_drop(w->real, &d->lock);
        atomic_fetch_add(&w->woken, 1);
    }
    w->real->futex_wake(w->real->self, word, n);
}

static void nobody_is_woken_under_the_lock(void **state) {
    struct watchful watchful = {.real = mo_sys_posix()};
    struct mo_sched_stats stats;
    (void)state;
    watchful.table = *watchful.real;
    watchful.table.self = &watchful;
    watchful.table.futex_wake = watched_wake;
    struct bed *b = lay(&watchful.table);
    atomic_store(&watchful.device, b->device);
    serve(b, &stats);
    assert_true(stats.resized > 20 && watchful.woken > 0);
    assert_int_equal(watchful.locked, 0);
    atomic_store(&watchful.device, NULL);
    strike(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_right_whoever_comes_and_goes),
                                       cmocka_unit_test(late_cores_hold_nobody_up),
                                       cmocka_unit_test(who_is_late_needs_no_tenant),
                                       cmocka_unit_test(nobody_is_woken_under_the_lock)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
