/* SPDX-License-Identifier: Apache-2.0
 * build.c - the core of the model builder: names, nodes, attributes, seeded weights, inputs and outputs. */
#include "models/build.h"
#include "runtime/base/numbers.h"
#include <stdio.h>
#include <string.h>

enum { OPSET = 13 };

void mo_b_fail(struct mo_build *b, int code) {
    if (!b->code) b->code = code;
}

static void *get(struct mo_build *b, size_t count, size_t size) {
    void *p = b->code ? NULL : mo_region_array(b->region, count, size);
    if (!p) mo_b_fail(b, MOIRE_ENOMEM);
    return p;
}

/* Appends to a list that lives in the region; old arrays are left behind, at most doubling the memory. */
static void push(struct mo_build *b, struct mo_blist *list, void *item) {
    if (!item || b->code) return;
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        void **at = get(b, cap, sizeof *at);
        if (!at) return;
        if (list->n) memcpy(at, list->at, list->n * sizeof *at);
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = item;
}

static char *copy(struct mo_build *b, const char *s) {
    char *p = b->code ? NULL : mo_region_string(b->region, s, strlen(s));
    if (!p) mo_b_fail(b, MOIRE_ENOMEM);
    return p;
}

int mo_build_start(const struct mo_env *env, const char *model, uint64_t seed, struct mo_build *out,
                   moire_error *err) {
    *out = (struct mo_build){.env = env, .model = model, .seed = seed, .opset = OPSET};
    out->region = mo_region_create(env);
    return out->region ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "model %s: out of memory", model);
}

void mo_build_end(struct mo_build *b) {
    mo_region_destroy(b->region);
    b->region = NULL;
}

const char *mo_b_name(struct mo_build *b, const char *stem) {
    char text[96];
    snprintf(text, sizeof text, "%s_%d", stem, b->n_names++);
    const char *name = copy(b, text);
    return name ? name : "";
}

/* --- nodes --- */

static Onnx__AttributeProto *add_attribute(struct mo_build *b, const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
    if (b->code || !b->nodes.n) return NULL;
    Onnx__NodeProto *node = b->nodes.at[b->nodes.n - 1];
    Onnx__AttributeProto *a = get(b, 1, sizeof *a);
    Onnx__AttributeProto **list = get(b, node->n_attribute + 1, sizeof(void *));
    if (!a || !list) return NULL;
    onnx__attribute_proto__init(a);
    a->name = copy(b, name);
    a->has_type = 1;
    a->type = type;
    if (node->n_attribute) memcpy(list, node->attribute, node->n_attribute * sizeof(void *));
    list[node->n_attribute++] = a;
    node->attribute = list;
    return a;
}

void mo_b_int(struct mo_build *b, const char *name, int64_t value) {
    Onnx__AttributeProto *a = add_attribute(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (!a) return;
    a->has_i = 1;
    a->i = value;
}

void mo_b_float(struct mo_build *b, const char *name, float value) {
    Onnx__AttributeProto *a = add_attribute(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    if (!a) return;
    a->has_f = 1;
    a->f = value;
}

void mo_b_ints(struct mo_build *b, const char *name, const int64_t *values, int n) {
    Onnx__AttributeProto *a = add_attribute(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    int64_t *ints = a ? get(b, (size_t)n, sizeof *ints) : NULL;
    if (!ints) return;
    memcpy(ints, values, (size_t)n * sizeof *ints);
    a->n_ints = (size_t)n;
    a->ints = ints;
}

const char *mo_b_node(struct mo_build *b, const char *op, int n_in, const char *const *in) {
    Onnx__NodeProto *node = get(b, 1, sizeof *node);
    char **list = get(b, (size_t)n_in + 1, sizeof *list);
    if (!node || !list) return "";
    onnx__node_proto__init(node);
    for (int i = 0; i < n_in; i++)
        list[i] = copy(b, in[i]);
    node->n_input = (size_t)n_in;
    node->input = list;
    char text[96];
    const char *name = mo_b_name(b, op);
    snprintf(text, sizeof text, "%s_output", name);
    list[n_in] = copy(b, text);
    node->n_output = 1;
    node->output = list + n_in;
    node->name = copy(b, name);
    node->op_type = copy(b, op);
    if (b->code) return "";
    push(b, &b->nodes, node);
    return node->output[0];
}

const char *mo_b_op1(struct mo_build *b, const char *op, const char *x) {
    return mo_b_node(b, op, 1, &x);
}
const char *mo_b_op2(struct mo_build *b, const char *op, const char *x, const char *y) {
    const char *in[] = {x, y};
    return mo_b_node(b, op, 2, in);
}
const char *mo_b_op3(struct mo_build *b, const char *op, const char *x, const char *y, const char *z) {
    const char *in[] = {x, y, z};
    return mo_b_node(b, op, 3, in);
}

const char *mo_b_another_output(struct mo_build *b) {
    if (b->code || !b->nodes.n) return "";
    Onnx__NodeProto *node = b->nodes.at[b->nodes.n - 1];
    char **list = get(b, node->n_output + 1, sizeof *list);
    char text[96];
    snprintf(text, sizeof text, "%s_output%zu", node->name, node->n_output);
    char *name = copy(b, text);
    if (!list || !name) return "";
    memcpy(list, node->output, node->n_output * sizeof *list);
    list[node->n_output++] = name;
    node->output = list;
    return name;
}

/* --- weights --- */

/* One independent stream for every tensor. */
static uint64_t stream(struct mo_build *b) {
    uint64_t state = b->seed * 0x2545f4914f6cdd1du + (uint64_t)b->n_streams++;
    mo_splitmix(&state);
    return mo_splitmix(&state);
}

/* A tensor with zeroed raw data; NULL after an error. */
static void *add_tensor(struct mo_build *b, const char *stem, moire_dtype dtype, const int64_t *dims,
                        int rank, const char **name) {
    size_t count = 1, bytes;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, (size_t)dims[i], &count)) mo_b_fail(b, MOIRE_ELIMIT);
    if (__builtin_mul_overflow(count, dtype == MOIRE_I64 ? 8 : 4, &bytes)) mo_b_fail(b, MOIRE_ELIMIT);
    Onnx__TensorProto *t = get(b, 1, sizeof *t);
    int64_t *shape = get(b, (size_t)rank, sizeof *shape);
    void *data = get(b, b->count_only ? 8 : bytes, 1);
    *name = mo_b_name(b, stem);
    if (b->code) return NULL;
    onnx__tensor_proto__init(t);
    if (rank) memcpy(shape, dims, (size_t)rank * sizeof *shape);
    t->n_dims = (size_t)rank;
    t->dims = shape;
    t->has_data_type = 1;
    t->data_type = (int32_t)dtype;
    t->name = copy(b, *name);
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){.len = bytes, .data = data};
    push(b, &b->weights, t);
    return b->code || b->count_only ? NULL : data;
}

