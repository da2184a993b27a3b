/* SPDX-License-Identifier: Apache-2.0
 * paths.c - default folders and real paths; see paths.h. */
#define _GNU_SOURCE
#include "tools/moire/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "models/zoo.h"
#include "variants/store.h"

int mo_path_default(const char *name, char *out, size_t n, moire_error *err) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int used = -1;
    if (cache && *cache == '/')
        used = snprintf(out, n, "%s/moire/%s", cache, name);
    else if (home && *home == '/')
        used = snprintf(out, n, "%s/.cache/moire/%s", home, name);
    if (used < 0) return mo_fail(err, MOIRE_EINVAL, "neither HOME nor XDG_CACHE_HOME is set: name a folder");
    return (size_t)used < n ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "path of the cache folder is too long");
}

int mo_path_real(const char *path, char *out, size_t n, moire_error *err) {
    char head[PATH_MAX], real[PATH_MAX];
    size_t length = strlen(path);
    if (!length || length >= sizeof head) return mo_fail(err, MOIRE_EINVAL, "a path is empty or too long");
    for (size_t cut = length;; cut--) {
        /* the longest part that exists, resolved; then the rest as given */
        if (cut && cut < length && path[cut] != '/') continue;
        snprintf(head, sizeof head, "%.*s", (int)cut, path);
        if (!cut) snprintf(head, sizeof head, "%s", path[0] == '/' ? "/" : ".");
        if (!realpath(head, real)) {
            if (errno == ENOENT && cut) continue;
            return mo_fail(err, MOIRE_EIO, "'%.300s': %s", path, strerror(errno));
        }
        const char *rest = path + cut + strspn(path + cut, "/");
        bool root = !strcmp(real, "/");
        int used = snprintf(out, n, "%s%s%s", root ? "" : real, *rest || root ? "/" : "", rest);
        return used > 0 && (size_t)used < n ? MOIRE_OK : mo_fail(err, MOIRE_EINVAL, "a path is too long");
    }
}

int mo_path_store(const char *given, char *out, size_t n, moire_error *err) {
    char path[PATH_MAX];
    if (given) return mo_path_real(given, out, n, err);
    int rc = mo_path_default("store", path, sizeof path, err);
    return rc ? rc : mo_path_real(path, out, n, err);
}

/* A folder that was named and is not there is a slip of the pen, not an empty store. */
int mo_path_store_there(const char *given, char *out, size_t n, moire_error *err) {
    int rc = mo_path_store(given, out, n, err);
    if (rc || !given || access(out, F_OK) == 0) return rc;
    return mo_fail(err, MOIRE_EIO, "no store '%.300s'; `moire compile --store` makes one", out);
}

const char *mo_path_device_cache(const char *given, char *out, size_t n) {
    char path[PATH_MAX];
    if (given && !*given) return "";
    int rc = given ? MOIRE_OK : mo_path_default("gpu", path, sizeof path, NULL);
    return rc || mo_path_real(given ? given : path, out, n, NULL) ? "" : out;
}

int mo_path_model(const struct mo_env *env, const char *given, char *out, size_t n, const char **model,
                  moire_error *err) {
    char folder[PATH_MAX];
    *model = given;
    if (access(given, F_OK) == 0 || !mo_zoo_find(given)) return MOIRE_OK;
    int rc = mo_path_default("models", folder, sizeof folder, err);
    if (!rc) rc = mo_zoo_path(env, given, folder, out, n, err);
    if (!rc) *model = out;
    return rc;
}

int mo_path_open_store(const struct mo_env *env, const char *given, struct mo_store **out, moire_error *err) {
    char path[PATH_MAX];
    moire_error why = {0};
    *out = NULL;
    int rc = mo_path_store_there(given, path, sizeof path, &why);
    if (!rc) rc = mo_store_open(env, path, out, &why);
    if (!rc) return MOIRE_OK;
    if (given) return mo_fail(err, rc, "%s", why.message);
    fprintf(stderr, "moire: compiled variants are not used: %s\n", why.message);
    return MOIRE_OK;
}
