/* SPDX-License-Identifier: Apache-2.0
 * child_staging.c - the pool: shared memory by offset, and staging memory in it; see child_impl.h. */
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/gpu/child/child_impl.h"

/* --- the pool ------------------------------------------------------------------------------------------- */
int mo_child_pool_take(struct mo_gpu_system *s, int64_t bytes, int64_t *at, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    const int64_t pages = mo_round_up(bytes > 0 ? bytes : 1, MO_CHILD_PAGE);
    mo_child_lock(s);
    const int64_t end = s->pool_bytes + pages;
    const int rc = sys->grow(sys->self, s->pool_fd, end);
    *at = s->pool_bytes;
    if (!rc) s->pool_bytes = end;
    mo_child_unlock(s);
    if (!rc) return MOIRE_OK;
    return mo_fail(err, MOIRE_ENOMEM, "no shared memory for %lld bytes: %s", (long long)pages, strerror(-rc));
}

void mo_child_pool_give(struct mo_gpu_system *s, int64_t at, int64_t bytes) {
    const struct mo_sys *sys = s->env->sys;
    sys->discard(sys->self, s->pool_fd, at, mo_round_up(bytes > 0 ? bytes : 1, MO_CHILD_PAGE));
}

/* --- staging memory ------------------------------------------------------------------------------------- */
/* Where `at` is or would be among the buffers by address: the first that ends behind it. */
static int place_of(const struct mo_gpu_system *s, const char *at) {
    int low = 0, high = s->n_buffers;
    while (low < high) {
        const int middle = (low + high) / 2;
        const struct mo_child_buffer *b = &s->buffers[s->by_address[middle]];
        if (b->at + b->bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool mo_child_find(const struct mo_gpu_system *s, const void *memory, int64_t bytes, uint64_t *place) {
    const char *at = memory;
    const int i = place_of(s, at);
    if (!at || i == s->n_buffers) return false;
    const int id = s->by_address[i];
    const struct mo_child_buffer *b = &s->buffers[id];
    if (at < b->at || (size_t)bytes > b->bytes - (size_t)(at - b->at)) return false;
    *place = mo_child_place((uint32_t)id, (uint64_t)(at - b->at));
    return true;
}

int mo_child_ask_buffer(struct mo_gpu_system *s, int id, moire_error *err) {
    const struct mo_child_buffer *b = &s->buffers[id];
    struct mo_child_reply reply;
    const struct mo_child_ask ask = {
        .kind = MO_CHILD_REGISTER, .n = {id}, .x = {b->offset, (int64_t)b->bytes}};
    return mo_child_ask(s, &ask, &reply, err);
}

/* Into the table; the lock is held.  -1: it is full. */
static int enlist(struct mo_gpu_system *s, const struct mo_child_buffer *buffer) {
    int id = s->next_buffer, tries = 0;
    while (s->buffers[id].at && tries++ < MO_CHILD_BUFFERS)
        id = (id + 1) % MO_CHILD_BUFFERS;
    if (s->buffers[id].at) return -1;
    s->next_buffer = (id + 1) % MO_CHILD_BUFFERS;
    const int i = place_of(s, buffer->at);
    memmove(&s->by_address[i + 1], &s->by_address[i], (size_t)(s->n_buffers - i) * sizeof *s->by_address);
    s->by_address[i] = id;
    s->n_buffers++;
    s->buffers[id] = *buffer;
    return id;
}

static void delist(struct mo_gpu_system *s, int i) {
    s->buffers[s->by_address[i]] = (struct mo_child_buffer){0};
    s->n_buffers--;
    memmove(&s->by_address[i], &s->by_address[i + 1], (size_t)(s->n_buffers - i) * sizeof *s->by_address);
}

static void unmap(struct mo_gpu_system *s, const struct mo_child_buffer *b) {
    const struct mo_sys *sys = s->env->sys;
    sys->unmap(sys->self, b->at, b->bytes);
    mo_child_pool_give(s, b->offset, (int64_t)b->bytes);
}

static int make(struct mo_gpu_system *s, size_t bytes, struct mo_child_buffer *b, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    void *at;
    b->bytes = (size_t)mo_round_up(bytes ? (int64_t)bytes : 1, MO_CHILD_PAGE);
    const int code = mo_child_pool_take(s, (int64_t)b->bytes, &b->offset, err);
    if (code) return code;
    const int rc = sys->map_shared(sys->self, s->pool_fd, b->offset, b->bytes, &at);
    if (rc) return mo_fail(err, MOIRE_ENOMEM, "no shared memory for %zu bytes: %s", bytes, strerror(-rc));
    b->at = at;
    return MOIRE_OK;
}

int mo_child_staging_alloc(struct mo_gpu_system *s, size_t bytes, void **out, moire_error *err) {
    struct mo_child_buffer b = {0};
    int code = make(s, bytes, &b, err);
    if (code) return code;
    mo_child_lock(s);
    mo_child_settle(s);
    const int id = enlist(s, &b);
    const bool up = mo_child_step_in(s, id >= 0);
    mo_child_unlock(s);
    if (id < 0) {
        unmap(s, &b);
        return mo_fail(err, MOIRE_ELIMIT, "more than %d pieces of staging memory", MO_CHILD_BUFFERS);
    }
    *out = b.at;
    if (!up) return MOIRE_OK; /* registered by the next child */
    code = mo_child_ask_buffer(s, id, err);
    mo_child_lock(s);
    s->inside--;
    s->buffers[id].there = !code;
    if (code && code != MOIRE_EDEVICE) delist(s, place_of(s, b.at));
    mo_child_unlock(s);
    mo_child_ring_all(s);
    if (code == MOIRE_EDEVICE) return MOIRE_OK;
    if (code) unmap(s, &b);
    return code;
}

void mo_child_staging_free(struct mo_gpu_system *s, void *at) {
    if (!at) return;
    mo_child_lock(s);
    mo_child_settle(s);
    const int i = place_of(s, at), id = s->by_address[i];
    const struct mo_child_buffer b = s->buffers[id];
    const bool up = mo_child_step_in(s, b.there);
    mo_child_unlock(s);
    if (up) {
        mo_child_tell(s, MO_CHILD_FORGET, id, 0, NULL);
        mo_child_leave(s);
    }
    mo_child_lock(s);
    mo_child_settle(s);
    delist(s, place_of(s, at));
    mo_child_unlock(s);
    unmap(s, &b);
}
