/* SPDX-License-Identifier: Apache-2.0
 * sys_user.c - the real machine's answer to where the user's caches are, and real paths.
 *
 * The only place in the library that reads the environment: whoever moves the caches with XDG_CACHE_HOME
 * moves them for the command and for servers alike.  tools/lint-rules knows this file by name. */
#define _GNU_SOURCE
#include "runtime/base/sys_posix.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A variable that holds an absolute path, or NULL.  Not of a program that runs with more rights than its
 * caller, who could have it run code of their own. */
static const char *absolute(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value == '/' ? value : NULL;
}

static int put(char *out, size_t n, const char *folder, const char *below) {
    int length = snprintf(out, n, "%s%s", folder, below);
    return length < 0 || (size_t)length >= n ? -ENAMETOOLONG : 0;
}

int mo_px_caches(void *self, char *out, size_t n) {
    (void)self;
    char buffer[4096];
    struct passwd entry, *found = NULL;
    const char *caches = absolute("XDG_CACHE_HOME"), *home = absolute("HOME");
    if (caches) return put(out, n, caches, "");
    if (home) return put(out, n, home, "/.cache");
    int rc = getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found);
    if (rc) return -rc;
    return found && found->pw_dir && *found->pw_dir == '/' ? put(out, n, found->pw_dir, "/.cache") : -ENOENT;
}

int mo_px_real_path(void *self, const char *path, char *out, size_t n) {
    (void)self;
    char real[PATH_MAX];
    return realpath(path, real) ? put(out, n, real, "") : -errno;
}
