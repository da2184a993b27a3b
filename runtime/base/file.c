/* SPDX-License-Identifier: Apache-2.0
 * file.c - whole files; see file.h. */
#define _GNU_SOURCE
#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Of one read: who loads a model gives its core to whoever waits for it between two, not within. */
enum { PART = 256 << 10 };

int mo_file_read_exactly(const struct mo_sys *sys, int fd, void *to, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t got = sys->read(sys->self, fd, (char *)to + at, n - at < PART ? n - at : PART);
        if (got <= 0) return got ? (int)got : -EIO;
        at += (size_t)got;
    }
    return 0;
}

static int read_open(const struct mo_env *env, const char *path, int fd, int64_t most, const char *limit,
                     char **bytes, size_t *n, moire_error *err) {
    int64_t size = env->sys->size(env->sys->self, fd);
    if (size < 0) return mo_fail(err, MOIRE_EIO, "cannot read '%.300s': not a regular file", path);
    if (size > most)
        return mo_fail(err, MOIRE_ELIMIT, "'%.300s' has %lld bytes, more than the limit %s (%lld)", path,
                       (long long)size, limit, (long long)most);
    char *to = mo_alloc(env, (size_t)size + 1);
    if (!to) return mo_fail(err, MOIRE_ENOMEM, "out of memory reading '%.300s'", path);
    int rc = mo_file_read_exactly(env->sys, fd, to, (size_t)size);
    if (rc) {
        mo_free(env, to);
        return mo_file_cannot(path, rc, err);
    }
    to[size] = 0;
    *bytes = to;
    *n = (size_t)size;
    return MOIRE_OK;
}

int mo_file_read(const struct mo_env *env, const char *path, int64_t most, const char *limit, char **bytes,
                 size_t *n, moire_error *err) {
    *bytes = NULL;
    *n = 0;
    int fd = env->sys->open(env->sys->self, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0) return mo_file_cannot(path, fd, err);
    int rc = read_open(env, path, fd, most, limit, bytes, n, err);
    env->sys->close(env->sys->self, fd);
    return rc;
}

ssize_t mo_file_peek(const struct mo_env *env, const char *path, char *out, size_t n) {
    const struct mo_sys *sys = env->sys;
    int fd = sys->open(sys->self, path, O_RDONLY, 0);
    if (fd < 0) return fd;
    size_t at = 0;
    ssize_t got = 1;
    while (at < n && (got = sys->read(sys->self, fd, out + at, n - at)) > 0)
        at += (size_t)got;
    sys->close(sys->self, fd);
    if (got < 0) return got;
    if (at == n) return -EFBIG;
    out[at] = 0;
    return (ssize_t)at;
}
