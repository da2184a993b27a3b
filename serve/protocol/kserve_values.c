/* SPDX-License-Identifier: Apache-2.0
 * kserve_values.c - elements of tensors as JSON numbers; see kserve_values.h. */
#include "serve/protocol/kserve_values.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"

/* Whole types by size and sign, and what they hold.  Numbers of JSON end at 2^63 - 1 here. */
static bool whole_range(moire_dtype type, int64_t *least, int64_t *most) {
    switch (type) {
    case MOIRE_BOOL:
        *least = 0, *most = 1;
        return true;
    case MOIRE_U8:
        *least = 0, *most = UINT8_MAX;
        return true;
    case MOIRE_I8:
        *least = INT8_MIN, *most = INT8_MAX;
        return true;
    case MOIRE_U16:
        *least = 0, *most = UINT16_MAX;
        return true;
    case MOIRE_I16:
        *least = INT16_MIN, *most = INT16_MAX;
        return true;
    case MOIRE_I32:
        *least = INT32_MIN, *most = INT32_MAX;
        return true;
    case MOIRE_U32:
        *least = 0, *most = UINT32_MAX;
        return true;
    case MOIRE_U64:
        *least = 0, *most = INT64_MAX;
        return true;
    case MOIRE_I64:
        *least = INT64_MIN, *most = INT64_MAX;
        return true;
    default:
        return false;
    }
}

struct reader {
    const char *name;
    moire_dtype type;
    char *to;
    int64_t count, at;
    moire_error *err;
};

static int read_whole(struct reader *r, int64_t least, int64_t most, const json_t *v) {
    const int64_t value = json_is_boolean(v) ? json_is_true(v) : (int64_t)json_integer_value(v);
    if (!json_is_integer(v) && !(json_is_boolean(v) && r->type == MOIRE_BOOL))
        return ms_fail(r->err, MOIRE_EINVAL, "input '%.100s': element %" PRId64 " is not of type %s", r->name,
                       r->at, ms_type_name(r->type));
    if (value < least || value > most)
        return ms_fail(r->err, MOIRE_EINVAL,
                       "input '%.100s': element %" PRId64 " (%" PRId64 ") is out of the range of %s", r->name,
                       r->at, value, ms_type_name(r->type));
    const size_t bytes = ms_type_bytes(r->type); /* little-endian: the low bytes come first */
    memcpy(r->to + (size_t)r->at * bytes, &value, bytes);
    return MOIRE_OK;
}

static int read_one(struct reader *r, const json_t *v) {
    int64_t least, most;
    if (whole_range(r->type, &least, &most)) return read_whole(r, least, most, v);
    const double value = json_number_value(v);
    if (!json_is_number(v))
        return ms_fail(r->err, MOIRE_EINVAL, "input '%.100s': element %" PRId64 " is no number", r->name,
                       r->at);
    if (r->type == MOIRE_F64) {
        memcpy(r->to + (size_t)r->at * 8, &value, 8);
        return MOIRE_OK;
    }
    if (fabs(value) > FLT_MAX)
        return ms_fail(r->err, MOIRE_EINVAL,
                       "input '%.100s': element %" PRId64 " (%g) is out of the range of FP32", r->name, r->at,
                       value);
    const float single = (float)value;
    memcpy(r->to + (size_t)r->at * 4, &single, 4);
    return MOIRE_OK;
}

