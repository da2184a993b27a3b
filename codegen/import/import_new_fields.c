/* SPDX-License-Identifier: Apache-2.0
 * import_new_fields.c - see import_new_fields.h.  The fields are found among those that protobuf-c does not
 * know.
 */
#include "codegen/import/import_new_fields.h"

enum { WIRE_BYTES = 2, FUNCTION_DEFAULT = 11, FUNCTION_OVERLOAD = 13, NODE_OVERLOAD = 8 };

/* The bytes of a string or a message, behind their length; false: another kind of field. */
static bool contents(const ProtobufCMessageUnknownField *f, const uint8_t **bytes, size_t *n) {
    size_t at = 0;
    if ((int)f->wire_type != WIRE_BYTES) return false;
    while (at < f->len && f->data[at] & 0x80)
        at++;
    if (at >= f->len) return false;
    *bytes = f->data + at + 1;
    *n = f->len - at - 1;
    return true;
}

/* The last field of that number, as text; "": there is none; NULL: out of memory. */
static const char *text_of(struct mo_region *region, const ProtobufCMessage *m, uint32_t tag) {
    const uint8_t *bytes = NULL;
    size_t n = 0;
    for (unsigned i = 0; i < m->n_unknown_fields; i++)
        if (m->unknown_fields[i].tag == tag) contents(&m->unknown_fields[i], &bytes, &n);
    if (!bytes) return "";
    char *text = mo_region_alloc(region, n + 1);
    if (text) memcpy(text, bytes, n);
    return text;
}

const char *mo_node_overload(struct mo_region *region, const Onnx__NodeProto *node) {
    return text_of(region, &node->base, NODE_OVERLOAD);
}

int mo_read_function_more(const struct mo_import *im, const Onnx__FunctionProto *p,
                          struct mo_function_more *out) {
    const ProtobufCMessage *m = &p->base;
    struct mo_region *region = im->graph->region;
    out->overload = text_of(region, m, FUNCTION_OVERLOAD);
    out->defaults = mo_region_array(region, m->n_unknown_fields + 1, sizeof *out->defaults);
    if (!out->overload || !out->defaults) return mo_fail(im->err, MOIRE_ENOMEM, "out of memory");
    for (unsigned i = 0; i < m->n_unknown_fields; i++) {
        const uint8_t *bytes;
        size_t n;
        if (m->unknown_fields[i].tag != FUNCTION_DEFAULT || !contents(&m->unknown_fields[i], &bytes, &n))
            continue;
        int rc = mo_unpack_attribute(im->env, region, bytes, n, &out->defaults[out->n_defaults], im->err);
        if (rc) return mo_fail_context(im->err, rc, "function '%.100s'", mo_proto_text(p->name));
        out->n_defaults++;
    }
    return MOIRE_OK;
}
