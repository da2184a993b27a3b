/* SPDX-License-Identifier: Apache-2.0
 * libc.c - calls of libraries whose results MemorySanitizer's run time misses, because they are not
 * instrumented or, with this glibc, not intercepted: what they write counts as written.  Linked into the
 * builds of `make msan` only (tools/make/msan.mk), which send the calls here by the linker's --wrap. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What protobuf-c appends lies on its own stack; packed in one piece it lies in memory that counts as
 * written. */
size_t __wrap_protobuf_c_message_pack_to_buffer(const ProtobufCMessage *message, ProtobufCBuffer *buffer);

size_t __wrap_protobuf_c_message_pack_to_buffer(const ProtobufCMessage *message, ProtobufCBuffer *buffer) {
    const size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(n + 1);
    if (!bytes) abort();
    protobuf_c_message_pack(message, bytes);
    buffer->append(buffer, n, bytes);
    free(bytes);
    return n;
}

extern void __msan_unpoison(const volatile void *at, size_t n) __attribute__((weak));

int __wrap_fstat64(int fd, struct stat *out);
int __wrap_stat64(const char *name, struct stat *out);
int __wrap_lstat64(const char *name, struct stat *out);
int __wrap_fstatat64(int folder, const char *name, struct stat *out, int flags);

int __wrap_fstatat64(int folder, const char *name, struct stat *out, int flags) {
    const long rc = syscall(SYS_newfstatat, folder, name, out, flags);
    if (!rc && __msan_unpoison) __msan_unpoison(out, sizeof *out);
    return (int)rc;
}

int __wrap_fstat64(int fd, struct stat *out) {
    return __wrap_fstatat64(fd, "", out, AT_EMPTY_PATH);
}

int __wrap_stat64(const char *name, struct stat *out) {
    return __wrap_fstatat64(AT_FDCWD, name, out, 0);
}

int __wrap_lstat64(const char *name, struct stat *out) {
    return __wrap_fstatat64(AT_FDCWD, name, out, AT_SYMLINK_NOFOLLOW);
}
