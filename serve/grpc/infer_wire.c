/* SPDX-License-Identifier: Apache-2.0
 * infer_wire.c - takes raw_input_contents out of a request before protobuf-c, which would copy them, reads
 * the rest; see infer_wire.h.
 *
 * The rest is some hundred bytes where tensors are raw.  The two passes over the fields read tags and lengths
 * only. */
#include "serve/grpc/infer_wire.h"

#include <stdlib.h>
#include <string.h>
#include "serve/grpc/messages.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/kserve.h"

enum { RAW_INPUT_CONTENTS = 7, WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* A field of a message: all of it, and what stands behind its tag and length. */
struct wire_field {
    const char *from, *data, *end;
    bool is_raw;
};

static bool read_varint(const char **at, const char *end, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = (uint8_t) * (*at)++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

/* The field at `at`; false: there is none, or no whole one. */
static bool next_field(const char *at, const char *end, struct wire_field *f) {
    uint64_t tag, n = 0;
    *f = (struct wire_field){.from = at};
    if (!read_varint(&at, end, &tag)) return false;
    switch (tag & 7) {
    case WIRE_VARINT:
        if (!read_varint(&at, end, &n)) return false;
        n = 0;
        break;
    case WIRE_64:
        n = 8;
        break;
    case WIRE_BYTES:
        if (!read_varint(&at, end, &n)) return false;
        break;
    case WIRE_32:
        n = 4;
        break;
    default:
        return false;
    }
    if (n > (size_t)(end - at)) return false;
    f->data = at;
    f->end = at + n;
    f->is_raw = tag == (RAW_INPUT_CONTENTS << 3 | WIRE_BYTES);
    return true;
}

/* How many raw tensors there are, and the bytes of all other fields.  false: malformed. */
static bool survey(const char *from, const char *end, size_t *n_raw, size_t *rest) {
    struct wire_field f;
    *n_raw = *rest = 0;
    for (const char *at = from; at < end; at = f.end) {
        if (!next_field(at, end, &f)) return false;
        *n_raw += f.is_raw;
        *rest += f.is_raw ? 0 : (size_t)(f.end - f.from);
    }
    return true;
}

static void split(const char *from, const char *end, ProtobufCBinaryData *raw, char *rest) {
    struct wire_field f;
    for (const char *at = from; at < end && next_field(at, end, &f); at = f.end) {
        const size_t n = (size_t)(f.end - (f.is_raw ? f.data : f.from));
        if (f.is_raw) {
            *raw++ = (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)f.data};
        } else {
            memcpy(rest, f.from, n);
            rest += n;
        }
    }
}

static int read_rest(const char *from, size_t n, Inference__ModelInferRequest **out, moire_error *err) {
    ProtobufCMessage *m;
    const int rc = ms_message_read(&inference__model_infer_request__descriptor, from, n, &m, err);
    *out = rc ? NULL : (Inference__ModelInferRequest *)(void *)m;
    return rc;
}

int ms_infer_wire_read(const char *from, size_t n, Inference__ModelInferRequest **out, moire_error *err) {
    size_t n_raw, n_rest;
    *out = NULL;
    if (!n) from = ""; /* an empty message may have no address */
    if (!survey(from, from + n, &n_raw, &n_rest))
        return ms_fail(err, MOIRE_EINVAL, "the message is no inference.ModelInferRequest");
    if (!n_raw) return read_rest(from, n, out, err);
    if (n_raw > MS_PORTS)
        return ms_fail(err, MOIRE_EINVAL, "a request may have %d raw_input_contents", MS_PORTS);
    ProtobufCBinaryData *raw = malloc(n_raw * sizeof *raw);
    char *rest = malloc(n_rest ? n_rest : 1);
    int rc;
    if (raw && rest) {
        split(from, from + n, raw, rest);
        rc = read_rest(rest, n_rest, out, err);
    } else {
        rc = ms_fail(err, MOIRE_ENOMEM, "no memory for the message");
    }
    free(rest);
    if (!*out) {
        free(raw);
        return rc;
    }
    (*out)->raw_input_contents = raw;
    (*out)->n_raw_input_contents = n_raw;
    return MOIRE_OK;
}

void ms_infer_wire_free(Inference__ModelInferRequest *request) {
    if (!request) return;
    free(request->raw_input_contents); /* the list; what it points to is the message's */
    request->raw_input_contents = NULL;
    request->n_raw_input_contents = 0;
    inference__model_infer_request__free_unpacked(request, NULL);
}
