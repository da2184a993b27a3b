/* SPDX-License-Identifier: Apache-2.0
 * omit_made.c - models of one node for operators, or numbers of outputs, that the ONNX backend has no such
 * case of. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/conformance/omit.h"
#include "tests/unit/codegen/onnx_build.h"

enum { SEED = 1 };

struct made {
    const char *op;
    int opset;
    moire_dtype dtype;     /* of all inputs */
    const char *inputs[5]; /* shapes */
    const char *outputs;   /* names */
    const char *attribute; /* of integers */
    const char *value;
};

static const struct made table[] = {
    {"BitwiseAnd", 18, MOIRE_I32, {"2,3", "2,3"}, "y", NULL, NULL},
    {"BitwiseOr", 18, MOIRE_I32, {"2,3", "3"}, "y", NULL, NULL},
    {"BitwiseXor", 18, MOIRE_I32, {"2,3", "2,3"}, "y", NULL, NULL},
    {"BitwiseNot", 18, MOIRE_I32, {"2,3"}, "y", NULL, NULL},
    {"Gelu", 20, MOIRE_F32, {"2,19"}, "y", NULL, NULL},
    {"Mish", 18, MOIRE_F32, {"2,19"}, "y", NULL, NULL},
    {"Swish", 24, MOIRE_F32, {"2,19"}, "y", NULL, NULL},
    {"GlobalLpPool", 13, MOIRE_F32, {"1,3,5,5"}, "y", NULL, NULL},
    {"LpPool", 13, MOIRE_F32, {"1,3,5,5"}, "y", "kernel_shape", "2,2"},
    {"LpNormalization", 13, MOIRE_F32, {"2,19"}, "y", NULL, NULL},
    {"GroupNormalization", 21, MOIRE_F32, {"1,4,3,3", "4", "4"}, "y", "num_groups", "2"},
    {"RMSNormalization", 23, MOIRE_F32, {"2,19", "19"}, "y", NULL, NULL},
    {"Attention", 23, MOIRE_F32, {"2,3,5,8", "2,3,5,8", "2,3,5,4"}, "y", NULL, NULL},
    {"RotaryEmbedding", 23, MOIRE_F32, {"2,3,5,8", "2,5,4", "2,5,4"}, "y", NULL, NULL},
    {"TensorScatter", 24, MOIRE_F32, {"2,3,5,8", "2,3,2,8"}, "y", NULL, NULL},
    {"BatchNormalization", 9, MOIRE_F32, {"2,3,4,4", "3", "3", "3", "3"}, "y a b c d", NULL, NULL},
    {"MaxPool", 12, MOIRE_F32, {"1,19,6,6"}, "y i", "kernel_shape", "3,3"},
    {"TopK", 1, MOIRE_F32, {"2,19"}, "y i", "k", "3"},
    {"Split", 11, MOIRE_F32, {"2,6,3,3"}, "a b c", "axis", "1"},
    {"LSTM", 14, MOIRE_F32, {"3,2,4", "1,12,4", "1,12,3"}, "y h c", "hidden_size", "3"},
    {"GRU", 14, MOIRE_F32, {"3,2,4", "1,9,4", "1,9,3"}, "y h", "hidden_size", "3"},
    {"RNN", 14, MOIRE_F32, {"3,2,4", "1,3,4", "1,3,3"}, "y h", "hidden_size", "3"},
};

int omit_made_count(void) {
    return sizeof table / sizeof *table;
}

/* Positive, so that any of them can be a variance; different everywhere, so that a part in the wrong place is
 * seen. */
static void fill(struct mo_dataset *data, int i, moire_dtype dtype, const char *shape) {
    moire_tensor *t = &data->in[i];
    int64_t count = 1;
    *t = (moire_tensor){.dtype = dtype};
    for (char *end; *shape; shape = *end ? end + 1 : end)
        count *= t->shape[t->rank++] = strtoll(shape, &end, 10);
    t->bytes = (size_t)count * mo_dtype_bytes(dtype);
    t->data = mo_region_alloc(data->store->region, t->bytes);
    for (int64_t k = 0; t->data && k < count; k++) {
        int64_t value = (k * 7919 + i * 104729 + SEED) % 1009;
        if (dtype == MOIRE_F32)
            ((float *)t->data)[k] = (float)value / 1009;
        else
            ((int32_t *)t->data)[k] = (int32_t)value;
    }
}

static void add_attribute(struct ob *b, const struct made *m) {
    if (!m->attribute) return;
    if (strchr(m->value, ','))
        ob_ints(b, m->attribute, m->value);
    else
        ob_int(b, m->attribute, strtoll(m->value, NULL, 10));
}

void *omit_made(const struct mo_env *env, int index, size_t *n, struct mo_dataset *data) {
    static const char *const names[] = {"x0", "x1", "x2", "x3", "x4"};
    const struct made *m = &table[index];
    struct ob *b = ob_create(m->opset);
    char inputs[40] = "", *save = NULL;
    int length = 0;
    memset(data, 0, sizeof *data);
    data->env = env;
    data->store = mo_graph_create(env);
    if (!data->store) abort();
    for (; data->n_in < 5 && m->inputs[data->n_in]; data->n_in++) {
        ob_input(b, names[data->n_in], m->dtype, m->inputs[data->n_in]);
        fill(data, data->n_in, m->dtype, m->inputs[data->n_in]);
        length += snprintf(inputs + length, sizeof inputs - (size_t)length, "%s%s", data->n_in ? " " : "",
                           names[data->n_in]);
    }
    ob_node(b, m->op, inputs, m->outputs);
    add_attribute(b, m);
    char *outputs = ob_text(b, m->outputs);
    for (char *word = strtok_r(outputs, " ", &save); word; word = strtok_r(NULL, " ", &save))
        ob_output(b, word);
    const uint8_t *packed = ob_pack(b, n);
    void *bytes = malloc(*n + 1);
    if (!bytes) abort();
    memcpy(bytes, packed, *n);
    ob_destroy(b);
    return bytes;
}
