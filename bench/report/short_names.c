/* SPDX-License-Identifier: Apache-2.0
 * short_names.c - see short_names.h. */
#include "bench/report/short_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"

enum { MOST_FOLDERS = 12, ENDING = 12, MOST_TENANTS = 64 };

/* Where the last `parts` parts of a path begin. */
static const char *tail_of(const char *path, int parts) {
    const char *at = path + strlen(path);
    while (at > path && (at[-1] != '/' || --parts > 0))
        at--;
    return at;
}

static size_t shown_length(const char *tail) {
    size_t n = strlen(tail);
    return n > 5 && !strcmp(tail + n - 5, ".onnx") ? n - 5 : n;
}

static bool same_tail(const char *a, const char *b) {
    size_t n = shown_length(a);
    return n == shown_length(b) && !strncmp(a, b, n);
}

static bool inside_character(const char *at) {
    return ((unsigned char)*at & 0xc0) == 0x80; /* UTF-8 */
}

/* The whole of it, or its beginning and its end around a sign of omission. */
static void shorten(const char *tail, char out[MO_SHORT_NAME]) {
    static const char omitted[] = "\xe2\x80\xa6";
    size_t n = shown_length(tail);
    if (n < MO_SHORT_NAME) {
        memcpy(out, tail, n);
        out[n] = 0;
        return;
    }
    const char *end = tail + n - ENDING;
    size_t begin = MO_SHORT_NAME - 1 - ENDING - (sizeof omitted - 1);
    while (begin > 0 && inside_character(tail + begin))
        begin--;
    while (inside_character(end))
        end++;
    snprintf(out, MO_SHORT_NAME, "%.*s%s%.*s", (int)begin, tail, omitted, (int)(tail + n - end), end);
}

/* Names that are alike even so get numbers. */
static void number(char (*out)[MO_SHORT_NAME], int n) {
    for (int i = 1; i < n; i++) {
        int copies = 1;
        char base[MO_SHORT_NAME];
        memcpy(base, out[i], sizeof base);
        for (int k = 0; k < i; k++) {
            if (strcmp(out[k], out[i]) != 0) continue;
            size_t room = MO_SHORT_NAME - 6;
            while (room > 0 && inside_character(base + room))
                room--;
            snprintf(out[i], MO_SHORT_NAME, "%.*s#%d", (int)room, base, ++copies);
            k = -1; /* the numbered name may be taken, too */
        }
    }
}

void mo_short_names(const char *const *names, int n, char (*out)[MO_SHORT_NAME]) {
    for (int i = 0; i < n; i++) {
        int parts = 1;
        for (int k = 0; k < n && parts < MOST_FOLDERS; k++)
            while (parts < MOST_FOLDERS && strcmp(names[i], names[k]) != 0 &&
                   same_tail(tail_of(names[i], parts), tail_of(names[k], parts)))
                parts++;
        shorten(tail_of(names[i], parts), out[i]);
    }
    number(out, n);
}

/* --- documents ---------------------------------------------------------------------------------------- */
struct renaming {
    const char *from[MOST_TENANTS];
    char to[MOST_TENANTS][MO_SHORT_NAME];
    int n;
};

/* The text under its new name: a name itself, or a sentence that begins with one; NULL = it stays. */
static json_t *renamed(const struct renaming *r, const char *text) {
    for (int i = 0; i < r->n; i++) {
        size_t n = strlen(r->from[i]);
        if (!strcmp(r->from[i], r->to[i]) || strncmp(text, r->from[i], n) != 0) continue;
        if (!text[n]) return json_string(r->to[i]);
        if (text[n] == ' ' || text[n] == ':') return json_sprintf("%s%s", r->to[i], text + n);
    }
    return NULL;
}

static void rename_all(const struct renaming *r, json_t *v) {
    const char *key;
    json_t *one, *name;
    size_t i;
    json_object_foreach(v, key, one) {
        if (json_is_string(one) && (name = renamed(r, json_string_value(one))))
            json_object_set_new(v, key, name); /* an existing key: the iteration goes on */
        else
            rename_all(r, one);
    }
    json_array_foreach(v, i, one) {
        if (json_is_string(one) && (name = renamed(r, json_string_value(one))))
            json_array_set_new(v, i, name);
        else
            rename_all(r, one);
    }
}

json_t *mo_short_document(const json_t *document) {
    json_t *copy = json_deep_copy(document), *tenants, *t;
    struct renaming r = {.n = 0};
    size_t i;
    tenants = json_object_get(json_object_get(document, "calibration"), "tenants");
    json_array_foreach(tenants, i, t) if (r.n < MOST_TENANTS) r.from[r.n++] = mo_json_text(t, "name");
    mo_short_names(r.from, r.n, r.to);
    rename_all(&r, json_object_get(copy, "results"));
    rename_all(&r, json_object_get(copy, "fronts"));
    rename_all(&r, json_object_get(copy, "runs"));
    rename_all(&r, json_object_get(copy, "calibration"));
    tenants = json_object_get(json_object_get(copy, "calibration"), "tenants");
    for (int k = 0; k < r.n; k++)
        json_object_set_new(json_array_get(tenants, (size_t)k), "given_name", json_string(r.from[k]));
    return copy;
}
