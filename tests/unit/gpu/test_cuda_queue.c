/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_queue.c - runs on lets of the CUDA plugin: in order, bounded, each answered once; side by side on
 * disjoint lets, by priority where lets share SMs; what fails half-way is answered when it has ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/gpu/cuda_case.h"

mo_gpu_plugin_function mo_gpu_plugin;

enum { MS = 1000000, CHAIN = 100, THREADS = 3, EACH = 100 };

static struct mo_gpu_let *open_let(struct cuda_case *c, int first, int units, int priority) {
    struct mo_gpu_let *let = NULL;
    moire_error err = {0};
    if (c->ops->let_open(c->system, 0, first, units, priority, &let, &err)) fail_msg("%s", err.message);
    return let;
}

static int submit(struct mo_gpu_let *let, struct cuda_run *run, moire_error *err) {
    const struct mo_cuda_work work = cuda_run_work(run);
    run->let = let;
    return mo_cuda_submit(let, &work, err);
}

static void begin(struct cuda_case *c, const struct mo_gpu_config *config) {
    cuda_case_begin(c, &(struct mo_fake_config){0});
    cuda_case_open(c, mo_gpu_plugin(), config);
}

/* The record of that kernel; fails when there is none. */
static const struct mo_fake_record *find(struct cuda_case *c, const char *what) {
    const struct mo_fake_record *r;
    const int n = c->fake->records(&r);
    for (int i = 0; i < n; i++)
        if (strcmp(r[i].what, what) == 0) return &r[i];
    fail_msg("no kernel '%s' ran", what);
    return NULL;
}

static void runs_of_a_let_are_in_order_and_timed(void **state) {
    (void)state;
    struct cuda_case c;
    begin(&c, &(struct mo_gpu_config){.queue = 4});
    struct mo_gpu_let *let = open_let(&c, 0, 2, 1);
    struct cuda_run runs[4];
    static const char *const names[] = {"a", "b", "c", "d"};
    const int64_t before = mo_now(&c.env);
    for (int i = 0; i < 4; i++) {
        runs[i] = (struct cuda_run){.c = &c, .name = names[i], .sm_ns = 16.0 * 3 * MS};
        assert_int_equal(submit(let, &runs[i], NULL), MOIRE_OK);
    }
    cuda_run_wait(&runs[3], 1);
    for (int i = 0; i < 4; i++) {
        const struct mo_gpu_times *t = &runs[i].times;
        assert_int_equal(atomic_load(&runs[i].done), 1);
        assert_int_equal(runs[i].code, MOIRE_OK);
        assert_true(before <= t->submitted && t->submitted <= t->start && t->start <= t->end);
        assert_true(t->compute_ns >= 3 * MS - 1000);
        assert_true(t->copy_in_ns >= 0 && t->copy_out_ns >= 0);
        if (i) assert_true(find(&c, names[i])->begin >= find(&c, names[i - 1])->end);
        if (i) assert_true(t->end >= runs[i - 1].times.end);
    }
    c.ops->let_close(let);
    cuda_case_end(&c);
}

static unsigned queued(const struct mo_gpu_let *let) {
    const struct mo_gpu_system *s = let->track->context->gpu->system;
    struct mo_lock *lock = (struct mo_lock *)&s->lock;
    mo_lock_take(s->env->sys, lock);
    const unsigned n = let->track->queued;
    mo_lock_drop(s->env->sys, lock);
    return n;
}

static void a_let_takes_no_more_than_its_bound(void **state) {
    (void)state;
    struct cuda_case c;
    moire_error err;
    begin(&c, &(struct mo_gpu_config){0});
    struct mo_gpu_let *let = open_let(&c, 0, 1, 1), *other = open_let(&c, 1, 1, 1);
    struct cuda_run run = {.c = &c, .name = "k", .sm_ns = 8.0 * 30 * MS}, quick = {.c = &c, .name = "q"};
    assert_int_equal(submit(let, &run, NULL), MOIRE_OK);
    assert_int_equal(submit(let, &run, NULL), MOIRE_OK);
    assert_int_equal(queued(let), 2);
    assert_int_equal(submit(let, &run, &err), MOIRE_EBUSY);
    assert_non_null(strstr(err.message, "units 0 to 0, its bound"));
    assert_int_equal(submit(other, &quick, NULL), MOIRE_OK); /* the bound is each let's own */
    cuda_run_wait(&quick, 1);
    cuda_run_wait(&run, 1);
    assert_int_equal(submit(let, &run, NULL), MOIRE_OK);
    cuda_run_wait(&run, 3);
    assert_int_equal(queued(let), 0);
    c.ops->let_close(let);
    c.ops->let_close(other);
    cuda_case_end(&c);
}

