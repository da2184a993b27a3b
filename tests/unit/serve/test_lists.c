/* SPDX-License-Identifier: Apache-2.0
 * test_lists.c - functions of a server, and steps that run for each item of a list: answers, lists of none,
 * wrong lists, items that fail, cancels at any time, the order in which queries wait for a thread. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "serve/protocol/fault.h"
#include "serve/pipeline/list_step.h"
#include "tests/unit/serve/pipeline_bed.h"

/* --- functions -------------------------------------------------------------------------------------------
 * cut    x [N,4] -> items of 1, 2, 3, 1, 2 ... rows     each  x int64 [N] -> N items of one
 * join   a list of floats -> y [N,4]                    sizes x int64 [N] -> a list whose shapes x says
 * hold   x [N,4] -> y, when the test lets it go */
static atomic_int n_open, n_memory;
static struct {
    sem_t runs, goes;
    atomic_int n;
} held;

static int fn_open(const struct ms_function *fn, const char *path, void **state, moire_error *err) {
    (void)err;
    assert_true((path != NULL) == (fn->file != NULL));
    atomic_fetch_add(&n_open, 1);
    *state = &n_open;
    return MOIRE_OK;
}
static void fn_close(void *state) {
    assert_ptr_equal(state, &n_open);
    atomic_fetch_sub(&n_open, 1);
}
static void fn_release(void *memory) {
    atomic_fetch_sub(&n_memory, 1);
    free(memory);
}
static char *fn_memory(void **memory, size_t bytes) {
    atomic_fetch_add(&n_memory, 1);
    return *memory = calloc(1, bytes + 1);
}

static void put_list(const moire_tensor *in, int64_t n, moire_tensor *out, char *shapes, int rank) {
    out[0] = (moire_tensor){.dtype = in->dtype, .rank = 1, .data = in->data, .bytes = in->bytes};
    out[0].shape[0] = (int64_t)(in->bytes / ms_type_bytes(in->dtype));
    out[1] = (moire_tensor){.dtype = MOIRE_I64, .rank = 2, .shape = {n, rank}, .data = shapes};
    out[1].bytes = (size_t)(n * rank) * sizeof(int64_t);
}

static int run_cut(const struct ms_function *fn, const void *state, const moire_tensor *in, moire_tensor *out,
                   void **memory, moire_error *err) {
    int64_t *shapes = (int64_t *)(void *)fn_memory(memory, 1024), n = 0;
    (void)fn, (void)state, (void)err;
    for (int64_t left = in->shape[0]; left; n++) {
        shapes[2 * n] = n % 3 + 1 < left ? n % 3 + 1 : left;
        shapes[2 * n + 1] = 4;
        left -= shapes[2 * n];
    }
    put_list(in, n, out, *memory, 2);
    return MOIRE_OK;
}

static int run_each(const struct ms_function *fn, const void *state, const moire_tensor *in,
                    moire_tensor *out, void **memory, moire_error *err) {
    int64_t *shapes = (int64_t *)(void *)fn_memory(memory, (size_t)in->shape[0] * sizeof *shapes);
    (void)fn, (void)state, (void)err;
    for (int64_t i = 0; i < in->shape[0]; i++)
        shapes[i] = 1;
    put_list(in, in->shape[0], out, *memory, 1);
    return MOIRE_OK;
}

static int run_join(const struct ms_function *fn, const void *state, const moire_tensor *in,
                    moire_tensor *out, void **memory, moire_error *err) {
    int64_t rows = 0;
    (void)fn, (void)state, (void)err;
    for (int64_t i = 0; i < in[1].shape[0]; i++)
        rows += ((const int64_t *)in[1].data)[2 * i];
    *out = in[0];
    out->data = fn_memory(memory, in[0].bytes);
    if (in[0].bytes) memcpy(out->data, in[0].data, in[0].bytes);
    out->rank = 2;
    out->shape[0] = rows;
    out->shape[1] = 4;
    return rows * 16 == (int64_t)in[0].bytes ? MOIRE_OK : ms_fail(err, MOIRE_ESHAPE, "rows are lost");
}

