/* SPDX-License-Identifier: Apache-2.0
 * test_batch_rows.c - which models keep the rows of a batch apart.  What is said to is run by the references,
 * for a batch and row by row, and must agree bit by bit. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/frontend.h"
#include "codegen/batch_rows.h"
#include "runtime/ops/interpret.h"
#include "tests/unit/codegen/onnx_build.h"

enum { ROWS = 3 };

/* A model in words: "name:shape" of inputs and of random weights (an initial '#': whole numbers, listed),
 * then nodes "Op inputs > outputs name=value ..."; the last output is the model's. */
struct model {
    const char *what;
    bool separate;
    int opset;
    const char *inputs, *constants, *nodes;
};

static const struct model models[] = {
    {"elements", true, 13, "x:N,4", "w:4", "Add x w > a;Relu a > b;Mul b x > y"},
    {"a constant for every row", false, 13, "x:N,4", "w:3,4", "Add x w > y"},
    {"broadcast against the batch", true, 13, "x:N,4 z:N,1", "", "Mul x z > y"},
    {"rows against columns", false, 13, "x:N,4 z:N,4", "", "Transpose z > t;MatMul x t > y"},
    {"matrix", true, 13, "x:N,4", "w:4,5 b:5", "MatMul x w > a;Add a b > y"},
    {"gemm", true, 13, "x:N,4", "w:5,4 b:5", "Gemm x w b > y transB=1"},
    {"gemm of the transposed", true, 13, "x:N,4", "w:4,5", "Transpose x > t;Gemm t w > y transA=1"},
    {"batched products", true, 13, "x:N,2,4 z:N,4,3", "", "MatMul x z > y"},
    {"a product with a stack", true, 13, "x:N,1,2,4", "w:5,4,3", "MatMul x w > y"},
    {"convolution", true, 13, "x:N,3,8,8", "w:4,3,3,3 b:4",
     "Conv x w b > a;GlobalAveragePool a > g;Flatten g > y"},
    {"pooling and where the largest were", false, 13, "x:N,1,4,4", "", "MaxPool x > a y kernel_shape=2,2"},
    {"softmax of a row", true, 13, "x:N,4", "", "Softmax x > y axis=-1"},
    {"softmax of the batch", false, 13, "x:N,4", "", "Softmax x > y axis=0"},
    {"old softmax", true, 11, "x:N,4,2", "", "Softmax x > y axis=1"},
    {"old softmax of all", false, 11, "x:N,4,2", "", "Softmax x > y axis=0"},
    {"mean of a row", true, 13, "x:N,4,2", "", "ReduceMean x > m axes=1,-1 keepdims=0;Sub m m > y"},
    {"mean of the batch", false, 13, "x:N,4", "", "ReduceMean x > m axes=0;Sub x m > y"},
    {"mean of all", false, 13, "x:N,4", "", "ReduceMean x > m;Sub x m > y"},
    {"reshaped by its own shape", true, 13, "x:N,6", "#zero:0 #tail:2,3",
     "Shape x > s;Gather s zero > n;Concat n tail > to axis=0;Reshape x to > y"},
    {"rows that become one dimension", true, 13, "x:N,2,4", "#to:-1,4 #back:-1,2,3 w:4,3",
     "Reshape x to > a;MatMul a w > b;Reshape b back > y"},
    {"reshaped across rows", false, 13, "x:N,4", "#to:2,-1 #back:-1,4",
     "Reshape x to > a;Softmax a > b;Reshape b back > y"},
    {"a batch that moves", true, 13, "x:N,5,2", "#part:1,1 #axis:0",
     "Transpose x > t perm=2,0,1;Split t part > a b axis=0;Squeeze a axis > y"},
    {"a batch that ends elsewhere", false, 13, "x:N,2", "", "Transpose x > y"},
    {"heads of attention", true, 13, "x:N,3,4", "#to:0,0,2,2 #back:0,0,4",
     "Reshape x to > a;Transpose a > q perm=0,2,1,3;Transpose a > k perm=0,2,3,1;MatMul q k > s;Softmax s > "
     "p;"
     "MatMul p q > o;Transpose o > t perm=0,2,1,3;Reshape t back > y"},
    {"embedding", true, 13, "i:N,5:int", "w:7,3", "Gather w i > y"},
    {"columns of a row", true, 13, "x:N,5,2", "#i:3,0", "Gather x i > y axis=1"},
    {"the first row", false, 13, "x:N,5", "#i:0", "Gather x i > y axis=0"},
    {"the batch's size as a factor", false, 13, "x:N,4", "#zero:0",
     "Shape x > s;Gather s zero > n;Cast n > f to=1;Mul x f > y"},
    {"a column's size as a factor", true, 13, "x:N,4", "#one:1",
     "Shape x > s;Gather s one > n;Cast n > f to=1;Mul x f > y"},
    {"zeros for every row", true, 13, "x:N,4", "", "Shape x > s;ConstantOfShape s > z;Concat x z > y axis=1"},
    {"rows behind rows", false, 13, "x:N,4 z:N,4", "", "Concat x z > y axis=0"},
    {"sums along the row", true, 13, "x:N,4", "#one:1", "CumSum x one > y"},
    {"sums along the batch", false, 13, "x:N,4", "#zero:0", "CumSum x zero > y"},
    {"best of a row", true, 13, "x:N,4", "", "ArgMax x > y axis=1 keepdims=0"},
    {"best of the batch", false, 13, "x:N,4", "", "ArgMax x > y axis=0"},
    {"one scale for all rows", false, 13, "x:N,4", "",
     "DynamicQuantizeLinear x > q s z;DequantizeLinear q s z > y"},
    {"a part of a row", true, 13, "x:N,5", "#from:1 #to:4 #axis:1", "Slice x from to axis > y"},
    {"a part of the batch", false, 13, "x:N,5", "#from:0 #to:1 #axis:0", "Slice x from to axis > y"},
    {"padded", true, 13, "x:N,2", "#pads:0,1,0,1", "Pad x pads > y"},
    {"padded with a row", false, 13, "x:N,2", "#pads:1,0,0,0", "Pad x pads > y"},
    {"normalized", true, 17, "x:N,2,4", "g:4 b:4", "LayerNormalization x g b > y"},
    {"a sequence behind its length", true, 14, "x:N,4,2", "w:1,12,2 r:1,12,3",
     "Transpose x > t perm=1,0,2;LSTM t w r > a b c hidden_size=3;Transpose b > y perm=1,0,2"},
    {"a sequence of the batch", false, 14, "x:N,1,2", "w:1,12,2 r:1,12,3", "LSTM x w r > y hidden_size=3"},
    {"attention with a past", true, 23, "x:N,2,3,4 p:N,2,5,4", "",
     "Attention x x x - p p > a b c is_causal=1;Concat a c > y axis=2"},
    {"attention with a mask of its own", true, 23, "x:N,2,3,4 m:N,1,3,3", "", "Attention x x x m > y"},
    {"attention with a mask of all", true, 23, "x:N,2,3,4", "m:2,3,3", "Attention x x x m > y"},
    {"attention to other rows' keys", false, 23, "x:N,2,3,4", "#to:1,2,-1,4 #back:-1,2,3,4",
     "Reshape x to > k;Attention k k k > a;Reshape a back > y"},
    {"turned by position", true, 23, "x:N,2,3,4 i:N,3:int", "c:7,2 s:7,2", "RotaryEmbedding x c s i > y"},
    {"turned by angles of its own", true, 23, "x:N,2,3,4 c:N,3,2", "", "RotaryEmbedding x c c > y"},
    {"rows of a cache", true, 24, "x:N,2,5,4 z:N,2,1,4 i:N:int", "", "TensorScatter x z i > y"},
    {"no input at all", false, 13, "x:N,4", "w:4", "Neg w > y"},
    {"an input that every query shares", false, 13, "x:N,4 z:4", "", "Add x z > y"},
    {"a fixed batch", false, 13, "x:3,4", "", "Relu x > y"},
};

