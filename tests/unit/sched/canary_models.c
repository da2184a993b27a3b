/* SPDX-License-Identifier: Apache-2.0
 * canary_models.c - models of a few layers with what has leaked, or might: outputs that are left out, results
 * that nobody reads, slices, odd channels, shapes that depend on data, layers that fail. */
#include "tests/unit/sched/canary_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/codegen/onnx_build.h"

struct shape {
    moire_dtype dtype;
    int rank;
    int64_t d[4];
};

/* Every activation is the input's only number: nothing here computes. */
static void marked(struct ob *b) {
    ob_node(b, "MaxPool", "x", "a");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Relu", "a", "r");
    ob_node(b, "Concat", "a r x", "c");
    ob_int(b, "axis", 1);
    ob_node(b, "Transpose", "c", "t");
    ob_ints(b, "perm", "0,2,3,1");
    ob_node(b, "MaxPool", "t", "y");
    ob_ints(b, "kernel_shape", "2,2");
    ob_output(b, "y");
}

static void convolutions(struct ob *b) {
    ob_random(b, "w", "19,3,3,3");
    ob_random(b, "v", "5,19,1,1");
    ob_node(b, "Conv", "x w", "a");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Relu", "a", "r");
    ob_node(b, "Conv", "r v", "y");
    ob_output(b, "y");
}

static void positions_only(struct ob *b) {
    ob_int64s(b, "k", "7");
    ob_node(b, "TopK", "x k", "v y");
    ob_output(b, "y");
}

static void parts_left_out(struct ob *b) {
    ob_int64s(b, "s", "3,11,5");
    ob_node(b, "Split", "x s", "y - z");
    ob_int(b, "axis", 1);
    ob_output(b, "y");
    ob_output(b, "z");
}

static void last_state_only(struct ob *b) {
    ob_random(b, "w", "1,28,9");
    ob_random(b, "r", "1,28,7");
    ob_node(b, "LSTM", "x w r", "- y");
    ob_int(b, "hidden_size", 7);
    ob_output(b, "y");
}

static void slices(struct ob *b) {
    ob_random(b, "w", "21,9");
    ob_random(b, "v", "21,10");
    ob_node(b, "MatMul", "x w", "a");
    ob_node(b, "MatMul", "x v", "c");
    ob_node(b, "Concat", "a c", "y");
    ob_int(b, "axis", 1);
    ob_node(b, "Softmax", "y", "z");
    ob_output(b, "z");
}

static void found(struct ob *b) {
    ob_node(b, "Relu", "x", "r");
    ob_node(b, "NonZero", "r", "y");
    ob_output(b, "y");
}

static void pooled(struct ob *b) {
    ob_node(b, "MaxPool", "x", "y i");
    ob_ints(b, "kernel_shape", "2,2");
    ob_ints(b, "strides", "2,2");
    ob_node(b, "GlobalAveragePool", "y", "g");
    ob_output(b, "i");
    ob_output(b, "g");
}

/* Index 99 of 10: the answer is an error. */
static void fails(struct ob *b) {
    ob_node(b, "Gather", "x i", "y");
    ob_input(b, "i", MOIRE_I64, "4");
    ob_output(b, "y");
}

static const struct {
    void (*build)(struct ob *b);
    const char *text; /* of the shape of x */
    struct shape x;
} models[CANARY_MODELS] = {
    {marked, "1,16,24,24", {MOIRE_F32, 4, {1, 16, 24, 24}}},
    {convolutions, "1,3,17,17", {MOIRE_F32, 4, {1, 3, 17, 17}}},
    {positions_only, "3,40", {MOIRE_F32, 2, {3, 40}}},
    {parts_left_out, "2,19,5,5", {MOIRE_F32, 4, {2, 19, 5, 5}}},
    {last_state_only, "5,2,9", {MOIRE_F32, 3, {5, 2, 9}}},
    {slices, "6,21", {MOIRE_F32, 2, {6, 21}}},
    {found, "5,30", {MOIRE_F32, 2, {5, 30}}},
    {pooled, "1,19,12,12", {MOIRE_F32, 4, {1, 19, 12, 12}}},
    {fails, "10,3", {MOIRE_F32, 2, {10, 3}}},
};

int canary_model_write(int model, const char *path) {
    struct ob *b = ob_create(13);
    b->seed = (uint64_t)model + 1;
    ob_input(b, "x", MOIRE_F32, models[model].text);
    models[model].build(b);
    const int ok = ob_save(b, path);
    ob_destroy(b);
    return ok;
}

static void *allocate(size_t bytes) {
    void *p = calloc(1, bytes);
    if (!p) abort();
    return p;
}

int canary_model_inputs(int model, uint64_t seed, moire_tensor in[CANARY_INPUTS]) {
    const struct shape *x = &models[model].x;
    int64_t count = 1;
    in[0] = (moire_tensor){.dtype = x->dtype, .rank = x->rank};
    for (int i = 0; i < x->rank; i++)
        count *= in[0].shape[i] = x->d[i];
    in[0].bytes = (size_t)count * sizeof(float);
    float *values = in[0].data = allocate(in[0].bytes);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = (float)(seed >> 40) / 8388608.f - 1;
        if (!model) memcpy(&values[i], &CANARY_MARK, sizeof CANARY_MARK);
    }
    if (models[model].build != fails) return 1;
    in[1] = (moire_tensor){.dtype = MOIRE_I64, .rank = 1, .shape = {4}, .bytes = 4 * sizeof(int64_t)};
    int64_t *index = in[1].data = allocate(in[1].bytes);
    index[2] = 99;
    return 2;
}
