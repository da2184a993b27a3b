/* SPDX-License-Identifier: Apache-2.0
 * kserve_types.c - names and sizes of element types in the Open Inference Protocol; see kserve.h. */
#include <string.h>
#include "serve/protocol/kserve.h"

static const struct row {
    const char *name;
    moire_dtype type;
    size_t bytes;
} rows[] = {
    {"FP32", MOIRE_F32, 4},  {"UINT8", MOIRE_U8, 1},     {"INT8", MOIRE_I8, 1},    {"UINT16", MOIRE_U16, 2},
    {"INT16", MOIRE_I16, 2}, {"INT32", MOIRE_I32, 4},    {"INT64", MOIRE_I64, 8},  {"BOOL", MOIRE_BOOL, 1},
    {"FP16", MOIRE_F16, 2},  {"FP64", MOIRE_F64, 8},     {"UINT32", MOIRE_U32, 4}, {"UINT64", MOIRE_U64, 8},
    {"BF16", MOIRE_BF16, 2}, {"BYTES", MOIRE_STRING, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *ms_type_name(moire_dtype type) {
    for (int i = 0; i < ROWS; i++)
        if (rows[i].type == type) return rows[i].name;
    return NULL;
}

moire_dtype ms_type_find(const char *name) {
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name)) return rows[i].type;
    return MOIRE_NONE;
}

size_t ms_type_bytes(moire_dtype type) {
    for (int i = 0; i < ROWS; i++)
        if (rows[i].type == type) return rows[i].bytes;
    return 0;
}

int64_t ms_elements(const moire_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(n, t->shape[i], &n) || n > INT64_C(1) << 48) return -1;
    return n;
}
