/* SPDX-License-Identifier: Apache-2.0
 * test_import.c - what the importer accepts: forms of constants, shapes, folding, external data. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <string.h>
#include "codegen/frontend.h"
#include "tests/unit/codegen/onnx_build.h"

static const struct mo_frontend_options bare = {.no_passes = true};

/* Parses what b holds; fails the test with the importer's message. */
static struct mo_graph *parse(struct ob *b, const struct mo_frontend_options *options, const char *folder) {
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    struct mo_graph *g = NULL;
    moire_error err = {0};
    if (mo_frontend_parse(&b->env, bytes, n, folder, options, &g, &err)) fail_msg("%s", err.message);
    return g;
}

static const struct mo_tensor *output(const struct mo_graph *g, int k) {
    return g->tensors[g->outputs[k]];
}

static void binds_the_batch_and_infers(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "N,3,8,8");
    ob_random(b, "w", "16,3,3,3");
    ob_node(b, "Conv", "x w", "y");
    ob_ints(b, "strides", "2,2");
    ob_output(b, "y");
    struct mo_frontend_options options = {.no_passes = true, .batch = 5};
    struct mo_graph *g = parse(b, &options, NULL);
    assert_true(mo_shape_equal(&output(g, 0)->shape, &(struct mo_shape){4, {5, 16, 3, 3}}));
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void a_symbol_binds_everywhere(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "B,S");
    ob_input(b, "m", MOIRE_F32, "B,S");
    ob_node(b, "Add", "x m", "y");
    ob_output(b, "y");
    moire_shape shape = {.input = "x", .rank = 2, .shape = {2, 7}};
    struct mo_frontend_options options = {.no_passes = true, .shapes = &shape, .n_shapes = 1};
    struct mo_graph *g = parse(b, &options, NULL);
    assert_int_equal(g->tensors[g->inputs[1]]->shape.d[1], 7);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void nodes_may_come_in_any_order(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "4");
    ob_node(b, "Neg", "t", "y");
    ob_node(b, "Relu", "x", "t");
    ob_output(b, "y");
    struct mo_graph *g = parse(b, &bare, NULL);
    assert_string_equal(g->nodes[0]->op_type, "Relu");
    mo_graph_destroy(g);
    ob_destroy(b);
}

/* Initializers that are also listed as inputs (IR version 3) are constants. */
static void listed_initializers_are_no_inputs(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "4");
    ob_input(b, "w", MOIRE_F32, "4");
    ob_random(b, "w", "4");
    ob_node(b, "Add", "x w", "y");
    ob_output(b, "y");
    struct mo_graph *g = parse(b, &bare, NULL);
    assert_int_equal(g->n_inputs, 1);
    mo_graph_destroy(g);
    ob_destroy(b);
}

/* Shape -> Gather -> Concat -> Reshape disappears, since shapes are static. */
static void shape_arithmetic_folds(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "N,3,4");
    ob_int64s(b, "zero", "0");
    ob_int64s(b, "rest", "-1");
    ob_node(b, "Shape", "x", "s");
    ob_node(b, "Gather", "s zero", "n");
    ob_node(b, "Concat", "n rest", "to");
    ob_int(b, "axis", 0);
    ob_node(b, "Reshape", "x to", "y");
    ob_output(b, "y");
    struct mo_frontend_options options = {.no_passes = true, .batch = 2};
    struct mo_graph *g = parse(b, &options, NULL);
    assert_int_equal(g->n_nodes, 1);
    assert_true(mo_shape_equal(&output(g, 0)->shape, &(struct mo_shape){2, {2, 12}}));
    mo_graph_destroy(g);
    ob_destroy(b);
}

