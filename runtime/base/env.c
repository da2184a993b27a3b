/* SPDX-License-Identifier: Apache-2.0
 * env.c - default environment, logging, regions.
 * A region is a list of chunks, of which the first holds its head; a request larger than a chunk gets one of
 * its own. */
#include "runtime/base/env.h"
#include "runtime/base/numbers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024, ALIGN = 64, PAGE = 4096, HUGE_PAGE = 2 << 20, STREAM_BYTES = 8 << 20 };

struct chunk {
    struct chunk *next;
    size_t used, size; /* of the payload, which begins one ALIGN after the head */
    bool streamed;     /* of mo_region_streamed(): many share it, whatever its size */
};

struct mo_region {
    const struct mo_env *env;
    struct chunk *chunks;
    struct chunk *streamed; /* one of them: in large pages, for mo_region_streamed() */
    size_t bytes;
};

struct mo_env mo_env_default(void) {
    return (struct mo_env){.sys = mo_sys_posix(), .limits = mo_limits_default()};
}

void mo_log(const struct mo_env *env, int level, const char *format, ...) {
    if (!env->log) return;
    char line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    for (char *s = line; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127) *s = '?';
    env->log(env->log_user, level, line);
}

static struct chunk *add_chunk(struct mo_region *region, size_t align, size_t size) {
    const struct mo_sys *sys = region->env->sys;
    struct chunk *c = sys->alloc(sys->self, align, ALIGN + size);
    if (!c) return NULL;
    c->size = size;
    region->bytes += size;
    /* keep the roomier chunk in front, so that one huge request does not strand the current one */
    struct chunk *head = region->chunks;
    if (head && head->size - head->used > size) {
        c->next = head->next;
        head->next = c;
    } else {
        c->next = head;
        region->chunks = c;
    }
    return c;
}

struct mo_region *mo_region_create(const struct mo_env *env) {
    struct mo_region head = {.env = env};
    struct chunk *first = add_chunk(&head, PAGE, CHUNK_BYTES);
    if (!first) return NULL;
    struct mo_region *region = (struct mo_region *)(void *)((char *)first + ALIGN);
    first->used = mo_round_up_bytes(sizeof *region, ALIGN);
    *region = head;
    return region;
}

void mo_region_destroy(struct mo_region *region) {
    if (!region) return;
    const struct mo_env *env = region->env; /* the region goes with its first chunk */
    struct chunk *c = region->chunks;
    while (c) {
        struct chunk *next = c->next;
        mo_free(env, c);
        c = next;
    }
}

void *mo_region_alloc(struct mo_region *region, size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = mo_round_up_bytes(bytes, ALIGN);
    if (!bytes) bytes = ALIGN;
    struct chunk *c = region->chunks;
    if (c->size - c->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        /* Pages of its own leave the process with the region, which malloc() would keep for others.  Weights
         * of megabytes are streamed: large pages save their misses. */
        c = add_chunk(region, size >= 2 * HUGE_PAGE ? HUGE_PAGE : PAGE, size);
        if (!c) return NULL;
    }
    void *p = (char *)c + ALIGN + c->used;
    c->used += bytes;
    return p;
}

void *mo_region_reserve(struct mo_region *region, size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    struct chunk *c = add_chunk(region, PAGE, (bytes / ALIGN + 1) * ALIGN);
    if (!c) return NULL;
    c->used = c->size;
    return (char *)c + ALIGN;
}

/* Behind the current chunk: what may be given back early has chunks of its own there. */
static struct chunk *add_streamed(struct mo_region *region, size_t bytes) {
    const struct mo_sys *sys = region->env->sys;
    const size_t size = mo_round_up_bytes(bytes > STREAM_BYTES ? bytes : STREAM_BYTES, HUGE_PAGE) - ALIGN;
    struct chunk *c = sys->alloc(sys->self, HUGE_PAGE, ALIGN + size);
    if (!c) return NULL;
    c->size = size;
    c->streamed = true;
    c->next = region->chunks->next;
    region->chunks->next = region->streamed = c;
    return c;
}

void *mo_region_streamed(struct mo_region *region, size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = mo_round_up_bytes(bytes, ALIGN) + ALIGN;
    struct chunk *c = region->streamed;
    if (!c || c->size - c->used < bytes) c = add_streamed(region, bytes + ALIGN);
    if (!c) return NULL;
    void *p = (char *)c + ALIGN + c->used;
    c->used += bytes;
    region->bytes += bytes;
    return p;
}

void *mo_region_array(struct mo_region *region, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return mo_region_alloc(region, bytes);
}

char *mo_region_string(struct mo_region *region, const char *s, size_t n) {
    char *copy = mo_region_alloc(region, n + 1);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

/* Takes a chunk that holds nothing but `p` out of the list; NULL: there is none. */
static struct chunk *unlink_own(struct mo_region *region, const void *p) {
    for (struct chunk **link = &region->chunks; *link; link = &(*link)->next) {
        struct chunk *c = *link;
        if ((char *)c + ALIGN != (const char *)p) continue;
        if (c->size <= CHUNK_BYTES || c->streamed) return NULL; /* others may live behind it */
        *link = c->next;
        region->bytes -= c->size;
        return c;
    }
    return NULL;
}

bool mo_region_release(struct mo_region *region, void *p) {
    struct chunk *c = unlink_own(region, p);
    if (c) mo_free(region->env, c);
    return c != NULL;
}

bool mo_region_move(struct mo_region *from, struct mo_region *to, void *p) {
    struct chunk *c = unlink_own(from, p);
    if (!c) return false;
    c->used = c->size;
    c->next = to->chunks->next; /* the current one stays in front */
    to->chunks->next = c;
    to->bytes += c->size;
    return true;
}

bool mo_region_owns(const struct mo_region *region, const void *p) {
    for (const struct chunk *c = region->chunks; c; c = c->next) {
        const char *begin = (const char *)c + ALIGN;
        if ((const char *)p >= begin && (const char *)p < begin + c->used) return true;
    }
    return false;
}

size_t mo_region_bytes(const struct mo_region *region) {
    return region->bytes;
}
