/* SPDX-License-Identifier: Apache-2.0
 * content.h - numbers for the contents of weights, so that plans of the same model can share what they make
 * of them without looking at them (variants/packed_shared.h).
 *
 * Within one model equal numbers mean equal bytes: an initializer has one by its place in the file, and
 * whatever makes new weights of old ones makes the new number of the old numbers and of all else that the
 * result depends on.  Numbers are parts of SHA-256 digests; 0 is none, and nothing made of it has one. */
#ifndef MO_CONTENT_H
#define MO_CONTENT_H
#include <stddef.h>
#include <stdint.h>

/* The number of what `how` makes of the contents `from` with so many bytes of parameters. */
uint64_t mo_content_of(const char *how, const uint64_t *from, int n, const void *with, size_t bytes);
#endif