static int run_sizes(const struct ms_function *fn, const void *state, const moire_tensor *in,
                     moire_tensor *out, void **memory, moire_error *err) {
    (void)fn, (void)state, (void)err;
    char *zeros = fn_memory(memory, 32 + in->bytes);
    memcpy(zeros + 32, in->data, in->bytes);
    const moire_tensor values = {.dtype = MOIRE_I64, .data = zeros, .bytes = 32};
    put_list(&values, in->shape[0], out, zeros + 32, 1);
    return MOIRE_OK;
}

static int run_hold(const struct ms_function *fn, const void *state, const moire_tensor *in,
                    moire_tensor *out, void **memory, moire_error *err) {
    (void)fn, (void)state, (void)err;
    atomic_fetch_add(&held.n, 1);
    sem_post(&held.runs);
    sem_wait(&held.goes);
    *out = *in;
    fn_memory(memory, 0);
    return MOIRE_OK;
}

#define FLOATS(name)                                                                                         \
    {                                                                                                        \
        name, MOIRE_F32, 2, {                                                                                \
            -1, 4                                                                                            \
        }                                                                                                    \
    }
static const moire_port floats[] = {FLOATS("x"), FLOATS("y")};
static const moire_port numbers[] = {{"x", MOIRE_I64, 1, {-1}}};
static const moire_port of_floats[] = {{"items", MOIRE_F32, 1, {-1}}, {"shapes", MOIRE_I64, 2, {-1, 2}}};
static const moire_port of_numbers[] = {{"items", MOIRE_I64, 1, {-1}}, {"shapes", MOIRE_I64, 2, {-1, 1}}};
#define FN(name, in, n_in, out, n_out, run)                                                                  \
    { name, NULL, in, out, n_in, n_out, NULL, fn_open, fn_close, run, fn_release }
static const struct ms_function functions[] = {
    FN("cut", floats, 1, of_floats, 2, run_cut),       FN("each", numbers, 1, of_numbers, 2, run_each),
    FN("join", of_floats, 2, floats + 1, 1, run_join), FN("sizes", numbers, 1, of_numbers, 2, run_sizes),
    FN("hold", floats, 1, floats + 1, 1, run_hold),
};

/* --- pipelines */
#define F32(way, name)       way " { name: \"" name "\" data_type: TYPE_FP32 dims: [ -1, 4 ] }\n"
#define I64(name)            "input { name: \"" name "\" data_type: TYPE_INT64 dims: [ -1 ] }\n"
#define STEP(model, in, out) "step { model_name: \"" model "\" " in " " out " }\n"
#define IN(port, tensor)     "input_map { key: \"" port "\" value: \"" tensor "\" }"
#define OUT(port, tensor)    "output_map { key: \"" port "\" value: \"" tensor "\" }"
#define LIST_IN(port)        IN(port, "a") IN(port ":shapes", "s")
#define LIST_OUT             OUT("o", "b") OUT("o:shapes", "t")
#define CUT(model)           STEP(model, IN("x", "x"), OUT("items", "a") OUT("shapes", "s"))
#define JOIN                 STEP("join", IN("items", "b") IN("shapes", "t"), OUT("y", "y"))
#define OF(ports, steps)     ports F32("output", "y") "ensemble_scheduling {\n" steps "}\n"

/* y = 4 x: for each item a pipeline */
static const char fourfold[] =
    OF(F32("input", "x"), CUT("cut") STEP("four", IN("i", "a") IN("i:shapes", "s"), LIST_OUT) JOIN);
static const char four[] =
    F32("input", "i") F32("output", "o") "ensemble_scheduling {\n" STEP("twice", IN("i", "i"), OUT("o", "t"))
        STEP("twice", IN("i", "t"), OUT("o", "o")) "}\n";
static const char picks[] = OF(I64("x"), CUT("each") STEP("pick", LIST_IN("i"), LIST_OUT) JOIN);
static const char sums[] = OF(
    F32("input", "x"), CUT("cut") STEP("add", LIST_IN("i") IN("j", "a") IN("j:shapes", "s"), LIST_OUT) JOIN);
static const char slows[] = OF(F32("input", "x"), CUT("cut") STEP("slow", LIST_IN("i"), LIST_OUT) JOIN);
static const char wrongs[] = OF(I64("x"), CUT("sizes") STEP("pick", LIST_IN("i"), LIST_OUT) JOIN);

static struct pipeline_bed bed;

