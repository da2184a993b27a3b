/* SPDX-License-Identifier: Apache-2.0
 * json_read.h - strict reading of JSON data files: every error names file, line, column and key.
 *
 * A document is parsed by jansson (duplicate keys refused).  Objects are read through tables of fields;
 * a key that no row names is an error, so that a misspelt key never passes silently. */
#ifndef MO_BENCH_JSON_READ_H
#define MO_BENCH_JSON_READ_H
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include "runtime/base/env.h"

struct mo_json_file {
    const char *path; /* for messages; not owned */
    const char *text;
    size_t n;
    json_t *root;
    struct mo_region *region; /* text and strings */
};

enum mo_json_kind {
    MO_JSON_STRING,
    MO_JSON_NUMBER,
    MO_JSON_INT,
    MO_JSON_BOOL,
    MO_JSON_OBJECT,
    MO_JSON_ARRAY
};

/* One member of an object.  The value goes to base + offset: const char *, double, int64_t, bool or json_t *
 * (borrowed).  An absent optional member leaves its destination as it is. */
struct mo_json_field {
    const char *key;
    enum mo_json_kind kind;
    bool required;
    size_t offset;
    double min, max; /* numbers and ints: inclusive */
};

/* Reads `path` (at most limits.json_bytes).  On success *out must be closed. */
int mo_json_load(const struct mo_env *env, const char *path, struct mo_json_file *out, moire_error *err);
/* The same from memory; `text` is copied. */
int mo_json_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                  struct mo_json_file *out, moire_error *err);
void mo_json_close(struct mo_json_file *file);

/* `where` is the path of the value: "" for the root, "tenants[2].qos" below. */
int mo_json_fields(const struct mo_json_file *file, const char *where, const json_t *object,
                   const struct mo_json_field *fields, int n, void *base, moire_error *err);
/* MOIRE_EFORMAT with the position of `where`. */
int mo_json_fail(const struct mo_json_file *file, const char *where, moire_error *err, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));
/* Line and column (from 1) of the value at `where`; the innermost part that exists when it does not. */
void mo_json_locate(const struct mo_json_file *file, const char *where, int *line, int *column);

/* --- documents of our own: what is not there is "" or 0 ------------------------------------------------- */
static inline const char *mo_json_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}
static inline double mo_json_number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}
/* For what is counted or divided, where a 0 would read like a measurement. */
static inline double mo_json_number_or_nan(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}
/* A share as " 98.75 %", eight columns wide; where it is null a dash.  text has room for 16 bytes. */
static inline const char *mo_json_percent(const json_t *object, const char *key, char *text) {
    const json_t *share = json_object_get(object, key);
    snprintf(text, 16, json_is_number(share) ? "%6.2f %%" : "       –", 100 * json_number_value(share));
    return text;
}
/* What is not known is null: never a number that reads like a measurement. */
static inline json_t *mo_json_known(bool known, double value) {
    return known ? json_real(value) : json_null();
}
#endif
