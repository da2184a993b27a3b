/* SPDX-License-Identifier: Apache-2.0
 * coding.c - compressed bodies; see coding.h. */
#include "serve/net/coding.h"

#include <limits.h>
#include <string.h>
#include <strings.h>
#include "serve/net/library.h"
#include "serve/protocol/fault.h"

/* Of windows: zlib's largest; more for gzip's frame, or for either. */
enum { WINDOW = 15, GZIP_FRAME = 16, EITHER_FRAME = 32, MEMORY_LEVEL = 8, STEP = 256 << 10 };

int ms_zlib_open(struct ms_zlib *out, moire_error *err) {
    static const struct ms_symbol symbols[] = {
#define ROW(call) {#call, offsetof(struct ms_zlib, call)},
        MS_ZLIB_CALLS(ROW)
#undef ROW
    };
    *out = (struct ms_zlib){0};
    return ms_library_open("libz.so.1", "zlib1g", symbols, sizeof symbols / sizeof *symbols, out,
                           &out->library, err);
}

void ms_zlib_close(struct ms_zlib *zlib) {
    ms_library_close(zlib->library);
    *zlib = (struct ms_zlib){0};
}

static const char *const names[] = {[MS_CODING_GZIP] = "gzip", [MS_CODING_DEFLATE] = "deflate"};

enum ms_coding ms_coding_of(const char *header) {
    if (!header || !strcasecmp(header, "identity")) return MS_CODING_NONE;
    for (int c = MS_CODING_GZIP; c <= MS_CODING_DEFLATE; c++)
        if (!strcasecmp(header, names[c])) return (enum ms_coding)c;
    return MS_CODING_UNKNOWN;
}

/* "gzip;q=0" refuses it; other weights do not matter to us. */
static bool takes(const char *word, size_t n, const char *name) {
    const size_t length = strlen(name);
    if (n < length || strncasecmp(word, name, length) != 0) return false;
    const char *rest = word + length, *end = word + n;
    while (rest < end && *rest == ' ')
        rest++;
    if (rest == end) return true;
    if (*rest != ';') return false;
    const char *q = memchr(rest, '=', (size_t)(end - rest));
    bool zero = q != NULL;
    for (q = q ? q + 1 : end; q < end && zero; q++)
        zero = *q == '0' || *q == '.' || *q == ' ';
    return !zero;
}

enum ms_coding ms_coding_accepted(const char *header) {
    for (int c = MS_CODING_GZIP; c <= MS_CODING_DEFLATE; c++)
        for (const char *word = header; word && *word;) {
            word += strspn(word, " ,\t");
            const size_t n = strcspn(word, ",");
            if (n && takes(word, n, names[c])) return (enum ms_coding)c;
            word += n;
        }
    return MS_CODING_NONE;
}

/* Into `to`, until the stream ends. */
static int inflate_all(const struct ms_zlib *zlib, z_stream *z, size_t most, struct ms_bytes *to,
                       moire_error *err) {
    int state = Z_OK;
    while (state != Z_STREAM_END) {
        const size_t before = to->n;
        char *room = ms_bytes_extend(to, STEP);
        if (!room) return ms_fail(err, MOIRE_ENOMEM, "no memory for the request");
        z->next_out = (Bytef *)room;
        z->avail_out = STEP;
        state = zlib->inflate(z, Z_NO_FLUSH);
        to->n = before + STEP - z->avail_out;
        if (state != Z_OK && state != Z_STREAM_END)
            return ms_fail(err, MOIRE_EINVAL, "the compressed body is malformed or cut off");
        if (to->n > most)
            return ms_fail(err, MOIRE_ELIMIT, "the request, expanded, is larger than --http-max-input-size");
    }
    return z->avail_in ? ms_fail(err, MOIRE_EINVAL, "%u bytes stand behind the compressed body", z->avail_in)
                       : MOIRE_OK;
}

int ms_coding_expand(const struct ms_zlib *zlib, struct ms_bytes *body, size_t most, moire_error *err) {
    if (!zlib->library)
        return ms_fail(err, MOIRE_EUNSUPPORTED, "compressed bodies need zlib (Debian: zlib1g)");
    if (body->n > UINT_MAX) return ms_fail(err, MOIRE_ELIMIT, "the compressed body is too large");
    z_stream z = {.next_in = (Bytef *)body->at, .avail_in = (uInt)body->n};
    struct ms_bytes to = {0};
    if (zlib->inflateInit2_(&z, WINDOW + EITHER_FRAME, ZLIB_VERSION, sizeof z) != Z_OK)
        return ms_fail(err, MOIRE_ENOMEM, "no memory for the request");
    const int rc = inflate_all(zlib, &z, most, &to, err);
    zlib->inflateEnd(&z);
    ms_bytes_free(rc ? &to : body);
    if (!rc) *body = to;
    return rc;
}

bool ms_coding_compress(const struct ms_zlib *zlib, enum ms_coding coding, struct ms_bytes *body) {
    if (!zlib->library || body->n > UINT_MAX / 2) return false;
    z_stream z = {0};
    if (zlib->deflateInit2_(&z, Z_BEST_SPEED, Z_DEFLATED,
                            WINDOW + (coding == MS_CODING_GZIP ? GZIP_FRAME : 0), MEMORY_LEVEL,
                            Z_DEFAULT_STRATEGY, ZLIB_VERSION, sizeof z) != Z_OK)
        return false;
    struct ms_bytes to = {0};
    const size_t bound = zlib->deflateBound(&z, body->n);
    char *room = ms_bytes_extend(&to, bound);
    z.next_in = (Bytef *)body->at;
    z.avail_in = (uInt)body->n;
    z.next_out = (Bytef *)room;
    z.avail_out = (uInt)bound;
    const bool whole = room && zlib->deflate(&z, Z_FINISH) == Z_STREAM_END;
    to.n = bound - z.avail_out;
    zlib->deflateEnd(&z);
    ms_bytes_free(whole ? body : &to);
    if (whole) *body = to;
    return whole;
}