/* The sum of four 16-bit uniforms of one draw is close to normal and needs no libm, so that every machine
 * makes the same file. */
const char *mo_b_normal(struct mo_build *b, const char *stem, const int64_t *dims, int rank, double mean,
                        double deviation) {
    const char *name;
    uint64_t state = stream(b);
    float *data = add_tensor(b, stem, MOIRE_F32, dims, rank, &name);
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    b->params += n;
    if (!data) return name;
    float scale = (float)(deviation / 37837.227), shift = (float)mean;
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = mo_splitmix(&state);
        int sum = (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) + (int)(r >> 48);
        data[i] = shift + scale * (float)(sum - 131070);
    }
    return name;
}

const char *mo_b_uniform(struct mo_build *b, const char *stem, int64_t n, double low, double high) {
    const char *name;
    uint64_t state = stream(b);
    float *data = add_tensor(b, stem, MOIRE_F32, &n, 1, &name);
    for (int64_t i = 0; data && i < n; i++)
        data[i] = (float)(low + (high - low) * (double)(mo_splitmix(&state) >> 40) / 16777216.0);
    return name;
}

const char *mo_b_i64(struct mo_build *b, const char *stem, const int64_t *values, int n) {
    const char *name;
    int64_t count = n;
    int64_t *data = add_tensor(b, stem, MOIRE_I64, &count, n > 0, &name);
    if (data) memcpy(data, values, (size_t)(n ? n : 1) * sizeof *data);
    return name;
}

const char *mo_b_f32(struct mo_build *b, const char *stem, float value) {
    const char *name;
    float *data = add_tensor(b, stem, MOIRE_F32, NULL, 0, &name);
    if (data) *data = value;
    return name;
}

/* --- inputs and outputs --- */

static Onnx__TensorShapeProto *make_shape(struct mo_build *b, const int64_t *dims, int rank) {
    Onnx__TensorShapeProto *shape = get(b, 1, sizeof *shape);
    Onnx__TensorShapeProto__Dimension **list = get(b, (size_t)rank, sizeof(void *));
    if (!shape || !list) return NULL;
    onnx__tensor_shape_proto__init(shape);
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = get(b, 1, sizeof *d);
        if (!d) return NULL;
        onnx__tensor_shape_proto__dimension__init(d);
        if (dims[i] < 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = copy(b, dims[i] == -1 ? "batch" : "sequence");
        } else {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = dims[i];
        }
        list[i] = d;
    }
    shape->n_dim = (size_t)rank;
    shape->dim = list;
    return shape;
}

static void add_info(struct mo_build *b, struct mo_blist *list, const char *name, moire_dtype dtype,
                     const int64_t *dims, int rank) {
    Onnx__ValueInfoProto *info = get(b, 1, sizeof *info);
    Onnx__TypeProto *type = get(b, 1, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = get(b, 1, sizeof *tensor);
    Onnx__TensorShapeProto *shape = make_shape(b, dims, rank);
    if (!info || !type || !tensor || !shape) return;
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = (int32_t)dtype;
    tensor->shape = shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = copy(b, name);
    info->type = type;
    push(b, list, info);
}

void mo_b_input(struct mo_build *b, const char *name, moire_dtype dtype, const int64_t *dims, int rank) {
    add_info(b, &b->inputs, name, dtype, dims, rank);
}

void mo_b_output(struct mo_build *b, const char *value, const char *name, moire_dtype dtype,
                 const int64_t *dims, int rank) {
    for (size_t i = 0; i < b->nodes.n; i++) {
        Onnx__NodeProto *node = b->nodes.at[i];
        for (size_t j = 0; j < node->n_input; j++)
            if (!strcmp(node->input[j], value)) node->input[j] = copy(b, name);
        if (!strcmp(node->output[0], value)) node->output[0] = copy(b, name);
        if (b->code) return;
    }
    add_info(b, &b->outputs, name, dtype, dims, rank);
}
