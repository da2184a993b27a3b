/* SPDX-License-Identifier: Apache-2.0
 * test_closed_loops.c - tenants in closed loops: drawn, played live in virtual time, and simulated. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/load/worth.h"
#include "bench/load/closed_loop.h"
#include "bench/load/drive.h"
#include "tests/unit/base/put_file.h"
#include "tests/unit/bench/simulate_bed.h"

static void near(double a, double b) {
    if (!(fabs(a - b) <= 1e-6 * fmax(1, fabs(b)))) fail_msg("%.9g, expected %.9g", a, b);
}

/* --- schedules ---------------------------------------------------------------------------------------- */
enum { ROOM = 400, N = 20 };
static const int64_t ms = 1000000;

static struct mo_bench_schedule with_loops(struct mo_bench_arrival items[N]) {
    for (int i = 0; i < N; i++)
        items[i] = (struct mo_bench_arrival){i * 10 * ms, 0};
    return (struct mo_bench_schedule){.items = items,
                                      .n = N,
                                      .closed = {{1, 2}, {2, 1}},
                                      .n_closed = 2,
                                      .room = ROOM,
                                      .warmup_ns = 20 * ms,
                                      .window_ns = 160 * ms,
                                      .total_ns = 200 * ms};
}

static void loops_are_written_and_read(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_bench_arrival items[N];
    struct mo_bench_schedule s = with_loops(items), again;
    char path[] = "/tmp/moire-classes-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(mo_bench_schedule_write(&s, path, NULL), MOIRE_OK);
    assert_int_equal(mo_bench_schedule_read(&env, path, 3, &again, NULL), MOIRE_OK);
    assert_int_equal(again.n_closed, 2);
    assert_int_equal(again.room, ROOM);
    assert_memory_equal(again.closed, s.closed, 2 * sizeof *s.closed);
    assert_int_equal(mo_bench_slots(&again), N + 2 * ROOM);
    assert_int_equal(mo_bench_tenant_of(&again, N - 1), 0);
    assert_int_equal(mo_bench_tenant_of(&again, N + ROOM - 1), 1);
    assert_int_equal(mo_bench_tenant_of(&again, N + ROOM), 2);
    mo_bench_schedule_free(&env, &again);
    assert_int_equal(mo_bench_schedule_read(&env, path, 2, &again, NULL), MOIRE_EFORMAT); /* no tenant 2 */
    unlink(path);
}

static void broken_loops_are_refused(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    static const char *const bad[] = {
        "room 4 closed ",     "room 4 closed 1",   "room 4 closed 1:",      "room 4 closed 1:0",
        "room 4 closed 1:5",  "closed 1:2",        "room 4 closed 9:1",     "room 4 closed 1:2,",
        "room -4 closed 1:2", "room 4 closed x:1", "room 4 closed 1:2;2:1", "room 4 closed -1:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[] = "/tmp/moire-classes-XXXXXX", text[200];
        struct mo_bench_schedule s;
        const int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        snprintf(text, sizeof text, "# moire schedule 1 warmup_ns 0 window_ns 1 total_ns 1 n 0 %s\n", bad[i]);
        put_file("/tmp", path + 5, text, 0600);
        if (mo_bench_schedule_read(&env, path, 3, &s, NULL) != MOIRE_EFORMAT) fail_msg("taken: %s", bad[i]);
        unlink(path);
    }
}

static void a_rate_of_none_draws_nothing(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_bench_schedule s;
    const double rates[] = {0, 50};
    assert_int_equal(mo_bench_schedule_draw(&env, &(struct mo_process){0}, 3, rates, NULL, 2, 0, 1000 * ms,
                                            1000 * ms, &s, NULL),
                     MOIRE_OK);
    assert_true(s.n > 20 && s.n_closed == 0);
    for (int i = 0; i < s.n; i++)
        assert_int_equal(s.items[i].tenant, 1);
    mo_bench_schedule_free(&env, &s);
}

