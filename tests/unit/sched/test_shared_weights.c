/* SPDX-License-Identifier: Apache-2.0
 * test_shared_weights.c - tenants of one file at several shapes share its weights and answer as if each were
 * alone, however they come and go. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "moire.h"
#include "tests/unit/codegen/onnx_build.h"

enum { MOST = 1 << 16, OUTPUTS = 4, PATH = 300 };
static char folder[] = "/tmp/moire-shared-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    char command[PATH];
    for (const char *const *name = (const char *const[]){"text", "image", "odd", "voice", NULL}; *name;
         name++) {
        snprintf(command, sizeof command, "%s/%s.onnx", folder, *name);
        unlink(command);
    }
    return rmdir(folder);
}

static const char *write_model(struct ob *b, const char *name, char path[PATH]) {
    snprintf(path, PATH, "%s/%s.onnx", folder, name);
    unlink(path);
    assert_true(ob_save(b, path));
    ob_destroy(b);
    return path;
}

/* Rows of 64 numbers, one a word: three products of one tensor, one behind a Gemm, an added table. */
static const char *text_model(char path[PATH], uint64_t seed) {
    struct ob *b = ob_create(17);
    b->seed = seed;
    ob_input(b, "x", MOIRE_F32, "batch,words,64");
    for (const char *const *w = (const char *const[]){"wq", "wk", "wv", "wo", NULL}; *w; w++)
        ob_random(b, *w, "64,64");
    ob_random(b, "bias", "64");
    ob_random(b, "table", "1,1,64");
    ob_node(b, "Add", "x table", "x1");
    ob_node(b, "MatMul", "x1 wq", "q");
    ob_node(b, "MatMul", "x1 wk", "k");
    ob_node(b, "MatMul", "x1 wv", "v");
    ob_node(b, "Transpose", "k", "kt");
    ob_ints(b, "perm", "0,2,1");
    ob_node(b, "MatMul", "q kt", "scores");
    ob_node(b, "Softmax", "scores", "p");
    ob_int(b, "axis", -1);
    ob_node(b, "MatMul", "p v", "mixed");
    ob_node(b, "MatMul", "mixed wo", "y0");
    ob_node(b, "Add", "y0 bias", "y1");
    ob_node(b, "Relu", "y1", "y");
    ob_output(b, "y");
    return write_model(b, "text", path);
}

/* Any number of steps in both directions, then in one with a gate behind its product. */
static const char *voice_model(char path[PATH]) {
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_F32, "steps,batch,64");
    ob_random(b, "w", "2,128,64");
    ob_random(b, "r", "2,128,32");
    ob_random(b, "bias", "2,256");
    ob_random(b, "w2", "1,96,64");
    ob_random(b, "r2", "1,96,32");
    ob_int64s(b, "flat", "0,0,64");
    ob_node(b, "LSTM", "x w r bias", "h");
    ob_string(b, "direction", "bidirectional");
    ob_int(b, "hidden_size", 32);
    ob_node(b, "Transpose", "h", "h1");
    ob_ints(b, "perm", "0,2,1,3");
    ob_node(b, "Reshape", "h1 flat", "h2");
    ob_node(b, "GRU", "h2 w2 r2", "y");
    ob_int(b, "hidden_size", 32);
    ob_int(b, "linear_before_reset", 1);
    ob_output(b, "y");
    return write_model(b, "voice", path);
}

/* An image of any size: convolutions with a batch norm between, whose best kernels change with the size. */
static const char *image_model(char path[PATH]) {
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_F32, "batch,3,H,W");
    ob_random(b, "w1", "32,3,3,3");
    ob_random(b, "w2", "64,32,3,3");
    ob_random(b, "w3", "64,64,1,1");
    for (const char *const *w = (const char *const[]){"scale", "shift", "mean", NULL}; *w; w++)
        ob_random(b, *w, "64");
    float variance[64];
    for (int i = 0; i < 64; i++)
        variance[i] = 1 + (float)i / 64;
    ob_floats(b, "variance", "64", variance);
    ob_node(b, "Conv", "x w1", "a");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Relu", "a", "a1");
    ob_node(b, "Conv", "a1 w2", "c");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "BatchNormalization", "c scale shift mean variance", "n");
    ob_node(b, "Relu", "n", "n1");
    ob_node(b, "Conv", "n1 w3", "d");
    ob_node(b, "GlobalAveragePool", "d", "y");
    ob_output(b, "y");
    return write_model(b, "image", path);
}

