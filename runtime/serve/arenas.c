/* SPDX-License-Identifier: Apache-2.0
 * arenas.c - a list of free arenas, the one used last in front; see arenas.h. */
#include "runtime/serve/arenas.h"

#include <string.h>
#include "runtime/base/lock.h"

enum { LINE = 64, PAGE = 4096, OWN_PAGES = 64 << 10, HUGE_PAGE = 2 << 20 };
static const int64_t IDLE_NS = INT64_C(2000000000), LOOK_NS = INT64_C(250000000);

struct mo_arenas {
    const struct mo_env *env;
    struct mo_lock lock;
    struct mo_arena *free; /* latest first */
    int64_t look_at;       /* when to look for idle ones */
    struct mo_arenas_state state;
};

struct mo_arenas *mo_arenas_create(const struct mo_env *env) {
    struct mo_arenas *arenas = mo_alloc(env, sizeof *arenas);
    if (arenas) arenas->env = env;
    return arenas;
}

static void release(const struct mo_env *env, struct mo_arena *list) {
    while (list) {
        struct mo_arena *next = list->next;
        mo_free(env, list->at);
        mo_free(env, list);
        list = next;
    }
}

void mo_arenas_destroy(struct mo_arenas *arenas) {
    if (!arenas) return;
    release(arenas->env, arenas->free);
    mo_free(arenas->env, arenas);
}

static struct mo_arena *allocate(const struct mo_env *env, size_t bytes, uint64_t owner) {
    struct mo_arena *arena = mo_alloc(env, sizeof *arena);
    if (!arena) return NULL;
    *arena = (struct mo_arena){.bytes = bytes, .owner = owner, .own = bytes}; /* comes zeroed */
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : bytes >= OWN_PAGES ? PAGE : LINE;
    arena->at = env->sys->alloc(env->sys->self, align, bytes);
    if (arena->at) return arena;
    mo_free(env, arena);
    return NULL;
}

/* The lock is held. */
static struct mo_arena *unlink_at(struct mo_arenas *arenas, struct mo_arena **at) {
    struct mo_arena *arena = *at;
    *at = arena->next;
    arena->next = NULL;
    arenas->state.n--;
    arenas->state.bytes -= arena->bytes;
    return arena;
}

/* a is the better choice for the owner: smaller, or as large and its own. */
static bool is_better(const struct mo_arena *a, const struct mo_arena *b, uint64_t owner) {
    if (a->bytes != b->bytes) return a->bytes < b->bytes;
    return a->owner == owner && b->owner != owner;
}

/* The smallest free arena of at least `bytes`; 0: of all. */
static struct mo_arena **smallest(struct mo_arenas *arenas, size_t bytes, uint64_t owner) {
    struct mo_arena **best = NULL;
    for (struct mo_arena **at = &arenas->free; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes && (!best || is_better(*at, *best, owner))) best = at;
    return best;
}

/* Zeros over what another owner has left; how many. */
static size_t scrub(struct mo_arena *arena, size_t bytes, uint64_t owner) {
    const size_t from = arena->owner == owner ? arena->own : 0;
    arena->owner = owner;
    if (from >= bytes) return 0;
    memset(arena->at + from, 0, bytes - from);
    arena->own = bytes;
    return bytes - from;
}

/* Free arenas that nobody wanted for long: the end of the list. */
static struct mo_arena *cut_idle(struct mo_arenas *arenas, int64_t now) {
    struct mo_arena **at = &arenas->free, *idle = NULL;
    if (now < arenas->look_at) return NULL;
    arenas->look_at = now + LOOK_NS;
    while (*at && now - (*at)->idle_since <= IDLE_NS)
        at = &(*at)->next;
    while (*at) {
        struct mo_arena *arena = unlink_at(arenas, at);
        arena->next = idle;
        idle = arena;
    }
    return idle;
}

/* The lock is held. */
static void count_taken(struct mo_arenas *arenas, const struct mo_arena *arena) {
    arenas->state.n++;
    arenas->state.bytes += arena->bytes;
    arenas->state.taken++;
}

/* The lock is not held: others need not wait for the zeros. */
static struct mo_arena *assign(struct mo_arenas *arenas, struct mo_arena *arena, size_t bytes,
                               uint64_t owner) {
    const size_t scrubbed = scrub(arena, bytes, owner);
    if (!scrubbed) return arena;
    mo_lock_take(arenas->env->sys, &arenas->lock);
    arenas->state.scrubbed += (int64_t)scrubbed;
    mo_lock_drop(arenas->env->sys, &arenas->lock);
    return arena;
}

struct mo_arena *mo_arenas_take(struct mo_arenas *arenas, size_t bytes, uint64_t owner) {
    const struct mo_sys *sys = arenas->env->sys;
    struct mo_arena *found = NULL, *too_small = NULL;
    mo_lock_take(sys, &arenas->lock);
    struct mo_arena **at = smallest(arenas, bytes, owner);
    if (at) {
        found = unlink_at(arenas, at);
        count_taken(arenas, found);
    } else if (arenas->free) {
        too_small = unlink_at(arenas, smallest(arenas, 0, owner));
    }
    struct mo_arena *idle = cut_idle(arenas, mo_now(arenas->env));
    mo_lock_drop(sys, &arenas->lock);
    release(arenas->env, too_small);
    release(arenas->env, idle);
    if (found) return assign(arenas, found, bytes, owner);
    found = allocate(arenas->env, bytes, owner);
    if (!found) return NULL;
    mo_lock_take(sys, &arenas->lock);
    count_taken(arenas, found);
    mo_lock_drop(sys, &arenas->lock);
    return found;
}

void mo_arenas_give(struct mo_arenas *arenas, struct mo_arena *arena) {
    const struct mo_sys *sys = arenas->env->sys;
    arena->idle_since = mo_now(arenas->env);
    mo_lock_take(sys, &arenas->lock);
    arena->next = arenas->free;
    arenas->free = arena;
    arenas->state.taken--;
    mo_lock_drop(sys, &arenas->lock);
}

struct mo_arenas_state mo_arenas_state(struct mo_arenas *arenas) {
    mo_lock_take(arenas->env->sys, &arenas->lock);
    struct mo_arenas_state state = arenas->state;
    mo_lock_drop(arenas->env->sys, &arenas->lock);
    return state;
}
