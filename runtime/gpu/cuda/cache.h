/* SPDX-License-Identifier: Apache-2.0
 * cache.h - what took the plugin long to make, kept in a folder: machine code, choices of kernels.
 *
 *   <folder>/v<format>/<hh>/<name><suffix>    <hh> = first two digits of the name
 *
 * A name is the SHA-256 of all that the contents depend on, so that a file is right or not there, and is
 * never out of date.  Contents have a checksum, which is compared whenever they are read.  The folder follows
 * the trust rule of trusted.h, for its contents are run as code.  Files are written under a lock, made
 * durable and renamed into place: readers see one whole or not at all, and any number of processes may use a
 * folder.  A file is replaced only when it is damaged or no longer accepted.
 *
 * Nothing here is needed to serve: a folder that cannot be used, a full disk or a damaged file cost one line
 * in the log, and the time to make the thing again.
 *
 * The folder grows with models, batches, precisions, GPUs and versions; it may be removed at any time, and
 * `moire store` lists, checks and cleans it. */
#ifndef MO_CUDA_CACHE_H
#define MO_CUDA_CACHE_H
#include "runtime/base/trusted.h"
#include "runtime/gpu/cuda/cache_format.h"

struct mo_cuda_cache;

/* folder NULL or "": nothing is kept, *out = NULL.  MOIRE_ENOMEM; all else is a line in the log. */
int mo_cuda_cache_open(const struct mo_env *env, const char *folder, struct mo_cuda_cache **out,
                       moire_error *err);
void mo_cuda_cache_close(struct mo_cuda_cache *cache); /* NULL is fine */

/* Contents of a file, until they are given back. */
struct mo_cuda_cache_item {
    struct mo_trusted_file file;
    const void *bytes;
    size_t n;
};
/* False: it is not there, or is damaged, which is said.  cache NULL is fine. */
bool mo_cuda_cache_find(const struct mo_cuda_cache *cache, const char name[MO_SHA256_HEX], const char *suffix,
                        struct mo_cuda_cache_item *out);
void mo_cuda_cache_give_back(const struct mo_cuda_cache *cache, struct mo_cuda_cache_item *item);
/* Keeps contents, in place of what has that name.  cache NULL is fine. */
void mo_cuda_cache_put(struct mo_cuda_cache *cache, const char name[MO_SHA256_HEX], const char *suffix,
                       const void *bytes, size_t n);

/* The parts of a name: what is added with its length cannot be mistaken for its neighbour. */
void mo_cuda_cache_add(struct mo_sha256 *sum, const void *bytes, size_t n);
void mo_cuda_cache_add_number(struct mo_sha256 *sum, int64_t number);
#endif
