/* SPDX-License-Identifier: Apache-2.0
 * output.c - what a user asked for by a path, written; see output.h.
 *
 * Links are followed one by one, because only the last target may be replaced.  The links of /proc lead to
 * open files by more than their text: those of our own descriptors are recognised by name, and of any other
 * the text is believed only if it names the file that opening it would reach. */
#define _GNU_SOURCE
#include "runtime/base/output.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINKS = 40, NAME_SHOWN = 64, TRIES = 100 };

/* The first folder on the way to a path that is not there, or is no folder; "" when all are. */
static void first_missing(const struct mo_output *o, char out[MO_OUTPUT_PATH]) {
    char probe[MO_OUTPUT_PATH + 2];
    for (const char *slash = strchr(o->path + 1, '/'); *o->path && slash; slash = strchr(slash + 1, '/')) {
        snprintf(out, MO_OUTPUT_PATH, "%.*s", (int)(slash - o->path), o->path);
        snprintf(probe, sizeof probe, "%s/.", out);
        int fd = o->env->sys->open(o->env->sys->self, probe, O_PATH, 0);
        if (fd == -ENOENT || fd == -ENOTDIR) return;
        if (fd >= 0) o->env->sys->close(o->env->sys->self, fd);
    }
    *out = 0;
}

static int cannot(const struct mo_output *o, int rc, moire_error *err) {
    char folder[MO_OUTPUT_PATH] = "";
    if (rc == -ENOENT || rc == -ENOTDIR) first_missing(o, folder);
    if (*folder)
        return mo_fail(err, MOIRE_EIO,
                       "cannot write '%.200s': the folder '%.200s' does not exist; make it first", o->name,
                       folder);
    const char *hint = rc == -ENOSPC || rc == -EDQUOT ? "; free some space or name another file"
                       : rc == -EACCES || rc == -EROFS || rc == -EPERM || rc == -ENOENT || rc == -ENOTDIR
                           ? "; name a file in a folder that can be written"
                           : "";
    return mo_fail(err, rc == -ENOMEM ? MOIRE_ENOMEM : MOIRE_EIO, "cannot write '%.300s': %s%s", o->name,
                   strerror(-rc), hint);
}

/* --- where a path leads --- */

/* Length of the folder part of a path, its slash included; 0 for a bare name. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash + 1 - path) : 0;
}

/* The descriptor of ours that a path of /dev/fd or /proc names; -1: none. */
static int own_descriptor(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t n = strlen(folders[i]);
        if (strncmp(path, folders[i], n) != 0 || path[n] < '0' || path[n] > '9') continue;
        char *end;
        long fd = strtol(path + n, &end, 10);
        if (!*end && fd <= 0xffff) return (int)fd;
    }
    return -1;
}

/* Follows the links at the end of o->path, until no link or one of our descriptors; 0 or -errno. */
static int follow(struct mo_output *o) {
    const struct mo_sys *sys = o->env->sys;
    char target[MO_OUTPUT_PATH];
    for (int i = 0; i < MAX_LINKS; i++) {
        if (own_descriptor(o->path) >= 0) return 0;
        int n = sys->read_link(sys->self, o->path, target, sizeof target);
        if (n == -EINVAL || n == -ENOENT) return 0;
        if (n < 0) return n;
        size_t folder = *target == '/' ? 0 : folder_length(o->path);
        if (folder + (size_t)n >= sizeof o->path) return -ENAMETOOLONG;
        memcpy(o->path + folder, target, (size_t)n + 1);
    }
    return -ELOOP;
}

/* What is at `path`; flags: O_NOFOLLOW or 0. */
static int look(const struct mo_env *env, const char *path, int flags, struct mo_stat *st) {
    int fd = env->sys->open(env->sys->self, path, O_PATH | flags, 0);
    if (fd < 0) return fd;
    int rc = env->sys->stat(env->sys->self, fd, st);
    env->sys->close(env->sys->self, fd);
    return rc;
}

/* Decides how `name` is written; 0 or -errno. */
static int resolve(const struct mo_env *env, const char *name, struct mo_output *o) {
    *o = (struct mo_output){.env = env, .name = name, .fd = -1, .mode = -1};
    size_t n = strlen(name);
    if (!n) return -ENOENT;
    if (n >= sizeof o->path) return -ENAMETOOLONG;
    memcpy(o->path, name, n + 1);
    int rc = follow(o);
    if (rc) return rc;
    struct mo_stat there, named;
    if (own_descriptor(o->path) >= 0) {
        o->way = MO_OUTPUT_LENT;
        return env->sys->stat(env->sys->self, own_descriptor(o->path), &there);
    }
    rc = look(env, name, 0, &there);
    if (rc == -ENOENT) return o->path[strlen(o->path) - 1] == '/' ? -EISDIR : 0;
    if (rc) return rc;
    if (there.is_folder) return -EISDIR;
    bool same =
        !look(env, o->path, O_NOFOLLOW, &named) && named.device == there.device && named.inode == there.inode;
    if (!there.is_file || !same) {
        o->way = MO_OUTPUT_THROUGH;
        memcpy(o->path, name, n + 1);
    } else {
        o->mode = (int)(there.mode & 0777); /* set-user-id is not for contents that are new */
    }
    return 0;
}