static _Atomic int begun;
static _Atomic bool go;

static void hold(struct cuda_run *run) {
    const struct mo_env *env = &run->c->env;
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&go))
        env->sys->sleep_until(env->sys->self, mo_now(env) + 20000);
}

/* Until so many kernels hold their SMs and so many wait for theirs. */
static void wait_for(struct cuda_case *c, int holding, int waiting) {
    struct mo_fake_counts n;
    const int64_t until = mo_now(&c->env) + INT64_C(20000) * MS;
    do {
        if (mo_now(&c->env) > until) fail_msg("%d kernels hold SMs, not %d", atomic_load(&begun), holding);
        c->env.sys->sleep_until(c->env.sys->self, mo_now(&c->env) + 20000);
        c->fake->counts(&n);
    } while (atomic_load(&begun) < holding || n.waiting < waiting);
}

static bool together(const struct mo_fake_record *a, const struct mo_fake_record *b) {
    return a->begin < b->end && b->begin < a->end;
}

static void disjoint_lets_run_side_by_side_and_others_do_not(void **state) {
    (void)state;
    struct cuda_case c;
    begin(&c, &(struct mo_gpu_config){0});
    struct mo_gpu_let *lets[] = {open_let(&c, 0, 8, 1), open_let(&c, 8, 8, 1), open_let(&c, 4, 8, 1)};
    struct cuda_run left = {.c = &c, .name = "left", .compute = hold},
                    right = {.c = &c, .name = "right", .compute = hold}, middle = {.c = &c, .name = "middle"};
    atomic_store(&begun, 0);
    atomic_store(&go, false);
    assert_int_equal(submit(lets[0], &left, NULL), MOIRE_OK);
    assert_int_equal(submit(lets[1], &right, NULL), MOIRE_OK);
    wait_for(&c, 2, 0); /* neither ends before both have begun */
    assert_int_equal(submit(lets[2], &middle, NULL), MOIRE_OK);
    wait_for(&c, 2, 1);
    atomic_store(&go, true);
    cuda_run_wait(&left, 1);
    cuda_run_wait(&right, 1);
    cuda_run_wait(&middle, 1);
    assert_true(together(find(&c, "left"), find(&c, "right")));
    assert_false(together(find(&c, "left"), find(&c, "middle")));
    assert_false(together(find(&c, "right"), find(&c, "middle")));
    for (int i = 0; i < 3; i++)
        c.ops->let_close(lets[i]);
    cuda_case_end(&c);
}

/* Three lets of the same SMs: while one runs, the other two wait, and the urgent one, who came last, is next.
 */
static void an_urgent_let_goes_first(void **state) {
    (void)state;
    struct cuda_case c;
    begin(&c, &(struct mo_gpu_config){0});
    struct mo_gpu_let *usual = open_let(&c, 0, 4, 1), *least = open_let(&c, 0, 4, 2),
                      *urgent = open_let(&c, 0, 4, 0);
    struct cuda_run holder = {.c = &c, .name = "holder", .compute = hold},
                    behind = {.c = &c, .name = "behind"}, first = {.c = &c, .name = "first"};
    atomic_store(&begun, 0);
    atomic_store(&go, false);
    assert_int_equal(submit(usual, &holder, NULL), MOIRE_OK);
    wait_for(&c, 1, 0);
    assert_int_equal(submit(least, &behind, NULL), MOIRE_OK);
    wait_for(&c, 1, 1);
    assert_int_equal(submit(urgent, &first, NULL), MOIRE_OK);
    wait_for(&c, 1, 2);
    atomic_store(&go, true);
    cuda_run_wait(&holder, 1);
    cuda_run_wait(&behind, 1);
    cuda_run_wait(&first, 1);
    assert_int_equal(find(&c, "first")->priority, -5);
    assert_int_equal(find(&c, "holder")->priority, -2);
    assert_int_equal(find(&c, "behind")->priority, 0);
    assert_true(find(&c, "first")->end <= find(&c, "behind")->begin);
    c.ops->let_close(usual);
    c.ops->let_close(least);
    c.ops->let_close(urgent);
    cuda_case_end(&c);
}

