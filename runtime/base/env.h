/* SPDX-License-Identifier: Apache-2.0
 * env.h - what every part of the library is handed instead of globals: the sys table, the limits, the log;
 * and the region allocator, with which most structures live and die as a whole. */
#ifndef MO_ENV_H
#define MO_ENV_H
#include <stdbool.h>
#include "runtime/base/error.h"
#include "runtime/base/limits.h"
#include "runtime/base/numbers.h"
#include "runtime/base/sys.h"

struct mo_env {
    const struct mo_sys *sys;
    struct mo_limits limits;
    void (*log)(void *user, int level, const char *line);
    void *log_user;
};

/* The default environment: POSIX, default limits, no log. */
struct mo_env mo_env_default(void);

/* One formatted line to the log (level: MOIRE_LOG_*); control characters are escaped. */
void mo_log(const struct mo_env *env, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline void *mo_alloc(const struct mo_env *env, size_t bytes) {
    return env->sys->alloc(env->sys->self, 64, bytes);
}
/* Memory that kernels use as scratch: in whole large pages, unless it is small.  A kernel that writes to
 * dozens of planes at a time would miss the TLB with each of them. */
static inline void *mo_alloc_scratch(const struct mo_env *env, size_t bytes) {
    const size_t page = 2 << 20, small = 128 << 10;
    if (bytes < small || bytes > SIZE_MAX - page) return mo_alloc(env, bytes);
    return env->sys->alloc(env->sys->self, page, mo_round_up_bytes(bytes, page));
}
static inline void mo_free(const struct mo_env *env, void *p) {
    if (p) env->sys->free(env->sys->self, p);
}
static inline int64_t mo_now(const struct mo_env *env) {
    return env->sys->now(env->sys->self);
}

/* A region: many allocations, one release.  Not thread-safe.  Memory is zeroed and 64-byte aligned. */
struct mo_region;
struct mo_region *mo_region_create(const struct mo_env *env); /* NULL: out of memory */
void mo_region_destroy(struct mo_region *region);             /* NULL is fine */
void *mo_region_alloc(struct mo_region *region, size_t bytes);
/* Room of which most is never touched: small pages of its own, whatever its size. */
void *mo_region_reserve(struct mo_region *region, size_t bytes);
/* For what is streamed through, and stays as long as the region: such allocations share large pages, which
 * save half of the time of a stream. */
void *mo_region_streamed(struct mo_region *region, size_t bytes);
/* count * size with overflow check */
void *mo_region_array(struct mo_region *region, size_t count, size_t size);
char *mo_region_string(struct mo_region *region, const char *s, size_t n);
/* Gives a large allocation back early; false (and nothing happens) for one that shares its chunk. */
bool mo_region_release(struct mo_region *region, void *p);
/* Hands a large allocation over to another region; false (and nothing happens) as above. */
bool mo_region_move(struct mo_region *from, struct mo_region *to, void *p);
/* Whether `p` lies in what the region has handed out. */
bool mo_region_owns(const struct mo_region *region, const void *p);
size_t mo_region_bytes(const struct mo_region *region);
#endif
