/* SPDX-License-Identifier: Apache-2.0
 * packed_shared.c - shared packed weights; see packed_shared.h.  A list: a model has hundreds of them.
 *
 * Streamed ones lie side by side in blocks of large pages, since a layer's weights alone rarely fill one: a
 * query reads all of them once, and with small pages would wait for the address of each.  A block goes with
 * the last of its weights. */
#include "variants/packed_shared.h"

#include "runtime/base/lock.h"
#include "runtime/graph/content.h"

enum { LINE = 64, HUGE_PAGE = 2 << 20, BLOCK_BYTES = 8 << 20 };

/* In front of the weights that lie in it. */
struct block {
    size_t bytes, used; /* with this head */
    int64_t users;      /* weights */
};

struct packed {
    struct packed *next;
    struct block *block;    /* NULL: memory of its own */
    uint64_t content, form; /* numbers */
    int64_t bytes, users;
    void *data;
};

struct mo_weights {
    const struct mo_env *env;
    struct mo_lock lock;
    struct packed *first;
    struct block *open; /* has room for more */
    int64_t bytes;
};

struct mo_weights *mo_weights_create(const struct mo_env *env) {
    struct mo_weights *w = mo_alloc(env, sizeof *w);
    if (w) w->env = env;
    return w;
}

void mo_weights_destroy(struct mo_weights *w) {
    if (w) mo_free(w->env, w);
}

/* The lock is held. */
static struct packed *find(const struct mo_weights *w, uint64_t content, uint64_t form) {
    struct packed *p = w->first;
    while (p && (p->content != content || p->form != form))
        p = p->next;
    return p;
}

/* A block with room for n bytes. */
static struct block *block_for(struct mo_weights *w, size_t n) {
    if (w->open && w->open->bytes - w->open->used >= n) return w->open;
    const struct mo_sys *sys = w->env->sys;
    const size_t least = n + LINE > BLOCK_BYTES ? n + LINE : BLOCK_BYTES;
    const size_t bytes = mo_round_up_bytes(least, HUGE_PAGE);
    struct block *block = sys->alloc(sys->self, HUGE_PAGE, bytes);
    if (!block) return NULL;
    *block = (struct block){.bytes = bytes, .used = LINE};
    if (!w->open || bytes - n > w->open->bytes - w->open->used) w->open = block;
    return block;
}

/* Large ones in large pages even where they are not streamed. */
static void *room_for(struct mo_weights *w, struct packed *p, size_t n, bool streamed) {
    const struct mo_sys *sys = w->env->sys;
    if (!streamed) return sys->alloc(sys->self, n >= 2 * HUGE_PAGE ? HUGE_PAGE : LINE, n);
    struct block *block = block_for(w, n);
    if (!block) return NULL;
    char *at = (char *)block + block->used;
    block->used += n;
    block->users++;
    p->block = block;
    return at;
}

static struct packed *make_one(struct mo_weights *w, uint64_t content, uint64_t form, int64_t bytes,
                               bool streamed) {
    const struct mo_env *env = w->env;
    struct packed *p = mo_alloc(env, sizeof *p);
    if (!p) return NULL;
    *p = (struct packed){.next = w->first, .content = content, .form = form, .bytes = bytes, .users = 1};
    p->data = room_for(w, p, mo_round_up_bytes((size_t)bytes, LINE), streamed);
    if (!p->data) {
        mo_free(env, p);
        return NULL;
    }
    w->first = p;
    w->bytes += bytes;
    return p;
}

void *mo_weights_take(struct mo_weights *w, uint64_t content, const struct mo_weights_form *form,
                      enum mo_weights_make make, bool *filled) {
    const uint64_t number = mo_content_of("packed", &content, 1, form, sizeof *form);
    mo_lock_take(w->env->sys, &w->lock);
    struct packed *p = find(w, content, number);
    *filled = p != NULL;
    if (p)
        p->users++;
    else if (make != MO_WEIGHTS_FIND && form->bytes > 0)
        p = make_one(w, content, number, form->bytes, make == MO_WEIGHTS_STREAMED);
    mo_lock_drop(w->env->sys, &w->lock);
    return p ? p->data : NULL;
}

/* Takes it off the list; its memory, if nobody else has a part of it, or NULL.  The lock is held. */
static void *leave(struct mo_weights *w, struct packed **at) {
    const struct packed *p = *at;
    struct block *block = p->block;
    *at = p->next;
    w->bytes -= p->bytes;
    if (!block) return p->data;
    if (--block->users) return NULL;
    if (w->open == block) w->open = NULL;
    return block;
}

void mo_weights_give(struct mo_weights *w, const void *packed) {
    struct packed *gone = NULL;
    void *memory = NULL;
    mo_lock_take(w->env->sys, &w->lock);
    for (struct packed **at = &w->first; *at; at = &(*at)->next) {
        if ((*at)->data != packed) continue;
        if (--(*at)->users == 0) {
            gone = *at;
            memory = leave(w, at);
        }
        break;
    }
    mo_lock_drop(w->env->sys, &w->lock);
    if (memory) mo_free(w->env, memory);
    if (gone) mo_free(w->env, gone);
}

bool mo_weights_has_form(struct mo_weights *w, uint64_t content, const struct mo_weights_form *form) {
    const uint64_t number = mo_content_of("packed", &content, 1, form, sizeof *form);
    mo_lock_take(w->env->sys, &w->lock);
    const bool has = find(w, content, number) != NULL;
    mo_lock_drop(w->env->sys, &w->lock);
    return has;
}

bool mo_weights_has(struct mo_weights *w, uint64_t content) {
    mo_lock_take(w->env->sys, &w->lock);
    const struct packed *p = w->first;
    while (p && p->content != content)
        p = p->next;
    mo_lock_drop(w->env->sys, &w->lock);
    return p != NULL;
}

int64_t mo_weights_bytes(struct mo_weights *w) {
    mo_lock_take(w->env->sys, &w->lock);
    const int64_t bytes = w->bytes;
    mo_lock_drop(w->env->sys, &w->lock);
    return bytes;
}
