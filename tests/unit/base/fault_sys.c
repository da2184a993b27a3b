/* SPDX-License-Identifier: Apache-2.0
 * fault_sys.c - the fault-injecting sys table; see fault_sys.h. */
#define _GNU_SOURCE
#include "tests/unit/base/fault_sys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

static void *fs_alloc(void *self, size_t align, size_t bytes) {
    struct fault_sys *f = self;
    if (f->failing) return NULL;
    if (f->fail_alloc > 0 && atomic_fetch_sub(&f->fail_alloc, 1) == 1) {
        f->failing = f->ever_after;
        return NULL;
    }
    void *p = f->real->alloc(f->real->self, align, bytes);
    if (p) f->allocs++;
    return p;
}

static void fs_free(void *self, void *p) {
    struct fault_sys *f = self;
    if (p) f->frees++;
    f->real->free(f->real->self, p);
}

/* One more file operation; where the process dies when asked to. */
static void file_operation(struct fault_sys *f) {
    if (atomic_fetch_add(&f->files, 1) + 1 == f->die_at) kill(getpid(), SIGKILL);
}

static int count_open(struct fault_sys *f, int fd) {
    if (fd >= 0) f->opened++;
    return fd;
}

static bool refused(const struct fault_sys *f, int flags) {
    return f->read_only && (flags & (O_WRONLY | O_RDWR | O_CREAT));
}

static int fs_open(void *self, const char *path, int flags, int mode) {
    struct fault_sys *f = self;
    file_operation(f);
    if (refused(f, flags)) return -EROFS;
    return count_open(f, f->real->open(f->real->self, path, flags, mode));
}

static int fs_open_at(void *self, int folder, const char *name, int flags, int mode) {
    struct fault_sys *f = self;
    file_operation(f);
    if (refused(f, flags)) return -EROFS;
    return count_open(f, f->real->open_at(f->real->self, folder, name, flags, mode));
}

static int fs_memfd(void *self, const char *name) {
    struct fault_sys *f = self;
    return f->no_memfd ? -EPERM : count_open(f, f->real->memfd(f->real->self, name));
}

static int fs_shared_file(void *self, const char *name) {
    struct fault_sys *f = self;
    return f->no_memfd ? -EPERM : count_open(f, f->real->shared_file(f->real->self, name));
}

static int fs_map_shared(void *self, int fd, int64_t offset, size_t bytes, void **out) {
    struct fault_sys *f = self;
    int rc = f->real->map_shared(f->real->self, fd, offset, bytes, out);
    if (!rc) f->opened++;
    return rc;
}

static int fs_mark_process(void *self, const _Atomic uint32_t **out) {
    struct fault_sys *f = self;
    int rc = f->real->mark_process(f->real->self, out);
    if (!rc) f->opened++;
    return rc;
}

static int fs_start_process(void *self, const char *const *argv, const int *fds, int n,
                            struct mo_child *out) {
    struct fault_sys *f = self;
    if (f->no_spawn) return -ENOENT;
    int rc = f->real->start_process(f->real->self, argv, fds, n, out);
    if (!rc) f->opened++; /* its link */
    return rc;
}

static ssize_t fs_write(void *self, int fd, const void *buffer, size_t n) {
    struct fault_sys *f = self;
    file_operation(f);
    if (f->disk_bytes >= 0) {
        if (f->disk_bytes == 0) return -ENOSPC;
        if ((long)n > f->disk_bytes) n = (size_t)f->disk_bytes; /* a short write first, as disks do */
        f->disk_bytes -= (long)n;
    }
    return f->real->write(f->real->self, fd, buffer, n);
}

static ssize_t fs_write_pipe(void *self, int fd, const void *buffer, size_t n) {
    struct fault_sys *f = self;
    file_operation(f);
    return f->real->write_pipe(f->real->self, fd, buffer, n);
}

static int fs_may_write(void *self, const char *path, bool folder) {
    struct fault_sys *f = self;
    return f->read_only ? -EROFS : f->real->may_write(f->real->self, path, folder);
}

static int fs_close(void *self, int fd) {
    struct fault_sys *f = self;
    f->closed++;
    return f->real->close(f->real->self, fd);
}

static int fs_fsync(void *self, int fd) {
    struct fault_sys *f = self;
    file_operation(f);
    return f->real->fsync(f->real->self, fd);
}

static int fs_rename(void *self, const char *from, const char *to) {
    struct fault_sys *f = self;
    file_operation(f);
    return f->read_only ? -EROFS : f->real->rename(f->real->self, from, to);
}