/* --- who asks next ------------------------------------------------------------------------------------ */
static void a_loop_asks_once_for_each_answer(void **state) {
    (void)state;
    struct mo_bench_arrival items[N];
    struct mo_bench_schedule s = with_loops(items);
    static struct mo_bench_loops l;
    mo_bench_loops_begin(&l, &s);
    assert_int_equal(mo_bench_loops_next(&l), N);
    assert_int_equal(mo_bench_loops_next(&l), N + 1);
    assert_int_equal(mo_bench_loops_next(&l), N + ROOM);
    assert_int_equal(mo_bench_loops_next(&l), -1);
    assert_false(mo_bench_loops_answered(&l, N - 1)); /* an arrival */
    assert_int_equal(mo_bench_loops_next(&l), -1);
    assert_true(mo_bench_loops_answered(&l, N + ROOM));
    assert_int_equal(mo_bench_loops_next(&l), N + ROOM + 1);
    assert_int_equal(mo_bench_loops_asked(&l), 4);
    assert_int_equal(mo_bench_loops_check(&l, NULL), MOIRE_OK);
}

static void a_loop_without_room_is_an_error(void **state) {
    (void)state;
    struct mo_bench_arrival items[N];
    struct mo_bench_schedule s = with_loops(items);
    static struct mo_bench_loops l;
    moire_error err = {0};
    s.room = 2;
    mo_bench_loops_begin(&l, &s);
    while (mo_bench_loops_next(&l) >= 0)
        continue;
    assert_int_equal(mo_bench_loops_check(&l, &err), MOIRE_OK);
    mo_bench_loops_answered(&l, N);
    assert_int_equal(mo_bench_loops_next(&l), -1);
    assert_int_equal(mo_bench_loops_check(&l, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "more than 2 answers"));
}

/* --- live, in virtual time ---------------------------------------------------------------------------- */
/* One server, FIFO: a query of tenant t takes (t + 1) ms, and one of `failing` fails at once. */
struct world {
    struct mo_sys sys;
    int64_t now, free_at;
    struct mo_bench_drive *drive;
    int waiting[1000];
    int64_t start[1000], end[1000];
    int head, tail, failing, out[3], most[3], issued[3];
};

static int tenant_in(int index) {
    return index < N ? 0 : 1 + (index - N) / ROOM;
}

static void answer_until(struct world *w, int64_t when) {
    while (w->head < w->tail && w->end[w->head] <= when) {
        const int i = w->head++, tenant = tenant_in(w->waiting[i]);
        w->now = w->end[i] > w->now ? w->end[i] : w->now;
        w->out[tenant]--;
        mo_bench_done(w->drive, w->waiting[i], w->start[i], w->end[i],
                      tenant == w->failing ? MOIRE_EFAILED : MOIRE_OK);
    }
}

static int64_t world_now(void *self) {
    return ((struct world *)self)->now;
}

static void world_sleep(void *self, int64_t when) {
    struct world *w = self;
    answer_until(w, when);
    if (when > w->now) w->now = when;
}

/* Wakes at the first answer, as the generator may have to issue then. */
static void world_wait(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline) {
    struct world *w = self;
    if (atomic_load(word) != value) return;
    if (w->head < w->tail && w->end[w->head] < deadline)
        answer_until(w, w->end[w->head]);
    else
        world_sleep(w, deadline);
}

static void world_wake(void *self, _Atomic uint32_t *word, int n) {
    (void)self;
    (void)word;
    (void)n;
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
    assert_int_equal(tenant, tenant_in(index));
    assert_true(arrival_ns <= w->now);
    w->drive = drive;
    w->issued[tenant]++;
    if (++w->out[tenant] > w->most[tenant]) w->most[tenant] = w->out[tenant];
    const int i = w->tail++;
    assert_true(i < 1000);
    w->waiting[i] = index;
    w->start[i] = w->free_at > w->now ? w->free_at : w->now;
    w->free_at = w->end[i] = w->start[i] + (tenant == w->failing ? 0 : (tenant + 1) * ms);
    return MOIRE_OK;
}

