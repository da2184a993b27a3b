/* SPDX-License-Identifier: Apache-2.0
 * shape.c - shapes, element types and the size of tensors in their layout. */
#include <stdio.h>
#include <string.h>
#include "runtime/base/text.h"
#include "runtime/graph/graph.h"

int64_t mo_shape_count(const struct mo_shape *s) {
    int64_t n = 1;
    if (s->rank < 0) return -1;
    for (int i = 0; i < s->rank; i++)
        if (s->d[i] < 0 || __builtin_mul_overflow(n, s->d[i], &n)) return -1;
    return n;
}

bool mo_shape_equal(const struct mo_shape *a, const struct mo_shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->d[i] != b->d[i]) return false;
    return true;
}

char *mo_shape_text(const struct mo_shape *s, char *out, size_t n) {
    if (s->rank < 0) {
        snprintf(out, n, "[?]");
        return out;
    }
    struct mo_text t = mo_text_in(out, n);
    mo_text_put(&t, "[");
    for (int i = 0; i < s->rank; i++)
        mo_text_put(&t, "%s%lld", i ? "," : "", (long long)s->d[i]);
    mo_text_put(&t, "]");
    return out;
}

static const struct {
    moire_dtype dtype;
    size_t bytes;
    const char *name;
} types[] = {
    {MOIRE_F32, 4, "float32"}, {MOIRE_U8, 1, "uint8"},
    {MOIRE_I8, 1, "int8"},     {MOIRE_U16, 2, "uint16"},
    {MOIRE_I16, 2, "int16"},   {MOIRE_I32, 4, "int32"},
    {MOIRE_I64, 8, "int64"},   {MOIRE_STRING, 0, "string"},
    {MOIRE_BOOL, 1, "bool"},   {MOIRE_F16, 2, "float16"},
    {MOIRE_F64, 8, "float64"}, {MOIRE_U32, 4, "uint32"},
    {MOIRE_U64, 8, "uint64"},  {MOIRE_BF16, 2, "bfloat16"},
    {MOIRE_NONE, 0, "none"},   {MO_BUNDLE, 1, "sequence or optional"},
};

size_t mo_dtype_bytes(moire_dtype dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) return types[i].bytes;
    return 0;
}

const char *mo_dtype_name(moire_dtype dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) return types[i].name;
    return "unknown type";
}

int64_t mo_tensor_bytes(const struct mo_tensor *t) {
    struct mo_shape s = t->shape;
    if (t->layout != MO_PLAIN && s.rank >= 2) s.d[1] = (s.d[1] + 15) / 16 * 16;
    int64_t count = mo_shape_count(&s), bytes;
    const size_t each = t->layout == MO_C16_HALVES ? 2 : mo_dtype_bytes(t->dtype);
    if (count < 0 || __builtin_mul_overflow(count, (int64_t)each, &bytes)) return -1;
    return bytes;
}

int64_t mo_tensor_image_bytes(const struct mo_tensor *t) {
    int64_t bytes = mo_tensor_bytes(t);
    return bytes > 0 && t->shape.rank > 0 && t->shape.d[0] > 0 ? bytes / t->shape.d[0] : bytes;
}

struct mo_value mo_tensor_value(const struct mo_tensor *t) {
    return (struct mo_value){.dtype = t->dtype, .shape = t->shape, .data = t->data};
}
