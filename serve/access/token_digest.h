/* SPDX-License-Identifier: Apache-2.0
 * token_digest.h - SHA-256 (FIPS 180-4) of tokens: files hold digests, so that who reads one can use none.
 * The library has a SHA-256 of its own, which moire.h does not offer. */
#ifndef MS_TOKEN_DIGEST_H
#define MS_TOKEN_DIGEST_H
#include <stddef.h>
#include <stdint.h>

enum { MS_SHA256_BYTES = 32 };
void ms_sha256(const void *data, size_t n, uint8_t digest[MS_SHA256_BYTES]);
#endif
