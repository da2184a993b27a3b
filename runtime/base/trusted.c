/* SPDX-License-Identifier: Apache-2.0
 * trusted.c - walking to a folder and reading its files under the trust rule; see trusted.h.
 *
 * Every step opens one component relative to the one before with O_NOFOLLOW and checks what was opened, not
 * what a path named a moment ago.  A folder above may be writable by others only when it is root's and sticky
 * (like /tmp): there nobody can replace what is ours. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/trusted.h"

enum { OTHERS_WRITE = 022, ANYBODY_WRITES = 0222, STICKY = 01000 };

static void close_fd(const struct mo_env *env, int fd) {
    if (fd >= 0) env->sys->close(env->sys->self, fd);
}

/* NULL, or why an opened file or folder is not to be trusted. */
static const char *distrust(const struct mo_env *env, const struct mo_stat *st, bool above) {
    if (st->uid != 0 && st->uid != env->sys->euid(env->sys->self))
        return "belongs to another user; use one of your own";
    if (!(st->mode & OTHERS_WRITE)) return NULL;
    if (above && st->is_folder && st->uid == 0 && st->mode & STICKY) return NULL;
    return "can be written by others; run chmod go-w on it";
}

static int open_folder(const struct mo_env *env, int parent, const char *name, bool above, int *folder,
                       moire_error *err) {
    const struct mo_sys *sys = env->sys;
    int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    int fd =
        parent < 0 ? sys->open(sys->self, name, flags, 0) : sys->open_at(sys->self, parent, name, flags, 0);
    if (fd == -ENOTDIR || fd == -ELOOP)
        return mo_fail(err, MOIRE_ESTORE, "'%s' is not a folder or is a symbolic link; give the real path",
                       name);
    if (fd < 0) {
        mo_fail(err, MOIRE_ESTORE, "cannot open folder '%s': %s", name, strerror(-fd));
        return fd == -ENOENT ? 1 : MOIRE_ESTORE;
    }
    struct mo_stat st;
    int rc = sys->stat(sys->self, fd, &st);
    const char *why = rc < 0 ? strerror(-rc) : distrust(env, &st, above);
    if (why) {
        close_fd(env, fd);
        return mo_fail(err, MOIRE_ESTORE, "folder '%s' %s", name, why);
    }
    *folder = fd;
    return MOIRE_OK;
}

int mo_trusted_enter(const struct mo_env *env, int parent, const char *name, int *folder, moire_error *err) {
    *folder = -1;
    int rc = open_folder(env, parent, name, false, folder, err);
    return rc == 1 ? MOIRE_OK : rc;
}

/* Copies the next component of *path into name and steps over it and its slashes; false at the end. */
static bool next_component(const char **path, char *name, size_t cap) {
    while (**path == '/')
        ++*path;
    size_t n = strcspn(*path, "/");
    if (!n || n >= cap) return false;
    memcpy(name, *path, n);
    name[n] = 0;
    *path += n;
    while (**path == '/')
        ++*path;
    return true;
}

int mo_trusted_walk(const struct mo_env *env, const char *path, int *folder, moire_error *err) {
    *folder = -1;
    if (!path || !*path || strlen(path) > 4000)
        return mo_fail(err, MOIRE_ESTORE, "its path is empty or too long");
    int at = -1;
    int rc = open_folder(env, -1, *path == '/' ? "/" : ".", true, &at, err);
    char name[256];
    while (!rc && next_component(&path, name, sizeof name)) {
        int next = -1;
        rc = open_folder(env, at, name, *path != 0, &next, err);
        close_fd(env, at);
        at = next;
    }
    if (!rc && *path) rc = mo_fail(err, MOIRE_ESTORE, "a name in its path is too long");
    if (rc) {
        close_fd(env, at);
        return rc == 1 ? MOIRE_OK : rc;
    }
    *folder = at;
    return MOIRE_OK;
}

