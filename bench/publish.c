/* SPDX-License-Identifier: Apache-2.0
 * publish.c - files that appear whole or not at all; see publish.h. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/publish.h"
#include "bench/report.h"

static int write_all(const struct mo_sys *sys, int fd, const char *bytes, size_t n) {
    while (n) {
        ssize_t k = sys->write(sys->self, fd, bytes, n);
        if (k <= 0) return k < 0 ? (int)k : -5;
        bytes += k;
        n -= (size_t)k;
    }
    return 0;
}

int mo_bench_publish(const struct mo_env *env, const char *path, const char *bytes, size_t n,
                     moire_error *err) {
    const struct mo_sys *sys = env->sys;
    char part[4096];
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part)
        return mo_fail(err, MOIRE_EINVAL, "%.80s...: path too long", path);
    int fd = sys->open(sys->self, part, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        return mo_fail(err, MOIRE_EIO, "%s: %s; name a folder that can be written", part, strerror(-fd));
    int rc = write_all(sys, fd, bytes, n);
    int closed = sys->close(sys->self, fd);
    if (!rc) rc = closed;
    if (!rc) rc = sys->rename(sys->self, part, path);
    if (!rc) return MOIRE_OK;
    sys->unlink(sys->self, part);
    return mo_fail(err, MOIRE_EIO, "%s: %s", path, strerror(-rc));
}

int mo_bench_write_json(const struct mo_env *env, const json_t *document, const char *path,
                        moire_error *err) {
    char *text = json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (!text) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    int code = mo_bench_publish(env, path, text, strlen(text), err);
    free(text);
    return code;
}