static void make(void) {
    static const struct {
        const char *name, *config;
    } ensembles[] = {{"fourfold", fourfold}, {"four", four},   {"picks", picks},
                     {"sums", sums},         {"slows", slows}, {"wrongs", wrongs}};
    pipeline_bed_make(&bed);
    bed.functions = (struct ms_functions){functions, sizeof functions / sizeof *functions};
    for (int i = 0; i < bed.functions.n; i++) {
        char config[200];
        snprintf(
            config, sizeof config,
            "backend: \"moire_host\"\nparameters { key: \"function\" value: { string_value: \"%s\" } }\n",
            functions[i].name);
        pipeline_bed_config(&bed, functions[i].name, config);
    }
    for (size_t i = 0; i < sizeof ensembles / sizeof *ensembles; i++)
        pipeline_bed_ensemble(&bed, ensembles[i].name, ensembles[i].config);
}

static int64_t ended(const char *model, int code) {
    struct ms_model *m;
    assert_int_equal(ms_repository_take(bed.repository, model, NULL, &m, NULL), MOIRE_OK);
    pthread_mutex_lock(&bed.repository->lock);
    const int64_t n = m->tally->ended[-code];
    assert_int_equal(m->tally->pending, 0);
    pthread_mutex_unlock(&bed.repository->lock);
    ms_repository_give(m);
    return n;
}

/* --- tests ---------------------------------------------------------------------------------------------- */
static void test_lists_of_any_length(void **state) {
    (void)state;
    static struct asked a;
    for (int rows = 0; rows <= 16; rows++) { /* up to 9 items: more than are under way at once */
        const float *y = ask(&bed, &a, "fourfold", rows);
        assert_non_null(y);
        assert_int_equal(a.query.output[0].tensor.shape[0], rows);
        for (int i = 0; i < rows * 4; i++)
            assert_true(y[i] == 4 * a.x[i]);
        ask_close(&a);
    }
    assert_int_equal(ended("fourfold", MOIRE_OK), 17);
    assert_int_equal(ended("twice", MOIRE_OK), 2 * ended("four", MOIRE_OK));
    const float *y = ask(&bed, &a, "sums", 5); /* two lists */
    for (int i = 0; i < 20; i++)
        assert_true(y[i] == 2 * a.x[i]);
    ask_close(&a);
    assert_int_equal(ended("add", MOIRE_OK), 3);
}

static void test_the_longest_list(void **state) {
    (void)state;
    static struct asked a;
    static int64_t index[MS_ITEMS + 1];
    for (int i = 0; i <= MS_ITEMS; i++)
        index[i] = i % 8;
    for (int n = MS_ITEMS; n <= MS_ITEMS + 1; n++) {
        ask_begin(&bed, &a, "picks", n, index);
        assert_int_equal(ask_end(&a), n > MS_ITEMS ? MOIRE_ELIMIT : MOIRE_OK);
        if (n > MS_ITEMS) assert_non_null(strstr(a.query.error.message, "has 1025 items, more than 1024"));
        const float *y = n > MS_ITEMS ? NULL : a.query.output[0].tensor.data;
        for (int i = 0; y && i < n; i++)
            assert_true(y[4 * i] == (float)(4 * index[i]));
        ask_close(&a);
    }
}

static void test_an_item_that_fails(void **state) {
    (void)state;
    static struct asked a;
    int64_t index[16] = {0};
    for (int i = 0; i < 16; i++) {
        index[i] = 99;
        ask_begin(&bed, &a, "picks", 16, index);
        assert_int_equal(ask_end(&a), MOIRE_EFAILED);
        char text[60];
        snprintf(text, sizeof text, "step 1: item %d of 16: model 'pick'", i);
        assert_non_null(strstr(a.query.error.message, text));
        ask_close(&a);
        index[i] = 7;
    }
    assert_int_equal(ended("pick", MOIRE_EFAILED), 16);
}