/* A product of two constants, one of them a weight elsewhere: no plan can do without its contents. */
static const char *odd_model(char path[PATH]) {
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_F32, "rows,64");
    ob_random(b, "w", "64,64");
    ob_random(b, "c", "2,64");
    ob_node(b, "MatMul", "c w", "cw");
    ob_node(b, "ReduceSum", "cw", "sum");
    ob_int(b, "keepdims", 0);
    ob_node(b, "MatMul", "x w", "xw");
    ob_node(b, "Add", "xw sum", "y");
    ob_output(b, "y");
    return write_model(b, "odd", path);
}

/* --- running -------------------------------------------------------------------------------------------- */
static moire_runtime *start(void) {
    moire_config c;
    moire_config_init(&c);
    c.generic_only = 1;
    c.threads = 2;
    moire_runtime *rt = NULL;
    assert_int_equal(moire_runtime_create(&c, &rt, NULL), MOIRE_OK);
    return rt;
}

static moire_shape shape_of(int rank, const int64_t *d) {
    moire_shape s = {.input = "x", .rank = rank};
    memcpy(s.shape, d, (size_t)rank * sizeof *d);
    return s;
}

/* By vectors: a matrix unit is for layers of much work, so that kernels would differ with the shape. */
static enum moire_precision precision = MOIRE_PRECISION_FP32;

static moire_tenant *load(moire_runtime *rt, const char *path, const moire_shape *shape, int at_once) {
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.precision = precision;
    c.shapes = shape;
    c.n_shapes = 1;
    c.at_once = at_once;
    moire_tenant *t = NULL;
    moire_error err = {0};
    if (moire_load(rt, path, &c, &t, &err)) fail_msg("%s", err.message);
    return t;
}

/* The answer to numbers that follow from the place. */
static size_t answer(moire_tenant *t, float *out) {
    static _Thread_local float in[MOST];
    moire_port port;
    size_t n = 1;
    assert_int_equal(moire_input(t, 0, &port), MOIRE_OK);
    moire_tensor x = {.dtype = MOIRE_F32, .rank = port.rank, .data = in};
    for (int i = 0; i < port.rank; i++)
        n *= (size_t)(x.shape[i] = port.shape[i]);
    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++)
        in[i] = (float)((i * 37 + i / 11) % 101) / 101 - 0.4f;
    x.bytes = n * sizeof *in;
    moire_tensor y = {.data = out, .bytes = MOST * sizeof *out};
    assert_int_equal(moire_run(t, &x, 1, &y, 1, NULL), MOIRE_OK);
    return y.bytes;
}

static size_t answer_alone(const char *path, const moire_shape *shape, float *out) {
    moire_runtime *rt = start();
    const size_t bytes = answer(load(rt, path, shape, 0), out);
    moire_runtime_destroy(rt, 1);
    return bytes;
}

static int64_t weights(moire_runtime *rt) {
    moire_runtime_stats s = {.size = sizeof s};
    assert_int_equal(moire_runtime_get_stats(rt, &s, NULL), MOIRE_OK);
    return s.memory.weights;
}

/* --- tests ---------------------------------------------------------------------------------------------- */
static float shared[MOST], alone[MOST];

