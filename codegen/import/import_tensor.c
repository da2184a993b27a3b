/* SPDX-License-Identifier: Apache-2.0
 * import_tensor.c - the one function that reads a TensorProto: raw bytes, typed lists or an external file,
 * with the exact size its type and shape ask for.  Raw data is used where protobuf-c put it (64-byte aligned,
 * in the graph's region); the format is little-endian, and so must the machine be. */
#include <string.h>
#include "codegen/import/import.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ONNX raw data is little-endian");

static int shape_of(const struct mo_import *im, const Onnx__TensorProto *t, const char *what,
                    struct mo_shape *shape) {
    if (t->n_dims > MOIRE_MAX_RANK)
        return mo_fail(im->err, MOIRE_ELIMIT, "%s has rank %zu; at most %d is supported", what, t->n_dims,
                       MOIRE_MAX_RANK);
    shape->rank = (int)t->n_dims;
    for (int i = 0; i < shape->rank; i++) {
        shape->d[i] = t->dims[i];
        if (t->dims[i] < 0)
            return mo_fail(im->err, MOIRE_EFORMAT, "%s has a negative dimension (%lld)", what,
                           (long long)t->dims[i]);
    }
    return MOIRE_OK;
}

/* Number of values in the typed list that holds elements of this type, and the name of that field. */
static size_t typed_count(const Onnx__TensorProto *t, moire_dtype dtype, const char **field) {
    switch (dtype) {
    case MOIRE_F32:
        *field = "float_data";
        return t->n_float_data;
    case MOIRE_F64:
        *field = "double_data";
        return t->n_double_data;
    case MOIRE_I64:
        *field = "int64_data";
        return t->n_int64_data;
    case MOIRE_U32:
    case MOIRE_U64:
        *field = "uint64_data";
        return t->n_uint64_data;
    default:
        *field = "int32_data";
        return t->n_int32_data;
    }
}

/* Values out of the element type's range are cut like a C conversion would. */
static void copy_typed(const Onnx__TensorProto *t, moire_dtype dtype, void *out, int64_t n) {
    switch (dtype) {
    case MOIRE_F32:
        memcpy(out, t->float_data, (size_t)n * 4);
        break;
    case MOIRE_F64:
        memcpy(out, t->double_data, (size_t)n * 8);
        break;
    case MOIRE_I64:
        memcpy(out, t->int64_data, (size_t)n * 8);
        break;
    case MOIRE_U64:
        memcpy(out, t->uint64_data, (size_t)n * 8);
        break;
    case MOIRE_U32:
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)out)[i] = (uint32_t)t->uint64_data[i];
        break;
    case MOIRE_I32:
        memcpy(out, t->int32_data, (size_t)n * 4);
        break;
    case MOIRE_I16:
    case MOIRE_U16:
    case MOIRE_F16:
    case MOIRE_BF16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = (uint16_t)t->int32_data[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out)[i] = (uint8_t)t->int32_data[i];
        break;
    }
}

static int read_typed(const struct mo_import *im, const Onnx__TensorProto *t, const char *what,
                      struct mo_value *out, int64_t count) {
    const char *field;
    size_t n = typed_count(t, out->dtype, &field);
    if (n != (size_t)count)
        return mo_fail(im->err, MOIRE_EFORMAT, "%s has %zu values in %s, its shape needs %lld", what, n,
                       field, (long long)count);
    if (count) copy_typed(t, out->dtype, out->data, count);
    return MOIRE_OK;
}

/* Anything but 0 counts as true; kernels and references rely on 0 and 1. */
static void normalize_bools(struct mo_value *v, int64_t count) {
    uint8_t *p = v->data;
    if (v->dtype != MOIRE_BOOL) return;
    for (int64_t i = 0; i < count; i++)
        p[i] = p[i] != 0;
}

static int read_contents(const struct mo_import *im, const Onnx__TensorProto *t, const char *what,
                         struct mo_value *out, int64_t count, int64_t bytes) {
    bool external = t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    if (t->has_raw_data && !external) {
        if (t->raw_data.len != (size_t)bytes)
            return mo_fail(im->err, MOIRE_EFORMAT,
                           "%s has %zu bytes of raw data, its shape and type need %lld", what,
                           t->raw_data.len, (long long)bytes);
        if (t->n_float_data || t->n_int32_data || t->n_int64_data || t->n_double_data || t->n_uint64_data)
            return mo_fail(im->err, MOIRE_EFORMAT, "%s has its data twice, raw and typed", what);
        out->data = t->raw_data.data;
        if (bytes) return MOIRE_OK;
    }
    out->data = mo_region_alloc(im->graph->region, (size_t)bytes);
    if (!out->data) return mo_fail(im->err, MOIRE_ENOMEM, "out of memory reading %s", what);
    if (external) return mo_read_external(im, t, what, out->data, bytes);
    return read_typed(im, t, what, out, count);
}

int mo_read_tensor(const struct mo_import *im, const Onnx__TensorProto *t, const char *what,
                   struct mo_value *out) {
    *out = (struct mo_value){.dtype = (moire_dtype)t->data_type};
    int rc = shape_of(im, t, what, &out->shape);
    if (rc) return rc;
    if (out->dtype == MOIRE_STRING) return MOIRE_OK;
    size_t size = mo_dtype_bytes(out->dtype);
    if (!size)
        return mo_fail(
            im->err, MOIRE_EUNSUPPORTED,
            "%s has element type %d, which is not supported (known: float16/32/64, bfloat16, integers, bool)",
            what, (int)t->data_type);
    if (t->segment)
        return mo_fail(im->err, MOIRE_EUNSUPPORTED, "%s is stored in segments; not supported", what);
    int64_t count = mo_shape_count(&out->shape), bytes;
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)size, &bytes) ||
        bytes > im->env->limits.tensor_bytes)
        return mo_fail(im->err, MOIRE_ELIMIT, "%s is larger than the limit tensor_bytes (%lld)", what,
                       (long long)im->env->limits.tensor_bytes);
    rc = read_contents(im, t, what, out, count, bytes);
    if (!rc) normalize_bools(out, count);
    return rc;
}