/* Nodes that remain of one that reads constants, and of a Cast of its result. */
static int left_of(const char *op, const char *shapes[2], int64_t fold_steps) {
    struct ob *b = ob_create(17);
    b->env.limits.fold_steps = fold_steps;
    ob_random(b, "a", shapes[0]);
    if (shapes[1]) ob_random(b, "b", shapes[1]);
    ob_int64s(b, "most", "9");
    ob_input(b, "x", MOIRE_F32, "1");
    ob_node(b, op, !strcmp(op, "NonMaxSuppression") ? "a b most" : shapes[1] ? "a b" : "a", "y");
    if (!strcmp(op, "Einsum")) ob_string(b, "equation", "i,j->");
    if (!strcmp(op, "MaxPool")) ob_ints(b, "kernel_shape", "32");
    if (!strcmp(op, "LRN")) ob_int(b, "size", 31);
    ob_node(b, "Cast", "y", "z");
    ob_int(b, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    ob_output(b, "z");
    ob_node(b, "Neg", "x", "w");
    ob_output(b, "w");
    struct mo_graph *g = parse(b, &bare, NULL);
    int n = g->n_nodes - 1;
    mo_graph_destroy(g);
    ob_destroy(b);
    return n;
}

/* What takes long is left to the queries, so that no file makes loading take hours. */
static void long_work_is_not_folded(void **state) {
    (void)state;
    static const struct {
        const char *op, *shapes[2];
    } rows[] = {
        {"Einsum", {"64", "64"}},
        {"MatMul", {"16,16", "16,16"}},
        {"Conv", {"1,8,64", "8,8,3"}},
        {"MaxPool", {"1,1,128"}},
        {"LRN", {"1,64,4,4"}},
        {"DFT", {"1,64,1"}},
        {"NonMaxSuppression", {"1,64,4", "1,1,64"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *shapes[2] = {rows[i].shapes[0], rows[i].shapes[1]};
        int all = left_of(rows[i].op, shapes, 1 << 20), some = left_of(rows[i].op, shapes, 1000);
        if (all || some != 2) fail_msg("%s: %d and %d nodes are left", rows[i].op, all, some);
    }
    const char *pair[] = {"16", "16"};
    assert_int_equal(left_of("Add", pair, 0), 0);
}

/* A chain of results of 64 bytes each: two fit 128 bytes, and what reads the third is left too. */
static void constants_are_bounded_in_sum(void **state) {
    (void)state;
    static const int64_t bound[] = {256, 255, 128, 0};
    static const int left[] = {0, 1, 2, 4};
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
        struct ob *b = ob_create(17);
        b->env.limits.folded_bytes = bound[i];
        ob_random(b, "a", "16");
        ob_input(b, "x", MOIRE_F32, "16");
        ob_node(b, "Neg", "a", "b");
        ob_node(b, "Abs", "b", "c");
        ob_node(b, "Neg", "c", "d");
        ob_node(b, "Abs", "d", "e");
        ob_node(b, "Add", "x e", "y");
        ob_output(b, "y");
        struct mo_graph *g = parse(b, &bare, NULL);
        assert_int_equal(g->n_nodes - 1, left[i]);
        mo_graph_destroy(g);
        ob_destroy(b);
    }
}

/* x by a fill of 16 x 16 numbers, 1024 bytes. */
static struct ob *filled_model(int64_t folded_bytes, int64_t tensor_bytes) {
    struct ob *b = ob_create(17);
    b->env.limits.fold_bytes = 64;
    b->env.limits.folded_bytes = folded_bytes;
    b->env.limits.tensor_bytes = tensor_bytes;
    ob_int64s(b, "shape", "16,16");
    ob_input(b, "x", MOIRE_F32, "1,16");
    ob_node(b, "ConstantOfShape", "shape", "w");
    ob_value(b, 0.5f);
    ob_node(b, "MatMul", "x w", "y");
    ob_output(b, "y");
    return b;
}

/* One that a query would have to make is made at load, whatever its size, as long as the sum allows. */
static void fills_are_bounded_in_sum_only(void **state) {
    (void)state;
    for (int64_t bound = 1024; bound >= 1023; bound--) {
        struct ob *b = filled_model(bound, 1024);
        struct mo_graph *g = parse(b, &bare, NULL);
        const struct mo_node *product = g->nodes[g->n_nodes - 1];
        const float *w = g->tensors[product->in[1]]->data;
        assert_int_equal(g->n_nodes, bound < 1024 ? 2 : 1);
        assert_int_equal(w == NULL, bound < 1024);
        for (int i = 0; w && i < 256; i++)
            assert_true(w[i] == 0.5f);
        mo_graph_destroy(g);
        ob_destroy(b);
    }
    struct ob *b = filled_model(1024, 1023);
    size_t n;
    moire_error err = {0};
    struct mo_graph *g = NULL;
    const uint8_t *bytes = ob_pack(b, &n);
    assert_int_equal(mo_frontend_parse(&b->env, bytes, n, NULL, &bare, &g, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "tensor_bytes"));
    ob_destroy(b);
}

static void data_dependent_shapes_are_dynamic(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "4");
    ob_node(b, "NonZero", "x", "i");
    ob_node(b, "Neg", "i", "y");
    ob_output(b, "y");
    struct mo_graph *g = parse(b, &bare, NULL);
    assert_true(output(g, 0)->dynamic);
    assert_int_equal(output(g, 0)->shape.rank, -1);
    mo_graph_destroy(g);
    ob_destroy(b);
}

/* Every form of Constant, and every typed list of a tensor, read back through folding. */
static void constants_in_all_forms(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_node(b, "Constant", "", "a");
    ob_float(b, "value_float", 2.5f);
    ob_node(b, "Constant", "", "c");
    ob_ints(b, "value_ints", "7,8,9");
    ob_node(b, "Constant", "", "d");
    ob_int(b, "value_int", -3);
    Onnx__TensorProto *t = ob_int64s(b, "typed", "1,2");
    t->has_raw_data = 0;
    t->n_int64_data = 2;
    t->int64_data = (int64_t[]){11, 12};
    Onnx__TensorProto *h = ob_scalar(b, "half", 0);
    h->has_raw_data = 0;
    h->data_type = MOIRE_F16;
    h->n_int32_data = 1;
    h->int32_data = (int32_t[]){0x3c00};
    const char *names[] = {"a", "c", "d", "typed", "half"};
    for (size_t i = 0; i < 5; i++)
        ob_output(b, names[i]);
    struct mo_graph *g = parse(b, &bare, NULL);
    assert_true(*(const float *)output(g, 0)->data == 2.5f);
    assert_int_equal(((const int64_t *)output(g, 1)->data)[2], 9);
    assert_int_equal(*(const int64_t *)output(g, 2)->data, -3);
    assert_int_equal(((const int64_t *)output(g, 3)->data)[1], 12);
    assert_int_equal(*(const uint16_t *)output(g, 4)->data, 0x3c00);
    mo_graph_destroy(g);
    ob_destroy(b);
}

static void metadata_is_kept(void **state) {
    (void)state;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "4");
    ob_node(b, "Relu", "x", "y");
    ob_output(b, "y");
    Onnx__StringStringEntryProto entry, *list[] = {&entry};
    onnx__string_string_entry_proto__init(&entry);
    entry.key = ob_text(b, "character");
    entry.value = ob_text(b, "a\nb");
    b->model.n_metadata_props = 1;
    b->model.metadata_props = list;
    struct mo_graph *g = parse(b, &bare, NULL);
    assert_int_equal(g->n_meta, 1);
    assert_string_equal(g->meta_value[0], "a\nb");
    mo_graph_destroy(g);
    ob_destroy(b);
}

