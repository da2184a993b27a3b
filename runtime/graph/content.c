/* SPDX-License-Identifier: Apache-2.0
 * content.c - numbers of contents; see content.h. */
#include "runtime/graph/content.h"

#include <string.h>
#include "runtime/base/sha256.h"

uint64_t mo_content_of(const char *how, const uint64_t *from, int n, const void *with, size_t bytes) {
    struct mo_sha256 h;
    uint8_t digest[MO_SHA256_BYTES];
    uint64_t number;
    for (int i = 0; i < n; i++)
        if (!from[i]) return 0;
    mo_sha256_init(&h);
    mo_sha256_add(&h, how, strlen(how) + 1);
    mo_sha256_add(&h, from, (size_t)n * sizeof *from);
    if (bytes) mo_sha256_add(&h, with, bytes);
    mo_sha256_end(&h, digest);
    memcpy(&number, digest, sizeof number);
    return number ? number : 1;
}
