/* SPDX-License-Identifier: Apache-2.0
 * sys_posix.c - the sys table of the real machine (Linux). */
#define _GNU_SOURCE
#include "runtime/base/sys_posix.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t to_ns(struct timespec t) {
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t mo_px_now(void *self) {
    (void)self;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return to_ns(t);
}

static int64_t px_thread_time(void *self) {
    (void)self;
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return to_ns(t);
}

static struct timespec to_timespec(int64_t ns) {
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static void px_sleep_until(void *self, int64_t when) {
    (void)self;
    struct timespec t = to_timespec(when);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int px_open(void *self, const char *path, int flags, int mode) {
    (void)self;
    int fd = open(path, flags | O_CLOEXEC, mode);
    return fd < 0 ? -errno : fd;
}

static ssize_t px_read(void *self, int fd, void *buffer, size_t n) {
    (void)self;
    ssize_t got;
    do
        got = read(fd, buffer, n);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t px_write(void *self, int fd, const void *buffer, size_t n) {
    (void)self;
    ssize_t put;
    do
        put = write(fd, buffer, n);
    while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

static int64_t px_size(void *self, int fd) {
    (void)self;
    struct stat st;
    if (fstat(fd, &st)) return -errno;
    return S_ISREG(st.st_mode) ? (int64_t)st.st_size : -EINVAL;
}

static int64_t px_seek(void *self, int fd, int64_t offset) {
    (void)self;
    off_t at = lseek(fd, offset, SEEK_SET);
    return at < 0 ? -errno : at;
}

static int px_fsync(void *self, int fd) {
    (void)self;
    return fsync(fd) ? -errno : 0;
}

static int px_close(void *self, int fd) {
    (void)self;
    return close(fd) ? -errno : 0;
}

static int px_rename(void *self, const char *from, const char *to) {
    (void)self;
    return rename(from, to) ? -errno : 0;
}

static int px_unlink(void *self, const char *path) {
    (void)self;
    return unlink(path) ? -errno : 0;
}

static int px_rmdir(void *self, const char *path) {
    (void)self;
    return rmdir(path) ? -errno : 0;
}

static int px_mkdir(void *self, const char *path, int mode) {
    (void)self;
    return mkdir(path, (mode_t)mode) ? -errno : 0;
}

static int px_lock(void *self, int fd) {
    (void)self;
    int rc;
    do
        rc = flock(fd, LOCK_EX);
    while (rc && errno == EINTR);
    return rc ? -errno : 0;
}

static int px_try_lock(void *self, int fd) {
    (void)self;
    return flock(fd, LOCK_EX | LOCK_NB) ? -errno : 0;
}

static int px_open_at(void *self, int folder, const char *name, int flags, int mode) {
    (void)self;
    int fd = openat(folder, name, flags | O_CLOEXEC, mode);
    return fd < 0 ? -errno : fd;
}

static int px_stat(void *self, int fd, struct mo_stat *out) {
    (void)self;
    struct stat st;
    if (fstat(fd, &st)) return -errno;
    *out = (struct mo_stat){.uid = st.st_uid,
                            .mode = st.st_mode & 07777,
                            .size = (int64_t)st.st_size,
                            .is_folder = S_ISDIR(st.st_mode),
                            .is_file = S_ISREG(st.st_mode),
                            .device = (uint64_t)st.st_dev,
                            .inode = (uint64_t)st.st_ino,
                            .modified = to_ns(st.st_mtim),
                            .changed = to_ns(st.st_ctim)};
    return 0;
}

static uint32_t px_euid(void *self) {
    (void)self;
    return (uint32_t)geteuid();
}

static int px_list(void *self, const char *folder, int (*fn)(void *ctx, const char *name), void *ctx) {
    (void)self;
    DIR *dir = opendir(folder);
    if (!dir) return -errno;
    int rc = 0;
    for (struct dirent *e; !rc && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) rc = fn(ctx, e->d_name);
    closedir(dir);
    return rc;
}

/* In large pages where the file system has them: it must know before it reads. */
static int px_map(void *self, int fd, size_t bytes, const void **out) {
    (void)self;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return -errno;
    madvise(at, bytes, MADV_HUGEPAGE);
    *out = at;
    return 0;
}

static void px_unmap(void *self, const void *at, size_t bytes) {
    (void)self;
    munmap((void *)(uintptr_t)at, bytes);
}

/* One pass over the page tables instead of a fault for every few pages. */
static void px_want(void *self, const void *at, size_t bytes) {
    (void)self;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at / page * page;
    madvise((void *)from, (uintptr_t)at + bytes - from, MADV_POPULATE_READ);
}

static void px_drop(void *self, const void *at, size_t bytes) {
    (void)self;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)at + page - 1) / page * page,
              end = (uintptr_t)at + bytes;
    if (from < end) madvise((void *)from, end - from, MADV_DONTNEED);
}

static int px_memfd(void *self, const char *name) {
    (void)self;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

static int px_seal(void *self, int fd) {
    (void)self;
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) ? -errno : 0;
}

static int px_thread_start(void *self, struct mo_thread *out, void *(*fn)(void *), void *arg) {
    (void)self;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!rc) out->handle = (uintptr_t)thread;
    return -rc;
}

static void px_name_thread(void *self, const char *name) {
    char shown[16];
    (void)self;
    snprintf(shown, sizeof shown, "%s", name);
    (void)pthread_setname_np(pthread_self(), shown);
}

static int px_thread_join(void *self, struct mo_thread thread) {
    (void)self;
    return -pthread_join((pthread_t)thread.handle, NULL);
}

static int64_t px_thread_cpu(void *self, struct mo_thread thread) {
    (void)self;
    clockid_t clock;
    struct timespec t;
    if (pthread_getcpuclockid((pthread_t)thread.handle, &clock) || clock_gettime(clock, &t)) return 0;
    return to_ns(t);
}

static int px_pin(void *self, int cpu) {
    (void)self;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0 && cpu < CPU_SETSIZE) {
        CPU_SET((size_t)cpu, &set);
    } else {
        for (size_t i = 0; i < CPU_SETSIZE; i++)
            CPU_SET(i, &set);
    }
    return -pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static int px_cpu(void *self) {
    (void)self;
    return sched_getcpu();
}

static void px_futex_wait(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline) {
    (void)self;
    struct timespec t = to_timespec(deadline);
    /* FUTEX_WAIT_BITSET takes an absolute time on the monotonic clock */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, deadline ? &t : NULL, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static void px_futex_wake(void *self, _Atomic uint32_t *word, int n) {
    (void)self;
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0);
}

static void *px_dl_open(void *self, const char *path, char *reason, size_t n) {
    (void)self;
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        const char *why = dlerror();
        snprintf(reason, n, "%s", why ? why : "unknown reason");
    }
    return object;
}

