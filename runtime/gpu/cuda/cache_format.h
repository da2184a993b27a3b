/* SPDX-License-Identifier: Apache-2.0
 * cache_format.h - a file of cache.h, for its writer (the plugin) and for `moire store`, which looks after
 * the folder without a GPU. */
#ifndef MO_CUDA_CACHE_FORMAT_H
#define MO_CUDA_CACHE_FORMAT_H
#include <string.h>
#include "runtime/base/sha256.h"

enum { MO_CUDA_CACHE_FORMAT = 2, MO_CUDA_CACHE_FILE_MOST = 256 << 20 };
#define MO_CUDA_CACHE_MAGIC  "MOIREGPU"
#define MO_CUDA_CACHE_CODE   ".cubin"
#define MO_CUDA_CACHE_CHOICE ".choice"
#define MO_CUDA_CACHE_LOCK   "lock"
#define MO_CUDA_CACHE_NEW    "new" /* being written, under the lock */

/* Before the contents; a multiple of 64, so that these are aligned in a mapping. */
struct mo_cuda_cache_head {
    char magic[8];
    uint64_t bytes;
    uint8_t digest[MO_SHA256_BYTES]; /* of the contents */
    char name[MO_SHA256_HEX];
    char pad[15];
};

static inline void mo_cuda_cache_digest(const void *bytes, size_t n, uint8_t digest[MO_SHA256_BYTES]) {
    struct mo_sha256 sum;
    mo_sha256_init(&sum);
    mo_sha256_add(&sum, bytes, n);
    mo_sha256_end(&sum, digest);
}

/* NULL, or what is wrong with a file of that name. */
static inline const char *mo_cuda_cache_fault(const void *bytes, size_t n, const char name[MO_SHA256_HEX]) {
    const struct mo_cuda_cache_head *head = (const struct mo_cuda_cache_head *)bytes;
    uint8_t digest[MO_SHA256_BYTES];
    if (n < sizeof *head || memcmp(head->magic, MO_CUDA_CACHE_MAGIC, sizeof head->magic) != 0)
        return "it is no such file";
    if (head->bytes != n - sizeof *head || memcmp(head->name, name, MO_SHA256_HEX) != 0)
        return "it is cut short, or another's";
    mo_cuda_cache_digest(head + 1, n - sizeof *head, digest);
    return memcmp(digest, head->digest, sizeof digest) ? "its checksum does not match" : NULL;
}
#endif
