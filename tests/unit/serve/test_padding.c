/* SPDX-License-Identifier: Apache-2.0
 * test_padding.c - buckets: a model that has them answers every size as one that has none, from few shapes;
 * a graph that mixes positions has none. */
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
#include <sys/stat.h>
#include <unistd.h>
#include "tests/unit/codegen/onnx_build.h"
#include "tests/unit/serve/pipeline_bed.h"

enum { WIDTH = 8, LONGEST = 40 };
static struct pipeline_bed bed;

/* A model twice: NAME with buckets, NAME-plain without. */
static void write_both(const char *name, const char *buckets, struct ob *b) {
    for (int plain = 0; plain < 2; plain++) {
        char path[300], config[200], model[64];
        snprintf(model, sizeof model, "%s%s", name, plain ? "-plain" : "");
        snprintf(config, sizeof config, "parameters { key: \"buckets\" value: { string_value: \"%s\" } }\n",
                 buckets);
        pipeline_bed_config(&bed, model, plain ? "" : config);
        snprintf(path, sizeof path, "%s/%s/1", bed.folder, model);
        mkdir(path, 0755);
        snprintf(path, sizeof path, "%s/%s/1/model.onnx", bed.folder, model);
        assert_true(ob_save(b, path));
    }
    ob_destroy(b);
}

/* Each position by itself: a row of a table, a product, a norm; and the same with positions moved to the end.
 */
static void make_tokens(void) {
    struct ob *b = ob_create(17);
    ob_input(b, "i", MOIRE_I64, "N,S");
    ob_input(b, "x", MOIRE_F32, "N,S,8");
    ob_random(b, "table", "32,8");
    ob_random(b, "w", "8,16");
    ob_random(b, "scale", "16");
    ob_random(b, "bias", "16");
    ob_node(b, "Gather", "table i", "a");
    ob_node(b, "Add", "a x", "s");
    ob_node(b, "MatMul", "s w", "h");
    ob_node(b, "LayerNormalization", "h scale bias", "o");
    ob_node(b, "Transpose", "o", "t");
    ob_ints(b, "perm", "0,2,1");
    ob_output(b, "o");
    ob_output(b, "t");
    write_both("tokens", "1:4,16,32", b);
}

static void make_rows(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "N,8");
    ob_random(b, "w", "8,4");
    ob_node(b, "MatMul", "x w", "h");
    ob_node(b, "Softmax", "h", "o");
    ob_output(b, "o");
    write_both("rows", "0:2,8,16", b);
}

/* Every position looks at all. */
static void make_mixing(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "N,S,8");
    ob_node(b, "Transpose", "x", "k");
    ob_ints(b, "perm", "0,2,1");
    ob_node(b, "MatMul", "x k", "s");
    ob_node(b, "Softmax", "s", "p");
    ob_node(b, "MatMul", "p x", "o");
    ob_output(b, "o");
    write_both("attention", "1:4,16", b);
}

/* --- queries --- */
static void answered(void *user) {
    atomic_fetch_add((atomic_int *)user, 1);
}

struct data {
    int64_t index[2 * LONGEST];
    float x[2 * LONGEST * WIDTH];
};

/* n_first by `positions` (0: there is no such dimension) by 8; tokens also take indices. */
static void ask_model(struct ms_query *q, const char *model, struct data *d, int first, int positions) {
    static atomic_int answers;
    struct ms_input *x = q->request.input;
    const int n = positions ? first * positions : first;
    *q = (struct ms_query){.done = answered, .user = &answers};
    assert_int_equal(ms_repository_take(bed.repository, model, NULL, &q->model, NULL), MOIRE_OK);
    x[0] = (struct ms_input){.name = "x",
                             .tensor = {.dtype = MOIRE_F32, .rank = positions ? 3 : 2, .data = d->x}};
    const int64_t deep[] = {first, positions, WIDTH}, flat[] = {first, WIDTH};
    memcpy(x[0].tensor.shape, positions ? deep : flat, positions ? sizeof deep : sizeof flat);
    x[0].tensor.bytes = (size_t)n * WIDTH * sizeof(float);
    x[1] = (struct ms_input){
        .name = "i",
        .tensor = {.dtype = MOIRE_I64, .rank = 2, .shape = {first, positions}, .data = d->index}};
    x[1].tensor.bytes = (size_t)n * sizeof(int64_t);
    q->request.n_inputs = q->model->n_inputs;
    atomic_store(&answers, 0);
    ms_query_start(q);
    while (!atomic_load(&answers))
        usleep(50);
}

static void fill(struct data *d, unsigned seed) {
    for (size_t i = 0; i < sizeof d->x / sizeof *d->x; i++)
        d->x[i] = (float)(rand_r(&seed) % 2001) / 1000 - 1;
    for (size_t i = 0; i < sizeof d->index / sizeof *d->index; i++)
        d->index[i] = rand_r(&seed) % 32;
}