/* Whether the file, and the folder when a new one is made there, can be written to; 0 or -errno. */
static int permitted(const struct mo_output *o) {
    const struct mo_sys *sys = o->env->sys;
    if (o->way == MO_OUTPUT_LENT) return 0;
    int rc = o->way == MO_OUTPUT_THROUGH || o->mode >= 0 ? sys->may_write(sys->self, o->path, false) : 0;
    if (rc || o->way == MO_OUTPUT_THROUGH) return rc;
    char folder[MO_OUTPUT_PATH + 2];
    size_t n = folder_length(o->path);
    snprintf(folder, sizeof folder, "%.*s.", (int)n, o->path);
    return sys->may_write(sys->self, folder, true);
}

int mo_output_check(const struct mo_env *env, const char *path, moire_error *err) {
    struct mo_output o;
    int rc = resolve(env, path, &o);
    if (!rc) rc = permitted(&o);
    return rc ? cannot(&o, rc, err) : MOIRE_OK;
}

bool mo_output_replaces(const struct mo_env *env, const char *path) {
    struct mo_output o;
    return !resolve(env, path, &o) && o.way == MO_OUTPUT_REPLACE;
}

/* --- writing --- */

/* A file that only we write to, beside the one that it becomes; a descriptor or -errno. */
static int open_part(struct mo_output *o) {
    const struct mo_sys *sys = o->env->sys;
    int folder = (int)folder_length(o->path), fd = -EEXIST;
    const char *name = o->path + folder;
    for (int i = 0; i < TRIES && fd == -EEXIST; i++) {
        unsigned long long number = (unsigned long long)mo_now(o->env) + (unsigned long long)i;
        int n = snprintf(o->part, sizeof o->part, "%.*s.%.*s.%llx.part", folder, o->path, NAME_SHOWN, name,
                         number);
        if (n >= (int)sizeof o->part) return -ENAMETOOLONG;
        fd = sys->open(sys->self, o->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                       o->mode < 0 ? 0666 : 0600);
    }
    if (fd < 0 || o->mode < 0) return fd;
    int rc = sys->change_mode(sys->self, fd, o->mode);
    if (!rc || rc == -EPERM || rc == -EOPNOTSUPP) return fd; /* file systems without permission bits */
    sys->close(sys->self, fd);
    sys->unlink(sys->self, o->part);
    return rc;
}

int mo_output_open(const struct mo_env *env, const char *path, struct mo_output *o, moire_error *err) {
    int rc = resolve(env, path, o);
    if (!rc) rc = permitted(o);
    if (rc) return cannot(o, rc, err);
    if (o->way == MO_OUTPUT_LENT) {
        o->fd = own_descriptor(o->path);
        if (o->fd == 1) fflush(stdout); /* what was printed before stands before */
    } else if (o->way == MO_OUTPUT_THROUGH) {
        o->fd = env->sys->open(env->sys->self, o->path, O_WRONLY | O_TRUNC | O_NOCTTY, 0);
    } else {
        o->fd = open_part(o);
    }
    return o->fd < 0 ? cannot(o, o->fd, err) : MOIRE_OK;
}

void mo_output_put(struct mo_output *o, const void *bytes, size_t n) {
    const struct mo_sys *sys = o->env->sys;
    const char *at = bytes;
    while (n && !o->rc) {
        ssize_t put = o->way == MO_OUTPUT_REPLACE ? sys->write(sys->self, o->fd, at, n)
                                                  : sys->write_pipe(sys->self, o->fd, at, n);
        if (put <= 0) {
            o->rc = put ? (int)put : -EIO;
            return;
        }
        at += put;
        n -= (size_t)put;
    }
}

int mo_output_close(struct mo_output *o, moire_error *err) {
    const struct mo_sys *sys = o->env->sys;
    int closed = o->way == MO_OUTPUT_LENT ? 0 : sys->close(sys->self, o->fd);
    o->fd = -1;
    if (!o->rc) o->rc = closed;
    if (o->way == MO_OUTPUT_REPLACE) {
        if (!o->rc) o->rc = sys->rename(sys->self, o->part, o->path);
        if (o->rc) sys->unlink(sys->self, o->part);
    }
    return o->rc ? cannot(o, o->rc, err) : MOIRE_OK;
}

void mo_output_drop(struct mo_output *o) {
    if (o->fd < 0) return;
    o->rc = -ECANCELED;
    mo_output_close(o, NULL);
}

int mo_output_write(const struct mo_env *env, const char *path, const void *bytes, size_t n,
                    moire_error *err) {
    struct mo_output o;
    int code = mo_output_open(env, path, &o, err);
    if (code) return code;
    mo_output_put(&o, bytes, n);
    return mo_output_close(&o, err);
}