static void every_shape_of(const char *path) {
    moire_runtime *rt = start();
    for (int at_once = 0; at_once < 2; at_once++)
        for (int64_t batch = 1; batch <= 3; batch++)
            for (int64_t words = 1; words <= 40; words += 13) {
                const moire_shape s = shape_of(3, (const int64_t[]){batch, words, 64});
                moire_tenant *t = load(rt, path, &s, at_once);
                const size_t n = answer(t, shared);
                assert_int_equal(n, answer_alone(path, &s, alone));
                for (size_t i = 0; i < n / sizeof *alone; i++)
                    assert_float_equal(shared[i], alone[i], 1e-4F);
                if (precision == MOIRE_PRECISION_FP32) assert_memory_equal(shared, alone, n);
            }
    moire_runtime_destroy(rt, 1);
}

static void every_shape_answers_as_if_alone(void **state) {
    (void)state;
    char path[PATH];
    every_shape_of(text_model(path, 7));
    every_shape_of(voice_model(path));
    precision = MOIRE_PRECISION_AUTO;
    every_shape_of(text_model(path, 7));
    every_shape_of(voice_model(path));
    precision = MOIRE_PRECISION_FP32;
}

static void images_of_any_size(void **state) {
    (void)state;
    char path[PATH];
    image_model(path);
    moire_runtime *rt = start();
    for (int64_t side = 3; side < 60; side += 8) {
        const moire_shape s = shape_of(4, (const int64_t[]){1 + side % 3, 3, side, side + 2});
        const size_t n = answer(load(rt, path, &s, 1), shared);
        assert_int_equal(n, answer_alone(path, &s, alone));
        for (size_t i = 0; i < n / sizeof *alone;
             i++) /* kernels may differ: those that weights are there for */
            assert_true(shared[i] - alone[i] < 1e-3f && alone[i] - shared[i] < 1e-3f);
    }
    moire_runtime_destroy(rt, 1);
}

static void weights_of(const char *path, int64_t least) {
    moire_runtime *rt = start();
    const int64_t nothing = weights(rt);
    moire_tenant *t[6];
    int64_t one = 0;
    for (int i = 0; i < 6; i++) {
        const moire_shape s = shape_of(3, (const int64_t[]){1, 5 + i, 64});
        t[i] = load(rt, path, &s, i % 3); /* 2: not from the file */
        if (!i) one = weights(rt);
        assert_true(weights(rt) - nothing < (one - nothing) * 11 / 10); /* biases are each plan's own */
    }
    assert_true(one - nothing >= least);
    /* in an order in which the first, whose file it was, is neither first nor last */
    for (int i = 0; i < 6; i++) {
        moire_tenant **next = &t[(i * 5 + 2) % 6];
        assert_int_equal(moire_unload(*next, NULL), MOIRE_OK);
        *next = NULL;
        for (int k = 0; k < 6; k++)
            if (t[k]) assert_true(answer(t[k], shared) > 0);
    }
    assert_int_equal(weights(rt), nothing);
    moire_runtime_destroy(rt, 1);
}

static void weights_are_there_once_and_go_with_the_last(void **state) {
    (void)state;
    char path[PATH];
    weights_of(text_model(path, 7), 4 * 64 * 64 * 4);
    weights_of(voice_model(path), (256 + 96) * (64 + 32) * 4);
}

static void a_file_that_changed_is_another(void **state) {
    (void)state;
    char path[PATH];
    text_model(path, 7);
    moire_runtime *rt = start();
    const moire_shape s = shape_of(3, (const int64_t[]){1, 9, 64});
    const size_t n = answer(load(rt, path, &s, 1), alone);
    text_model(path, 8);
    assert_int_equal(answer(load(rt, path, &s, 1), shared), n);
    assert_memory_not_equal(shared, alone, n);
    assert_int_equal(answer_alone(path, &s, alone), n);
    assert_memory_equal(shared, alone, n);
    moire_runtime_destroy(rt, 1);
}

