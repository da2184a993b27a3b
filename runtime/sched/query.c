/* SPDX-License-Identifier: Apache-2.0
 * query.c - the slot table and the resolve point. */
#include "runtime/sched/query.h"

enum { FREE = 0, LIVE = 1, RESOLVED = 2 };

int mo_queries_init(struct mo_queries *t, const struct mo_env *env, int cap) {
    *t = (struct mo_queries){.env = env, .cap = cap, .free_head = -1};
    t->view = mo_alloc(env, (size_t)cap * sizeof *t->view);
    t->record = mo_alloc(env, (size_t)cap * sizeof *t->record);
    if (!t->view || !t->record) {
        mo_queries_free(t);
        return MOIRE_ENOMEM;
    }
    for (int i = cap - 1; i >= 0; i--) {
        t->record[i].next = t->free_head;
        t->free_head = i;
    }
    return MOIRE_OK;
}

void mo_queries_free(struct mo_queries *t) {
    if (!t->env) return;
    mo_free(t->env, t->view);
    mo_free(t->env, t->record);
    *t = (struct mo_queries){0};
}

int mo_query_open(struct mo_queries *t) {
    int slot = t->free_head;
    if (slot < 0) return -1;
    struct mo_query *q = &t->record[slot];
    t->free_head = q->next;
    t->n_live++;
    uint64_t generation = ((atomic_load(&q->state) >> 8) + 1) & UINT32_MAX;
    if (!generation) generation = 1;
    *q = (struct mo_query){.instance = -1, .next = -1, .next_in_batch = -1};
    atomic_store(&q->state, generation << 8 | LIVE);
    return slot;
}

void mo_query_release(struct mo_queries *t, int slot) {
    struct mo_query *q = &t->record[slot];
    atomic_store(&q->state, (atomic_load(&q->state) >> 8) << 8 | FREE);
    q->next = t->free_head;
    t->free_head = slot;
    t->n_live--;
}

uint64_t mo_query_handle(const struct mo_queries *t, int slot) {
    return (atomic_load(&t->record[slot].state) >> 8) << 32 | (uint64_t)(slot + 1);
}

int mo_query_slot(const struct mo_queries *t, uint64_t handle) {
    uint64_t low = handle & UINT32_MAX;
    if (low < 1 || low > (uint64_t)t->cap) return -1;
    uint64_t state = atomic_load(&t->record[low - 1].state);
    return (state & 255) != FREE && state >> 8 == handle >> 32 ? (int)low - 1 : -1;
}

bool mo_query_resolve(struct mo_queries *t, int slot, int code) {
    uint64_t state = atomic_load(&t->record[slot].state);
    if ((state & 255) != LIVE) return false;
    uint64_t resolved = (state & ~UINT64_C(255)) | (uint64_t)(RESOLVED - code);
    return atomic_compare_exchange_strong(&t->record[slot].state, &state, resolved);
}

bool mo_query_is_live(const struct mo_queries *t, int slot) {
    return (atomic_load(&t->record[slot].state) & 255) == LIVE;
}

int mo_query_outcome(const struct mo_queries *t, int slot) {
    return RESOLVED - (int)(atomic_load(&t->record[slot].state) & 255);
}

void mo_query_list_put(struct mo_queries *t, struct mo_query_list *list, int slot) {
    t->record[slot].next = -1;
    if (list->first < 0)
        list->first = slot;
    else
        t->record[list->last].next = slot;
    list->last = slot;
}

int mo_query_list_take(struct mo_queries *t, struct mo_query_list *list, struct mo_answer *out) {
    int slot = list->first;
    if (slot < 0) return -1;
    const struct mo_query *record = &t->record[slot];
    const struct mo_view_query *view = &t->view[slot];
    list->first = record->next;
    *out = (struct mo_answer){.query = mo_query_handle(t, slot),
                              .known = record->known,
                              .user = record->user,
                              .code = mo_query_outcome(t, slot),
                              .instance = record->instance,
                              .arrival = view->arrival,
                              .start = view->started,
                              .end = record->end,
                              .ran = record->ran,
                              .deadline = view->deadline == MO_NEVER ? 0 : view->deadline};
    return slot;
}
