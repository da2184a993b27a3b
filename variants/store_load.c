/* SPDX-License-Identifier: Apache-2.0
 * store_load.c - from checked bytes to callable code.
 *
 * The bytes that were hashed are copied into a sealed memory file and loaded from there: what happens to the
 * file afterwards (replaced, truncated) cannot reach running code.  Where memory files may not be executed,
 * the file itself is loaded through its open descriptor.
 *
 * The loader takes two objects of one path for the same, and descriptors are reused.  So the path carries
 * the object's digest, spelled in what a path ignores: "/" for a 0 and "./" for a 1. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "variants/store_format.h"

enum { TAG_BITS = 128, PATH_BYTES = 32 + 2 * TAG_BITS, LABEL_BYTES = 200 };

static void tagged_path(const char digest[MO_SHA256_HEX], int fd, char path[PATH_BYTES]) {
    size_t at = (size_t)snprintf(path, PATH_BYTES, "/proc/self/fd/");
    for (int i = 0; i < TAG_BITS; i++) {
        const char c = digest[i / 4];
        if ((c <= '9' ? c - '0' : c - 'a' + 10) >> (i % 4) & 1) path[at++] = '.';
        path[at++] = '/';
    }
    snprintf(path + at, PATH_BYTES - at, "%d", fd);
}

/* A sealed memory file with these bytes, or -errno. */
static int sealed_copy(const struct mo_env *env, const char *label, const char *bytes, size_t n) {
    const struct mo_sys *sys = env->sys;
    char name[LABEL_BYTES];
    snprintf(name, sizeof name, "moire-%s", label ? label : "variant");
    int fd = sys->memfd(sys->self, name);
    if (fd < 0) return fd;
    int rc = 0;
    for (size_t at = 0; at < n && rc >= 0;) {
        ssize_t put = sys->write(sys->self, fd, bytes + at, n - at);
        rc = put > 0 ? 0 : put < 0 ? (int)put : -EIO;
        if (put > 0) at += (size_t)put;
    }
    if (rc >= 0) rc = sys->seal(sys->self, fd);
    if (rc < 0) {
        sys->close(sys->self, fd);
        return rc;
    }
    return fd;
}

static void *open_code(const struct mo_env *env, const char *label, const char *bytes, size_t n,
                       const char digest[MO_SHA256_HEX], int fd, char *why, size_t cap) {
    const struct mo_sys *sys = env->sys;
    char path[PATH_BYTES];
    int copy = sealed_copy(env, label, bytes, n);
    void *object = NULL;
    if (copy >= 0) {
        tagged_path(digest, copy, path);
        object = sys->dl_open(sys->self, path, why, cap);
        sys->close(sys->self, copy);
    } else {
        snprintf(why, cap, "no memory file: %s", strerror(-copy));
    }
    if (!object && fd >= 0) {
        tagged_path(digest, fd, path);
        object = sys->dl_open(sys->self, path, why, cap);
    }
    return object;
}

/* NULL, or what is wrong with a descriptor. */
static const char *odd_variant(const struct mo_env *env, const struct mo_variant *v) {
    if (v->abi != MO_KERNEL_ABI) return "made for another kernel ABI";
    if (v->packing < 0 || v->packing >= MO_PACK_COUNT) return "unknown weight packing";
    if (v->units < 1 || v->units > INT32_MAX) return "odd number of units";
    if (v->scratch_bytes < 0 || v->scratch_bytes > env->limits.tensor_bytes) return "odd scratch size";
    if (!v->run || !v->name) return "no function or name";
    return NULL;
}

int mo_store_load(const struct mo_env *env, const char *bytes, size_t n, const char digest[MO_SHA256_HEX],
                  int fd, const char *label, void **object, struct mo_variant *out, moire_error *err) {
    int rc = mo_elf_check(bytes, n, err);
    if (rc) return rc;
    char why[256] = "unknown reason";
    *object = open_code(env, label, bytes, n, digest, fd, why, sizeof why);
    if (!*object) return mo_fail(err, MOIRE_ESTORE, "cannot load the object: %.200s", why);
    const struct mo_variant *v = env->sys->dl_sym(env->sys->self, *object, "mo_variant");
    const char *odd = v ? odd_variant(env, v) : "no descriptor";
    if (odd) {
        env->sys->dl_close(env->sys->self, *object);
        *object = NULL;
        return mo_fail(err, MOIRE_ESTORE, "variant refused: %s", odd);
    }
    *out = *v;
    return MOIRE_OK;
}
