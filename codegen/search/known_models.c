/* SPDX-License-Identifier: Apache-2.0
 * known_models.c - notes of the models that a store was filled for; see known_models.h. */
#define _GNU_SOURCE
#include "codegen/search/known_models.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/search/writer_impl.h"
#include "runtime/base/caches.h"
#include "runtime/base/text.h"
#include "variants/store_json.h"

enum { PATH_CAP = 4096, MOST_NOTES = 4096 };
static const char suffix[] = ".json";

/* Plain text that fits, as the parsers of the store take it. */
static bool put_plain(const char *from, char *to, size_t room) {
    size_t n = strlen(from);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)from[i] < 32 || (unsigned char)from[i] > 126) return false;
    if (n >= room) return false;
    memcpy(to, from, n + 1);
    return true;
}

bool mo_known_set(const struct mo_env *env, const char *path, const moire_shape *shapes, int n, bool exact,
                  struct mo_known_model *out) {
    char real[PATH_CAP + 304];
    *out = (struct mo_known_model){.exact = exact, .n_shapes = n};
    if (n > MO_KNOWN_SHAPES || mo_caches_real(env->sys, path, real, sizeof real, NULL)) return false;
    for (int i = 0; i < n; i++) {
        struct mo_known_shape *s = &out->shape[i];
        if (!put_plain(shapes[i].input, s->input, sizeof s->input)) return false;
        s->rank = shapes[i].rank;
        memcpy(s->d, shapes[i].shape, sizeof s->d);
    }
    return put_plain(real, out->path, sizeof out->path);
}

static bool same_shape(const struct mo_known_shape *a, const struct mo_known_shape *b) {
    return !strcmp(a->input, b->input) && a->rank == b->rank &&
           !memcmp(a->d, b->d, (size_t)a->rank * sizeof *a->d);
}

static bool same_source(const struct mo_known_model *a, const struct mo_known_model *b) {
    bool same = !strcmp(a->path, b->path) && a->exact == b->exact && a->n_shapes == b->n_shapes;
    for (int i = 0; same && i < a->n_shapes; i++)
        same = same_shape(&a->shape[i], &b->shape[i]);
    return same;
}

static void name_of(const struct mo_known_model *s, char hex[MO_SHA256_HEX]) {
    char text[MO_STORE_PATH + MO_KNOWN_SHAPES * (MO_KNOWN_INPUT + 24 * MOIRE_MAX_RANK) + 64];
    struct mo_text t = mo_text_in(text, sizeof text);
    mo_text_put(&t, "moire source %d\n%s\nexact %d\n", MO_STORE_FORMAT, s->path, s->exact);
    for (int i = 0; i < s->n_shapes; i++) {
        mo_text_put(&t, "%s", s->shape[i].input);
        for (int k = 0; k < s->shape[i].rank; k++)
            mo_text_put(&t, " %lld", (long long)s->shape[i].d[k]);
        mo_text_put(&t, "\n");
    }
    mo_sha256_hex(text, t.n, hex);
}

/* --- reading --- */
static bool take_shape(const json_t *row, struct mo_known_shape *s) {
    const char *input = json_string_value(json_object_get(row, "input"));
    const json_t *dims = json_object_get(row, "shape");
    s->rank = (int)json_array_size(dims);
    if (!input || !put_plain(input, s->input, sizeof s->input) || !json_is_array(dims)) return false;
    if (s->rank > MOIRE_MAX_RANK) return false;
    for (int i = 0; i < s->rank; i++) {
        const json_t *d = json_array_get(dims, (size_t)i);
        s->d[i] = json_integer_value(d);
        if (!json_is_integer(d) || s->d[i] < 0) return false;
    }
    return true;
}

