/* SPDX-License-Identifier: Apache-2.0
 * import_wire.c - walks protobuf bytes before anything is allocated for them.
 *
 * Checks tags, wire types, lengths, nesting and name lengths against the message descriptors that protoc-c
 * made, with an explicit stack and no allocation; every complaint carries the byte offset.  Unknown fields
 * (newer versions of the format) are skipped. */
#include <string.h>
#include "codegen/import/import.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, MAX_DEPTH = 64 };

struct frame {
    const ProtobufCMessageDescriptor *type;
    size_t end;
};

struct walk {
    const struct mo_limits *limits;
    const uint8_t *bytes;
    size_t at;
    struct frame stack[MAX_DEPTH];
    int depth; /* frames in use */
    moire_error *err;
};

static int refuse(const struct walk *w, size_t offset, const char *what) {
    return mo_fail(w->err, MOIRE_EFORMAT, "malformed ONNX data at byte %zu: %s; is the file complete?",
                   offset, what);
}

/* Reads a varint that ends before `end`. */
static bool varint(struct walk *w, size_t end, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (w->at >= end) return false;
        uint8_t b = w->bytes[w->at++];
        if (shift < 64) *out |= (uint64_t)(b & 127) << shift;
        if (b < 128) return true;
    }
    return false;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type, uint64_t id) {
    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].id == id) return &type->fields[i];
    return NULL;
}

static int wire_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    default:
        return WIRE_VARINT;
    }
}

/* Free text is bounded by the file alone; everything else that is a string is a name. */
static bool is_name(const ProtobufCFieldDescriptor *f) {
    return strcmp(f->name, "doc_string") && strcmp(f->name, "value");
}

static int check_string(struct walk *w, const ProtobufCFieldDescriptor *f, size_t start, size_t len) {
    if (memchr(w->bytes + start, 0, len)) return refuse(w, start, "a string contains a zero byte");
    if (is_name(f) && len > (size_t)w->limits->name_bytes)
        return mo_fail(w->err, MOIRE_ELIMIT,
                       "name of %zu bytes at byte %zu of the ONNX data exceeds the limit name_bytes (%lld)",
                       len, start, (long long)w->limits->name_bytes);
    return MOIRE_OK;
}

/* A repeated scalar field in packed form. */
static int check_packed(struct walk *w, int wire, size_t start, size_t len) {
    if (wire == WIRE_32 && len % 4)
        return refuse(w, start, "a packed list does not hold whole 4-byte values");
    if (wire == WIRE_64 && len % 8)
        return refuse(w, start, "a packed list does not hold whole 8-byte values");
    if (wire == WIRE_VARINT && len && w->bytes[start + len - 1] >= 128)
        return refuse(w, start + len - 1, "a packed list ends inside a value");
    return MOIRE_OK;
}

static int push(struct walk *w, const ProtobufCMessageDescriptor *type, size_t end) {
    int64_t bound = w->limits->message_depth < MAX_DEPTH ? w->limits->message_depth : MAX_DEPTH;
    if (w->depth >= bound)
        return mo_fail(w->err, MOIRE_ELIMIT,
                       "ONNX messages nest deeper than the limit message_depth (%lld) at byte %zu",
                       (long long)bound, w->at);
    w->stack[w->depth++] = (struct frame){type, end};
    return MOIRE_OK;
}

/* The payload of a length-delimited field; moves past it or descends into it. */
static int delimited(struct walk *w, const ProtobufCFieldDescriptor *f, size_t tag_at, size_t end) {
    uint64_t len;
    if (!varint(w, end, &len)) return refuse(w, w->at, "the data ends inside a length");
    if (len > INT32_MAX) return refuse(w, tag_at, "a field is longer than 2 GiB (use external data)");
    if (len > end - w->at) return refuse(w, tag_at, "a field runs past the end of its message");
    size_t start = w->at, stop = start + (size_t)len;
    if (f && f->type == PROTOBUF_C_TYPE_MESSAGE) return push(w, f->descriptor, stop);
    w->at = stop;
    if (!f || f->type == PROTOBUF_C_TYPE_BYTES) return MOIRE_OK;
    if (f->type == PROTOBUF_C_TYPE_STRING) return check_string(w, f, start, (size_t)len);
    return check_packed(w, wire_of(f->type), start, (size_t)len);
}

static int step(struct walk *w) {
    const struct frame *top = &w->stack[w->depth - 1];
    size_t tag_at = w->at, end = top->end;
    uint64_t tag, skipped;
    if (!varint(w, end, &tag)) return refuse(w, tag_at, "the data ends inside a field tag");
    int wire = (int)(tag & 7);
    if (tag > UINT32_MAX || tag >> 3 == 0) return refuse(w, tag_at, "field number out of range");
    const ProtobufCFieldDescriptor *f = field_of(top->type, tag >> 3);
    if (f && wire != wire_of(f->type)) {
        bool packed = wire == WIRE_BYTES && f->label == PROTOBUF_C_LABEL_REPEATED;
        if (!packed) return refuse(w, tag_at, "a field has the wrong wire type");
    }
    switch (wire) {
    case WIRE_VARINT:
        return varint(w, end, &skipped) ? MOIRE_OK : refuse(w, w->at, "the data ends inside a number");
    case WIRE_BYTES:
        return delimited(w, f, tag_at, end);
    case WIRE_32:
    case WIRE_64: {
        size_t n = wire == WIRE_32 ? 4 : 8;
        if (n > end - w->at) return refuse(w, tag_at, "the data ends inside a number");
        w->at += n;
        return MOIRE_OK;
    }
    default:
        return refuse(w, tag_at, "unknown wire type");
    }
}

int mo_wire_check(const struct mo_limits *limits, const ProtobufCMessageDescriptor *root,
                  const uint8_t *bytes, size_t n, moire_error *err) {
    struct walk w = {.limits = limits, .bytes = bytes, .err = err};
    int rc = push(&w, root, n);
    while (!rc && w.depth) {
        if (w.at == w.stack[w.depth - 1].end)
            w.depth--;
        else
            rc = step(&w);
    }
    return rc;
}
