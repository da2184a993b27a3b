/* SPDX-License-Identifier: Apache-2.0
 * packed_shared.c - shared packed weights; see packed_shared.h.  A list: a model has hundreds of them. */
#include "variants/packed_shared.h"

#include "runtime/base/lock.h"
#include "runtime/graph/content.h"

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

struct packed {
    struct packed *next;
    uint64_t content, form; /* numbers */
    int64_t bytes, users;
    void *data;
};

struct mo_weights {
    const struct mo_env *env;
    struct mo_lock lock;
    struct packed *first;
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

/* Large ones in large pages, as they are streamed. */
static struct packed *make_one(struct mo_weights *w, uint64_t content, uint64_t form, int64_t bytes) {
    const struct mo_env *env = w->env;
    struct packed *p = mo_alloc(env, sizeof *p);
    if (!p) return NULL;
    const size_t n = mo_round_up_bytes((size_t)bytes, LINE);
    *p = (struct packed){.next = w->first, .content = content, .form = form, .bytes = bytes, .users = 1};
    p->data = env->sys->alloc(env->sys->self, n >= 2 * HUGE_PAGE ? HUGE_PAGE : LINE, n);
    if (!p->data) {
        mo_free(env, p);
        return NULL;
    }
    w->first = p;
    w->bytes += bytes;
    return p;
}

void *mo_weights_take(struct mo_weights *w, uint64_t content, const struct mo_weights_form *form, bool make,
                      bool *filled) {
    const uint64_t number = mo_content_of("packed", &content, 1, form, sizeof *form);
    mo_lock_take(w->env->sys, &w->lock);
    struct packed *p = find(w, content, number);
    *filled = p != NULL;
    if (p)
        p->users++;
    else if (make && form->bytes > 0)
        p = make_one(w, content, number, form->bytes);
    mo_lock_drop(w->env->sys, &w->lock);
    return p ? p->data : NULL;
}

void mo_weights_give(struct mo_weights *w, const void *packed) {
    struct packed *gone = NULL;
    mo_lock_take(w->env->sys, &w->lock);
    for (struct packed **at = &w->first; *at; at = &(*at)->next) {
        if ((*at)->data != packed) continue;
        if (--(*at)->users == 0) {
            gone = *at;
            *at = gone->next;
            w->bytes -= gone->bytes;
        }
        break;
    }
    mo_lock_drop(w->env->sys, &w->lock);
    if (!gone) return;
    mo_free(w->env, gone->data);
    mo_free(w->env, gone);
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
