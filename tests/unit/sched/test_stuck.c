/* SPDX-License-Identifier: Apache-2.0
 * test_stuck.c - a worker that does not come back: its tenant says so, and the log, and both say when it has.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/unit/sched/serve_bed.h"

/* --- the log -------------------------------------------------------------------------------------------- */
/* Lines that say a tenant is stuck, or goes on; and of the last of each, its text. */
struct heard {
    _Atomic int stuck, on;
    char first[400], last[400];
};

static void hear(void *user, int level, const char *line) {
    struct heard *h = user;
    if (strstr(line, "is stuck")) {
        assert_int_equal(level, MOIRE_LOG_ERROR);
        snprintf(h->first, sizeof h->first, "%s", line);
        atomic_fetch_add(&h->stuck, 1);
    }
    if (strstr(line, "goes on")) {
        snprintf(h->last, sizeof h->last, "%s", line);
        atomic_fetch_add(&h->on, 1);
    }
}

static struct serve_bed *open_heard(struct heard *heard, bool lent) {
    static struct serve_bed b;
    moire_config c = serve_config();
    c.log = hear;
    c.log_user = heard;
    c.lend_workers = lent;
    b = (struct serve_bed){.runtime = serve_start(&c)};
    b.input = serve_input(b.pixels);
    return &b;
}

/* The row of a tenant; kind 0: there is none. */
static moire_stuck_row row_of(moire_runtime *runtime, moire_tenant *tenant, int *left) {
    moire_stuck_row rows[8];
    int n = -1;
    assert_int_equal(moire_stuck(runtime, rows, 8, &n, left, NULL), MOIRE_OK);
    assert_in_range(n, 0, 8);
    for (int i = 0; i < n; i++)
        if (rows[i].tenant == moire_tenant_id(tenant)) return rows[i];
    return (moire_stuck_row){0};
}

static moire_stuck_row await(moire_runtime *runtime, moire_tenant *tenant, int kind, int left) {
    int cores = -1;
    moire_stuck_row row = row_of(runtime, tenant, &cores);
    while (row.kind != kind) {
        usleep(1000);
        row = row_of(runtime, tenant, &cores);
    }
    assert_int_equal(cores, left);
    return row;
}

static void await_line(const _Atomic int *n, int wanted) {
    while (atomic_load(n) < wanted)
        usleep(1000);
}

/* --- a callback that does not return -------------------------------------------------------------------- */
static void a_callback_that_does_not_return(void **state) {
    (void)state;
    struct heard heard = {0};
    struct serve_back back = {0};
    struct serve_bed *b = open_heard(&heard, false);
    b->tenant = serve_load(b->runtime, "keeps", 0, 0);
    moire_tenant *other = serve_load(b->runtime, "waits", 0, 0);
    await(b->runtime, b->tenant, 0, 1);
    serve_hold(b);
    moire_stuck_row row = await(b->runtime, b->tenant, MOIRE_STUCK_CALLBACK, 0);
    assert_true(row.overdue_ns >= 500000000 && row.unit == 0 && row.end_layer == 0);
    assert_int_equal(row_of(b->runtime, other, NULL).kind, 0);
    await_line(&heard.stuck, 1);
    assert_non_null(strstr(heard.first, "tenant 'keeps' is stuck: its callback"));
    /* what gets that core does not run: it is stuck, too */
    assert_int_equal(moire_submit(other, &b->input, 1, 0, serve_note, &back, NULL, NULL), MOIRE_OK);
    row = await(b->runtime, other, MOIRE_STUCK_BLOCK, 0);
    assert_int_equal(row.first_layer, 0);
    assert_in_range(row.end_layer, 1, serve_stats(other).layers);
    await_line(&heard.stuck, 2);
    assert_non_null(strstr(heard.first, "tenant 'waits' is stuck: its layers 0 to "));
    atomic_store(&b->go, 1);
    serve_await(&back);
    assert_int_equal(back.code, MOIRE_OK);
    await(b->runtime, other, 0, 1);
    await(b->runtime, b->tenant, 0, 1);
    await_line(&heard.on, 2);
    moire_runtime_stats all = {.size = sizeof all};
    assert_int_equal(moire_runtime_get_stats(b->runtime, &all, NULL), MOIRE_OK);
    assert_int_equal(all.stucks, 2);
    moire_runtime_destroy(b->runtime, 1);
    assert_true(heard.stuck == 2 && heard.on == 2);
}

