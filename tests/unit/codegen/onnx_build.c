/* SPDX-License-Identifier: Apache-2.0
 * onnx_build.c - small ONNX models for tests; see the header. */
#define _GNU_SOURCE
#include "tests/unit/codegen/onnx_build.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

void *ob_alloc(struct ob *b, size_t bytes) {
    void *p = mo_region_alloc(b->region, bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

char *ob_text(struct ob *b, const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(ob_alloc(b, n), s, n);
}

struct ob *ob_create(int opset) {
    struct ob *b = calloc(1, sizeof *b);
    if (!b) abort();
    b->env = mo_env_default();
    b->region = mo_region_create(&b->env); /* keeps the pointer */
    if (!b->region) abort();
    b->seed = 1;
    onnx__model_proto__init(&b->model);
    onnx__graph_proto__init(&b->graph);
    b->model.graph = &b->graph;
    b->model.has_ir_version = 1;
    b->model.ir_version = 7;
    b->model.opset_import = b->opsets;
    b->graph.name = ob_text(b, "test");
    b->graph.node = b->nodes;
    b->graph.initializer = b->tensors;
    b->graph.input = b->inputs;
    b->graph.output = b->outputs;
    if (opset) ob_opset(b, "", opset);
    return b;
}

void ob_destroy(struct ob *b) {
    mo_region_destroy(b->region);
    free(b);
}

void ob_opset(struct ob *b, const char *domain, int version) {
    Onnx__OperatorSetIdProto *o = ob_alloc(b, sizeof *o);
    onnx__operator_set_id_proto__init(o);
    o->domain = ob_text(b, domain);
    o->has_version = 1;
    o->version = version;
    b->opsets[b->model.n_opset_import++] = o;
}

/* Numbers of "1,2,3"; a word that is no number gives -1 and, when asked for, its text. */
static size_t parse_list(struct ob *b, const char *text, int64_t *out, char **words) {
    size_t n = 0;
    char *copy = ob_text(b, text), *save = NULL;
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char *end;
        out[n] = strtoll(word, &end, 10);
        if (words) words[n] = *end ? word : NULL;
        n++;
    }
    return n;
}

static Onnx__TypeProto *tensor_type(struct ob *b, int dtype, const char *text) {
    Onnx__TypeProto *type = ob_alloc(b, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = ob_alloc(b, sizeof *tensor);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = dtype;
    if (!text) return type;
    int64_t dims[32];
    char *words[32];
    Onnx__TensorShapeProto *shape = ob_alloc(b, sizeof *shape);
    onnx__tensor_shape_proto__init(shape);
    shape->n_dim = parse_list(b, text, dims, words);
    shape->dim = ob_alloc(b, shape->n_dim * sizeof *shape->dim);
    for (size_t i = 0; i < shape->n_dim; i++) {
        Onnx__TensorShapeProto__Dimension *d = shape->dim[i] = ob_alloc(b, sizeof *d);
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = words[i] ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                 : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (words[i])
            d->dim_param = words[i];
        else
            d->dim_value = dims[i];
    }
    tensor->shape = shape;
    return type;
}

static Onnx__ValueInfoProto *value_info(struct ob *b, const char *name, Onnx__TypeProto *type) {
    Onnx__ValueInfoProto *info = ob_alloc(b, sizeof *info);
    onnx__value_info_proto__init(info);
    info->name = ob_text(b, name);
    info->type = type;
    return info;
}

Onnx__ValueInfoProto *ob_input(struct ob *b, const char *name, int dtype, const char *shape) {
    return b->inputs[b->graph.n_input++] = value_info(b, name, tensor_type(b, dtype, shape));
}

void ob_loop_inputs(struct ob *body) {
    ob_input(body, "i", MOIRE_I64, "");
    ob_input(body, "was", MOIRE_BOOL, "");
}

Onnx__ValueInfoProto *ob_output(struct ob *b, const char *name) {
    return b->outputs[b->graph.n_output++] = value_info(b, name, tensor_type(b, MOIRE_F32, NULL));
}

static Onnx__TensorProto *initializer(struct ob *b, const char *name, int dtype, const char *shape,
                                      size_t size) {
    Onnx__TensorProto *t = ob_alloc(b, sizeof *t);
    int64_t dims[32];
    onnx__tensor_proto__init(t);
    t->name = ob_text(b, name);
    t->has_data_type = 1;
    t->data_type = dtype;
    t->n_dims = parse_list(b, shape, dims, NULL);
    t->dims = ob_alloc(b, t->n_dims * sizeof *t->dims);
    memcpy(t->dims, dims, t->n_dims * sizeof *dims);
    t->has_raw_data = 1;
    t->raw_data.len = size;
    for (size_t i = 0; i < t->n_dims; i++)
        t->raw_data.len *= (size_t)dims[i];
    t->raw_data.data = ob_alloc(b, t->raw_data.len);
    return b->tensors[b->graph.n_initializer++] = t;
}

Onnx__TensorProto *ob_floats(struct ob *b, const char *name, const char *shape, const float *values) {
    Onnx__TensorProto *t = initializer(b, name, MOIRE_F32, shape, 4);
    memcpy(t->raw_data.data, values, t->raw_data.len);
    return t;
}

Onnx__TensorProto *ob_scalar(struct ob *b, const char *name, float value) {
    return ob_floats(b, name, "", &value);
}

Onnx__TensorProto *ob_random(struct ob *b, const char *name, const char *shape) {
    Onnx__TensorProto *t = initializer(b, name, MOIRE_F32, shape, 4);
    float *values = (float *)(void *)t->raw_data.data;
    for (size_t i = 0; i < t->raw_data.len / 4; i++) {
        b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = (float)(b->seed >> 40) / 8388608.0f - 1;
    }
    return t;
}

Onnx__TensorProto *ob_int64s(struct ob *b, const char *name, const char *values) {
    int64_t list[32];
    size_t n = parse_list(b, values, list, NULL);
    Onnx__TensorProto *t = initializer(b, name, MOIRE_I64, "", 8);
    t->n_dims = 1;
    t->dims = ob_alloc(b, sizeof *t->dims);
    t->dims[0] = (int64_t)n;
    t->raw_data.len = n * 8;
    t->raw_data.data = ob_alloc(b, n * 8);
    memcpy(t->raw_data.data, list, n * 8);
    return t;
}

static size_t words_of(struct ob *b, const char *text, char ***out) {
    size_t n = 0;
    char *copy = ob_text(b, text), *save = NULL;
    *out = ob_alloc(b, (strlen(text) + 1) * sizeof **out);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        (*out)[n++] = strcmp(word, "-") ? word : ob_text(b, "");
    return n;
}

Onnx__NodeProto *ob_node(struct ob *b, const char *op, const char *inputs, const char *outputs) {
    Onnx__NodeProto *node = ob_alloc(b, sizeof *node);
    onnx__node_proto__init(node);
    node->op_type = ob_text(b, op);
    node->name = ob_text(b, outputs);
    node->n_input = words_of(b, inputs, &node->input);
    node->n_output = words_of(b, outputs, &node->output);
    node->attribute = ob_alloc(b, 32 * sizeof *node->attribute);
    return b->nodes[b->graph.n_node++] = node;
}

Onnx__AttributeProto *ob_attr(struct ob *b, const char *name, int type) {
    Onnx__NodeProto *node = b->nodes[b->graph.n_node - 1];
    Onnx__AttributeProto *a = ob_alloc(b, sizeof *a);
    onnx__attribute_proto__init(a);
    a->name = ob_text(b, name);
    a->has_type = 1;
    a->type = (Onnx__AttributeProto__AttributeType)type;
    return node->attribute[node->n_attribute++] = a;
}

void ob_int(struct ob *b, const char *name, int64_t value) {
    Onnx__AttributeProto *a = ob_attr(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    a->has_i = 1;
    a->i = value;
}

void ob_float(struct ob *b, const char *name, float value) {
    Onnx__AttributeProto *a = ob_attr(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    a->has_f = 1;
    a->f = value;
}

void ob_value(struct ob *b, float value) {
    Onnx__TensorProto *t = ob_alloc(b, sizeof *t);
    onnx__tensor_proto__init(t);
    t->has_data_type = 1;
    t->data_type = MOIRE_F32;
    t->n_dims = t->n_float_data = 1;
    *(t->dims = ob_alloc(b, sizeof *t->dims)) = 1;
    *(t->float_data = ob_alloc(b, sizeof *t->float_data)) = value;
    ob_attr(b, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = t;
}

void ob_string(struct ob *b, const char *name, const char *value) {
    Onnx__AttributeProto *a = ob_attr(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    a->has_s = 1;
    a->s.len = strlen(value);
    a->s.data = (uint8_t *)ob_text(b, value);
}

void ob_ints(struct ob *b, const char *name, const char *values) {
    int64_t list[32];
    Onnx__AttributeProto *a = ob_attr(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    a->n_ints = parse_list(b, values, list, NULL);
    a->ints = ob_alloc(b, a->n_ints * sizeof *a->ints);
    memcpy(a->ints, list, a->n_ints * sizeof *a->ints);
}

void ob_body(struct ob *b, const char *name, struct ob *body) {
    ob_attr(b, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = &body->graph;
}

uint8_t *ob_pack(struct ob *b, size_t *n) {
    *n = onnx__model_proto__get_packed_size(&b->model);
    uint8_t *bytes = ob_alloc(b, *n + 1);
    onnx__model_proto__pack(&b->model, bytes);
    return bytes;
}

bool ob_save(struct ob *b, const char *path) {
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    FILE *f = fopen(path, "wb");
    const bool written = f && fwrite(bytes, 1, n, f) == n;
    return f && !fclose(f) && written;
}

void ob_integers(struct ob *b, const char *name, const char *values, moire_dtype type) {
    char wide[24];
    snprintf(wide, sizeof wide, "%s_wide", name);
    ob_int64s(b, wide, values);
    ob_node(b, "Cast", wide, name);
    ob_int(b, "to", type);
}

void ob_batch_norm(struct ob *b, const char *in, const char *out, const char *channels) {
    static const char *const parts[] = {"g", "b", "m", "v"};
    char words[100];
    snprintf(words, sizeof words, "%s %s_g %s_b %s_m %s_v", in, out, out, out, out);
    for (int i = 0; i < 4; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s_%s", out, parts[i]);
        Onnx__TensorProto *t = ob_random(b, name, channels);
        float *v = (float *)(void *)t->raw_data.data;
        for (size_t k = 0; i == 3 && k < t->raw_data.len / 4; k++)
            v[k] = v[k] * v[k] + 0.5f;
    }
    ob_node(b, "BatchNormalization", words, out);
}