/* --- external data ------------------------------------------------------------------------------------- */

static void external(struct ob *b, Onnx__TensorProto *t, const char *location, const char *offset,
                     const char *length) {
    const char *pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    t->has_raw_data = 0;
    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    t->external_data = ob_alloc(b, 3 * sizeof *t->external_data);
    for (size_t i = 0; i < 3; i++) {
        if (!pairs[i][1]) continue;
        Onnx__StringStringEntryProto *e = ob_alloc(b, sizeof *e);
        onnx__string_string_entry_proto__init(e);
        e->key = ob_text(b, pairs[i][0]);
        e->value = ob_text(b, pairs[i][1]);
        t->external_data[t->n_external_data++] = e;
    }
}

struct trick {
    const char *location, *offset, *length;
    int code;
    const char *text;
};

static int load_external(const char *folder, const struct trick *trick, float *first, moire_error *err) {
    struct ob *b = ob_create(13);
    external(b, ob_scalar(b, "w", 0), trick->location, trick->offset, trick->length);
    ob_output(b, "w");
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    struct mo_graph *g = NULL;
    int rc = mo_frontend_parse(&b->env, bytes, n, folder, &bare, &g, err);
    if (!rc) *first = *(const float *)output(g, 0)->data;
    mo_graph_destroy(g);
    ob_destroy(b);
    return rc;
}