static void stop(void *self) {
    struct world *w = self;
    w->head = w->tail;
}

static const struct mo_bench_backend backend = {.issue = issue, .stop = stop};

static void play(struct world *w, const struct mo_bench_schedule *s, int failing,
                 struct mo_bench_record *records) {
    const struct mo_bench_budget budget = {.all = -1};
    const int64_t qos[3] = {50 * ms, 0, 0};
    int64_t cut;
    moire_error err = {0};
    *w = (struct world){.sys = *mo_sys_posix(), .now = 12345, .failing = failing};
    w->sys.self = w;
    w->sys.now = world_now;
    w->sys.sleep_until = world_sleep;
    w->sys.futex_wait = world_wait;
    w->sys.futex_wake = world_wake;
    w->sys.alloc = world_alloc;
    w->sys.free = world_free;
    struct mo_env env = mo_env_default();
    env.sys = &w->sys;
    if (mo_bench_play(&env, &backend, w, s, qos, &budget, records, &cut, &err)) fail_msg("%s", err.message);
    assert_true(cut == INT64_MAX);
}

/* The server never rests: 200 ms hold 20 arrivals of 1 ms, and else the loops, 2 and 1 on their way at any
 * time. In a FIFO two queries of 2 ms and one of 3 ms come in turn. */
static void loops_fill_what_arrivals_leave(void **state) {
    (void)state;
    static struct world w;
    static struct mo_bench_record records[N + 2 * ROOM];
    struct mo_bench_arrival items[N];
    struct mo_bench_schedule s = with_loops(items);
    double busy = 0;
    play(&w, &s, -1, records);
    for (int i = 0; i < N; i++) {
        assert_true(records[i].issue_ns == i * 10 * ms); /* nothing holds arrivals up */
        assert_true(records[i].end_ns > 0);
    }
    for (int t = 0; t < 3; t++) {
        const int all = mo_bench_answers(&s, records, t, INT64_MAX);
        busy += all * (t + 1);
        assert_true(mo_bench_answers(&s, records, t, 100 * ms) < all);
    }
    assert_int_equal(w.most[1], 2);
    assert_int_equal(w.most[2], 1);
    assert_true(busy >= 157 && busy <= 163); /* ms of the window of 160 */
    near(mo_bench_window_s(&s, INT64_MAX), 0.16);
    near(mo_bench_window_s(&s, 100 * ms), 0.08);
    near(mo_bench_window_s(&s, 10 * ms), 0);
}

static void a_loop_that_fails_is_not_asked_for_ever(void **state) {
    (void)state;
    static struct world w;
    static struct mo_bench_record records[N + 2 * ROOM];
    struct mo_bench_arrival items[N];
    struct mo_bench_schedule s = with_loops(items);
    play(&w, &s, 1, records);
    assert_int_equal(w.issued[1], 2);
    assert_int_equal(records[N].code, MOIRE_EFAILED);
    assert_true(w.issued[2] > 30);
    assert_int_equal(mo_bench_answers(&s, records, 1, INT64_MAX), 0);
}

/* --- simulated ---------------------------------------------------------------------------------------- */
#define TWO_CLASSES                                                                                          \
    "{\"name\": \"s\", \"qos\": {\"ms\": 20}, \"tenants\": [{\"model\": \"a\"}, {\"model\": \"x/b.onnx\", "  \
    "\"class\": \"best-effort\", \"outstanding\": 3}]}"

