/* SPDX-License-Identifier: Apache-2.0
 * sha256.h - SHA-256 (FIPS 180-4), of tokens: files hold digests, so that who reads one can use none of them.
 */
#ifndef MS_SHA256_H
#define MS_SHA256_H
#include <stddef.h>
#include <stdint.h>

enum { MS_SHA256_BYTES = 32 };
void ms_sha256(const void *data, size_t n, uint8_t digest[MS_SHA256_BYTES]);
#endif
