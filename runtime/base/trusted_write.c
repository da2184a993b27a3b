/* SPDX-License-Identifier: Apache-2.0
 * trusted_write.c - folders and files under the trust rule, written; see trusted.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "runtime/base/trusted.h"

enum { PATH_CAP = 4096 };

int mo_trusted_fail(moire_error *err, const char *what, const char *path, int rc) {
    const char *hint = rc == -ENOSPC || rc == -EDQUOT ? "; free some space and run the command again"
                       : rc == -EACCES || rc == -EROFS || rc == -EPERM
                           ? "; name a folder that can be written (--store, --device-cache)"
                           : "";
    return mo_fail(err, MOIRE_ESTORE, "cannot %s '%.250s': %s%s", what, path, strerror(-rc), hint);
}

static int make_folder(const struct mo_env *env, const char *path, moire_error *err) {
    int rc = env->sys->mkdir(env->sys->self, path, 0755);
    return rc < 0 && rc != -EEXIST ? mo_trusted_fail(err, "create folder", path, rc) : MOIRE_OK;
}

/* Creates path and the folders above it that are missing. */
int mo_trusted_make(const struct mo_env *env, const char *path, moire_error *err) {
    char part[PATH_CAP];
    size_t n = strlen(path);
    if (n >= sizeof part) return mo_fail(err, MOIRE_ESTORE, "path of a folder is too long");
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i]) continue;
        memcpy(part, path, i);
        part[i] = 0;
        int fd = env->sys->open(env->sys->self, part, O_PATH | O_DIRECTORY, 0);
        if (fd >= 0) env->sys->close(env->sys->self, fd);
        int rc = fd >= 0 ? MOIRE_OK : make_folder(env, part, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

int mo_trusted_sync(const struct mo_env *env, const char *path, moire_error *err) {
    const struct mo_sys *sys = env->sys;
    int fd = sys->open(sys->self, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return mo_trusted_fail(err, "open folder", path, fd);
    int rc = sys->fsync(sys->self, fd);
    sys->close(sys->self, fd);
    return rc < 0 && rc != -EINVAL ? mo_trusted_fail(err, "sync folder", path, rc) : MOIRE_OK;
}

int mo_trusted_put(const struct mo_env *env, int fd, const char *bytes, size_t n) {
    while (n) {
        ssize_t put = env->sys->write(env->sys->self, fd, bytes, n);
        if (put <= 0) return put ? (int)put : -EIO;
        bytes += put;
        n -= (size_t)put;
    }
    return 0;
}

int mo_trusted_write(const struct mo_env *env, const char *path, const void *bytes, size_t n,
                     moire_error *err) {
    const struct mo_sys *sys = env->sys;
    sys->unlink(sys->self, path);
    int fd = sys->open(sys->self, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444);
    if (fd < 0) return mo_trusted_fail(err, "create", path, fd);
    int rc = mo_trusted_put(env, fd, bytes, n);
    if (rc >= 0) rc = sys->fsync(sys->self, fd);
    int closed = sys->close(sys->self, fd);
    if (rc >= 0) rc = closed;
    if (rc >= 0) return MOIRE_OK;
    sys->unlink(sys->self, path);
    return mo_trusted_fail(err, "write", path, rc);
}
