/* SPDX-License-Identifier: Apache-2.0
 * sys_process.c - what this process may have, and child processes: a program, or a copy of this one, under a
 * time limit.
 *
 * A child has a process group of its own, so that what it started (a compiler's passes) dies with it.  A copy
 * dies with us, too; a program may outlive us.  Waiting polls: a pidfd would be neater and is missing from
 * older kernels. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/sys_posix.h"

extern char **environ;

enum { FIRST_POLL_NS = 200000, LONGEST_POLL_NS = 5000000 };

/* The first of these files that holds a number: "max", or a group of our own below, is no bound we know. */
static int64_t group_memory(void) {
    static const char *const files[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[32] = {0};
        int fd = open(files[i], O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0) close(fd);
        if (n > 0 && text[0] >= '0' && text[0] <= '9') return strtoll(text, NULL, 10);
    }
    return 0;
}

int64_t mo_px_memory(void *self) {
    (void)self;
    int64_t pages = sysconf(_SC_PHYS_PAGES), least = pages > 0 ? pages * sysconf(_SC_PAGESIZE) : 0;
    const int64_t group = group_memory();
    if (group > 0 && (!least || group < least)) least = group;
    static const int kinds[] = {RLIMIT_AS, RLIMIT_DATA};
    for (int i = 0; i < 2; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)kinds[i], &limit) || limit.rlim_cur == RLIM_INFINITY) continue;
        if (!least || limit.rlim_cur < (rlim_t)least) least = (int64_t)limit.rlim_cur;
    }
    return least;
}

static void pause_for(long ns) {
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static int reap(pid_t pid, int flags, int *status) {
    pid_t got;
    do
        got = waitpid(pid, status, flags);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got > 0;
}

/* Exit status of a child (128+n for signal n), or -errno. */
static int wait_for(pid_t pid, int64_t limit) {
    int status = 0;
    int64_t end = limit ? mo_px_now(NULL) + limit : 0;
    int rc = reap(pid, limit ? WNOHANG : 0, &status);
    for (long ns = FIRST_POLL_NS; !rc; ns = ns < LONGEST_POLL_NS ? 2 * ns : ns) {
        if (mo_px_now(NULL) >= end) {
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
            reap(pid, 0, &status);
            return -ETIMEDOUT;
        }
        pause_for(ns);
        rc = reap(pid, WNOHANG, &status);
    }
    if (rc < 0) return rc;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int mo_px_spawn(void *self, const char *const *argv, const char *log, int64_t limit) {
    (void)self;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc) return -rc;
    rc = posix_spawnattr_init(&attr);
    if (rc) {
        posix_spawn_file_actions_destroy(&actions);
        return -rc;
    }
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log ? log : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid;
    rc = posix_spawnp(&pid, argv[0], &actions, &attr, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc ? -rc : wait_for(pid, limit);
}

/* A fault in the copy ends it: the handlers that our process may have would carry on in the wrong place. */
static void drop_fault_handlers(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signal(faults[i], SIG_DFL);
}

int mo_px_fork(void *self, void (*fn)(void *ctx, void *shared), void *ctx, void *shared, int64_t limit) {
    (void)self;
    pid_t pid = fork();
    if (pid < 0) return -errno;
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        drop_fault_handlers();
        fn(ctx, shared);
        _exit(0);
    }
    setpgid(pid, pid); /* here too: whoever comes first */
    return wait_for(pid, limit);
}

void *mo_px_share(void *self, size_t bytes) {
    (void)self;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void mo_px_unshare(void *self, void *shared, size_t bytes) {
    (void)self;
    if (shared) munmap(shared, bytes);
}
