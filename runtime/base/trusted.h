/* SPDX-License-Identifier: Apache-2.0
 * trusted.h - folders whose files are run as code: the variant store, compiled GPU programs.
 *
 * The trust rule: such a folder and its files belong to the effective user or root, nobody else may write
 * into it or into a folder above it, and no component of its path is a symbolic link.  Errors are
 * MOIRE_ESTORE (MOIRE_ENOMEM without memory) and say what to do. */
#ifndef MO_TRUSTED_H
#define MO_TRUSTED_H
#include "runtime/base/env.h"

/* Opens a folder by its path; *folder = -1 and MOIRE_OK when it does not exist. */
int mo_trusted_walk(const struct mo_env *env, const char *path, int *folder, moire_error *err);
/* Opens folder `name` of an open folder; *folder = -1 and MOIRE_OK when it does not exist. */
int mo_trusted_enter(const struct mo_env *env, int parent, const char *name, int *folder, moire_error *err);
/* A file that stays open, and what it was before its bytes were read. */
struct mo_trusted_open {
    int fd; /* -1: there is no such file */
    struct mo_stat st;
};
/* Reads a file of an open folder whole into memory of the environment (*bytes, to be freed by mo_free);
 * *bytes = NULL and MOIRE_OK when it does not exist.  *open, when asked for, is to be closed. */
int mo_trusted_read(const struct mo_env *env, int folder, const char *name, int64_t limit, char **bytes,
                    size_t *n, struct mo_trusted_open *open, moire_error *err);
/* Nobody may write to the file (as published: mode 0444), and `path` leads to it, as it was when it was read.
 */
bool mo_trusted_lasts(const struct mo_env *env, const char *path, const struct mo_trusted_open *open);

/* A file, whole: mapped read-only and so shared by all processes when nobody may write to it (as published:
 * mode 0444), read into memory of our own otherwise. */
struct mo_trusted_file {
    const void *bytes; /* NULL: there is no such file */
    size_t n;
    bool mapped;
};
int mo_trusted_map(const struct mo_env *env, int folder, const char *name, int64_t limit,
                   struct mo_trusted_file *out, moire_error *err);
void mo_trusted_close(const struct mo_env *env, struct mo_trusted_file *file);

/* --- writing: trusted_write.c --- */
/* Creates a folder and those above it that are missing, for the owner to write to. */
int mo_trusted_make(const struct mo_env *env, const char *path, moire_error *err);
/* A new file of mode 0444 with these bytes, on the disk when it returns; nothing is left on failure. */
int mo_trusted_write(const struct mo_env *env, const char *path, const void *bytes, size_t n,
                     moire_error *err);
/* Renames in a folder are on the disk when it returns. */
int mo_trusted_sync(const struct mo_env *env, const char *path, moire_error *err);
/* All of them to an open file; 0 or -errno. */
int mo_trusted_put(const struct mo_env *env, int fd, const char *bytes, size_t n);
/* The error of a call of the system. */
int mo_trusted_fail(moire_error *err, const char *what, const char *path, int rc);
#endif