static int fs_unlink(void *self, const char *path) {
    struct fault_sys *f = self;
    file_operation(f);
    return f->real->unlink(f->real->self, path);
}

static int fs_mkdir(void *self, const char *path, int mode) {
    struct fault_sys *f = self;
    file_operation(f);
    return f->read_only ? -EROFS : f->real->mkdir(f->real->self, path, mode);
}

static int fs_rmdir(void *self, const char *path) {
    struct fault_sys *f = self;
    file_operation(f);
    return f->read_only ? -EROFS : f->real->rmdir(f->real->self, path);
}

static uint32_t fs_euid(void *self) {
    struct fault_sys *f = self;
    return f->other_uid ? f->other_uid : f->real->euid(f->real->self);
}

static void *fs_dl_open(void *self, const char *path, char *reason, size_t n) {
    struct fault_sys *f = self;
    void *object = f->real->dl_open(f->real->self, path, reason, n);
    if (object) f->opened++;
    return object;
}

static void fs_dl_close(void *self, void *object) {
    struct fault_sys *f = self;
    f->closed++;
    f->real->dl_close(f->real->self, object);
}

static int fs_spawn(void *self, const char *const *argv, const char *log, int64_t limit) {
    struct fault_sys *f = self;
    file_operation(f);
    return f->no_spawn ? -ENOENT : f->real->spawn(f->real->self, argv, log, limit);
}

/* In this process: what fails there must be seen here. */
static int fs_fork(void *self, void (*fn)(void *ctx, void *shared), void *ctx, void *shared, int64_t limit) {
    (void)self, (void)limit;
    fn(ctx, shared);
    return 0;
}

static int fs_map(void *self, int fd, size_t bytes, const void **out) {
    struct fault_sys *f = self;
    int rc = f->real->map(f->real->self, fd, bytes, out);
    if (!rc) f->opened++;
    return rc;
}

static void fs_unmap(void *self, const void *at, size_t bytes) {
    struct fault_sys *f = self;
    f->closed++;
    f->real->unmap(f->real->self, at, bytes);
}

void fault_sys_init(struct fault_sys *f) {
    *f = (struct fault_sys){.real = mo_sys_posix(), .disk_bytes = -1};
    f->table = *f->real; /* what is not replaced ignores self */
    f->table.self = f;
    f->table.alloc = fs_alloc;
    f->table.free = fs_free;
    f->table.open = fs_open;
    f->table.open_at = fs_open_at;
    f->table.memfd = fs_memfd;
    f->table.write = fs_write;
    f->table.write_pipe = fs_write_pipe;
    f->table.may_write = fs_may_write;
    f->table.close = fs_close;
    f->table.fsync = fs_fsync;
    f->table.rename = fs_rename;
    f->table.unlink = fs_unlink;
    f->table.mkdir = fs_mkdir;
    f->table.rmdir = fs_rmdir;
    f->table.euid = fs_euid;
    f->table.dl_open = fs_dl_open;
    f->table.dl_close = fs_dl_close;
    f->table.spawn = fs_spawn;
    f->table.fork = fs_fork;
    f->table.map = fs_map;
    f->table.shared_file = fs_shared_file;
    f->table.map_shared = fs_map_shared;
    f->table.start_process = fs_start_process;
    f->table.mark_process = fs_mark_process;
    f->table.unmap = fs_unmap;
}

long fault_sys_live(const struct fault_sys *f) {
    return f->allocs - f->frees;
}

void fault_sys_fail(struct fault_sys *f, long k, int ever_after) {
    f->fail_alloc = k;
    f->ever_after = ever_after;
    f->failing = 0;
}

long fault_sys_sweep(struct fault_sys *f, int (*body)(void *ctx), void *ctx, int also) {
    long live = fault_sys_live(f), open = f->opened - f->closed;
    for (long k = 1;; k++) {
        bool enough = true;
        for (int ever = 0; ever < 2; ever++) {
            fault_sys_fail(f, k, ever);
            int rc = body(ctx);
            bool fired = f->fail_alloc <= 0;
            fault_sys_fail(f, 0, 0);
            if (rc != MOIRE_OK && rc != also) assert_int_equal(rc, MOIRE_ENOMEM);
            assert_int_equal(fault_sys_live(f), live);
            assert_int_equal(f->opened - f->closed, open);
            if (!fired) assert_int_equal(rc, MOIRE_OK);
            enough = enough && !fired;
        }
        if (enough) return k - 1;
    }
}