static void test_wrong_lists(void **state) {
    (void)state;
    static struct asked a;
    static const struct {
        int n;
        int64_t size[4];
        const char *text;
    } cases[] = {{1, {5}, "the shape of item 0 does not fit"},
                 {2, {4, 1}, "the shape of item 1 does not fit"},
                 {2, {1, -1}, "the shape of item 1 does not fit"},
                 {1, {INT64_MAX}, "the shape of item 0 does not fit"},
                 {2, {1, INT64_MIN}, "the shape of item 1 does not fit"},
                 {1, {3}, "8 bytes behind the last item"},
                 {0, {0}, "32 bytes behind the last item"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask_begin(&bed, &a, "wrongs", cases[i].n, cases[i].size);
        assert_int_equal(ask_end(&a), MOIRE_ESHAPE);
        assert_non_null(strstr(a.query.error.message, cases[i].text));
        ask_close(&a);
    }
    ask_begin(&bed, &a, "wrongs", 4, (const int64_t[]){1, 1, 1, 1});
    assert_int_equal(ask_end(&a), MOIRE_OK);
    ask_close(&a);
}

struct canceller {
    struct asked asked[6];
    unsigned seed;
    int wrong;
};

static void *cancel_some(void *user) {
    static const char *const models[] = {"slows", "fourfold", "sums"};
    struct canceller *c = user;
    for (int round = 0; round < 25; round++) {
        for (int i = 0; i < 6; i++) {
            if (rand_r(&c->seed) % 4 == 0) c->asked[i].query.request.timeout_us = 1 + rand_r(&c->seed) % 5000;
            ask_begin(&bed, &c->asked[i], models[i % 3], rand_r(&c->seed) % 16, NULL);
        }
        for (int i = 0; i < 6; i++)
            if (rand_r(&c->seed) % 3) {
                usleep((unsigned)rand_r(&c->seed) % 500);
                ms_query_cancel(&c->asked[i].query);
            }
        for (int i = 0; i < 6; i++) {
            const int code = ask_end(&c->asked[i]);
            c->wrong += code != MOIRE_OK && code != MOIRE_ECANCELLED && code != MOIRE_EEXPIRED;
            const moire_tensor *y = code ? NULL : &c->asked[i].query.output[0].tensor;
            if (y && i % 3 == 1 && y->shape[0]) c->wrong += ((const float *)y->data)[0] != 4;
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
    assert_true(ended("slows", MOIRE_ECANCELLED) > 0 && ended("slows", MOIRE_OK) > 0);
    ended("slow", MOIRE_OK); /* nothing of it is left */
}

/* One thread: what waits goes by its target, what is cancelled or late does not run. */
static void test_the_line_for_a_thread(void **state) {
    (void)state;
    static struct asked a[6];
    static const int64_t timeout_us[] = {0, 0, 3600000000, 1800000000, 1, 900000000};
    for (int i = 0; i < 6; i++) {
        a[i].query.request.timeout_us = timeout_us[i];
        ask_begin(&bed, &a[i], "hold", 1, NULL);
        if (!i) sem_wait(&held.runs);
    }
    ms_query_cancel(&a[5].query);
    usleep(2000); /* more than a[4] may wait */
    sem_post(&held.goes);
    assert_int_equal(ask_end(&a[0]), MOIRE_OK);
    assert_int_equal(ask_end(&a[5]), MOIRE_ECANCELLED);
    assert_int_equal(ask_end(&a[4]), MOIRE_EEXPIRED);
    for (int i = 3; i >= 1; i--) {
        sem_wait(&held.runs);
        sem_post(&held.goes);
        assert_int_equal(ask_end(&a[i]), MOIRE_OK);
    }
    assert_int_equal(atomic_load(&held.n), 4);
    for (int i = 0; i < 6; i++)
        ask_close(&a[i]);
    assert_int_equal(ended("hold", MOIRE_OK), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_any_length), cmocka_unit_test(test_the_longest_list),
        cmocka_unit_test(test_an_item_that_fails),  cmocka_unit_test(test_wrong_lists),
        cmocka_unit_test(test_cancels_at_any_time), cmocka_unit_test(test_the_line_for_a_thread),
    };
    sem_init(&held.runs, 0, 0);
    sem_init(&held.goes, 0, 0);
    make();
    pipeline_bed_start(&bed, false);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    pipeline_bed_stop(&bed);
    if (atomic_load(&n_open) || atomic_load(&n_memory)) {
        print_message("functions are open: %d, memory is kept: %d\n", atomic_load(&n_open),
                      atomic_load(&n_memory));
        rc = 1;
    }
    return rc;
}