/* The error of a part is the run's answer, and comes after what was queued before it has ended. */
static void a_run_that_fails_half_way_is_answered(void **state) {
    (void)state;
    for (int part = 0; part < 3; part++) {
        struct cuda_case c;
        begin(&c, &(struct mo_gpu_config){0});
        struct mo_gpu_let *let = open_let(&c, 0, 1, 1);
        struct cuda_run bad = {.c = &c, .name = "bad", .sm_ns = 8.0 * 20 * MS, .fail_part = part + 1},
                        good = {.c = &c, .name = "good"};
        assert_int_equal(submit(let, &bad, NULL), MOIRE_OK);
        assert_int_equal(submit(let, &good, NULL), MOIRE_OK);
        cuda_run_wait(&good, 1);
        assert_int_equal(atomic_load(&bad.done), 1);
        assert_int_equal(bad.code, MOIRE_ENOMEM);
        assert_non_null(strstr(bad.message, "does not fit"));
        assert_int_equal(good.code, MOIRE_OK);
        if (part == 2) assert_true(find(&c, "bad")->end <= find(&c, "good")->begin);
        assert_int_equal(c.ops->counters(c.system, 0, NULL, NULL), MOIRE_OK);
        c.ops->let_close(let);
        cuda_case_end(&c);
    }
}

static void once_more(struct cuda_run *run) {
    if (atomic_load(&run->done) < CHAIN - 1) assert_int_equal(submit(run->let, run, NULL), MOIRE_OK);
}

static void a_completion_may_submit(void **state) {
    (void)state;
    struct cuda_case c;
    begin(&c, &(struct mo_gpu_config){.queue = 1});
    struct mo_gpu_let *let = open_let(&c, 0, 1, 1);
    struct cuda_run run = {.c = &c, .name = "chain", .then = once_more};
    assert_int_equal(submit(let, &run, NULL), MOIRE_OK);
    cuda_run_wait(&run, CHAIN);
    c.ops->let_close(let);
    cuda_case_end(&c);
}

/* Close waits for what was accepted. */
static void close_answers_everything(void **state) {
    (void)state;
    struct cuda_case c;
    begin(&c, &(struct mo_gpu_config){.queue = 8});
    struct mo_gpu_let *let = open_let(&c, 0, 1, 1);
    struct cuda_run run = {.c = &c, .name = "last", .sm_ns = 8.0 * 2 * MS};
    for (int i = 0; i < 8; i++)
        assert_int_equal(submit(let, &run, NULL), MOIRE_OK);
    c.ops->let_close(let);
    c.ops->close(c.system);
    c.system = NULL;
    assert_int_equal(atomic_load(&run.done), 8);
    assert_int_equal(run.code, MOIRE_OK);
    cuda_case_end(&c);
}

struct client {
    struct cuda_case *c;
    int first, accepted;
    struct cuda_run run;
};

/* Opens its let anew now and then; what is busy is tried again. */
static void *serve(void *arg) {
    struct client *m = arg;
    struct mo_gpu_let *let = open_let(m->c, m->first, 4, 1);
    m->run = (struct cuda_run){.c = m->c, .name = "client"};
    while (m->accepted < EACH) {
        const int rc = submit(let, &m->run, NULL);
        if (rc == MOIRE_OK && ++m->accepted % 10 == 0) {
            m->c->ops->let_close(let);
            let = open_let(m->c, m->first, 1 + m->accepted / 10 % 4, m->accepted % MO_GPU_PRIORITIES);
        }
        if (rc != MOIRE_OK) m->c->env.sys->sleep_until(m->c->env.sys->self, mo_now(&m->c->env) + 20000);
    }
    m->c->ops->let_close(let);
    return NULL;
}

static void many_threads_lose_nothing(void **state) {
    (void)state;
    struct cuda_case c;
    struct client clients[THREADS] = {0};
    struct mo_thread threads[THREADS];
    begin(&c, &(struct mo_gpu_config){0});
    for (int i = 0; i < THREADS; i++) {
        clients[i] = (struct client){.c = &c, .first = 4 * i};
        assert_int_equal(c.env.sys->thread_start(c.env.sys->self, &threads[i], serve, &clients[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        c.env.sys->thread_join(c.env.sys->self, threads[i]);
        cuda_run_wait(&clients[i].run, EACH);
    }
    c.ops->close(c.system);
    c.system = NULL;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(atomic_load(&clients[i].run.done), EACH);
    cuda_case_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_a_let_are_in_order_and_timed),
        cmocka_unit_test(a_let_takes_no_more_than_its_bound),
        cmocka_unit_test(disjoint_lets_run_side_by_side_and_others_do_not),
        cmocka_unit_test(an_urgent_let_goes_first),
        cmocka_unit_test(a_run_that_fails_half_way_is_answered),
        cmocka_unit_test(a_completion_may_submit),
        cmocka_unit_test(close_answers_everything),
        cmocka_unit_test(many_threads_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
