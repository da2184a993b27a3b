/* SPDX-License-Identifier: Apache-2.0
 * test_callers.c - threads in moire_run() compute small models themselves: every result is theirs, beside
 * queries of other threads, and no callback of those runs on a thread that waits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/unit/codegen/onnx_build.h"
#include "tests/unit/sched/serve_bed.h"

enum { CALLERS = 3, RUNS = 3000, WIDTH = 64 };

struct callers {
    moire_runtime *runtime;
    moire_tenant *tenant;
    pthread_t thread[CALLERS];
    _Atomic int running, wrong, foreign, answers;
};

struct caller {
    struct callers *all;
    int number;
};

static moire_tensor row(float *x) {
    return (moire_tensor){
        .dtype = MOIRE_F32, .rank = 2, .shape = {1, WIDTH}, .data = x, .bytes = WIDTH * sizeof *x};
}

/* y = x + x: small enough for a caller of any build. */
static void load(struct callers *c) {
    char path[600];
    moire_tenant_config config;
    moire_tenant_config_init(&config);
    config.queue = 64;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,64");
    ob_node(b, "Add", "x x", "y");
    ob_output(b, "y");
    serve_save(b, "twice.onnx", path, sizeof path);
    assert_int_equal(moire_load(c->runtime, path, &config, &c->tenant, NULL), MOIRE_OK);
    unlink(path);
    ob_destroy(b);
}

static void *call(void *arg) {
    struct caller *me = arg;
    struct callers *c = me->all;
    float x[WIDTH], y[WIDTH];
    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < WIDTH; i++)
            x[i] = (float)(me->number * RUNS + run + i);
        moire_tensor in = row(x), out = row(y);
        if (moire_run(c->tenant, &in, 1, &out, 1, NULL)) atomic_fetch_add(&c->wrong, 1);
        for (int i = 0; i < WIDTH; i++)
            if (y[i] != 2 * x[i]) atomic_fetch_add(&c->wrong, 1);
    }
    atomic_fetch_sub(&c->running, 1);
    return NULL;
}

static void note(void *user, const moire_answer *answer) {
    struct callers *c = user;
    for (int i = 0; i < CALLERS; i++)
        if (pthread_equal(pthread_self(), c->thread[i])) atomic_fetch_add(&c->foreign, 1);
    if (answer->code && answer->code != MOIRE_ECANCELLED) atomic_fetch_add(&c->wrong, 1);
    atomic_fetch_add(&c->answers, 1);
}

static void callers_and_others(int threads) {
    struct callers c = {.running = CALLERS};
    struct caller caller[CALLERS];
    moire_config config = serve_config();
    float x[WIDTH] = {0};
    moire_tensor in = row(x);
    int accepted = 0;
    config.threads = threads;
    c.runtime = serve_start(&config);
    load(&c);
    for (int i = 0; i < CALLERS; i++) {
        caller[i] = (struct caller){&c, i};
        assert_int_equal(pthread_create(&c.thread[i], NULL, call, &caller[i]), 0);
    }
    while (atomic_load(&c.running) > 0) {
        moire_query query = 0;
        if (moire_submit(c.tenant, &in, 1, 0, note, &c, &query, NULL) == MOIRE_OK) accepted++;
        if (accepted % 2) moire_cancel(c.runtime, query); /* answered by whoever comes first */
        while (accepted - atomic_load(&c.answers) > 4)
            usleep(20);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(c.thread[i], NULL);
    assert_int_equal(moire_drain(c.runtime), MOIRE_OK);
    assert_int_equal(atomic_load(&c.wrong), 0);
    assert_int_equal(atomic_load(&c.foreign), 0);
    assert_int_equal(atomic_load(&c.answers), accepted);
    assert_true(accepted > 0);
    moire_runtime_destroy(c.runtime, 1);
}

static void callers_compute_their_own_queries(void **state) {
    (void)state;
    callers_and_others(1);
    callers_and_others(2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_compute_their_own_queries),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