static int read_all(const struct mo_env *env, int fd, const char *name, int64_t size, char **bytes,
                    moire_error *err) {
    char *p = mo_alloc(env, (size_t)size + 1);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "out of memory reading '%s'", name);
    int64_t at = 0;
    while (at < size) {
        ssize_t got = env->sys->read(env->sys->self, fd, p + at, (size_t)(size - at));
        if (got <= 0) {
            mo_free(env, p);
            return mo_fail(err, MOIRE_ESTORE, "'%s': %s", name,
                           got ? strerror((int)-got) : "it was truncated");
        }
        at += got;
    }
    *bytes = p;
    return MOIRE_OK;
}

/* What an opened file is, when it may be used. */
static int examine(const struct mo_env *env, int fd, const char *name, int64_t limit, struct mo_stat *st,
                   moire_error *err) {
    int rc = env->sys->stat(env->sys->self, fd, st);
    if (rc < 0) return mo_fail(err, MOIRE_ESTORE, "'%s': %s", name, strerror(-rc));
    if (!st->is_file) return mo_fail(err, MOIRE_ESTORE, "'%s' is not a regular file", name);
    const char *why = distrust(env, st, false);
    if (why) return mo_fail(err, MOIRE_ESTORE, "'%s' %s", name, why);
    if (st->size < 1 || st->size > limit)
        return mo_fail(err, MOIRE_ESTORE, "'%s' has %lld bytes, allowed are 1 to %lld", name,
                       (long long)st->size, (long long)limit);
    return MOIRE_OK;
}

/* *file = -1 and MOIRE_OK when it does not exist. */
static int open_file(const struct mo_env *env, int folder, const char *name, int *file, moire_error *err) {
    *file = env->sys->open_at(env->sys->self, folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (*file >= 0) return MOIRE_OK;
    int rc = *file;
    *file = -1;
    return rc == -ENOENT ? MOIRE_OK : mo_fail(err, MOIRE_ESTORE, "cannot open '%s': %s", name, strerror(-rc));
}

int mo_trusted_read(const struct mo_env *env, int folder, const char *name, int64_t limit, char **bytes,
                    size_t *n, struct mo_trusted_open *open, moire_error *err) {
    struct mo_stat st;
    int file;
    *bytes = NULL;
    *n = 0;
    if (open) open->fd = -1;
    int rc = open_file(env, folder, name, &file, err);
    if (rc || file < 0) return rc;
    rc = examine(env, file, name, limit, &st, err);
    if (!rc) rc = read_all(env, file, name, st.size, bytes, err);
    if (!rc) *n = (size_t)st.size;
    if (open && !rc)
        *open = (struct mo_trusted_open){file, st};
    else
        close_fd(env, file);
    return rc;
}

bool mo_trusted_lasts(const struct mo_env *env, const char *path, const struct mo_trusted_open *open) {
    const struct mo_sys *sys = env->sys;
    struct mo_stat now;
    const int fd = sys->open(sys->self, path, O_PATH | O_NOFOLLOW, 0);
    const bool seen = fd >= 0 && !sys->stat(sys->self, fd, &now);
    close_fd(env, fd);
    const struct mo_stat *then = &open->st;
    return seen && !(now.mode & ANYBODY_WRITES) && now.device == then->device && now.inode == then->inode &&
           now.size == then->size && now.modified == then->modified && now.changed == then->changed;
}

int mo_trusted_map(const struct mo_env *env, int folder, const char *name, int64_t limit,
                   struct mo_trusted_file *out, moire_error *err) {
    struct mo_stat st;
    int file;
    *out = (struct mo_trusted_file){0};
    int rc = open_file(env, folder, name, &file, err);
    if (rc || file < 0) return rc;
    rc = examine(env, file, name, limit, &st, err);
    if (!rc && !(st.mode & ANYBODY_WRITES))
        out->mapped = !env->sys->map(env->sys->self, file, (size_t)st.size, &out->bytes);
    char *copy = NULL;
    if (!rc && !out->mapped) {
        rc = read_all(env, file, name, st.size, &copy, err);
        out->bytes = copy;
    }
    if (!rc) out->n = (size_t)st.size;
    close_fd(env, file);
    return rc;
}

void mo_trusted_close(const struct mo_env *env, struct mo_trusted_file *file) {
    if (file->mapped)
        env->sys->unmap(env->sys->self, file->bytes, file->n);
    else
        mo_free(env, (void *)(uintptr_t)file->bytes);
    *file = (struct mo_trusted_file){0};
}