/* --- the model in words --- */
static void add_ports(struct ob *b, const char *words, bool constant) {
    char text[200], *save, *w;
    snprintf(text, sizeof text, "%s", words);
    for (w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *shape = strchr(w, ':'), *type;
        *shape++ = 0;
        if ((type = strchr(shape, ':'))) *type = 0;
        if (constant && *w == '#')
            ob_int64s(b, w + 1, shape);
        else if (constant)
            ob_random(b, w, shape);
        else
            ob_input(b, w, type ? MOIRE_I64 : MOIRE_F32, shape);
    }
}

static void add_node(struct ob *b, char *text, char last[64]) {
    char *save, *arrow = strchr(text, '>'), outputs[100] = "";
    *arrow = 0;
    char *op = strtok_r(text, " ", &save), *inputs = save, *rest = arrow + 1, *save2;
    char *attrs[8];
    int n = 0;
    for (char *w = strtok_r(rest, " ", &save2); w; w = strtok_r(NULL, " ", &save2)) {
        if (strchr(w, '=')) {
            attrs[n++] = w;
            continue;
        }
        snprintf(outputs + strlen(outputs), sizeof outputs - strlen(outputs), "%s ", w);
        snprintf(last, 64, "%s", w);
    }
    ob_node(b, op, inputs, outputs);
    for (int i = 0; i < n; i++) {
        char *value = strchr(attrs[i], '=');
        *value++ = 0;
        const bool one =
            strcmp(attrs[i], "axes") && strcmp(attrs[i], "perm") && strcmp(attrs[i], "kernel_shape");
        if (one)
            ob_int(b, attrs[i], strtoll(value, NULL, 10));
        else
            ob_ints(b, attrs[i], value);
    }
}

