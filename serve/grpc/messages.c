/* SPDX-License-Identifier: Apache-2.0
 * messages.c - reads protobuf messages and makes them of JSON; see messages.h. */
#define _GNU_SOURCE
#include "serve/grpc/messages.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "serve/protocol/fault.h"

/* --- reading --- */
/* An empty message in a list takes two bytes on the wire and some hundred in memory; a packed number one and
 * eight.  Honest requests are far below both bounds. */
enum { TIMES = 12, AT_LEAST = 64 << 10 };

static void *take(void *left, size_t n) {
    size_t *bytes = left;
    if (n > *bytes) return NULL;
    *bytes -= n;
    return malloc(n ? n : 1);
}
static void give(void *left, void *at) {
    (void)left;
    free(at);
}

int ms_message_read(const ProtobufCMessageDescriptor *type, const char *from, size_t n,
                    ProtobufCMessage **out, moire_error *err) {
    size_t left = n * TIMES + AT_LEAST;
    ProtobufCAllocator bounded = {.alloc = take, .free = give, .allocator_data = &left};
    *out = protobuf_c_message_unpack(type, &bounded, n, (const uint8_t *)(from ? from : ""));
    return *out ? MOIRE_OK
                : ms_fail(err, MOIRE_EINVAL,
                          "the message is no %s, or needs far more memory than it has bytes", type->name);
}

/* --- of JSON --- */
static size_t size_of(const ProtobufCFieldDescriptor *f) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
        return sizeof(int32_t);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return sizeof(int64_t);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    default:
        return 0; /* no document has such a field */
    }
}

static bool put_whole(const ProtobufCFieldDescriptor *f, json_int_t v, void *at) {
    if (f->type == PROTOBUF_C_TYPE_INT32)
        *(int32_t *)at = (int32_t)v;
    else if (f->type == PROTOBUF_C_TYPE_UINT32)
        *(uint32_t *)at = (uint32_t)v;
    else if (f->type == PROTOBUF_C_TYPE_INT64)
        *(int64_t *)at = v;
    else if (f->type == PROTOBUF_C_TYPE_UINT64)
        *(uint64_t *)at = (uint64_t)v;
    else
        return false;
    return true;
}

/* true: `at` has the value. */
static bool put(const ProtobufCFieldDescriptor *f, const json_t *v, void *at) {
    if (json_is_integer(v)) return put_whole(f, json_integer_value(v), at);
    if (json_is_boolean(v) && f->type == PROTOBUF_C_TYPE_BOOL) {
        *(protobuf_c_boolean *)at = json_is_true(v);
        return true;
    }
    if (json_is_string(v) && f->type == PROTOBUF_C_TYPE_ENUM) {
        const ProtobufCEnumValue *e =
            protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, json_string_value(v));
        if (e) *(int *)at = e->value;
        return e != NULL;
    }
    void *made = NULL;
    if (json_is_string(v) && f->type == PROTOBUF_C_TYPE_STRING)
        made = strdup(json_string_value(v));
    else if (json_is_object(v) && f->type == PROTOBUF_C_TYPE_MESSAGE)
        made = ms_message_of_json(f->descriptor, v);
    if (made) *(void **)at = made;
    return made != NULL;
}

/* A list, from an array or, for a map, from an object. */
static void put_list(const ProtobufCFieldDescriptor *f, const json_t *v, char *message) {
    const size_t size = size_of(f), n = json_is_object(v) ? json_object_size(v) : json_array_size(v);
    char *list = n && size ? calloc(n, size) : NULL;
    size_t *count = (size_t *)(void *)(message + f->quantifier_offset), i = 0;
    if (!list) return;
    *(char **)(void *)(message + f->offset) = list;
    if (json_is_object(v)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)v, key, value) {
            json_t *entry = json_pack("{s:s, s:O}", "key", key, "value", value);
            *count += put(f, entry, list + *count * size);
            json_decref(entry);
        }
    } else {
        for (; i < n; i++)
            *count += put(f, json_array_get(v, i), list + *count * size);
    }
}

ProtobufCMessage *ms_message_of_json(const ProtobufCMessageDescriptor *type, const json_t *object) {
    char *message = calloc(1, type->sizeof_message);
    if (!message) return NULL;
    protobuf_c_message_init(type, message);
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        const json_t *v = json_object_get(object, f->name);
        if (!v) continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            put_list(f, v, message);
        else if (put(f, v, message + f->offset) && (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
            *(uint32_t *)(void *)(message + f->quantifier_offset) = f->id; /* which of them there is */
    }
    return (ProtobufCMessage *)(void *)message;
}
