/* SPDX-License-Identifier: Apache-2.0
 * paths.c - what the command's flags for folders mean; see paths.h. */
#include "tools/moire/paths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "models/zoo.h"
#include "runtime/base/caches.h"
#include "runtime/base/output.h"
#include "tools/moire/command_line/known.h"
#include "variants/store.h"

int mo_path_store(const char *given, char *out, size_t n, moire_error *err) {
    if (given) return mo_caches_real(mo_sys_posix(), given, out, n, err);
    return mo_caches_folder(mo_sys_posix(), "store", out, n, err);
}

/* A folder that was named and is not there is a slip of the pen, not an empty store. */
int mo_path_store_there(const char *given, char *out, size_t n, moire_error *err) {
    int rc = mo_path_store(given, out, n, err);
    if (rc || !given || access(out, F_OK) == 0) return rc;
    return mo_fail(err, MOIRE_EIO, "no store '%.300s'; `moire compile --store` makes one", out);
}

const char *mo_path_device_cache(const char *given, char *out, size_t n) {
    if (given && !*given) return "";
    int rc = given ? mo_caches_real(mo_sys_posix(), given, out, n, NULL)
                   : mo_caches_folder(mo_sys_posix(), "gpu", out, n, NULL);
    return rc ? "" : out;
}

int mo_path_model(const struct mo_env *env, const char *given, char *out, size_t n, const char **model,
                  moire_error *err) {
    char folder[MO_PATH_CAP];
    *model = given;
    const bool network = mo_zoo_find(given) && access(given, F_OK) != 0; /* some names have a dot */
    if (!network && mo_known_is_path(given)) return MOIRE_OK;            /* the reader says what it lacks */
    if (!mo_zoo_find(given)) return mo_known_fail(MO_KNOWN_MODELS, NULL, given, err);
    int rc = mo_caches_folder(env->sys, "models", folder, sizeof folder, err);
    if (!rc) rc = mo_zoo_path(env, given, folder, out, n, err);
    if (!rc) *model = out;
    return rc;
}

void mo_path_say_elsewhere(const struct mo_env *env, const char *store) {
    char line[256];
    if (mo_store_elsewhere(env, store, line, sizeof line)) fprintf(stderr, "moire: %s\n", line);
}

int mo_path_open_store(const struct mo_env *env, const char *given, struct mo_store **out, moire_error *err) {
    char path[MO_PATH_CAP];
    moire_error why = {0};
    *out = NULL;
    int rc = mo_path_store_there(given, path, sizeof path, &why);
    if (!rc) rc = mo_store_open(env, path, out, &why);
    if (!rc) mo_path_say_elsewhere(env, path);
    if (!rc) return MOIRE_OK;
    if (given) return mo_fail(err, rc, "%s", why.message);
    fprintf(stderr, "moire: compiled variants are not used: %s\n", why.message);
    return MOIRE_OK;
}

int mo_path_make_folder(const struct mo_env *env, const char *folder, moire_error *err) {
    int rc = env->sys->mkdir(env->sys->self, folder, 0777);
    if (!rc || rc == -EEXIST) return MOIRE_OK;
    if (rc == -ENOENT && mo_output_check(env, folder, err))
        return MOIRE_EIO; /* names the folder that is missing */
    return mo_fail(err, MOIRE_EIO, "cannot make the folder '%.300s': %s", folder, strerror(-rc));
}

void mo_path_bare(const char *given, char *out, size_t n) {
    const char *slash = strrchr(given, '/'), *base = slash ? slash + 1 : given;
    size_t length = strlen(base);
    if (length > 5 && !strcmp(base + length - 5, ".onnx")) length -= 5;
    snprintf(out, n, "%.*s", (int)(length < n ? length : n - 1), base);
}
