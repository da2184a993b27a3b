/* SPDX-License-Identifier: Apache-2.0
 * test_drive.c - the open-loop player against a made-up system in virtual time: records, refusals, late
 * answers, stopping early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "bench/load/drive.h"

/* One server in virtual time: work takes `service` ns, FIFO, answered when the clock has passed its end. */
enum { QUEUE = 4096 };
struct world {
    struct mo_sys sys;
    int64_t now, service, free_at;
    struct mo_bench_drive *drive;
    int waiting[QUEUE];
    int64_t start[QUEUE], end[QUEUE];
    int head, tail, issued, refuse_from, stopped;
};

static void answer_due(struct world *w) {
    while (w->head < w->tail && w->end[w->head] <= w->now) {
        int i = w->head++;
        mo_bench_done(w->drive, w->waiting[i], w->start[i], w->end[i], MOIRE_OK);
    }
}

static int64_t world_now(void *self) {
    return ((struct world *)self)->now;
}

static void world_sleep(void *self, int64_t when) {
    struct world *w = self;
    if (when > w->now) w->now = when;
    answer_due(w);
}

static void *world_alloc(void *self, size_t align, size_t bytes) {
    (void)self;
    return mo_sys_posix()->alloc(mo_sys_posix()->self, align, bytes);
}

static void world_free(void *self, void *p) {
    (void)self;
    mo_sys_posix()->free(mo_sys_posix()->self, p);
}

static int issue(void *self, struct mo_bench_drive *drive, int index, int tenant, int64_t arrival_ns) {
    struct world *w = self;
    (void)tenant;
    assert_true(arrival_ns <= w->now); /* never before its time */
    w->drive = drive;
    if (w->issued++ >= w->refuse_from) return MOIRE_EBUSY;
    int i = w->tail++;
    w->waiting[i] = index;
    w->start[i] = w->free_at > w->now ? w->free_at : w->now;
    w->free_at = w->end[i] = w->start[i] + w->service;
    return MOIRE_OK;
}

static void stop(void *self) {
    struct world *w = self;
    w->stopped++;
    w->head = w->tail;
}

static const struct mo_bench_backend backend = {.issue = issue, .stop = stop};
enum { N = 1000 };
static const int64_t gap = 10 * 1000 * 1000;

struct outcome {
    struct mo_bench_arrival items[N];
    struct mo_bench_record records[N];
    struct mo_bench_schedule schedule;
    int64_t cut;
    struct world world;
};

/* N arrivals `gap` apart against a server of the given service time. */
static struct outcome *play_for(int64_t service, const struct mo_bench_budget *budget, int refuse_from) {
    static struct outcome o;
    memset(&o, 0, sizeof o);
    for (int i = 0; i < N; i++)
        o.items[i] = (struct mo_bench_arrival){i * gap, budget->n_tenants ? i % 2 : 0};
    o.schedule =
        (struct mo_bench_schedule){.items = o.items, .n = N, .window_ns = N * gap, .total_ns = (N + 2) * gap};
    o.world.sys = *mo_sys_posix();
    o.world.sys.self = &o.world;
    o.world.sys.now = world_now;
    o.world.sys.sleep_until = world_sleep;
    o.world.sys.alloc = world_alloc;
    o.world.sys.free = world_free;
    o.world.now = 12345;
    o.world.service = service;
    o.world.refuse_from = refuse_from;
    struct mo_env env = mo_env_default();
    env.sys = &o.world.sys;
    const int64_t qos[] = {2 * gap, N * gap};
    assert_int_equal(
        mo_bench_play(&env, &backend, &o.world, &o.schedule, qos, budget, o.records, &o.cut, NULL), 0);
    assert_int_equal(o.world.stopped, 1);
    return &o;
}

static struct outcome *play(int64_t service, int give_up, int refuse_from) {
    const struct mo_bench_budget budget = {.all = give_up};
    return play_for(service, &budget, refuse_from);
}