static void *px_dl_sym(void *self, void *object, const char *symbol) {
    (void)self;
    return dlsym(object, symbol);
}

static void px_dl_close(void *self, void *object) {
    (void)self;
    dlclose(object);
}

static void px_dl_keep(void *self, const char *path) {
    (void)self;
    void *object = dlopen(path, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (object) dlclose(object);
}

static const struct mo_sys posix = {
    .alloc = mo_px_alloc,
    .free = mo_px_free,
    .memory = mo_px_memory,
    .now = mo_px_now,
    .sleep_until = px_sleep_until,
    .thread_time = px_thread_time,
    .open = px_open,
    .read = px_read,
    .write = px_write,
    .size = px_size,
    .seek = px_seek,
    .fsync = px_fsync,
    .close = px_close,
    .rename = px_rename,
    .unlink = px_unlink,
    .mkdir = px_mkdir,
    .rmdir = px_rmdir,
    .read_link = mo_px_read_link,
    .may_write = mo_px_may_write,
    .change_mode = mo_px_change_mode,
    .write_pipe = mo_px_write_pipe,
    .lock = px_lock,
    .try_lock = px_try_lock,
    .open_at = px_open_at,
    .stat = px_stat,
    .euid = px_euid,
    .caches = mo_px_caches,
    .real_path = mo_px_real_path,
    .list = px_list,
    .map = px_map,
    .unmap = px_unmap,
    .want = px_want,
    .drop = px_drop,
    .mark_process = mo_px_mark_process,
    .memfd = px_memfd,
    .seal = px_seal,
    .thread_start = px_thread_start,
    .thread_join = px_thread_join,
    .name_thread = px_name_thread,
    .thread_cpu = px_thread_cpu,
    .background = mo_px_background,
    .foreground = mo_px_foreground,
    .pin = px_pin,
    .cpu = px_cpu,
    .futex_wait = px_futex_wait,
    .futex_wake = px_futex_wake,
    .shared_file = mo_px_shared_file,
    .grow = mo_px_grow,
    .map_shared = mo_px_map_shared,
    .discard = mo_px_discard,
    .shared_wait = mo_px_shared_wait,
    .shared_wake = mo_px_shared_wake,
    .dl_open = px_dl_open,
    .dl_sym = px_dl_sym,
    .dl_close = px_dl_close,
    .dl_keep = px_dl_keep,
    .spawn = mo_px_spawn,
    .start_process = mo_px_start_process,
    .kill_process = mo_px_kill_process,
    .end_process = mo_px_end_process,
    .own_folder = mo_px_own_folder,
    .own_program = mo_px_own_program,
    .fork = mo_px_fork,
    .share = mo_px_share,
    .unshare = mo_px_unshare,
    .count_on_cpu = mo_px_count_on_cpu,
};

const struct mo_sys *mo_sys_posix(void) {
    return &posix;
}
