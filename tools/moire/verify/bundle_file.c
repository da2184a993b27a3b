/* SPDX-License-Identifier: Apache-2.0
 * bundle_file.c - see bundle_file.h.  The messages are read by hand: they are in another file of ONNX than
 * the one that the build makes readers of (SequenceProto: elem_type 2, tensors 3, sequences 5; OptionalProto
 * the same, each once). */
#include "tools/moire/verify/bundle_file.h"

#include <string.h>
#include "runtime/ops/control/body.h"

enum { TENSORS = 3, SEQUENCES = 5, WIRE_VARINT = 0, WIRE_BYTES = 2, MOST_DEPTH = 8 };

struct bundle_bytes {
    const uint8_t *at, *end;
};

/* False: the bytes end within it. */
static bool varint(struct bundle_bytes *b, uint64_t *out) {
    *out = 0;
    for (int shift = 0; b->at < b->end && shift < 64; shift += 7) {
        const uint8_t byte = *b->at++;
        *out |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) return true;
    }
    return false;
}

/* The next field that holds a message; false: there is none, or the bytes are malformed. */
static bool next_message(struct bundle_bytes *b, uint64_t *field, struct bundle_bytes *message) {
    uint64_t tag, value;
    while (b->at < b->end && varint(b, &tag) && varint(b, &value)) {
        if ((tag & 7) == WIRE_VARINT) continue;
        if ((tag & 7) != WIRE_BYTES || value > (uint64_t)(b->end - b->at)) break;
        *message = (struct bundle_bytes){b->at, b->at + value};
        b->at += value;
        *field = tag >> 3;
        return true;
    }
    return false;
}

static int read_item(const struct mo_import *im, struct bundle_bytes b, const char *path,
                     struct mo_value *out) {
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, (size_t)(b.end - b.at), b.at);
    struct mo_value read = {0};
    const struct mo_op_ctx ctx = {.env = im->env, .err = im->err};
    int rc = proto ? mo_read_tensor(im, proto, path, &read)
                   : mo_fail(im->err, MOIRE_EFORMAT, "'%s' is malformed", path);
    if (!rc && read.dtype == MOIRE_STRING)
        rc = mo_fail(im->err, MOIRE_EUNSUPPORTED, "'%s' holds strings", path);
    if (!rc) rc = mo_value_copy(&ctx, &read, out);
    if (proto) onnx__tensor_proto__free_unpacked(proto, NULL);
    return rc;
}

static int read_bundle(const struct mo_import *im, enum mo_bundle_kind kind, struct bundle_bytes b,
                       const char *path, int depth, struct mo_value *out) {
    enum { MOST = 256 };
    struct mo_value items[MOST];
    struct bundle_bytes message;
    uint64_t field;
    int n = 0, rc = MOIRE_OK;
    if (depth > MOST_DEPTH) return mo_fail(im->err, MOIRE_ELIMIT, "'%s' nests too deep", path);
    while (!rc && n < MOST && next_message(&b, &field, &message)) {
        if (field == TENSORS)
            rc = read_item(im, message, path, &items[n]);
        else if (field == SEQUENCES)
            rc = read_bundle(im, MO_SEQUENCE, message, path, depth + 1, &items[n]);
        else
            continue;
        n += !rc;
    }
    if (!rc) rc = mo_bundle_make(im->env, kind, n ? items[0].dtype : MOIRE_NONE, items, n, out, im->err);
    mo_values_free(im->env, items, n);
    return rc;
}

int mo_bundle_read(const struct mo_import *im, enum mo_bundle_kind kind, const uint8_t *bytes, size_t n,
                   const char *path, struct mo_value *out) {
    return read_bundle(im, kind, (struct bundle_bytes){bytes, bytes + n}, path, 0, out);
}