static void weights_that_a_plan_must_read_come_from_the_file(void **state) {
    (void)state;
    char path[PATH];
    odd_model(path);
    moire_runtime *rt = start();
    for (int64_t rows = 1; rows < 5; rows++) {
        const moire_shape s = shape_of(2, (const int64_t[]){rows, 64});
        const size_t n = answer(load(rt, path, &s, 1), shared);
        assert_int_equal(answer_alone(path, &s, alone), n);
        assert_memory_equal(shared, alone, n);
    }
    unlink(path);
    const moire_shape s = shape_of(2, (const int64_t[]){9, 64});
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.shapes = &s;
    c.n_shapes = c.at_once = 1;
    moire_tenant *t;
    assert_int_equal(moire_load(rt, path, &c, &t, NULL), MOIRE_EIO);
    moire_runtime_destroy(rt, 1);
}

static void a_shape_that_does_not_fit_is_said(void **state) {
    (void)state;
    char path[PATH];
    text_model(path, 7);
    moire_runtime *rt = start();
    const moire_shape good = shape_of(3, (const int64_t[]){1, 9, 64}),
                      bad = shape_of(3, (const int64_t[]){1, 9, 63});
    load(rt, path, &good, 1);
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.shapes = &bad;
    c.n_shapes = c.at_once = 1;
    moire_tenant *t;
    moire_error err = {0};
    assert_int_equal(moire_load(rt, path, &c, &t, &err), MOIRE_ESHAPE);
    assert_non_null(strstr(err.message, "fixed to 64"));
    moire_runtime_destroy(rt, 1);
}

/* --- at the same time ----------------------------------------------------------------------------------- */
struct walker {
    moire_runtime *rt;
    const char *path;
    int number;
    size_t bytes[OUTPUTS];
    float (*right)[MOST];
    _Atomic int *wrong;
};

/* Loads, asks and unloads, now with one other, now with another. */
static void *walk(void *user) {
    struct walker *w = user;
    float *out = malloc(MOST * sizeof *out);
    for (int i = 0; i < 40; i++) {
        const int k = (i * 3 + w->number) % OUTPUTS;
        const moire_shape s = shape_of(3, (const int64_t[]){1, 4 + 7 * k, 64});
        moire_tenant *t = load(w->rt, w->path, &s, i % 5 != 0);
        for (int r = 0; r < 3; r++)
            if (answer(t, out) != w->bytes[k] || memcmp(out, w->right[k], w->bytes[k]) != 0)
                atomic_fetch_add(w->wrong, 1);
        moire_unload(t, NULL);
    }
    free(out);
    return NULL;
}

static void many_come_and_go_at_once(void **state) {
    (void)state;
    enum { WALKERS = 4 };
    static float right[OUTPUTS][MOST];
    char path[PATH];
    _Atomic int wrong = 0;
    struct walker w[WALKERS];
    pthread_t thread[WALKERS];
    text_model(path, 7);
    for (int i = 0; i < WALKERS; i++)
        w[i] = (struct walker){.path = path, .number = i, .right = right, .wrong = &wrong};
    for (int k = 0; k < OUTPUTS; k++) {
        const moire_shape s = shape_of(3, (const int64_t[]){1, 4 + 7 * k, 64});
        const size_t n = answer_alone(path, &s, right[k]);
        for (int i = 0; i < WALKERS; i++)
            w[i].bytes[k] = n;
    }
    moire_runtime *rt = start();
    for (int i = 0; i < WALKERS; i++) {
        w[i].rt = rt;
        assert_int_equal(pthread_create(&thread[i], NULL, walk, &w[i]), 0);
    }
    for (int i = 0; i < WALKERS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(weights(rt), 0);
    moire_runtime_destroy(rt, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_answers_as_if_alone),
        cmocka_unit_test(images_of_any_size),
        cmocka_unit_test(weights_are_there_once_and_go_with_the_last),
        cmocka_unit_test(a_file_that_changed_is_another),
        cmocka_unit_test(weights_that_a_plan_must_read_come_from_the_file),
        cmocka_unit_test(a_shape_that_does_not_fit_is_said),
        cmocka_unit_test(many_come_and_go_at_once),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
