/* SPDX-License-Identifier: Apache-2.0
 * memory_file.c - see memory_file.h. */
#include "tests/fuzz/memory_file.h"

#include <string.h>

static int memory_open(void *self, const char *path, int flags, int mode) {
    (void)path, (void)flags, (void)mode;
    ((struct memory_file *)self)->at = 0;
    return 1000;
}

static ssize_t memory_read(void *self, int fd, void *buffer, size_t n) {
    struct memory_file *m = self;
    (void)fd;
    if (n > m->n - m->at) n = m->n - m->at;
    if (n) memcpy(buffer, m->bytes + m->at, n);
    m->at += n;
    return (ssize_t)n;
}

static int64_t memory_size(void *self, int fd) {
    (void)fd;
    return (int64_t)((struct memory_file *)self)->n;
}

static int memory_close(void *self, int fd) {
    (void)self, (void)fd;
    return 0;
}

struct mo_env memory_file_env(struct memory_file *memory, const uint8_t *bytes, size_t n) {
    *memory = (struct memory_file){.sys = *mo_sys_posix(), .bytes = bytes, .n = n};
    memory->sys.self = memory;
    memory->sys.open = memory_open;
    memory->sys.read = memory_read;
    memory->sys.size = memory_size;
    memory->sys.close = memory_close;
    struct mo_env env = mo_env_default();
    env.sys = &memory->sys;
    return env;
}