static void underload_answers_everything(void **state) {
    (void)state;
    struct outcome *o = play(gap / 2, -1, N);
    assert_true(o->cut == INT64_MAX);
    for (int i = 0; i < N; i++) {
        assert_int_equal(o->records[i].code, MOIRE_OK);
        assert_true(o->records[i].issue_ns == i * gap);
        assert_true(o->records[i].start_ns == i * gap);
        assert_true(o->records[i].end_ns == i * gap + gap / 2);
    }
}

/* Twice as slow as the arrivals: the generator keeps its pace, and what has no answer at the end is open. */
static void overload_does_not_slow_the_generator(void **state) {
    (void)state;
    struct outcome *o = play(2 * gap, -1, N);
    for (int i = 0; i < N; i++)
        assert_true(o->records[i].issue_ns == i * gap);
    assert_true(o->records[N / 4].end_ns == (N / 4 + 1) * 2 * gap);
    assert_true(o->records[N - 1].end_ns == -1);
}

static void hopeless_run_stops_early(void **state) {
    (void)state;
    struct outcome *o = play(2 * gap, 50, N);
    assert_true(o->cut < N * gap / 4);
    assert_true(o->records[N - 1].issue_ns == -1);
    /* and the score of what was due by then is still below the goal */
    struct mo_env env = mo_env_default();
    struct mo_bench_score score;
    const int64_t qos = 2 * gap;
    assert_int_equal(mo_bench_score(&env, &o->schedule, o->records, &qos, 1, o->cut, &score, NULL), 0);
    assert_true(score.n > 50 && score.overall < 0.95);
    mo_bench_score_free(&env, &score);
}

/* Every other query may wait for very long: only the other tenant's misses end the run, and only when it is
 * their number that counts. */
static void one_tenant_may_end_a_run(void **state) {
    (void)state;
    const struct mo_bench_budget all = {.all = N / 2, .n_tenants = 2, .tenant = {N, N}},
                                 its = {.all = N / 2, .n_tenants = 2, .tenant = {20, N}},
                                 other = {.all = N / 2, .n_tenants = 2, .tenant = {N, 20}};
    assert_true(play_for(2 * gap, &all, N)->cut == INT64_MAX);
    assert_true(play_for(2 * gap, &other, N)->cut == INT64_MAX);
    assert_true(play_for(2 * gap, &its, N)->cut < N * gap / 2);
}

static void budgets_are_read_as_written(void **state) {
    (void)state;
    static const char *const bad[] = {"", "x", "-2", "1,2", "1,2,3,4", "1,2,", "1,,3", "1 ", "99999999999"};
    const struct mo_bench_budget b = {.all = 7, .n_tenants = 2, .tenant = {0, 12}};
    struct mo_bench_budget again;
    char text[64];
    mo_bench_budget_write(&b, text, sizeof text);
    assert_string_equal(text, "7,0,12");
    assert_int_equal(mo_bench_budget_read(text, 2, &again), MOIRE_OK);
    assert_memory_equal(&b, &again, sizeof b);
    assert_int_equal(mo_bench_budget_read("-1", 2, &again), MOIRE_OK);
    assert_true(again.all == -1 && again.n_tenants == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mo_bench_budget_read(bad[i], 2, &again), MOIRE_EINVAL);
}

static void refusals_are_recorded(void **state) {
    (void)state;
    struct outcome *o = play(gap / 2, -1, N / 2);
    assert_int_equal(o->records[N / 2 - 1].code, MOIRE_OK);
    assert_int_equal(o->records[N / 2].code, MOIRE_EBUSY);
    assert_true(o->records[N / 2].end_ns == -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(underload_answers_everything),
        cmocka_unit_test(overload_does_not_slow_the_generator),
        cmocka_unit_test(hopeless_run_stops_early),
        cmocka_unit_test(one_tenant_may_end_a_run),
        cmocka_unit_test(budgets_are_read_as_written),
        cmocka_unit_test(refusals_are_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
