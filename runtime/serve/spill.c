/* SPDX-License-Identifier: Apache-2.0
 * spill.c - arenas change hands among the queries of a tenant; see spill.h. */
#include "runtime/serve/spill.h"

/* Kept tensors have one owner: nothing computes in these buffers, so nobody's have to be scrubbed. */
static const uint64_t NOBODY = 1;

static void take(struct mo_spiller *s) {
    mo_lock_take(s->env->sys, &s->lock);
}

static void drop(struct mo_spiller *s) {
    mo_lock_drop(s->env->sys, &s->lock);
}

/* --- the list of those that rest; the lock is held ------------------------------------------------------ */
static void enlist(struct mo_spiller *s, struct mo_spill *q) {
    q->state = MO_SPILL_RESTS;
    q->before = NULL;
    q->behind = s->resting;
    if (q->behind) q->behind->before = q;
    s->resting = q;
}

static void take_out(struct mo_spiller *s, struct mo_spill *q, enum mo_spill_state state) {
    *(q->before ? &q->before->behind : &s->resting) = q->behind;
    if (q->behind) q->behind->before = q->before;
    q->state = state;
}

/* Who leaves at the least cost; NULL: nobody rests of whom less than three quarters of an arena live. */
static struct mo_spill *cheapest(const struct mo_spiller *s) {
    struct mo_spill *best = NULL;
    size_t least = s->bytes / 4 * 3;
    for (struct mo_spill *q = s->resting; q; q = q->behind) {
        const size_t bytes = mo_live_bytes(s->live, q->next);
        if (bytes >= least) continue;
        least = bytes;
        best = q;
    }
    return best;
}

/* --- arenas --------------------------------------------------------------------------------------------- */
static void give_back(struct mo_spiller *s, struct mo_spill *q) {
    if (q->arena) mo_arenas_give(s->pools->arenas, q->arena);
    if (q->kept) mo_arenas_give(s->pools->kept, q->kept);
    q->arena = q->kept = NULL;
}

static void note_most(struct mo_spill_pools *pools) {
    const size_t now = mo_arenas_state(pools->arenas).bytes + mo_arenas_state(pools->kept).bytes;
    size_t most = atomic_load_explicit(&pools->most, memory_order_relaxed);
    while (now > most && !atomic_compare_exchange_weak(&pools->most, &most, now))
        continue;
}

/* It has left, with `kept` or without success; those that wait for it go on. */
static void leave(struct mo_spiller *s, struct mo_spill *q, struct mo_arena *kept) {
    take(s);
    const bool gone = q->gone;
    q->kept = kept;
    if (kept || gone)
        q->state = MO_SPILL_SPILLED;
    else
        enlist(s, q);
    atomic_fetch_add(&s->left, 1);
    drop(s);
    s->env->sys->futex_wake(s->env->sys->self, &s->left, INT32_MAX);
    if (!gone) return;
    give_back(s, q);
    s->freed(s->ctx, q);
}

/* The arena of a query that rests, which is spilled; NULL: none rests, or there is no memory to keep it. */
static struct mo_arena *take_over(struct mo_spiller *s) {
    take(s);
    struct mo_spill *q = cheapest(s);
    if (q) take_out(s, q, MO_SPILL_LEAVES);
    drop(s);
    if (!q) return NULL;
    struct mo_arena *arena = q->arena;
    const size_t bytes = mo_live_bytes(s->live, q->next);
    struct mo_arena *kept = mo_arenas_take(s->pools->kept, bytes ? bytes : 1, NOBODY);
    if (kept) {
        mo_live_save(s->live, q->next, arena->at, kept->at);
        q->arena = NULL;
        atomic_fetch_add_explicit(&s->pools->spills, 1, memory_order_relaxed);
    }
    leave(s, q, kept);
    return kept ? arena : NULL;
}

/* --- the life of a query -------------------------------------------------------------------------------- */
bool mo_spill_hold(struct mo_spiller *s, struct mo_spill *q) {
    take(s);
    if (q->state == MO_SPILL_RESTS) take_out(s, q, MO_SPILL_RUNS);
    const bool begins = q->state != MO_SPILL_RUNS;
    drop(s);
    return begins;
}

/* Waits for who copies its tensors.  True: it has kept its arena after all. */
static bool has_arena(struct mo_spiller *s, struct mo_spill *q) {
    for (;;) {
        take(s);
        const uint32_t seen = atomic_load(&s->left);
        const enum mo_spill_state state = q->state;
        if (state == MO_SPILL_RESTS) take_out(s, q, MO_SPILL_RUNS);
        drop(s);
        if (state != MO_SPILL_LEAVES) return state == MO_SPILL_RESTS || state == MO_SPILL_RUNS;
        s->env->sys->futex_wait(s->env->sys->self, &s->left, seen, 0);
    }
}

int mo_spill_begin(struct mo_spiller *s, struct mo_spill *q) {
    if (has_arena(s, q)) return MOIRE_OK;
    struct mo_arena *arena = take_over(s);
    if (!arena) arena = mo_arenas_take(s->pools->arenas, s->bytes, s->owner);
    if (!arena) return MOIRE_ENOMEM;
    note_most(s->pools);
    if (q->kept) {
        mo_live_restore(s->live, q->next, arena->at, q->kept->at);
        mo_arenas_give(s->pools->kept, q->kept);
    }
    take(s);
    q->kept = NULL;
    q->arena = arena;
    q->state = MO_SPILL_RUNS;
    drop(s);
    return MOIRE_OK;
}

void mo_spill_rest(struct mo_spiller *s, struct mo_spill *q, int next) {
    take(s);
    if (q->state == MO_SPILL_RUNS) {
        q->next = next;
        enlist(s, q);
    }
    drop(s);
}

bool mo_spill_release(struct mo_spiller *s, struct mo_spill *q) {
    take(s);
    const bool leaves = q->state == MO_SPILL_LEAVES;
    if (q->state == MO_SPILL_RESTS) take_out(s, q, MO_SPILL_NEW);
    q->gone = leaves;
    drop(s);
    if (!leaves) give_back(s, q);
    return !leaves;
}
