/* SPDX-License-Identifier: Apache-2.0
 * sys_outputs.c - what writing to a user's path asks of the system beyond plain files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/sys_posix.h"

int mo_px_read_link(void *self, const char *path, char *out, size_t n) {
    (void)self;
    ssize_t got = readlink(path, out, n);
    if (got < 0) return -errno;
    if ((size_t)got >= n) return -ENAMETOOLONG;
    out[got] = 0;
    return (int)got;
}

int mo_px_may_write(void *self, const char *path, bool folder) {
    (void)self;
    return faccessat(AT_FDCWD, path, folder ? W_OK | X_OK : W_OK, AT_EACCESS) ? -errno : 0;
}

int mo_px_change_mode(void *self, int fd, int mode) {
    (void)self;
    return fchmod(fd, (mode_t)mode) ? -errno : 0;
}

/* The signal is held back from this thread while it writes, and taken away if it came of that. */
ssize_t mo_px_write_pipe(void *self, int fd, const void *buffer, size_t n) {
    (void)self;
    sigset_t broken, old, waiting;
    const struct timespec at_once = {0};
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigpending(&waiting);
    pthread_sigmask(SIG_BLOCK, &broken, &old);
    ssize_t put;
    do
        put = write(fd, buffer, n);
    while (put < 0 && errno == EINTR);
    const int failure = put < 0 ? errno : 0;
    if (failure == EPIPE && !sigismember(&waiting, SIGPIPE)) sigtimedwait(&broken, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failure ? -failure : put;
}
