/* SPDX-License-Identifier: Apache-2.0
 * sha256_blocks.h - whole blocks of SHA-256 by the processor's own instructions, where it has them.  Asking
 * costs a CPUID, which a virtual machine traps: worth it from some kilobytes on. */
#ifndef MO_SHA256_BLOCKS_H
#define MO_SHA256_BLOCKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const uint32_t mo_sha256_round[64];

/* Adds n blocks of 64 bytes to state; false, and nothing done, on a processor without. */
bool mo_sha256_blocks(uint32_t state[8], const uint8_t *blocks, size_t n);
#endif
