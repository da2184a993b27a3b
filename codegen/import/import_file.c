/* SPDX-License-Identifier: Apache-2.0
 * import_file.c - reading the model file and the external data files it names.
 *
 * The model's own path comes from the operator and may be anything that opens as a regular file.  A location
 * inside a model is untrusted: relative, below the model's folder, no "..", no symbolic link on the way, a
 * regular file, and the wanted range inside it.  Everything is read() into owned memory, never mapped. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "codegen/import/import.h"
#include "runtime/base/file.h"

int mo_read_file(const struct mo_env *env, const char *path, uint8_t **bytes, size_t *n, moire_error *err) {
    char *text;
    int rc = mo_file_read(env, path, env->limits.model_bytes, "model_bytes", &text, n, err);
    *bytes = (uint8_t *)text;
    return rc;
}

/* --- external data ------------------------------------------------------------------------------------ */

struct external {
    const char *location;
    int64_t offset, length; /* length -1: not given */
};

static bool parse_size(const char *s, int64_t *out) {
    *out = 0;
    if (!*s) return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return false;
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *s - '0', out))
            return false;
    }
    return true;
}

static int parse_external(const struct mo_import *im, const Onnx__TensorProto *t, const char *what,
                          struct external *out) {
    *out = (struct external){.length = -1};
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        if (!key || !value) continue;
        bool ok = true;
        if (!strcmp(key, "location")) out->location = value;
        if (!strcmp(key, "offset")) ok = parse_size(value, &out->offset);
        if (!strcmp(key, "length")) ok = parse_size(value, &out->length);
        if (!ok)
            return mo_fail(im->err, MOIRE_EFORMAT, "%s: external data %s '%.40s' is not a size", what, key,
                           value);
    }
    if (!out->location || !*out->location)
        return mo_fail(im->err, MOIRE_EFORMAT, "%s: external data without a location", what);
    return MOIRE_OK;
}

/* Relative, and no component is "..": what remains stays below the folder if no component is a link. */
static bool safe_location(const char *s) {
    if (*s == '/' || strchr(s, '\\')) return false;
    for (const char *part = s; part; part = strchr(part, '/')) {
        if (*part == '/') part++;
        size_t n = strcspn(part, "/");
        if (n == 2 && part[0] == '.' && part[1] == '.') return false;
    }
    return true;
}

/* Walks down from the model's folder, component by component and by descriptor, following no link. */
static int open_below(const struct mo_import *im, const char *location) {
    const struct mo_sys *sys = im->env->sys;
    int fd = sys->open(sys->self, im->folder, O_RDONLY | O_DIRECTORY, 0);
    for (const char *part = location; fd >= 0 && *part;) {
        char name[256];
        size_t n = strcspn(part, "/"), skip = n + strspn(part + n, "/");
        int kind = part[skip] ? O_DIRECTORY : 0;
        if (n >= sizeof name) {
            sys->close(sys->self, fd);
            return -ENAMETOOLONG;
        }
        memcpy(name, part, n);
        name[n] = 0;
        int next = sys->open_at(sys->self, fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | kind, 0);
        sys->close(sys->self, fd);
        fd = next;
        part += skip;
    }
    return fd;
}

static int read_range(const struct mo_import *im, const char *what, const struct external *e, int fd,
                      void *out, int64_t bytes) {
    const struct mo_sys *sys = im->env->sys;
    int64_t size = sys->size(sys->self, fd);
    if (size < 0)
        return mo_fail(im->err, MOIRE_EIO, "%s: external data '%.200s' is not a regular file", what,
                       e->location);
    if (e->length >= 0 && e->length != bytes)
        return mo_fail(im->err, MOIRE_EFORMAT,
                       "%s: external data has length %lld, its shape and type need %lld", what,
                       (long long)e->length, (long long)bytes);
    if (e->offset > size || bytes > size - e->offset)
        return mo_fail(im->err, MOIRE_EFORMAT,
                       "%s: external data at offset %lld, %lld bytes, runs past the end of '%.200s' "
                       "(%lld bytes)",
                       what, (long long)e->offset, (long long)bytes, e->location, (long long)size);
    int64_t at = sys->seek(sys->self, fd, e->offset);
    int rc = at < 0 ? (int)at : mo_file_read_exactly(sys, fd, out, (size_t)bytes);
    return rc ? mo_file_cannot(e->location, rc, im->err) : MOIRE_OK;
}

int mo_read_external(const struct mo_import *im, const Onnx__TensorProto *t, const char *what, void *out,
                     int64_t bytes) {
    struct external e;
    int rc = parse_external(im, t, what, &e);
    if (rc || !e.location) return rc;
    if (!im->folder)
        return mo_fail(im->err, MOIRE_EFORMAT,
                       "%s keeps its data in the file '%.200s', and a model read from memory has no folder",
                       what, e.location);
    if (!safe_location(e.location))
        return mo_fail(im->err, MOIRE_EFORMAT,
                       "%s: external data location '%.200s' leaves the folder of the model; use a "
                       "relative path without '..'",
                       what, e.location);
    if (!mo_graph_add_outside(im->graph, e.location)) return mo_fail(im->err, MOIRE_ENOMEM, "out of memory");
    int fd = open_below(im, e.location);
    if (fd < 0)
        return mo_fail(im->err, MOIRE_EIO, "%s: cannot open external data '%.200s': %s%s", what, e.location,
                       strerror(-fd), fd == -ELOOP || fd == -ENOTDIR ? " (symbolic links are refused)" : "");
    rc = read_range(im, what, &e, fd, out, bytes);
    im->env->sys->close(im->env->sys->self, fd);
    return rc;
}