int mo_known_parse(const char *bytes, size_t n, struct mo_known_model *out, moire_error *err) {
    int64_t exact = 0, versions = 0;
    *out = (struct mo_known_model){0};
    const struct mo_store_field fields[] = {
        {"path", MO_FIELD_TEXT, out->path, sizeof out->path},
        {"exact", MO_FIELD_COUNT, &exact, 0},
        {"versions", MO_FIELD_COUNT, &versions, 0},
        {"qos_ns", MO_FIELD_NUMBER, &out->qos_ns, 0},
        {NULL, MO_FIELD_TEXT, NULL, 0},
    };
    json_t *body = mo_store_open_envelope(bytes, n, err);
    if (!body) return MOIRE_ESTORE;
    const json_t *shapes = json_object_get(body, "shapes");
    int rc = mo_store_take_fields(body, fields, err);
    bool right = json_is_array(shapes) && json_array_size(shapes) <= MO_KNOWN_SHAPES && out->path[0] == '/';
    out->exact = exact != 0;
    out->versions = versions < MO_STORE_VERSIONS ? (int)versions : MO_STORE_VERSIONS;
    out->n_shapes = right ? (int)json_array_size(shapes) : 0;
    for (int i = 0; right && i < out->n_shapes; i++)
        right = take_shape(json_array_get(shapes, (size_t)i), &out->shape[i]);
    json_decref(body);
    return rc || right ? rc : mo_fail(err, MOIRE_ESTORE, "malformed path or shapes");
}

static bool folder_of(const char *store, char out[PATH_CAP]) {
    return snprintf(out, PATH_CAP, "%s/v1/models", store) < PATH_CAP - 2 * MO_SHA256_HEX;
}

/* MOIRE_OK also where there is no such note: the path is empty then. */
static int read_note(const struct mo_env *env, int folder, const char *file, struct mo_known_model *out,
                     moire_error *err) {
    char *bytes = NULL;
    size_t n = 0;
    *out = (struct mo_known_model){0};
    int rc = mo_trusted_read(env, folder, file, env->limits.variant_json_bytes, &bytes, &n, NULL, err);
    if (!rc && bytes) rc = mo_known_parse(bytes, n, out, err);
    mo_free(env, bytes);
    return rc;
}

struct notes {
    const struct mo_env *env;
    int folder, n, cap, rc;
    struct mo_known_model *source;
};

static bool grow(struct notes *l) {
    if (l->n < l->cap) return true;
    int cap = l->cap ? 2 * l->cap : 16;
    struct mo_known_model *more = cap <= MOST_NOTES ? mo_alloc(l->env, (size_t)cap * sizeof *more) : NULL;
    if (!more) return false;
    if (l->n) memcpy(more, l->source, (size_t)l->n * sizeof *more);
    mo_free(l->env, l->source);
    l->source = more;
    l->cap = cap;
    return true;
}

static int take_note(void *ctx, const char *file) {
    struct notes *l = ctx;
    char hex[MO_SHA256_HEX];
    moire_error why = {0};
    if (strspn(file, "0123456789abcdef") != MO_SHA256_HEX - 1 || strcmp(file + MO_SHA256_HEX - 1, suffix))
        return 0;
    if (!grow(l)) {
        l->rc = MOIRE_ENOMEM;
        return 1;
    }
    struct mo_known_model *s = &l->source[l->n];
    int rc = read_note(l->env, l->folder, file, s, &why);
    name_of(s, hex);
    if (!rc && *s->path && strncmp(hex, file, MO_SHA256_HEX - 1))
        rc = mo_fail(&why, MOIRE_ESTORE, "note of another model");
    if (rc)
        mo_log(l->env, MOIRE_LOG_WARN, "variant store: note of a model %.12s: skipped: %s", file,
               why.message);
    l->n += !rc && *s->path;
    return 0;
}

static int by_path(const void *a, const void *b) {
    const struct mo_known_model *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : x->n_shapes - y->n_shapes;
}

