/* SPDX-License-Identifier: Apache-2.0
 * npy.c - NumPy files: a magic string, a version, the length of a header, the header (a Python dictionary
 * with descr, fortran_order and shape), then the bytes. */
#include "tools/moire/verify/npy.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/file.h"
#include "runtime/base/output.h"
#include "runtime/base/text.h"
#include "runtime/graph/graph.h"

enum { MAGIC = 6, FIXED = 10, HEADER_MAX = 4096 };
static const char magic[] = "\x93NUMPY";

static const struct {
    moire_dtype dtype;
    const char *descr;
} types[] = {{MOIRE_F32, "<f4"}, {MOIRE_F64, "<f8"}, {MOIRE_F16, "<f2"}, {MOIRE_I64, "<i8"},
             {MOIRE_I32, "<i4"}, {MOIRE_I16, "<i2"}, {MOIRE_I8, "|i1"},  {MOIRE_U64, "<u8"},
             {MOIRE_U32, "<u4"}, {MOIRE_U16, "<u2"}, {MOIRE_U8, "|u1"},  {MOIRE_BOOL, "|b1"}};
enum { TYPES = sizeof types / sizeof *types };

/* --- reading --- */

/* What follows "'key':" in the header, blanks skipped; NULL when the key is missing. */
static const char *value_of(const char *header, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

static bool parse_shape(const char *s, moire_tensor *t) {
    if (!s || *s++ != '(') return false;
    for (t->rank = 0; *(s += strspn(s, " ")) != ')';) {
        char *end;
        if (t->rank == MOIRE_MAX_RANK || *s < '0' || *s > '9') return false;
        errno = 0;
        t->shape[t->rank++] = strtoll(s, &end, 10);
        if (errno) return false;
        s = end + strspn(end, " ");
        if (*s == ',')
            s++;
        else if (*s != ')')
            return false;
    }
    return true;
}

static int parse_header(const char *path, const char *header, moire_tensor *t, moire_error *err) {
    const char *descr = value_of(header, "descr"), *order = value_of(header, "fortran_order");
    if (!descr || !order || !parse_shape(value_of(header, "shape"), t))
        return mo_fail(err, MOIRE_EFORMAT, "%s: bad NumPy header; write the file with numpy.save", path);
    if (strncmp(order, "False", 5) != 0)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: Fortran order; save numpy.ascontiguousarray(x)", path);
    for (int i = 0; i < TYPES; i++)
        if (*descr == '\'' && !strncmp(descr + 1, types[i].descr, 3) && descr[4] == '\'')
            t->dtype = types[i].dtype;
    if (t->dtype == MOIRE_NONE)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: element type %.*s; little-endian numbers are read", path,
                       (int)strcspn(descr, ","), descr);
    struct mo_shape shape = {.rank = t->rank};
    memcpy(shape.d, t->shape, sizeof shape.d);
    int64_t count = mo_shape_count(&shape);
    if (count < 0 || __builtin_mul_overflow((size_t)count, mo_dtype_bytes(t->dtype), &t->bytes))
        return mo_fail(err, MOIRE_EFORMAT, "%s: bad shape", path);
    return MOIRE_OK;
}

/* data: the elements too. */
static int read_open(const struct mo_env *env, int fd, const char *path, bool data, moire_tensor *t,
                     moire_error *err) {
    unsigned char fixed[FIXED + 2];
    char header[HEADER_MAX + 1];
    if (mo_file_read_exactly(env->sys, fd, fixed, FIXED) || memcmp(fixed, magic, MAGIC) != 0)
        return mo_fail(err, MOIRE_EFORMAT, "%s: not a NumPy file (.npy)", path);
    size_t length = (size_t)fixed[8] | (size_t)fixed[9] << 8, start = FIXED;
    if (fixed[6] > 1) { /* versions 2 and 3 have a length of four bytes */
        if (mo_file_read_exactly(env->sys, fd, fixed + FIXED, 2))
            length = SIZE_MAX;
        else
            length |= (size_t)fixed[10] << 16 | (size_t)fixed[11] << 24;
        start += 2;
    }
    if (length > HEADER_MAX || mo_file_read_exactly(env->sys, fd, header, length))
        return mo_fail(err, MOIRE_EFORMAT, "%s: bad NumPy header", path);
    header[length] = 0;
    int code = parse_header(path, header, t, err);
    if (code) return code;
    int64_t size = env->sys->size(env->sys->self, fd);
    if (t->bytes > (size_t)env->limits.tensor_bytes)
        return mo_fail(err, MOIRE_ELIMIT, "%s: larger than the limit tensor_bytes", path);
    if (size < 0 || (size_t)size < start + length || (size_t)size - start - length < t->bytes)
        return mo_fail(err, MOIRE_EFORMAT, "%s: the file ends before its last element", path);
    if (!data) return MOIRE_OK;
    t->data = mo_alloc(env, t->bytes);
    if (!t->data) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    if (!mo_file_read_exactly(env->sys, fd, t->data, t->bytes)) return MOIRE_OK;
    mo_free(env, t->data);
    t->data = NULL;
    return mo_fail(err, MOIRE_EIO, "%s: cannot read", path);
}

static int read_file(const struct mo_env *env, const char *path, bool data, moire_tensor *out,
                     moire_error *err) {
    *out = (moire_tensor){.dtype = MOIRE_NONE};
    int fd = env->sys->open(env->sys->self, path, O_RDONLY, 0);
    if (fd < 0) return mo_fail(err, MOIRE_EIO, "%s: cannot open: %s", path, strerror(-fd));
    int code = read_open(env, fd, path, data, out, err);
    env->sys->close(env->sys->self, fd);
    return code;
}

int mo_npy_read(const struct mo_env *env, const char *path, moire_tensor *out, moire_error *err) {
    return read_file(env, path, true, out, err);
}

int mo_npy_look(const struct mo_env *env, const char *path, moire_tensor *out, moire_error *err) {
    return read_file(env, path, false, out, err);
}

/* --- writing --- */

/* The header padded so that the data begins at a multiple of 64; 0 when the type has no NumPy name. */
static size_t make_header(const moire_tensor *t, char *out, size_t n) {
    const char *descr = NULL;
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == t->dtype) descr = types[i].descr;
    if (!descr) return 0;
    struct mo_text text = mo_text_in(out + FIXED, n - FIXED);
    mo_text_put(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < t->rank; i++)
        mo_text_put(&text, "%lld,%s", (long long)t->shape[i], i + 1 < t->rank ? " " : "");
    mo_text_put(&text, "), }");
    size_t at = FIXED + text.n;
    while ((at + 1) % 64)
        out[at++] = ' ';
    out[at++] = '\n';
    memcpy(out, magic, MAGIC);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)((at - FIXED) & 255);
    out[9] = (char)((at - FIXED) >> 8);
    return at;
}

int mo_npy_write(const struct mo_env *env, const char *path, const moire_tensor *tensor, moire_error *err) {
    char header[512];
    struct mo_output output;
    size_t length = make_header(tensor, header, sizeof header);
    if (!length) return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: NumPy has no such element type", path);
    int code = mo_output_open(env, path, &output, err);
    if (code) return code;
    mo_output_put(&output, header, length);
    mo_output_put(&output, tensor->data, tensor->bytes);
    return mo_output_close(&output, err);
}