/* --- a worker that stands still ------------------------------------------------------------------------- */
struct guest {
    moire_runtime *runtime;
    _Atomic pid_t tid;
};

static void *work(void *ctx) {
    struct guest *g = ctx;
    atomic_store(&g->tid, (pid_t)syscall(SYS_gettid));
    assert_int_equal(moire_work(g->runtime, 0), MOIRE_OK);
    return NULL;
}

/* A process that stops the thread, tells so, and lets it go when it is told.  false: it may not. */
static void stop_thread(pid_t tid, int told, int tells) {
    char c = 'y';
    int status;
    if (read(told, &c, 1) != 1) _exit(1);
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL)) c = 'n';
    if (c != 'n' && waitpid(tid, &status, __WALL) != tid) c = 'n';
    if (write(tells, &c, 1) != 1 || read(told, &c, 1) != 1) _exit(1);
    _exit(0); /* which detaches: it goes on */
}

static void a_worker_that_stands_still(void **state) {
    (void)state;
    struct heard heard = {0};
    struct serve_back back[2] = {{0}};
    struct serve_bed *b = open_heard(&heard, true);
    struct guest guest = {.runtime = b->runtime};
    pthread_t thread;
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    char c = 'y';
    assert_int_equal(pthread_create(&thread, NULL, work, &guest), 0);
    b->tenant = serve_load(b->runtime, "stands", 0, 0);
    assert_int_equal(serve_ask(b, NULL, &back[0]), MOIRE_OK);
    serve_await(&back[0]);
    moire_drain(b->runtime);
    usleep(20000); /* the worker waits for its next job, and holds no lock */
    assert_true(!pipe(to) && !pipe(from));
    const pid_t tracer = fork();
    if (!tracer) stop_thread(guest.tid, to[0], from[1]);
    prctl(PR_SET_PTRACER, tracer);
    assert_true(write(to[1], &c, 1) == 1 && read(from[0], &c, 1) == 1);
    if (c == 'y') {
        assert_int_equal(serve_ask(b, NULL, &back[1]), MOIRE_OK);
        const moire_stuck_row row = await(b->runtime, b->tenant, MOIRE_STUCK_BLOCK, 0);
        assert_true(row.unit == 0 && row.first_layer == 0);
        await_line(&heard.stuck, 1);
        assert_int_equal(back[1].answers, 0);
    }
    assert_int_equal(write(to[1], &c, 1), 1);
    waitpid(tracer, NULL, 0);
    if (c == 'y') {
        serve_await(&back[1]);
        await(b->runtime, b->tenant, 0, 1);
        await_line(&heard.on, 1);
    } else {
        print_message("threads must not be traced here: skipped\n");
    }
    moire_runtime_destroy(b->runtime, 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        assert_true(!close(to[i]) && !close(from[i]));
    if (c != 'y') skip();
}

static void arguments_are_checked(void **state) {
    (void)state;
    struct serve_bed b;
    moire_stuck_row row;
    int n, left;
    serve_open(&b, 0, 0);
    assert_int_equal(moire_stuck(NULL, &row, 1, &n, &left, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_stuck(b.runtime, &row, 1, NULL, &left, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_stuck(b.runtime, NULL, 1, &n, &left, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_stuck(b.runtime, &row, -1, &n, &left, NULL), MOIRE_EINVAL);
    assert_int_equal(moire_stuck(b.runtime, NULL, 0, &n, NULL, NULL), MOIRE_OK);
    assert_int_equal(n, 0);
    moire_runtime_destroy(b.runtime, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_that_does_not_return),
        cmocka_unit_test(a_worker_that_stands_still),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
