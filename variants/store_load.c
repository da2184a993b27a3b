/* SPDX-License-Identifier: Apache-2.0
 * store_load.c - from checked bytes to callable code.
 *
 * A file that nobody may write to (as published: mode 0444) is loaded where it lies, as compiled models are
 * mapped: profilers and debuggers then find its symbols by its path, and processes share its pages.  What was
 * mapped are the bytes that were hashed: from before they were read until after they were mapped, the path
 * led to the same inode with the same time of change.  Later only the store's owner can alter them.
 *
 * Otherwise the bytes that were hashed are copied into a sealed memory file and loaded from there: what
 * happens to the file (rewritten, truncated) cannot reach running code.  Where memory files may not be
 * executed, the file itself is loaded through its open descriptor.
 *
 * The loader takes two objects of one path for the same, descriptors are reused, and entries may be deleted
 * and made again.  So the path carries the object's digest, spelled in what a path ignores: "/" for a 0 and
 * "./" for a 1. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "variants/store_format.h"

enum { TAG_BITS = 128, PATH_BYTES = 4096, FD_PATH_BYTES = 32 + 2 * TAG_BITS, LABEL_BYTES = 200 };

/* folder/<digest>file; false: too long */
static bool tagged_path(const char digest[MO_SHA256_HEX], const char *folder, const char *file, char *path,
                        size_t cap) {
    if (strlen(folder) + 1 + 2 * TAG_BITS + strlen(file) >= cap) return false;
    size_t at = (size_t)snprintf(path, cap, "%s/", folder);
    for (int i = 0; i < TAG_BITS; i++) {
        const char c = digest[i / 4];
        if ((c <= '9' ? c - '0' : c - 'a' + 10) >> (i % 4) & 1) path[at++] = '.';
        path[at++] = '/';
    }
    snprintf(path + at, cap - at, "%s", file);
    return true;
}

static void *open_descriptor(const struct mo_env *env, const struct mo_store_object *o, int fd, char *why,
                             size_t cap) {
    char path[FD_PATH_BYTES], number[16];
    snprintf(number, sizeof number, "%d", fd);
    tagged_path(o->digest, "/proc/self/fd", number, path, sizeof path);
    return env->sys->dl_open(env->sys->self, path, why, cap);
}

/* The file where it lies; NULL: it does not last, or cannot be loaded from there. */
static void *open_in_place(const struct mo_env *env, const struct mo_store_object *o, char *why, size_t cap) {
    char path[PATH_BYTES];
    if (!o->folder || !tagged_path(o->digest, o->folder, o->file, path, sizeof path)) return NULL;
    if (!mo_trusted_lasts(env, path, &o->open)) return NULL;
    void *object = env->sys->dl_open(env->sys->self, path, why, cap);
    if (!object || mo_trusted_lasts(env, path, &o->open)) return object;
    env->sys->dl_close(env->sys->self, object);
    return NULL;
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

static void *open_code(const struct mo_env *env, const struct mo_store_object *o, char *why, size_t cap) {
    const struct mo_sys *sys = env->sys;
    void *object = open_in_place(env, o, why, cap);
    if (object) return object;
    const int copy = sealed_copy(env, o->label, o->bytes, o->n);
    if (copy >= 0) {
        object = open_descriptor(env, o, copy, why, cap);
        sys->close(sys->self, copy);
    } else {
        snprintf(why, cap, "no memory file: %s", strerror(-copy));
    }
    return object || o->open.fd < 0 ? object : open_descriptor(env, o, o->open.fd, why, cap);
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

int mo_store_load(const struct mo_env *env, const struct mo_store_object *o, void **object,
                  struct mo_variant *out, moire_error *err) {
    int rc = mo_elf_check(o->bytes, o->n, err);
    if (rc) return rc;
    char why[256] = "unknown reason";
    *object = open_code(env, o, why, sizeof why);
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