static struct ob *build(const struct model *m) {
    struct ob *b = ob_create(m->opset);
    char text[600], last[64] = "", *save;
    add_ports(b, m->inputs, false);
    add_ports(b, m->constants, true);
    snprintf(text, sizeof text, "%s", m->nodes);
    for (char *node = strtok_r(text, ";", &save); node; node = strtok_r(NULL, ";", &save))
        add_node(b, node, last);
    ob_output(b, last);
    return b;
}

static struct mo_graph *prepare(struct ob *b, int64_t rows) {
    const struct mo_frontend_options options = {.no_passes = true, .batch = rows};
    struct mo_graph *g = NULL;
    moire_error err = {0};
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    if (mo_frontend_parse(&b->env, bytes, n, NULL, &options, &g, &err)) fail_msg("%s", err.message);
    return g;
}

/* --- a batch against its rows --- */
static size_t input_bytes(const struct mo_tensor *t) {
    return (size_t)mo_tensor_bytes(t);
}

static void fill(const struct mo_graph *g, moire_tensor *inputs, uint64_t seed) {
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        inputs[i] = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank, .bytes = input_bytes(t)};
        memcpy(inputs[i].shape, t->shape.d, sizeof inputs[i].shape);
        inputs[i].data = malloc(inputs[i].bytes);
        for (size_t k = 0; k < inputs[i].bytes / mo_dtype_bytes(t->dtype); k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (t->dtype == MOIRE_I64)
                ((int64_t *)inputs[i].data)[k] = (int64_t)(seed >> 33) % 7;
            else
                ((float *)inputs[i].data)[k] = (float)(seed >> 40) / (1 << 23) - 1;
        }
    }
}

static void rows_agree(const struct mo_graph *one, const struct mo_graph *many, const char *what) {
    moire_tensor batch[4], row[4];
    struct mo_value whole, part;
    moire_error err = {0};
    fill(many, batch, 7);
    assert_int_equal(mo_interpret(many, batch, many->n_inputs, &whole, &err), MOIRE_OK);
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < many->n_inputs; i++) {
            row[i] = batch[i];
            row[i].shape[0] = 1;
            row[i].bytes /= ROWS;
            row[i].data = (char *)batch[i].data + (size_t)r * row[i].bytes;
        }
        assert_int_equal(mo_interpret(one, row, one->n_inputs, &part, &err), MOIRE_OK);
        const size_t bytes = (size_t)mo_shape_count(&part.shape) * mo_dtype_bytes(part.dtype);
        if (memcmp(part.data, (char *)whole.data + (size_t)r * bytes, bytes) != 0)
            fail_msg("%s: row %d differs", what, r);
        mo_interpret_free(one->env, &part, 1);
    }
    mo_interpret_free(many->env, &whole, 1);
    for (int i = 0; i < many->n_inputs; i++)
        free(batch[i].data);
}

static void models_in_words(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct ob *b = build(&models[i]);
        struct mo_graph *one = prepare(b, 1), *many = prepare(b, ROWS);
        moire_error err = {0};
        const int rc = mo_rows_are_separate(one, many, ROWS, 0, NULL, &err);
        if (rc != (models[i].separate ? MOIRE_OK : MOIRE_EUNSUPPORTED))
            fail_msg("%s: %d %s", models[i].what, rc, err.message);
        assert_true(!rc == !*err.message);
        if (!rc) rows_agree(one, many, models[i].what);
        mo_graph_destroy(one);
        mo_graph_destroy(many);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_in_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
