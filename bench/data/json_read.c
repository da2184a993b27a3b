/* SPDX-License-Identifier: Apache-2.0
 * json_read.c - strict JSON reading; see json_read.h.
 *
 * jansson keeps no positions, so a message finds its place by walking the text, already known to be valid
 * JSON, along the path of the value.  That happens only when something is wrong. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "runtime/base/file.h"

int mo_json_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                  struct mo_json_file *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    if ((int64_t)n > env->limits.json_bytes)
        return mo_fail(err, MOIRE_ELIMIT, "%s: larger than the limit json_bytes (%lld)", path,
                       (long long)env->limits.json_bytes);
    out->region = mo_region_create(env);
    if (!out->region) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    out->path = path;
    out->n = n;
    out->text = mo_region_string(out->region, text, n);
    json_error_t why;
    if (out->text) out->root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    int code = MOIRE_OK;
    if (!out->text || (!out->root && json_error_code(&why) == json_error_out_of_memory))
        code = mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    else if (!out->root)
        code = mo_fail(err, MOIRE_EFORMAT, "%s:%d:%d: %s", path, why.line, why.column, why.text);
    if (code) mo_json_close(out);
    return code;
}

int mo_json_load(const struct mo_env *env, const char *path, struct mo_json_file *out, moire_error *err) {
    char *text;
    size_t n;
    memset(out, 0, sizeof *out);
    int code = mo_file_read(env, path, env->limits.json_bytes, "json_bytes", &text, &n, err);
    if (!code) code = mo_json_parse(env, path, text, n, out, err);
    mo_free(env, text);
    return code;
}

void mo_json_close(struct mo_json_file *file) {
    json_decref(file->root);
    mo_region_destroy(file->region);
    memset(file, 0, sizeof *file);
}

/* --- positions ---------------------------------------------------------------------------------------- */
static size_t skip_blank(const struct mo_json_file *f, size_t at) {
    while (at < f->n && strchr(" \t\r\n", f->text[at]) && f->text[at])
        at++;
    return at;
}

static size_t skip_string(const struct mo_json_file *f, size_t at) {
    for (at++; at < f->n && f->text[at] != '"'; at++)
        if (f->text[at] == '\\') at++;
    return at < f->n ? at + 1 : f->n;
}

static size_t skip_value(const struct mo_json_file *f, size_t at) {
    int depth = 0;
    while (at < f->n) {
        char c = f->text[at];
        if (c == '"') {
            at = skip_string(f, at);
        } else {
            if (c == '{' || c == '[') depth++;
            if ((c == '}' || c == ']' || c == ',') && depth == 0) return at;
            if (c == '}' || c == ']') depth--;
            at++;
        }
        if (depth == 0 && (at >= f->n || strchr(",}] \t\r\n", f->text[at]))) return at;
    }
    return f->n;
}

/* From the object at `at`: where the value of the key is, or 0; *key_at = where the key is. */
static size_t find_key(const struct mo_json_file *f, size_t at, const char *key, size_t n, size_t *key_at) {
    if (at >= f->n || f->text[at] != '{') return 0;
    at = skip_blank(f, at + 1);
    while (at < f->n && f->text[at] == '"') {
        size_t end = skip_string(f, at);
        size_t value = skip_blank(f, end);
        value = skip_blank(f, value + 1);
        if (end - at == n + 2 && !strncmp(f->text + at + 1, key, n)) {
            *key_at = at;
            return value;
        }
        at = skip_blank(f, skip_value(f, value));
        if (at < f->n && f->text[at] == ',') at = skip_blank(f, at + 1);
    }
    return 0;
}

static size_t find_element(const struct mo_json_file *f, size_t at, long index) {
    if (at >= f->n || f->text[at] != '[') return 0;
    at = skip_blank(f, at + 1);
    for (long i = 0; at < f->n && f->text[at] != ']'; i++) {
        if (i == index) return at;
        at = skip_blank(f, skip_value(f, at));
        if (at < f->n && f->text[at] == ',') at = skip_blank(f, at + 1);
    }
    return 0;
}

