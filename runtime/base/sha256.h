/* SPDX-License-Identifier: Apache-2.0
 * sha256.h - SHA-256 (FIPS 180-4), for the checksums and names of the variant store.  Not a library's: the
 * runtime needs nothing else of one, and every program that embeds it would have to bring it. */
#ifndef MO_SHA256_H
#define MO_SHA256_H
#include <stddef.h>
#include <stdint.h>

struct mo_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

enum { MO_SHA256_BYTES = 32, MO_SHA256_HEX = 65 };

void mo_sha256_init(struct mo_sha256 *h);
void mo_sha256_add(struct mo_sha256 *h, const void *data, size_t n);
void mo_sha256_end(struct mo_sha256 *h, uint8_t digest[MO_SHA256_BYTES]);
/* The same as 64 lower-case hexadecimal digits and a NUL. */
void mo_sha256_end_hex(struct mo_sha256 *h, char hex[MO_SHA256_HEX]);
/* The whole at once, as 64 lower-case hexadecimal digits and a NUL. */
void mo_sha256_hex(const void *data, size_t n, char hex[MO_SHA256_HEX]);
#endif
