/* SPDX-License-Identifier: Apache-2.0
 * test_pipeline.c - queries of ensembles: answers, failures, deadlines, bounds, cancels, loads and unloads.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/unit/serve/pipeline_bed.h"

#define F32(way, name)       way " { name: \"" name "\" data_type: TYPE_FP32 dims: [ -1, 4 ] }\n"
#define STEP(model, in, out) "step { model_name: \"" model "\" " in " " out " }\n"
#define IN(port, tensor)     "input_map { key: \"" port "\" value: \"" tensor "\" }"
#define OUT(port, tensor)    "output_map { key: \"" port "\" value: \"" tensor "\" }"

/* y = 4 x + 2 (2 x) = 8 x: both branches of t begin at once */
static const char diamond[] = F32("input", "x")
    F32("output", "y") "ensemble_scheduling {\n" STEP("add", IN("i", "u") IN("j", "v"), OUT("o", "y"))
        STEP("twice", IN("i", "t"), OUT("o", "u")) STEP("twice", IN("i", "t"), OUT("o", "v"))
            STEP("twice", IN("i", "x"), OUT("o", "t")) "}\n";
/* the diamond within */
static const char outer[] = F32("input", "x") F32("output", "z")
    F32("output", "s") "ensemble_scheduling {\n" STEP("diamond", IN("x", "x"), OUT("y", "s"))
        STEP("add", IN("i", "s") IN("j", "s"), OUT("o", "z")) "}\n";
/* two steps that take long beside one that fails or not */
#define BRANCHES                                                                                             \
    STEP("pick", IN("i", "x"), OUT("o", "t"))                                                                \
    STEP("slow", IN("i", "t"), OUT("o", "u"))                                                                \
    STEP("slow", IN("i", "u"), OUT("o", "w"))                                                                \
    STEP("pick", IN("i", "k"), OUT("o", "v"))
static const char branches[] =
    "input { name: \"x\" data_type: TYPE_INT64 dims: [ -1 ] }\n"
    "input { name: \"k\" data_type: TYPE_INT64 dims: [ -1 ] }\n" F32("output", "w") F32(
        "output",
        "v") "ensemble_scheduling { max_inflight_requests: 2\n" BRANCHES "}\n"
             "dynamic_batching { default_queue_policy { max_queue_size: 3 allow_timeout_override: true } }\n";
static const char chain[] = F32("input", "x")
    F32("output", "y") "ensemble_scheduling { max_inflight_requests: 1\n" STEP("slow", IN("i", "x"),
                                                                               OUT("o", "t"))
        STEP("slow", IN("i", "t"), OUT("o", "y")) "}\n"
                                                  "dynamic_batching { default_queue_policy { max_queue_size: "
                                                  "3 allow_timeout_override: true } }\n";

/* one that takes long, within */
static const char deep[] =
    F32("input", "x") F32("output", "y") "ensemble_scheduling {\n" STEP("chain", IN("x", "x"), OUT("y", "t"))
        STEP("twice", IN("i", "t"), OUT("o", "y")) "}\n";

static struct pipeline_bed bed;

static int make(void **state) {
    (void)state;
    pipeline_bed_make(&bed);
    pipeline_bed_ensemble(&bed, "diamond", diamond);
    pipeline_bed_ensemble(&bed, "a-outer", outer); /* before what it needs, by name */
    pipeline_bed_ensemble(&bed, "branches", branches);
    pipeline_bed_ensemble(&bed, "chain", chain);
    pipeline_bed_ensemble(&bed, "deep", deep);
    return 0;
}

static struct ms_tally tally(const char *model) {
    struct ms_model *m;
    assert_int_equal(ms_repository_take(bed.repository, model, NULL, &m, NULL), MOIRE_OK);
    pthread_mutex_lock(&bed.repository->lock);
    const struct ms_tally t = *m->tally;
    pthread_mutex_unlock(&bed.repository->lock);
    ms_repository_give(m);
    return t;
}

