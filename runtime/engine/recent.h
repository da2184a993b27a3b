/* SPDX-License-Identifier: Apache-2.0
 * recent.h - what cores have worked on lately, for a page that shows it while it happens.
 *
 * Each core has a ring of its own, which only the worker there writes.  Nothing is remembered, and no memory
 * is taken, before somebody looks; without a further look within MO_RECENT_NS it ends.  Until then a block
 * costs each of its cores one load of a flag.
 *
 * Readers take no lock that a worker waits for: an entry that was overwritten while it was read is left out
 * (mo_recent_read). */
#ifndef MO_RECENT_H
#define MO_RECENT_H
#include <stdatomic.h>
#include "runtime/base/env.h"
#include "runtime/base/lock.h"

enum { MO_RECENT_BLOCKS = 4096 }; /* of each core; a power of two */
static const int64_t MO_RECENT_NS = INT64_C(10000000000);

/* A core's share of a block; end 0: it is not over. */
struct mo_recent_block {
    int64_t start, end;
    uint64_t owner; /* struct mo_device_tenant */
    int first, stop;
};

struct mo_recent_ring;
struct mo_recent {
    const struct mo_env *env;
    int n_cores;
    _Atomic int64_t until; /* blocks that begin before are remembered; 0: nobody looks */
    struct mo_lock lock;   /* of readers: one makes the rings */
    _Atomic(struct mo_recent_ring *) rings;
};

void mo_recent_init(struct mo_recent *recent, const struct mo_env *env, int n_cores);
void mo_recent_close(struct mo_recent *recent);

/* The worker of a core.  Returns: the entry, for mo_recent_end(); -1: nobody looks. */
static inline bool mo_recent_is_on(const struct mo_recent *recent) {
    return atomic_load_explicit(&recent->until, memory_order_relaxed) != 0;
}
int64_t mo_recent_begin(struct mo_recent *recent, int core, uint64_t owner, int first, int stop);
void mo_recent_end(const struct mo_recent *recent, int core, int64_t entry);

/* A look: blocks are remembered from now on.  MOIRE_ENOMEM. */
int mo_recent_watch(struct mo_recent *recent);
/* What a core did that was not over before `since`, oldest first, into `out`, which has room for
 * MO_RECENT_BLOCKS.  Returns: how many. */
int mo_recent_read(const struct mo_recent *recent, int core, int64_t since, struct mo_recent_block *out);
#endif