static void external_data_stays_in_its_folder(void **state) {
    (void)state;
    static const struct trick tricks[] = {
        {"w.bin", "4", "4", MOIRE_OK, ""},
        {"sub/w.bin", "0", NULL, MOIRE_OK, ""},
        {"../escape.bin", NULL, NULL, MOIRE_EFORMAT, "leaves the folder"},
        {"sub/../../escape.bin", NULL, NULL, MOIRE_EFORMAT, "leaves the folder"},
        {"/etc/hostname", NULL, NULL, MOIRE_EFORMAT, "leaves the folder"},
        {"link.bin", NULL, NULL, MOIRE_EIO, "symbolic links"},
        {"linked/w.bin", NULL, NULL, MOIRE_EIO, "symbolic links"},
        {"pipe", NULL, NULL, MOIRE_EIO, "not a regular file"},
        {"sub", NULL, NULL, MOIRE_EIO, "not a regular file"},
        {"missing.bin", NULL, NULL, MOIRE_EIO, "No such file"},
        {"w.bin", "8", NULL, MOIRE_EFORMAT, "past the end"},
        {"w.bin", "0", "8", MOIRE_EFORMAT, "length 8"},
        {"w.bin", "99999999999999999999", NULL, MOIRE_EFORMAT, "not a size"},
        {"w.bin", "-4", NULL, MOIRE_EFORMAT, "not a size"},
        {NULL, "0", NULL, MOIRE_EFORMAT, "without a location"},
        {"", NULL, NULL, MOIRE_EFORMAT, "without a location"},
    };
    char folder[] = "/tmp/moire-import-XXXXXX", path[128];
    const float values[] = {1, 42};
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("sub", 0755) | symlink("w.bin", "link.bin") | symlink("sub", "linked") |
                         mkfifo("pipe", 0644),
                     0);
    for (int i = 0; i < 2; i++) {
        int fd = open(i ? "sub/w.bin" : "w.bin", O_WRONLY | O_CREAT, 0644);
        assert_int_equal(write(fd, values, sizeof values), sizeof values);
        close(fd);
    }
    for (size_t i = 0; i < sizeof tricks / sizeof *tricks; i++) {
        moire_error err = {0};
        float first = 0;
        int rc = load_external(folder, &tricks[i], &first, &err);
        if (rc != tricks[i].code || !strstr(err.message, tricks[i].text))
            fail_msg("case %zu: %d %s", i, rc, err.message);
        if (!rc) assert_true(first == (tricks[i].offset && *tricks[i].offset == '4' ? 42 : 1));
    }
    moire_error err = {0};
    float first;
    assert_int_equal(load_external(NULL, &tricks[0], &first, &err), MOIRE_EFORMAT);
    const char *left[] = {"w.bin", "sub/w.bin", "link.bin", "linked", "pipe"};
    for (size_t i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, left[i]);
        unlink(path);
    }
    assert_int_equal(rmdir("sub") | chdir("/") | rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binds_the_batch_and_infers),
        cmocka_unit_test(a_symbol_binds_everywhere),
        cmocka_unit_test(nodes_may_come_in_any_order),
        cmocka_unit_test(listed_initializers_are_no_inputs),
        cmocka_unit_test(shape_arithmetic_folds),
        cmocka_unit_test(long_work_is_not_folded),
        cmocka_unit_test(fills_are_bounded_in_sum_only),
        cmocka_unit_test(constants_are_bounded_in_sum),
        cmocka_unit_test(data_dependent_shapes_are_dynamic),
        cmocka_unit_test(constants_in_all_forms),
        cmocka_unit_test(metadata_is_kept),
        cmocka_unit_test(external_data_stays_in_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