void mo_json_locate(const struct mo_json_file *file, const char *where, int *line, int *column) {
    size_t at = skip_blank(file, 0), shown = at;
    while (*where) {
        size_t next, n;
        if (*where == '[') {
            char *end;
            next = find_element(file, at, strtol(where + 1, &end, 10));
            if (next) shown = next;
            n = (size_t)(end - where) + (*end == ']');
        } else {
            if (*where == '.') where++;
            n = strcspn(where, ".[");
            next = find_key(file, at, where, n, &shown);
        }
        if (!next) break;
        at = next;
        where += n;
    }
    *line = *column = 1;
    for (size_t i = 0; i < shown && i < file->n; i++) {
        ++*column;
        if (file->text[i] == '\n') {
            ++*line;
            *column = 1;
        }
    }
}

int mo_json_fail(const struct mo_json_file *file, const char *where, moire_error *err, const char *format,
                 ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int line, column;
    mo_json_locate(file, where, &line, &column);
    return mo_fail(err, MOIRE_EFORMAT, "%s:%d:%d: %s%s%s", file->path, line, column, where,
                   *where ? ": " : "", text);
}

/* --- fields ------------------------------------------------------------------------------------------- */
static const char *const kind_names[] = {
    [MO_JSON_STRING] = "a string",    [MO_JSON_NUMBER] = "a number",  [MO_JSON_INT] = "a whole number",
    [MO_JSON_BOOL] = "true or false", [MO_JSON_OBJECT] = "an object", [MO_JSON_ARRAY] = "an array"};

static bool right_kind(const json_t *v, enum mo_json_kind kind) {
    switch (kind) {
    case MO_JSON_STRING:
        return json_is_string(v);
    case MO_JSON_NUMBER:
        return json_is_number(v) && isfinite(json_number_value(v));
    case MO_JSON_INT:
        return json_is_integer(v);
    case MO_JSON_BOOL:
        return json_is_boolean(v);
    case MO_JSON_OBJECT:
        return json_is_object(v);
    case MO_JSON_ARRAY:
        return json_is_array(v);
    }
    return false;
}

static int store(const struct mo_json_file *file, const char *where, const struct mo_json_field *field,
                 json_t *v, void *base, moire_error *err) {
    void *to = (char *)base + field->offset;
    if (!right_kind(v, field->kind))
        return mo_json_fail(file, where, err, "must be %s", kind_names[field->kind]);
    if (field->kind == MO_JSON_NUMBER || field->kind == MO_JSON_INT) {
        double value = json_number_value(v);
        if (value < field->min || value > field->max)
            return mo_json_fail(file, where, err, "must lie between %g and %g", field->min, field->max);
    }
    switch (field->kind) {
    case MO_JSON_STRING: {
        char *copy = mo_region_string(file->region, json_string_value(v), json_string_length(v));
        if (!copy) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", file->path);
        *(const char **)to = copy;
        break;
    }
    case MO_JSON_NUMBER:
        *(double *)to = json_number_value(v);
        break;
    case MO_JSON_INT:
        *(int64_t *)to = json_integer_value(v);
        break;
    case MO_JSON_BOOL:
        *(bool *)to = json_is_true(v);
        break;
    default:
        *(json_t **)to = v;
    }
    return MOIRE_OK;
}

int mo_json_fields(const struct mo_json_file *file, const char *where, const json_t *object,
                   const struct mo_json_field *fields, int n, void *base, moire_error *err) {
    const char *dot = *where ? "." : "";
    char path[512];
    if (!json_is_object(object)) return mo_json_fail(file, where, err, "must be an object");
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)object, key, v) {
        snprintf(path, sizeof path, "%s%s%s", where, dot, key);
        int i = 0;
        while (i < n && strcmp(fields[i].key, key) != 0)
            i++;
        if (i == n) return mo_json_fail(file, path, err, "unknown key");
        int code = store(file, path, &fields[i], v, base, err);
        if (code) return code;
    }
    for (int i = 0; i < n; i++) {
        if (!fields[i].required || json_object_get(object, fields[i].key)) continue;
        return mo_json_fail(file, where, err, "the key \"%s\" is missing", fields[i].key);
    }
    return MOIRE_OK;
}
