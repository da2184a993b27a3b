/* SPDX-License-Identifier: Apache-2.0
 * import_attr.c - node attributes, all forms.  Strings are copied with their length, since they may be bytes.
 */
#include <stdio.h>
#include <string.h>
#include "codegen/import/import.h"

enum { MAX_ATTRS = 256 };

/* Files of the first ONNX versions leave the type out; the field that is set tells it. */
static Onnx__AttributeProto__AttributeType type_of(const Onnx__AttributeProto *a) {
    if (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return a->type;
    if (a->has_i) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    if (a->has_f) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    if (a->has_s) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    if (a->t) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    if (a->g) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    if (a->n_floats) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
    if (a->n_strings) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
}

static enum mo_attr_type kind_of(const Onnx__AttributeProto *a) {
    switch (type_of(a)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        return MO_ATTR_INT;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        return MO_ATTR_FLOAT;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        return MO_ATTR_STRING;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
        return MO_ATTR_TENSOR;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH:
        return MO_ATTR_GRAPH;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        return MO_ATTR_INTS;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        return MO_ATTR_FLOATS;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
        return MO_ATTR_STRINGS;
    default:
        return MO_ATTR_OTHER;
    }
}

/* A NUL-terminated copy (regions are zeroed). */
static const char *copy(const struct mo_import *im, const ProtobufCBinaryData *s) {
    return mo_region_string(im->graph->region, (const char *)s->data, s->len);
}

static bool copy_lists(const struct mo_import *im, const Onnx__AttributeProto *a, struct mo_attr *out) {
    struct mo_region *region = im->graph->region;
    if (out->type == MO_ATTR_INTS) {
        int64_t *ints = mo_region_array(region, a->n_ints, sizeof *ints);
        if (ints && a->n_ints) memcpy(ints, a->ints, a->n_ints * sizeof *ints);
        out->n = (int)a->n_ints;
        out->ints = ints;
        return ints;
    }
    if (out->type == MO_ATTR_FLOATS) {
        float *floats = mo_region_array(region, a->n_floats, sizeof *floats);
        if (floats && a->n_floats) memcpy(floats, a->floats, a->n_floats * sizeof *floats);
        out->n = (int)a->n_floats;
        out->floats = floats;
        return floats;
    }
    const char **strings = mo_region_array(region, a->n_strings, sizeof *strings);
    for (size_t i = 0; strings && i < a->n_strings; i++)
        if (!(strings[i] = copy(im, &a->strings[i]))) return false;
    out->n = (int)a->n_strings;
    out->strings = strings;
    return strings;
}

static int read_value(const struct mo_import *im, const Onnx__AttributeProto *a, const struct mo_node *node,
                      struct mo_attr *out) {
    switch (out->type) {
    case MO_ATTR_INT:
        out->i = a->i;
        return MOIRE_OK;
    case MO_ATTR_FLOAT:
        out->f = a->f;
        return MOIRE_OK;
    case MO_ATTR_STRING:
        out->s = copy(im, &a->s);
        out->s_len = a->s.len;
        return out->s ? MOIRE_OK : mo_fail(im->err, MOIRE_ENOMEM, "out of memory reading attributes");
    case MO_ATTR_TENSOR: {
        char what[300];
        snprintf(what, sizeof what, "node '%.100s' (%.60s): attribute '%.60s'", node->name, node->op_type,
                 out->name);
        if (!a->t) return mo_fail(im->err, MOIRE_EFORMAT, "%s holds no tensor", what);
        return mo_read_tensor(im, a->t, what, &out->tensor);
    }
    case MO_ATTR_GRAPH:
    case MO_ATTR_OTHER:
        return MOIRE_OK;
    default:
        return copy_lists(im, a, out) ? MOIRE_OK
                                      : mo_fail(im->err, MOIRE_ENOMEM, "out of memory reading attributes");
    }
}

static int check_type(const struct mo_import *im, const struct mo_node *node, const struct mo_attr *attr) {
    const char *wanted = mo_attr_type_wanted(attr);
    return wanted ? mo_fail(im->err, MOIRE_EFORMAT, "node '%.100s' (%.60s): attribute '%.60s' must be %s",
                            node->name, node->op_type, attr->name, wanted)
                  : MOIRE_OK;
}

int mo_read_attributes(const struct mo_import *im, const Onnx__NodeProto *proto, struct mo_node *node) {
    if (proto->n_attribute > MAX_ATTRS)
        return mo_fail(im->err, MOIRE_ELIMIT,
                       "node '%.100s' (%.60s) has %zu attributes; at most %d are supported", node->name,
                       node->op_type, proto->n_attribute, MAX_ATTRS);
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = proto->attribute[i];
        if (!a->name || !*a->name)
            return mo_fail(im->err, MOIRE_EFORMAT, "node '%.100s' (%.60s): attribute %zu has no name",
                           node->name, node->op_type, i);
        if (a->ref_attr_name && *a->ref_attr_name)
            return mo_fail(
                im->err, MOIRE_EFORMAT,
                "node '%.100s' (%.60s): attribute '%.60s' refers to a function's attribute, but the node "
                "is in no function",
                node->name, node->op_type, a->name);
        if (mo_attr_find(node, a->name))
            return mo_fail(im->err, MOIRE_EFORMAT, "node '%.100s' (%.60s): attribute '%.60s' is given twice",
                           node->name, node->op_type, a->name);
        struct mo_attr *out = mo_node_add_attr(im->graph, node, a->name, kind_of(a));
        if (!out) return mo_fail(im->err, MOIRE_ENOMEM, "out of memory reading attributes");
        int rc = read_value(im, a, node, out);
        if (!rc && !*node->domain) rc = check_type(im, node, out);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* Where the numbers of a scalar or list attribute lie. */
static const void *numbers_of(const struct mo_attr *a) {
    switch (a->type) {
    case MO_ATTR_FLOAT:
        return &a->f;
    case MO_ATTR_INT:
        return &a->i;
    case MO_ATTR_FLOATS:
        return a->floats;
    default:
        return a->ints;
    }
}

int mo_constant_value(const struct mo_import *im, const struct mo_node *node, struct mo_value *out) {
    static const struct {
        const char *name;
        enum mo_attr_type type;
        moire_dtype dtype;
    } forms[] = {
        {"value", MO_ATTR_TENSOR, MOIRE_NONE},
        {"value_float", MO_ATTR_FLOAT, MOIRE_F32},
        {"value_int", MO_ATTR_INT, MOIRE_I64},
        {"value_floats", MO_ATTR_FLOATS, MOIRE_F32},
        {"value_ints", MO_ATTR_INTS, MOIRE_I64},
        {"value_string", MO_ATTR_STRING, MOIRE_STRING},
        {"value_strings", MO_ATTR_STRINGS, MOIRE_STRING},
    };
    const struct mo_attr *a = node->n_attrs == 1 ? &node->attrs[0] : NULL;
    size_t form = 0, n_forms = sizeof forms / sizeof *forms;
    *out = (struct mo_value){.dtype = MOIRE_NONE};
    while (a && form < n_forms && (strcmp(a->name, forms[form].name) != 0 || a->type != forms[form].type))
        form++;
    if (!a || form == n_forms) return MOIRE_OK;
    if (a->type == MO_ATTR_TENSOR)
        *out = a->tensor;
    else
        out->dtype = forms[form].dtype;
    if (a->type == MO_ATTR_TENSOR || out->dtype == MOIRE_STRING) return MOIRE_OK;
    bool list = a->type == MO_ATTR_INTS || a->type == MO_ATTR_FLOATS;
    if (list) out->shape = (struct mo_shape){.rank = 1, .d = {a->n}};
    size_t bytes = mo_dtype_bytes(out->dtype) * (size_t)(list ? a->n : 1);
    out->data = mo_region_alloc(im->graph->region, bytes);
    if (!out->data) return mo_fail(im->err, MOIRE_ENOMEM, "out of memory reading attributes");
    if (bytes) memcpy(out->data, numbers_of(a), bytes);
    return MOIRE_OK;
}
