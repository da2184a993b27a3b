/* SPDX-License-Identifier: Apache-2.0
 * write.c - from a built model to a file: packed straight into a buffered file, so that the weights are in
 * memory once; written under a temporary name and renamed, so that a half-written file is never found. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "models/build.h"

enum { IR_VERSION = 7, BUFFER_BYTES = 1 << 16 };

/* protobuf's sink: `base` first, as protobuf-c casts it */
struct sink {
    ProtobufCBuffer base;
    const struct mo_env *env;
    int fd, code; /* code: first negative errno */
    size_t used;
    uint8_t bytes[BUFFER_BYTES];
};

static void put(struct sink *s, const uint8_t *data, size_t n) {
    while (n && !s->code) {
        ssize_t done = s->env->sys->write(s->env->sys->self, s->fd, data, n);
        if (done <= 0) {
            s->code = done ? (int)done : -EIO;
            return;
        }
        data += done;
        n -= (size_t)done;
    }
}

static void flush(struct sink *s) {
    put(s, s->bytes, s->used);
    s->used = 0;
}

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data) {
    struct sink *s = (struct sink *)buffer;
    if (n > BUFFER_BYTES - s->used) flush(s);
    if (n > BUFFER_BYTES) {
        put(s, data, n);
        return;
    }
    memcpy(s->bytes + s->used, data, n);
    s->used += n;
}

static int write_message(const struct mo_env *env, const Onnx__ModelProto *model, int fd) {
    struct sink *s = mo_alloc(env, sizeof *s);
    if (!s) return -ENOMEM;
    s->base.append = append;
    s->env = env;
    s->fd = fd;
    onnx__model_proto__pack_to_buffer(model, &s->base);
    flush(s);
    int code = s->code;
    mo_free(env, s);
    return code;
}

static int write_file(const struct mo_env *env, const Onnx__ModelProto *model, const char *path,
                      moire_error *err) {
    char part[4096];
    const struct mo_sys *sys = env->sys;
    /* the time makes the name this process's own: two may build the same file at once */
    if (snprintf(part, sizeof part, "%s.%llx.part", path, (unsigned long long)mo_now(env)) >=
        (int)sizeof part)
        return mo_fail(err, MOIRE_EINVAL, "%s: file name too long", path);
    int fd = sys->open(sys->self, part, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0)
        return mo_fail(err, MOIRE_EIO, "%s: cannot create: %s; check the folder", part, strerror(-fd));
    int code = write_message(env, model, fd);
    int closed = sys->close(sys->self, fd);
    if (!code) code = closed;
    if (!code) code = sys->rename(sys->self, part, path);
    if (!code) return MOIRE_OK;
    sys->unlink(sys->self, part);
    return mo_fail(err, code == -ENOMEM ? MOIRE_ENOMEM : MOIRE_EIO, "%s: cannot write: %s", path,
                   strerror(-code));
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
