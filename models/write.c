/* SPDX-License-Identifier: Apache-2.0
 * write.c - from a built model to a file: packed straight into a buffered output, so that the weights are in
 * memory once. */
#include <string.h>
#include "models/build.h"
#include "runtime/base/output.h"

enum { IR_VERSION = 7, BUFFER_BYTES = 1 << 16 };

/* protobuf's sink: `base` first, as protobuf-c casts it */
struct sink {
    ProtobufCBuffer base;
    struct mo_output output;
    size_t used;
    uint8_t bytes[BUFFER_BYTES];
};

static void flush(struct sink *s) {
    mo_output_put(&s->output, s->bytes, s->used);
    s->used = 0;
}

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data) {
    struct sink *s = (struct sink *)buffer;
    if (n > BUFFER_BYTES - s->used) flush(s);
    if (n > BUFFER_BYTES) {
        mo_output_put(&s->output, data, n);
        return;
    }
    memcpy(s->bytes + s->used, data, n);
    s->used += n;
}

static int write_file(const struct mo_env *env, const Onnx__ModelProto *model, const char *path,
                      moire_error *err) {
    struct sink *s = mo_alloc(env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    s->base.append = append;
    int code = mo_output_open(env, path, &s->output, err);
    if (!code) {
        onnx__model_proto__pack_to_buffer(model, &s->base);
        flush(s);
        code = mo_output_close(&s->output, err);
    }
    mo_free(env, s);
    return code;
}

int mo_build_write(struct mo_build *b, const char *path, moire_error *err) {
    if (b->code) return mo_fail(err, b->code, "model %s: %s", b->model, moire_code_text(b->code));
    Onnx__GraphProto graph;
    onnx__graph_proto__init(&graph);
    graph.name = (char *)b->model;
    graph.n_node = b->nodes.n;
    graph.node = (Onnx__NodeProto **)b->nodes.at;
    graph.n_initializer = b->weights.n;
    graph.initializer = (Onnx__TensorProto **)b->weights.at;
    graph.n_input = b->inputs.n;
    graph.input = (Onnx__ValueInfoProto **)b->inputs.at;
    graph.n_output = b->outputs.n;
    graph.output = (Onnx__ValueInfoProto **)b->outputs.at;
    Onnx__OperatorSetIdProto opset, *opsets = &opset;
    onnx__operator_set_id_proto__init(&opset);
    opset.domain = "";
    opset.has_version = 1;
    opset.version = b->opset;
    Onnx__ModelProto model;
    onnx__model_proto__init(&model);
    model.has_ir_version = 1;
    model.ir_version = IR_VERSION;
    model.n_opset_import = 1;
    model.opset_import = &opsets;
    model.producer_name = "moire zoo";
    model.producer_version = MOIRE_VERSION_STRING;
    model.graph = &graph;
    if (onnx__model_proto__get_packed_size(&model) > INT32_MAX)
        return mo_fail(err, MOIRE_ELIMIT, "model %s: larger than the 2 GB of one protobuf file", b->model);
    return write_file(b->env, &model, path, err);
}
