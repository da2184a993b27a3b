/* SPDX-License-Identifier: Apache-2.0
 * sys_background.c - programs that run beside us for as long as we like, and where our own files are.
 *
 * The end of such a program is seen as the end of a stream between us, which no host's handler of SIGCHLD,
 * nor a waitpid() of its own, can take away. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/sys_posix.h"

extern char **environ;

enum { MAX_FDS = 8, FIRST_FD = 3, ABOVE = FIRST_FD + MAX_FDS, POLL_NS = 500000, LINK_TIMEOUT_US = 500000 };

/* Descriptors above those that they become, so that none overwrites another; *made of them to be closed. */
static int lift(const int *fds, int n, int high[], int *made) {
    for (*made = 0; *made < n; ++*made) {
        high[*made] = fcntl(fds[*made], F_DUPFD_CLOEXEC, ABOVE);
        if (high[*made] < 0) return -errno;
    }
    return 0;
}

static int spawn_with(const char *const *argv, const int *high, int n, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc) return -rc;
    rc = posix_spawnattr_init(&attr);
    if (rc) {
        posix_spawn_file_actions_destroy(&actions);
        return -rc;
    }
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!rc) rc = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < n && !rc; i++)
        rc = posix_spawn_file_actions_adddup2(&actions, high[i], FIRST_FD + i);
    if (!rc) rc = posix_spawn(pid, argv[0], &actions, &attr, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

int mo_px_start_process(void *self, const char *const *argv, const int *fds, int n, struct mo_child *out) {
    (void)self;
    int pair[2], all[MAX_FDS] = {0}, high[MAX_FDS] = {0}, made = 0;
    pid_t pid = -1;
    if (n < 0 || n >= MAX_FDS) return -EINVAL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return -errno;
    const struct timeval timeout = {.tv_usec = LINK_TIMEOUT_US};
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    all[0] = pair[1];
    for (int i = 0; i < n; i++)
        all[i + 1] = fds[i];
    int rc = lift(all, n + 1, high, &made);
    if (!rc) rc = spawn_with(argv, high, n + 1, &pid);
    while (made > 0)
        close(high[--made]);
    close(pair[1]);
    if (rc) {
        close(pair[0]);
        return rc;
    }
    *out = (struct mo_child){.pid = pid, .handle = (int)syscall(SYS_pidfd_open, pid, 0), .link = pair[0]};
    return 0;
}

void mo_px_kill_process(void *self, const struct mo_child *p) {
    (void)self;
    if (p->handle >= 0)
        syscall(SYS_pidfd_send_signal, p->handle, SIGKILL, NULL, 0);
    else
        kill(p->pid, SIGKILL);
}

int mo_px_end_process(void *self, struct mo_child *p, int64_t deadline) {
    (void)self;
    int status = 0;
    pid_t got;
    while ((got = waitpid(p->pid, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        if (deadline && mo_px_now(NULL) >= deadline) return -ETIMEDOUT;
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    const int rc = got < 0 ? -errno : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (p->handle >= 0) close(p->handle);
    p->pid = p->handle = -1;
    return rc;
}

/* /proc may be missing, in a chroot or a bare container: then it is the path that the kernel was given. */
int mo_px_own_program(void *self, char *out, size_t n) {
    (void)self;
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length >= 0) {
        path[length] = 0;
    } else {
        const char *given = (const char *)(uintptr_t)getauxval(AT_EXECFN);
        if (!given || !realpath(given, path)) return -ENOENT;
    }
    return (size_t)snprintf(out, n, "%s", path) < n ? 0 : -ENAMETOOLONG;
}

int mo_px_own_folder(void *self, char *out, size_t n) {
    char path[PATH_MAX];
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1((const void *)(uintptr_t)&mo_px_own_folder, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return -ENOENT;
    if (map->l_name && *map->l_name) {
        snprintf(path, sizeof path, "%s", map->l_name);
    } else { /* the program itself */
        const int rc = mo_px_own_program(self, path, sizeof path);
        if (rc) return rc;
    }
    char *slash = strrchr(path, '/');
    if (!slash) return -ENOENT;
    *slash = 0;
    return (size_t)snprintf(out, n, "%s", path) < n ? 0 : -ENAMETOOLONG;
}
