/* SPDX-License-Identifier: Apache-2.0
 * regions.h - Triton's system shared memory extension: tensors that lie in POSIX shared memory of a client.
 *
 * Whoever reaches the server could so read and write memory of the server's user.  Therefore nothing is
 * served unless the operator names a prefix that keys must have; a region must be a file of the server's own
 * user; and it is never mapped: it is read and written by pread and pwrite, whose bounds the kernel checks,
 * so that a client that shortens a region under way gets an error, and the server no SIGBUS.
 *
 * Invariant.  A region is closed when it was unregistered and the last query that uses it has ended. */
#ifndef MS_REGIONS_H
#define MS_REGIONS_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "moire.h"

enum { MS_REGIONS = 256, MS_REGION_NAME = 128 };

struct ms_regions;
struct ms_region;

/* prefix NULL: none can be registered.  most: bytes of a tensor.  Returns: NULL: no memory. */
struct ms_regions *ms_regions_open(const char *prefix, size_t most);
void ms_regions_close(struct ms_regions *regions);

/* Returns: MOIRE_OK; MOIRE_EINVAL: the key, the range, or a name that is taken; MOIRE_ESTALE: there is no
 * such region of the server's user; MOIRE_EUNSUPPORTED: nothing is served; MOIRE_ELIMIT; MOIRE_ENOMEM. */
int ms_regions_register(struct ms_regions *regions, const char *name, const char *key, int64_t offset,
                        int64_t bytes, moire_error *err);
/* name "": all.  One that is not there is fine. */
void ms_regions_unregister(struct ms_regions *regions, const char *name);
/* A list of what is registered; name "": all.  MOIRE_ESTALE: there is none of that name; MOIRE_ENOMEM. */
int ms_regions_status(struct ms_regions *regions, const char *name, json_t **out, moire_error *err);

/* Takes a region for a range of it, to be given back.
 * Returns: MOIRE_OK; MOIRE_ESTALE: none of that name; MOIRE_EINVAL: the range is not of it; MOIRE_ELIMIT. */
int ms_regions_take(struct ms_regions *regions, const char *name, int64_t offset, int64_t bytes,
                    struct ms_region **out, moire_error *err);
void ms_regions_give(struct ms_regions *regions, struct ms_region *region);
/* MOIRE_EINVAL: the client has shortened it; MOIRE_EIO. */
int ms_region_read(const struct ms_region *region, int64_t offset, void *to, size_t n, moire_error *err);
int ms_region_write(const struct ms_region *region, int64_t offset, const void *from, size_t n,
                    moire_error *err);
#endif