static json_t *simulate(const struct simulate_bed *p, const char *policy) {
    struct mo_bench_simulate_options o = simulate_bed_options(p);
    struct mo_bench_session session = {.env = &p->env, .command = "test", .quiet = true, .cores = 1};
    o.jobs = 1;
    o.serve.policies[0] = policy;
    o.serve.n_policies = 1;
    snprintf(session.folder, sizeof session.folder, "%.60s", p->folder);
    session.signal_fd = -1;
    json_t *doc = NULL;
    moire_error err = {0};
    if (mo_bench_simulate(&session, &o, &doc, &err)) fail_msg("%s", err.message);
    return doc;
}

/* One core, a takes 1 ms and b 0.9: what a's load leaves, b gets; under fcfs-1 every query of a waits for
 * three of b, but 20 ms suffice. */
static void what_a_load_leaves_the_loop_gets(void **state) {
    (void)state;
    struct simulate_bed p;
    simulate_bed_open(&p, ONE_CORE, TWO_CLASSES);
    json_t *doc = simulate(&p, "fcfs-1"), *again = simulate(&p, "fcfs-1"), *result, *point;
    assert_true(json_equal(doc, again));
    size_t i, k;
    json_array_foreach(json_object_get(doc, "results"), i, result) {
        json_array_foreach(json_object_get(result, "loads"), k, point) {
            const json_t *classes = json_object_get(point, "classes");
            const json_t *critical = json_object_get(classes, "critical"),
                         *rest = json_object_get(classes, "best_effort");
            const double n = mo_json_number(critical, "n"), of_alone = mo_json_number(rest, "of_alone");
            near(mo_json_number(critical, "within_qos"), mo_json_number(point, "overall"));
            assert_true(mo_json_number(critical, "within_qos") > 0.95);
            if (fabs(n * 1e-3 / 2 + of_alone - 1) > 0.01)
                fail_msg("%g queries of 1 ms in 2 s and %g of the machine", n, of_alone);
            near(mo_json_number(rest, "qps"), mo_json_number(rest, "answers") / 2);
            near(mo_json_number(json_array_get(json_object_get(rest, "tenants"), 0), "alone_qps"), 1e3 / 0.9);
        }
    }
    assert_int_equal(json_array_size(json_object_get(doc, "frontier")), 2);
    json_decref(doc);
    json_decref(again);
    simulate_bed_close(&p);
}

static void a_loop_does_not_starve_the_critical(void **state) {
    (void)state;
    struct simulate_bed p;
    simulate_bed_open(&p, ONE_CORE, TWO_CLASSES);
    json_t *doc = simulate(&p, "moire"), *result, *point;
    size_t i, k;
    json_array_foreach(json_object_get(doc, "results"), i, result) {
        json_array_foreach(json_object_get(result, "loads"), k, point) {
            const json_t *rest = json_object_get(json_object_get(point, "classes"), "best_effort");
            assert_true(mo_json_number(point, "overall") > 0.99);
            assert_true(mo_json_number(rest, "answers") > 0);
        }
    }
    json_decref(doc);
    simulate_bed_close(&p);
}

static void classes_are_apart_among_the_peers(void **state) {
    (void)state;
    int n, apart = 0;
    const struct mo_bench_system *rows = mo_bench_peers(&n);
    for (int i = 0; i < n; i++) {
        const bool split = !strncmp(rows[i].arrangement, "split", 5);
        assert_int_equal(mo_bench_by_class(&rows[i]), split);
        apart += split;
    }
    assert_int_equal(apart, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_are_written_and_read),
        cmocka_unit_test(broken_loops_are_refused),
        cmocka_unit_test(a_rate_of_none_draws_nothing),
        cmocka_unit_test(a_loop_asks_once_for_each_answer),
        cmocka_unit_test(a_loop_without_room_is_an_error),
        cmocka_unit_test(loops_fill_what_arrivals_leave),
        cmocka_unit_test(a_loop_that_fails_is_not_asked_for_ever),
        cmocka_unit_test(what_a_load_leaves_the_loop_gets),
        cmocka_unit_test(a_loop_does_not_starve_the_critical),
        cmocka_unit_test(classes_are_apart_among_the_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
