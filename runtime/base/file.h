/* SPDX-License-Identifier: Apache-2.0
 * file.h - reading what an operator named: regular files, whole, into memory of ours; and the small ones of
 * /proc and /sys, whose size nobody knows ahead. */
#ifndef MO_FILE_H
#define MO_FILE_H
#include <string.h>
#include "runtime/base/env.h"

/* MOIRE_EIO: the file cannot be read, for -rc. */
static inline int mo_file_cannot(const char *path, int rc, moire_error *err) {
    return mo_fail(err, MOIRE_EIO, "cannot read '%.300s': %s", path, strerror(-rc));
}
/* Reads exactly n bytes from where `fd` stands.  0, or -errno; -EIO when the file ends early. */
int mo_file_read_exactly(const struct mo_sys *sys, int fd, void *to, size_t n);
/* Reads the whole file; *bytes is the caller's (mo_free), with a 0 behind its *n bytes.  MOIRE_EIO: it cannot
 * be read or is no regular file (a FIFO does not hang us); MOIRE_ELIMIT: it is larger than `most` bytes, the
 * limit `limit` of mo_limits; MOIRE_ENOMEM. */
int mo_file_read(const struct mo_env *env, const char *path, int64_t most, const char *limit, char **bytes,
                 size_t *n, moire_error *err);
/* Fills out with all of a small file and a final 0.  The number of bytes, or -errno; -EFBIG when it has n
 * bytes or more. */
ssize_t mo_file_peek(const struct mo_env *env, const char *path, char *out, size_t n);
#endif
