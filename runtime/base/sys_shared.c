/* SPDX-License-Identifier: Apache-2.0
 * sys_shared.c - memory that two processes share, waiting in it, and memory that only one has. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/sys_posix.h"

int mo_px_shared_file(void *self, const char *name) {
    (void)self;
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -errno;
    if (!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)) return fd;
    const int rc = -errno;
    close(fd);
    return rc;
}

int mo_px_grow(void *self, int fd, int64_t bytes) {
    (void)self;
    return ftruncate(fd, bytes) ? -errno : 0;
}

int mo_px_map_shared(void *self, int fd, int64_t offset, size_t bytes, void **out) {
    (void)self;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (at == MAP_FAILED) return -errno;
    *out = at;
    return 0;
}

int mo_px_discard(void *self, int fd, int64_t offset, int64_t bytes) {
    (void)self;
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) ? -errno : 0;
}

int mo_px_mark_process(void *self, const _Atomic uint32_t **out) {
    (void)self;
    _Atomic uint32_t *word =
        mmap(NULL, MO_MARK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (word == MAP_FAILED) return -errno;
    if (madvise(word, MO_MARK_BYTES, MADV_WIPEONFORK)) {
        const int rc = -errno;
        munmap(word, MO_MARK_BYTES);
        return rc;
    }
    atomic_store(word, 1);
    *out = word;
    return 0;
}

void mo_px_shared_wait(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline) {
    (void)self;
    const struct timespec t = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, deadline ? &t : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
}

void mo_px_shared_wake(void *self, _Atomic uint32_t *word, int n) {
    (void)self;
    syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}
