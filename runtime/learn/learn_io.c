/* SPDX-License-Identifier: Apache-2.0
 * learn_io.c - see learn_io.h. */
#include "runtime/learn/learn_io.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/file.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files of weights are read as they are"
#endif

static const char magic[8] = "moLearn\n";

static const char *kind_name(uint32_t kind) {
    return kind == MO_LEARN_POLICY       ? "a policy"
           : kind == MO_LEARN_CHECKPOINT ? "a checkpoint"
                                         : "something else";
}

static uint32_t version_of(enum mo_learn_kind kind) {
    return kind == MO_LEARN_POLICY ? MO_LEARN_POLICY_VERSION : MO_LEARN_CHECKPOINT_VERSION;
}

void mo_learn_refuse(struct mo_learn_io *io, int code, const char *format, ...) {
    char reason[400];
    va_list args;
    if (io->code) return;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    io->code = mo_fail(io->err, code, "'%.300s': %s", io->path, reason);
}

/* The one that every value goes through. */
static void pass(struct mo_learn_io *io, void *v, size_t n) {
    if (io->code || !n) return;
    if (io->way == MO_LEARN_READ) {
        if ((size_t)(io->end - io->at) < n) {
            mo_learn_refuse(io, MOIRE_EFORMAT, "ends before its last value");
            return;
        }
        memcpy(v, io->at, n);
        io->at += n;
    } else if (io->way == MO_LEARN_WRITE) {
        mo_sha256_add(&io->hash, v, n);
        mo_output_put(io->out, v, n);
    }
    io->bytes += n;
}

void mo_learn_int(struct mo_learn_io *io, const char *what, int *v, int least, int most) {
    int32_t value = *v;
    pass(io, &value, sizeof value);
    if (io->code) return;
    if (value < least || value > most)
        mo_learn_refuse(io, MOIRE_EFORMAT, "%s is %d; must be %d to %d", what, (int)value, least, most);
    else
        *v = value;
}

void mo_learn_long(struct mo_learn_io *io, int64_t *v) {
    pass(io, v, sizeof *v);
}

void mo_learn_word(struct mo_learn_io *io, uint64_t *v) {
    pass(io, v, sizeof *v);
}

void mo_learn_real(struct mo_learn_io *io, const char *what, double *v) {
    pass(io, v, sizeof *v);
    if (!io->code && !isfinite(*v)) mo_learn_refuse(io, MOIRE_EFORMAT, "%s is no finite number", what);
}

void mo_learn_floats(struct mo_learn_io *io, const char *what, float *v, size_t n) {
    pass(io, v, n * sizeof *v);
    for (size_t i = 0; !io->code && i < n; i++)
        if (!isfinite(v[i]))
            mo_learn_refuse(io, MOIRE_EFORMAT, "%s has a value that is no finite number", what);
}

void mo_learn_text(struct mo_learn_io *io, const char *what, char *text, size_t room) {
    int n = io->way == MO_LEARN_READ ? 0 : (int)strlen(text);
    mo_learn_int(io, what, &n, 1, (int)room - 1);
    pass(io, text, (size_t)n);
    if (io->code) return;
    text[n] = 0;
    if (strlen(text) != (size_t)n) mo_learn_refuse(io, MOIRE_EFORMAT, "%s has a NUL inside", what);
}

void mo_learn_same(struct mo_learn_io *io, const char *what, double v) {
    double value = v;
    pass(io, &value, sizeof value);
    if (!io->code && value != v)
        mo_learn_refuse(io, MOIRE_EFORMAT, "was made with %s %g, and this is %g", what, value, v);
}

bool mo_learn_room(struct mo_learn_io *io, size_t floats) {
    if (!io->code && io->way == MO_LEARN_READ && (size_t)(io->end - io->at) / sizeof(float) < floats)
        mo_learn_refuse(io, MOIRE_EFORMAT, "ends before its last value");
    return !io->code;
}