static void test_answers(void **state) {
    (void)state;
    static struct asked a;
    for (int rows = 1; rows <= 3; rows++) {
        const float *y = ask(&bed, &a, "diamond", rows);
        assert_non_null(y);
        for (int i = 0; i < rows * 4; i++)
            assert_true(y[i] == 8 * a.x[i]);
        ask_close(&a);
    }
    const float *z = ask(&bed, &a, "a-outer", 2);
    assert_non_null(z);
    assert_int_equal(a.query.n_outputs, 2);
    assert_string_equal(a.query.output[1].name, "s");
    const float *s = a.query.output[1].tensor.data;
    for (int i = 0; i < 8; i++)
        assert_true(z[i] == 16 * a.x[i] && s[i] == 8 * a.x[i]);
    ask_close(&a);
    /* one of the outputs */
    a.query.request.n_outputs = 1;
    a.query.request.output[0] = (struct ms_wanted){.name = "s", .binary = true};
    s = ask(&bed, &a, "a-outer", 1);
    assert_non_null(s);
    assert_true(a.query.n_outputs == 1 && s[3] == 32);
    ask_close(&a);
    /* queries of steps count, and so do those of the whole */
    assert_int_equal(tally("diamond").ended[0], 5);
    assert_int_equal(tally("twice").ended[0], 15);
    assert_int_equal(tally("add").ended[0], 7);
    assert_int_equal(tally("a-outer").ended[0], 2);
    assert_int_equal(tally("a-outer").pending + tally("diamond").pending + tally("twice").pending, 0);
    assert_true(tally("diamond").compute.sum_ns > 0 && tally("diamond").request.count == 5);
}

/* A second input for "branches". */
static void give_second(struct asked *a, const int64_t *k) {
    a->query.request.n_inputs = 2;
    a->query.request.input[1] = (struct ms_input){
        .name = "k",
        .tensor = {.dtype = MOIRE_I64, .rank = 1, .shape = {1}, .data = (void *)(uintptr_t)k, .bytes = 8}};
}

static const int64_t good[] = {3}, bad[] = {99};
static void begin_branches(struct asked *a, const int64_t *k) {
    moire_error err = {0};
    atomic_store(&a->answers, 0);
    struct ms_query *q = &a->query;
    assert_int_equal(ms_repository_take(bed.repository, "branches", NULL, &q->model, &err), MOIRE_OK);
    give_second(a, k);
    q->request.input[0] = q->request.input[1];
    q->request.input[0].name = "x";
    q->request.input[0].tensor.data = (void *)(uintptr_t)good;
}

static void count_answer(void *user) {
    struct asked *a = user;
    atomic_fetch_add(&a->answers, 1);
}

static void test_a_failed_step_ends_the_whole(void **state) {
    (void)state;
    static struct asked a;
    for (int i = 0; i < 20; i++) {
        begin_branches(&a, i % 2 ? bad : good);
        a.query.done = count_answer;
        a.query.user = &a;
        ms_query_start(&a.query);
        assert_int_equal(ask_end(&a), i % 2 ? MOIRE_EFAILED : MOIRE_OK);
        if (i % 2)
            assert_non_null(strstr(a.query.error.message, "ensemble 'branches', step 3: model 'pick'"));
        ask_close(&a);
    }
    assert_int_equal(tally("branches").ended[0], 10);
    assert_int_equal(tally("branches").ended[-MOIRE_EFAILED], 10);
    /* the other branch was cancelled, or had not begun, or was done */
    assert_int_equal(tally("slow").pending, 0);
    assert_true(tally("slow").ended[0] < 40);
    assert_int_equal(tally("slow").ended[-MOIRE_EFAILED], 0);
}

/* Of three in a chain of one at a time, the second expires while it waits and the third takes its turn. */
static void test_bounds_and_deadlines(void **state) {
    (void)state;
    static struct asked a[6];
    for (int i = 0; i < 5; i++) { /* one runs, three wait */
        a[i].query.request.timeout_us = i == 2 ? 1 : i == 1 ? INT64_C(3600000000) : 0;
        ask_begin(&bed, &a[i], "chain", 1, NULL);
    }
    assert_int_equal(ask_end(&a[2]), MOIRE_EEXPIRED);
    int busy = 0, ok = 0;
    for (int i = 0; i < 5; i++) {
        const int code = ask_end(&a[i]);
        busy += code == MOIRE_EBUSY;
        ok += code == MOIRE_OK;
        ask_close(&a[i]);
    }
    assert_true(ok == 4 - busy && busy <= 1);
    /* one that runs ends at its deadline, too */
    a[5].query.request.timeout_us = 500;
    ask_begin(&bed, &a[5], "chain", 1, NULL);
    assert_int_equal(ask_end(&a[5]), MOIRE_EEXPIRED);
    ask_close(&a[5]);
    assert_int_equal(tally("chain").pending, 0);
}

struct canceller {
    struct asked asked[8];
    unsigned seed;
    int wrong;
};