/* How kernels sum may depend on the shape. */
static void same(const struct ms_query *a, const struct ms_query *b) {
    if (a->error.code || b->error.code) fail_msg("%s%s", a->error.message, b->error.message);
    assert_int_equal(a->n_outputs, b->n_outputs);
    for (int i = 0; i < a->n_outputs; i++) {
        const moire_tensor *p = &a->output[i].tensor, *q = &b->output[i].tensor;
        assert_int_equal(p->rank, q->rank);
        assert_int_equal(p->bytes, q->bytes);
        assert_memory_equal(p->shape, q->shape, (size_t)p->rank * sizeof *p->shape);
        for (size_t k = 0; k < p->bytes / sizeof(float); k++)
            assert_true(fabsf(((const float *)p->data)[k] - ((const float *)q->data)[k]) <= 1e-5f);
    }
}

static int shapes_of(const char *model) {
    struct ms_model *m;
    assert_int_equal(ms_repository_take(bed.repository, model, NULL, &m, NULL), MOIRE_OK);
    pthread_mutex_lock(&bed.repository->lock);
    const int n = m->n_bindings;
    pthread_mutex_unlock(&bed.repository->lock);
    ms_repository_give(m);
    return n;
}

/* --- tests --- */
static void compare(const char *name, int first, int positions, struct data *d) {
    static struct ms_query padded, plain;
    char other[64];
    snprintf(other, sizeof other, "%s-plain", name);
    fill(d, (unsigned)(positions * 100 + first));
    ask_model(&padded, name, d, first, positions);
    ask_model(&plain, other, d, first, positions);
    same(&padded, &plain);
    ms_query_close(&padded);
    ms_query_close(&plain);
}

static void test_any_length(void **state) {
    (void)state;
    static struct data d;
    const int before = shapes_of("tokens");
    for (int length = 1; length <= 32; length++)
        compare("tokens", 1, length, &d);
    assert_int_equal(shapes_of("tokens"), before); /* all buckets were made ready by the load */
    for (int length = 1; length <= 32; length++)
        compare("tokens", 2, length, &d);
    assert_int_equal(shapes_of("tokens"), before + 3);
    compare("tokens", 1, 37, &d); /* beyond the largest: as it is */
    assert_int_equal(shapes_of("tokens"), before + 4);
}

static void test_any_batch(void **state) {
    (void)state;
    static struct data d;
    const int before = shapes_of("rows");
    for (int rows = 1; rows <= 16; rows++)
        compare("rows", rows, 0, &d);
    assert_int_equal(shapes_of("rows"), before);
}

/* Inputs that differ in the dimension are for the model to refuse. */
static void test_inputs_that_differ(void **state) {
    (void)state;
    static struct data d;
    static struct ms_query q;
    static atomic_int answers;
    fill(&d, 1);
    q = (struct ms_query){.done = answered, .user = &answers};
    assert_int_equal(ms_repository_take(bed.repository, "tokens", NULL, &q.model, NULL), MOIRE_OK);
    q.request.n_inputs = 2;
    q.request.input[0] = (struct ms_input){
        .name = "x",
        .tensor = {
            .dtype = MOIRE_F32, .rank = 3, .shape = {1, 5, 8}, .data = d.x, .bytes = sizeof(float) * 40}};
    q.request.input[1] = (struct ms_input){
        .name = "i",
        .tensor = {.dtype = MOIRE_I64, .rank = 2, .shape = {1, 6}, .data = d.index, .bytes = 48}};
    ms_query_start(&q);
    while (!atomic_load(&answers))
        usleep(50);
    assert_int_not_equal(q.error.code, MOIRE_OK);
    ms_query_close(&q);
}

static void test_a_graph_that_mixes(void **state) {
    (void)state;
    struct ms_model *m;
    assert_int_equal(ms_repository_take(bed.repository, "attention", NULL, &m, NULL), MOIRE_OK);
    assert_int_equal(ms_model_state(m), MS_UNAVAILABLE);
    assert_non_null(strstr(m->reason, "cannot have buckets along dimension 1"));
    assert_non_null(strstr(m->reason, "(MatMul): it mixes positions"));
    ms_repository_give(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_length),
        cmocka_unit_test(test_any_batch),
        cmocka_unit_test(test_inputs_that_differ),
        cmocka_unit_test(test_a_graph_that_mixes),
    };
    pipeline_bed_make(&bed);
    make_tokens();
    make_rows();
    make_mixing();
    pipeline_bed_start(&bed, false);
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    pipeline_bed_stop(&bed);
    return rc;
}
