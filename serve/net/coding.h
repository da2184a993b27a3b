/* SPDX-License-Identifier: Apache-2.0
 * coding.h - compressed bodies: gzip and deflate, by zlib, which is loaded at run time. */
#ifndef MS_CODING_H
#define MS_CODING_H
#include <zlib.h>
#include "moire.h"
#include "serve/protocol/bytes.h"

/* X(name): what is called of zlib */
#define MS_ZLIB_CALLS(X)                                                                                     \
    X(inflateInit2_)                                                                                         \
    X(inflate)                                                                                               \
    X(inflateEnd)                                                                                            \
    X(deflateInit2_)                                                                                         \
    X(deflate)                                                                                               \
    X(deflateEnd)                                                                                            \
    X(deflateBound)

struct ms_zlib {
    void *library; /* NULL: it is not there */
#define MS_ZLIB_FIELD(call) __typeof__(call) *call;
    MS_ZLIB_CALLS(MS_ZLIB_FIELD)
#undef MS_ZLIB_FIELD
};

int ms_zlib_open(struct ms_zlib *out, moire_error *err);
void ms_zlib_close(struct ms_zlib *zlib);

enum ms_coding { MS_CODING_NONE, MS_CODING_GZIP, MS_CODING_DEFLATE, MS_CODING_UNKNOWN };
/* Of a Content-Encoding header (NULL: none). */
enum ms_coding ms_coding_of(const char *header);
/* The first that we have of those an Accept-Encoding header (NULL: none) takes. */
enum ms_coding ms_coding_accepted(const char *header);

/* Replaces a compressed body by what it holds, at most `most` bytes.
 * Returns: MOIRE_OK; MOIRE_EINVAL: malformed; MOIRE_ELIMIT: more than that; MOIRE_ENOMEM; MOIRE_EUNSUPPORTED:
 * no zlib. */
int ms_coding_expand(const struct ms_zlib *zlib, struct ms_bytes *body, size_t most, moire_error *err);
/* Replaces a body by its compressed form.  Returns: false: it is as it was. */
bool ms_coding_compress(const struct ms_zlib *zlib, enum ms_coding coding, struct ms_bytes *body);
#endif
