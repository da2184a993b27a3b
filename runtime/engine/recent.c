/* SPDX-License-Identifier: Apache-2.0
 * recent.c - rings of the blocks that cores have worked on lately; see recent.h.
 *
 * An entry is written before the ring's count says that it is there, and every store releases what came
 * before it.  So a reader that saw anything of entry n of a ring also sees a count of n at least, and leaves
 * out entry n - MO_RECENT_BLOCKS, in whose place it is. */
#include "runtime/engine/recent.h"

#include "runtime/base/error.h"

struct entry {
    _Atomic int64_t start, end;
    _Atomic uint64_t owner;
    _Atomic int first, stop;
};
struct mo_recent_ring {
    _Atomic uint64_t n; /* entries ever begun */
    struct entry entry[MO_RECENT_BLOCKS];
};

#define PUT(field, value) atomic_store_explicit(&(field), value, memory_order_release)
#define GET(field)        atomic_load_explicit(&(field), memory_order_acquire)

void mo_recent_init(struct mo_recent *r, const struct mo_env *env, int n_cores) {
    r->env = env;
    r->n_cores = n_cores;
}

void mo_recent_close(struct mo_recent *r) {
    if (r->env) mo_free(r->env, GET(r->rings));
}

/* --- a worker --- */
int64_t mo_recent_begin(struct mo_recent *r, int core, uint64_t owner, int first, int stop) {
    struct mo_recent_ring *rings = GET(r->rings);
    const int64_t now = mo_now(r->env);
    int64_t until = GET(r->until);
    if (!rings || !until) return -1;
    if (now > until) {
        atomic_compare_exchange_strong(&r->until, &until, 0); /* unless somebody looks just now */
        return -1;
    }
    struct mo_recent_ring *ring = &rings[core];
    const uint64_t n = GET(ring->n);
    struct entry *e = &ring->entry[n % MO_RECENT_BLOCKS];
    PUT(e->start, now);
    PUT(e->end, 0);
    PUT(e->owner, owner);
    PUT(e->first, first);
    PUT(e->stop, stop);
    PUT(ring->n, n + 1);
    return (int64_t)(n % MO_RECENT_BLOCKS);
}

void mo_recent_end(const struct mo_recent *r, int core, int64_t entry) {
    struct mo_recent_ring *ring = &GET(r->rings)[core];
    PUT(ring->entry[entry].end, mo_now(r->env));
}

/* --- readers --- */
int mo_recent_watch(struct mo_recent *r) {
    mo_lock_take(r->env->sys, &r->lock);
    struct mo_recent_ring *rings = GET(r->rings);
    if (!rings) {
        rings = mo_alloc(r->env, (size_t)r->n_cores * sizeof *rings);
        PUT(r->rings, rings);
    }
    if (rings) PUT(r->until, mo_now(r->env) + MO_RECENT_NS);
    mo_lock_drop(r->env->sys, &r->lock);
    return rings ? MOIRE_OK : MOIRE_ENOMEM;
}

int mo_recent_read(const struct mo_recent *r, int core, int64_t since, struct mo_recent_block *out) {
    struct mo_recent_ring *rings = GET(r->rings);
    if (!rings) return 0;
    struct mo_recent_ring *ring = &rings[core];
    const uint64_t n = GET(ring->n);
    const uint64_t first = n > MO_RECENT_BLOCKS ? n - MO_RECENT_BLOCKS : 0;
    for (uint64_t i = first; i < n; i++) {
        struct entry *e = &ring->entry[i % MO_RECENT_BLOCKS];
        out[i - first] =
            (struct mo_recent_block){GET(e->start), GET(e->end), GET(e->owner), GET(e->first), GET(e->stop)};
    }
    const uint64_t now = GET(ring->n);
    const uint64_t whole = now >= MO_RECENT_BLOCKS ? now - MO_RECENT_BLOCKS + 1 : 0;
    int kept = 0;
    for (uint64_t i = first > whole ? first : whole; i < n; i++) {
        const struct mo_recent_block *b = &out[i - first];
        if (!b->end || b->end >= since) out[kept++] = *b;
    }
    return kept;
}