int mo_known_list(const struct mo_env *env, const char *store, struct mo_known_model **out, int *n,
                  moire_error *err) {
    struct notes l = {.env = env, .folder = -1};
    char folder[PATH_CAP];
    *out = NULL;
    *n = 0;
    if (!folder_of(store, folder)) return mo_fail(err, MOIRE_ESTORE, "path of the store is too long");
    int rc = mo_trusted_walk(env, folder, &l.folder, err);
    if (rc || l.folder < 0) return rc;
    env->sys->list(env->sys->self, folder, take_note, &l);
    env->sys->close(env->sys->self, l.folder);
    if (l.n) qsort(l.source, (size_t)l.n, sizeof *l.source, by_path);
    *out = l.source;
    *n = l.n;
    if (!l.rc) return MOIRE_OK;
    mo_free(env, l.source);
    *out = NULL;
    return mo_fail(err, l.rc, "out of memory listing the models of the store");
}

bool mo_known_is_there(const struct mo_env *env, const struct mo_known_model *s) {
    int fd = env->sys->open(env->sys->self, s->path, O_PATH, 0);
    if (fd >= 0) env->sys->close(env->sys->self, fd);
    return fd >= 0;
}

int mo_known_forget(const struct mo_env *env, const char *store, bool dry_run) {
    char folder[PATH_CAP], file[PATH_CAP + MO_SHA256_HEX + 8], hex[MO_SHA256_HEX];
    struct mo_known_model *source;
    int n, gone = 0;
    if (!folder_of(store, folder) || mo_known_list(env, store, &source, &n, NULL)) return 0;
    for (int i = 0; i < n; i++) {
        if (mo_known_is_there(env, &source[i])) continue;
        name_of(&source[i], hex);
        snprintf(file, sizeof file, "%s/%s%s", folder, hex, suffix);
        gone += dry_run || !env->sys->unlink(env->sys->self, file);
    }
    mo_free(env, source);
    return gone;
}

/* --- writing --- */
static json_t *body_of(const struct mo_known_model *s) {
    json_t *shapes = json_array();
    for (int i = 0; i < s->n_shapes; i++) {
        json_t *dims = json_array();
        for (int k = 0; k < s->shape[i].rank; k++)
            json_array_append_new(dims, json_integer(s->shape[i].d[k]));
        json_array_append_new(shapes, json_pack("{ss so}", "input", s->shape[i].input, "shape", dims));
    }
    return json_pack("{si ss si si sf so}", "format", MO_STORE_FORMAT, "path", s->path, "exact", s->exact,
                     "versions", s->versions, "qos_ns", s->qos_ns, "shapes", shapes);
}

/* The note as it is to be; false: the store has it so. */
static bool renew(const struct mo_env *env, const char *folder, const char *hex, struct mo_known_model *s) {
    struct mo_known_model old;
    char file[MO_SHA256_HEX + 8];
    int fd = -1;
    snprintf(file, sizeof file, "%s%s", hex, suffix);
    bool there = !mo_trusted_walk(env, folder, &fd, NULL) && fd >= 0 && !read_note(env, fd, file, &old, NULL);
    if (fd >= 0) env->sys->close(env->sys->self, fd);
    if (!there || !same_source(&old, s)) return true;
    if (s->versions < 2) {
        s->versions = old.versions;
        s->qos_ns = old.qos_ns;
    }
    return s->versions != old.versions || s->qos_ns != old.qos_ns;
}

int mo_known_note(const struct mo_env *env, const char *store, const struct mo_known_model *source,
                  moire_error *err) {
    struct mo_known_model s = *source;
    struct mo_writer *w;
    char folder[PATH_CAP], to[PATH_CAP + MO_SHA256_HEX + 8], hex[MO_SHA256_HEX];
    if (!folder_of(store, folder)) return mo_fail(err, MOIRE_ESTORE, "path of the store is too long");
    name_of(&s, hex);
    if (!renew(env, folder, hex, &s)) return MOIRE_OK;
    int rc = mo_writer_open(env, store, &w, err);
    if (rc) return rc;
    snprintf(to, sizeof to, "%s/%s%s", folder, hex, suffix);
    json_t *body = body_of(&s);
    rc = mo_trusted_make(env, folder, err);
    if (!rc) rc = mo_writer_place_json(w, to, body, err);
    if (!rc) rc = mo_trusted_sync(env, folder, err);
    json_decref(body);
    mo_writer_close(w);
    return rc;
}