int mo_learn_write(const struct mo_env *env, const char *path, enum mo_learn_kind kind, mo_learn_walk *walk,
                   void *data, moire_error *err) {
    struct mo_output out;
    unsigned char header[MO_LEARN_HEADER], digest[MO_SHA256_BYTES];
    const uint32_t version = version_of(kind), kind_word = kind;
    struct mo_learn_io io = {.way = MO_LEARN_MEASURE, .path = path, .err = err};
    walk(data, &io);
    if (io.code) return io.code;
    const uint64_t bytes = io.bytes + sizeof header + sizeof digest;
    memcpy(header, magic, sizeof magic);
    memcpy(header + 8, &version, 4);
    memcpy(header + 12, &kind_word, 4);
    memcpy(header + 16, &bytes, 8);
    int code = mo_output_open(env, path, &out, err);
    if (code) return code;
    io = (struct mo_learn_io){.way = MO_LEARN_WRITE, .path = path, .err = err, .out = &out};
    mo_sha256_init(&io.hash);
    pass(&io, header, sizeof header);
    walk(data, &io);
    mo_sha256_end(&io.hash, digest);
    mo_output_put(&out, digest, sizeof digest);
    if (!io.code) return mo_output_close(&out, err);
    mo_output_drop(&out);
    return io.code;
}

/* Everything but the body. */
static void check_frame(struct mo_learn_io *io, const unsigned char *file, size_t n,
                        enum mo_learn_kind kind) {
    char hex[MO_SHA256_HEX], stored[MO_SHA256_HEX];
    uint32_t version, kind_word;
    uint64_t bytes;
    if (n < MO_LEARN_HEADER || memcmp(file, magic, sizeof magic) != 0) {
        mo_learn_refuse(io, MOIRE_EFORMAT, "is not %s of moire train", kind_name(kind));
        return;
    }
    memcpy(&version, file + 8, 4);
    memcpy(&kind_word, file + 12, 4);
    memcpy(&bytes, file + 16, 8);
    if (kind_word != (uint32_t)kind)
        mo_learn_refuse(io, MOIRE_EFORMAT, "is %s, not %s", kind_name(kind_word), kind_name(kind));
    else if (version != version_of(kind))
        mo_learn_refuse(io, MOIRE_EFORMAT, "is of version %u, and this moire reads version %u: train again",
                        (unsigned)version, (unsigned)version_of(kind));
    else if (bytes != n || n < MO_LEARN_HEADER + MO_SHA256_BYTES)
        mo_learn_refuse(io, MOIRE_EFORMAT, "is cut or has too much: %llu bytes, and %llu were written",
                        (unsigned long long)n, (unsigned long long)bytes);
    if (io->code) return;
    mo_sha256_hex(file, n - MO_SHA256_BYTES, hex);
    for (int i = 0; i < MO_SHA256_BYTES; i++)
        snprintf(stored + 2 * (size_t)i, 3, "%02x", file[n - MO_SHA256_BYTES + (size_t)i]);
    if (strcmp(hex, stored) != 0) mo_learn_refuse(io, MOIRE_EFORMAT, "is damaged: its checksum is another");
}

int mo_learn_read(const struct mo_env *env, const char *path, enum mo_learn_kind kind, mo_learn_walk *walk,
                  void *data, moire_error *err) {
    char *text;
    size_t n;
    int code = mo_file_read(env, path, env->limits.learned_bytes, "learned_bytes", &text, &n, err);
    if (code) return code;
    const unsigned char *file = (const unsigned char *)text;
    struct mo_learn_io io = {.way = MO_LEARN_READ, .path = path, .err = err};
    check_frame(&io, file, n, kind);
    if (!io.code) {
        io.at = file + MO_LEARN_HEADER;
        io.end = file + n - MO_SHA256_BYTES;
        walk(data, &io);
    }
    if (!io.code && io.at != io.end)
        mo_learn_refuse(&io, MOIRE_EFORMAT, "has %lld bytes behind its last value",
                        (long long)(io.end - io.at));
    mo_free(env, text);
    return io.code;
}