static void *cancel_some(void *user) {
    struct canceller *c = user;
    for (int round = 0; round < 25; round++) {
        static const char *const models[] = {"diamond", "chain", "deep", "a-outer"};
        for (int i = 0; i < 8; i++) {
            if (rand_r(&c->seed) % 4 == 0) c->asked[i].query.request.timeout_us = 1 + rand_r(&c->seed) % 3000;
            ask_begin(&bed, &c->asked[i], models[i % 4], 1, NULL);
        }
        for (int i = 0; i < 8; i++) {
            if (rand_r(&c->seed) % 3) {
                usleep((unsigned)rand_r(&c->seed) % 300);
                ms_query_cancel(&c->asked[i].query);
            }
        }
        for (int i = 0; i < 8; i++) {
            const int code = ask_end(&c->asked[i]);
            c->wrong +=
                code != MOIRE_OK && code != MOIRE_ECANCELLED && code != MOIRE_EBUSY && code != MOIRE_EEXPIRED;
            if (!code && i % 4 == 0)
                c->wrong += ((const float *)c->asked[i].query.output[0].tensor.data)[0] != 8;
            ask_close(&c->asked[i]);
        }
    }
    return NULL;
}

static void test_cancels_at_any_time(void **state) {
    (void)state;
    static struct canceller c[3];
    pthread_t thread[3];
    for (unsigned i = 0; i < 3; i++) {
        c[i].seed = i + 1;
        assert_int_equal(pthread_create(&thread[i], NULL, cancel_some, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(c[i].wrong, 0);
    }
    assert_true(tally("chain").ended[-MOIRE_ECANCELLED] > 0);
    assert_int_equal(tally("chain").pending + tally("slow").pending, 0);
}

static enum ms_state state_of(const char *model, char reason[500]) {
    struct ms_model *m;
    if (ms_repository_take(bed.repository, model, NULL, &m, NULL)) return MS_UNAVAILABLE;
    pthread_mutex_lock(&bed.repository->lock);
    const enum ms_state s = m->state;
    memcpy(reason, m->reason, 500);
    pthread_mutex_unlock(&bed.repository->lock);
    ms_repository_give(m);
    return s;
}

/* What runs is answered by the models that it began with. */
static void test_unload_in_the_middle(void **state) {
    (void)state;
    static struct asked a[3];
    char reason[500];
    struct ms_model *m;
    pipeline_bed_stop(&bed);
    make(state);
    pipeline_bed_start(&bed, true);
    assert_int_equal(state_of("diamond", reason), MS_UNAVAILABLE);
    assert_int_equal(ask_job(&bed, ms_repository_load, "a-outer"), MOIRE_OK); /* brings what it needs */
    assert_int_equal(state_of("diamond", reason), MS_READY);
    assert_int_equal(state_of("twice", reason), MS_READY);
    assert_int_equal(ask_job(&bed, ms_repository_load, "chain"), MOIRE_OK);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 3; i++)
            ask_begin(&bed, &a[i], i ? "chain" : "diamond", 1, NULL);
        assert_int_equal(ask_job(&bed, ms_repository_unload, "slow"), MOIRE_OK);
        assert_int_equal(state_of("chain", reason), MS_UNAVAILABLE);
        assert_string_equal(reason, "model 'slow' of step 0 is not loaded");
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ask_end(&a[i]), MOIRE_OK);
            ask_close(&a[i]);
        }
        ask_begin(&bed, &a[0], "chain", 1, NULL);
        assert_int_equal(ask_end(&a[0]), MOIRE_EUNLOADED);
        ask_close(&a[0]);
        assert_int_equal(ask_job(&bed, ms_repository_load, "slow"), MOIRE_OK);
        assert_int_equal(state_of("chain", reason), MS_READY);
    }
    /* a model that was replaced is used at once, and the old one goes */
    assert_int_equal(ask_job(&bed, ms_repository_load, "twice"), MOIRE_OK);
    assert_int_equal(state_of("a-outer", reason), MS_READY);
    pthread_mutex_lock(&bed.repository->lock);
    assert_null(bed.repository->retired);
    pthread_mutex_unlock(&bed.repository->lock);
    assert_int_equal(ask_job(&bed, ms_repository_unload_all, "a-outer"), MOIRE_OK);
    assert_int_equal(ms_repository_take(bed.repository, "twice", NULL, &m, NULL), MOIRE_ESTALE);
    assert_int_equal(ms_repository_take(bed.repository, "diamond", NULL, &m, NULL), MOIRE_ESTALE);
    assert_int_equal(state_of("chain", reason), MS_READY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_a_failed_step_ends_the_whole),
        cmocka_unit_test(test_bounds_and_deadlines),
        cmocka_unit_test(test_cancels_at_any_time),
        cmocka_unit_test(test_unload_in_the_middle),
    };
    make(NULL);
    pipeline_bed_start(&bed, false);
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    pipeline_bed_stop(&bed);
    return rc;
}
