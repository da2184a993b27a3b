/* SPDX-License-Identifier: Apache-2.0
 * caches.c - the user's cache folders and real paths; see caches.h. */
#include "runtime/base/caches.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int mo_caches_real(const struct mo_sys *sys, const char *path, char *out, size_t n, moire_error *err) {
    char head[MO_CACHES_PATH], real[MO_CACHES_PATH];
    size_t length = strlen(path);
    if (!length || length >= sizeof head) return mo_fail(err, MOIRE_EINVAL, "a path is empty or too long");
    for (size_t cut = length;; cut--) {
        /* the longest part that exists, resolved; then the rest as given */
        if (cut && cut < length && path[cut] != '/') continue;
        snprintf(head, sizeof head, "%.*s", (int)cut, path);
        if (!cut) snprintf(head, sizeof head, "%s", path[0] == '/' ? "/" : ".");
        int rc = sys->real_path(sys->self, head, real, sizeof real);
        if (rc == -ENOENT && cut) continue;
        if (rc) return mo_fail(err, MOIRE_EIO, "'%.300s': %s", path, strerror(-rc));
        const char *rest = path + cut + strspn(path + cut, "/");
        bool root = !strcmp(real, "/");
        int used = snprintf(out, n, "%s%s%s", root ? "" : real, *rest || root ? "/" : "", rest);
        return used > 0 && (size_t)used < n ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "a path is too long");
    }
}

int mo_caches_folder(const struct mo_sys *sys, const char *name, char *out, size_t n, moire_error *err) {
    char caches[MO_CACHES_PATH], path[MO_CACHES_PATH];
    int rc = sys->caches(sys->self, caches, sizeof caches);
    if (rc)
        return mo_fail(err, MOIRE_EINVAL,
                       "no cache folder: neither XDG_CACHE_HOME nor HOME is an absolute path, and the user "
                       "database has no home (%s); name a folder",
                       strerror(-rc));
    int used = snprintf(path, sizeof path, "%s/moire/%s", caches, name);
    if (used < 0 || (size_t)used >= sizeof path)
        return mo_fail(err, MOIRE_EINVAL, "the path of the cache folder is too long");
    return mo_caches_real(sys, path, out, n, err);
}