static int read_all(struct reader *r, const json_t *v, int depth) {
    if (!json_is_array(v)) {
        if (r->at == r->count)
            return ms_fail(r->err, MOIRE_EINVAL,
                           "input '%.100s' has more than the %" PRId64 " elements of its shape", r->name,
                           r->count);
        const int rc = read_one(r, v);
        r->at++;
        return rc;
    }
    if (depth > MOIRE_MAX_RANK)
        return ms_fail(r->err, MOIRE_EINVAL, "input '%.100s': data are nested deeper than %d", r->name,
                       MOIRE_MAX_RANK);
    const size_t n = json_array_size(v);
    for (size_t i = 0; i < n; i++) {
        const int rc = read_all(r, json_array_get(v, i), depth + 1);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

int ms_values_read(const json_t *data, const char *name, moire_dtype type, int64_t count, void *to,
                   moire_error *err) {
    struct reader r = {.name = name, .type = type, .to = to, .count = count, .err = err};
    if (!json_is_array(data)) return ms_fail(err, MOIRE_EINVAL, "input '%.100s': \"data\" is no array", name);
    if (type == MOIRE_F16 || type == MOIRE_BF16 || type == MOIRE_STRING)
        return ms_fail(err, MOIRE_EINVAL, "input '%.100s': %s is taken as binary data only", name,
                       ms_type_name(type));
    const int rc = read_all(&r, data, 0);
    if (!rc && r.at < count)
        return ms_fail(err, MOIRE_EINVAL, "input '%.100s' has %" PRId64 " elements, its shape %" PRId64, name,
                       r.at, count);
    return rc;
}

static int64_t whole_at(const moire_tensor *t, size_t i) {
    union {
        int64_t i64;
        int32_t i32;
        int16_t i16;
        int8_t i8;
    } v = {0};
    const size_t bytes = ms_type_bytes(t->dtype);
    memcpy(&v, (const char *)t->data + i * bytes, bytes);
    switch (t->dtype) {
    case MOIRE_I8:
        return v.i8;
    case MOIRE_I16:
        return v.i16;
    case MOIRE_I32:
        return v.i32;
    default:
        return v.i64; /* unsigned ones: the high bytes are 0 */
    }
}

static double real_at(const moire_tensor *t, size_t i) {
    double wide;
    float single;
    if (t->dtype == MOIRE_F64) {
        memcpy(&wide, (const char *)t->data + i * 8, 8);
        return wide;
    }
    memcpy(&single, (const char *)t->data + i * 4, 4);
    return single;
}

bool ms_values_have_order(moire_dtype type) {
    int64_t least, most;
    return type != MOIRE_BOOL && (type == MOIRE_F32 || type == MOIRE_F64 || whole_range(type, &least, &most));
}

int ms_values_compare(const moire_tensor *t, size_t a, size_t b) {
    int64_t least, most;
    if (whole_range(t->dtype, &least, &most)) {
        const int64_t x = whole_at(t, a), y = whole_at(t, b);
        if (t->dtype == MOIRE_U64) return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
        return (x > y) - (x < y);
    }
    const double x = real_at(t, a), y = real_at(t, b);
    if (isnan(x) || isnan(y)) return isnan(y) - isnan(x);
    return (x > y) - (x < y);
}

void ms_values_text(const moire_tensor *t, size_t i, char *text, size_t room) {
    if (t->dtype == MOIRE_F32 || t->dtype == MOIRE_F64)
        snprintf(text, room, "%f", real_at(t, i));
    else if (t->dtype == MOIRE_U64)
        snprintf(text, room, "%" PRIu64, (uint64_t)whole_at(t, i));
    else
        snprintf(text, room, "%" PRId64, whole_at(t, i));
}

static int write_strings(const moire_tensor *t, const char *name, struct ms_bytes *to, moire_error *err) {
    const char *at = t->data, *end = at + t->bytes;
    ms_bytes_put(to, "[", 1);
    for (bool first = true; end - at >= 4; first = false) {
        uint32_t n;
        memcpy(&n, at, sizeof n);
        json_t *string = n <= end - at - 4 ? json_stringn(at + 4, n) : NULL;
        char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
        json_decref(string);
        if (!quoted)
            return ms_fail(err, MOIRE_EINVAL,
                           "output '%.100s' has a string that is not UTF-8; ask for binary data", name);
        if (!first) ms_bytes_put(to, ",", 1);
        ms_bytes_put(to, quoted, strlen(quoted));
        free(quoted);
        at += 4 + n;
    }
    ms_bytes_put(to, "]", 1);
    return MOIRE_OK;
}

int ms_values_write(const moire_tensor *t, const char *name, struct ms_bytes *to, moire_error *err) {
    int64_t least, most;
    const bool whole = whole_range(t->dtype, &least, &most);
    if (t->dtype == MOIRE_STRING) return write_strings(t, name, to, err);
    if (!whole && t->dtype != MOIRE_F32 && t->dtype != MOIRE_F64)
        return ms_fail(err, MOIRE_EINVAL,
                       "output '%.100s' is %s, which JSON has no form for; ask for binary data", name,
                       ms_type_name(t->dtype) ? ms_type_name(t->dtype) : "of an unknown type");
    const size_t n = t->bytes / ms_type_bytes(t->dtype);
    ms_bytes_put(to, "[", 1);
    for (size_t i = 0; i < n; i++) {
        if (i) ms_bytes_put(to, ",", 1);
        if (t->dtype == MOIRE_BOOL)
            ms_bytes_print(to, whole_at(t, i) ? "true" : "false");
        else if (t->dtype == MOIRE_U64)
            ms_bytes_print(to, "%" PRIu64, (uint64_t)whole_at(t, i));
        else if (whole)
            ms_bytes_print(to, "%" PRId64, whole_at(t, i));
        else if (isfinite(real_at(t, i)))
            ms_bytes_print(to, "%.*g", t->dtype == MOIRE_F64 ? 17 : 9, real_at(t, i));
        else
            return ms_fail(
                err, MOIRE_EINVAL,
                "output '%.100s' has a NaN or an infinity, which JSON has no form for; ask for binary data",
                name);
    }
    ms_bytes_put(to, "]", 1);
    return MOIRE_OK;
}
