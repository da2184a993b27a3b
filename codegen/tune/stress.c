/* SPDX-License-Identifier: Apache-2.0
 * stress.c - walkers on other cores, and what they do to a victim; see stress.h. */
#include "codegen/tune/stress.h"

#include <string.h>
#include "runtime/base/lock.h"

enum {
    LINE = 64,
    PIECE = 16 << 10,
    USUAL_L2 = 1 << 20,
    USUAL_L3 = 32 << 20,
    BURST_NS = 1000000,
    CALIBRATE_NS = 20000000,
    VICTIM_NS = 10000000
};
static const uint32_t quit = UINT32_MAX; /* the level word when walkers must return */

struct walker {
    struct mo_stress *stress;
    struct mo_thread thread;
    int cpu;
    bool started;
    char *buffer;
    int64_t buffer_bytes, at;
    _Atomic int64_t moved;
};

struct mo_stress {
    const struct mo_env *env;
    struct mo_stress_config config;
    _Atomic uint32_t level; /* futex word of sleeping walkers */
    _Atomic int ready, unpinned;
    int64_t period[MO_STRESS_LEVELS]; /* ns from one piece to the next; 0 = at once */
    struct walker *walker;
    char *evict; /* of mo_stress_evict() */
    char *victim;
    int64_t victim_bytes;
};

const char *mo_stress_kind_name(enum mo_stress_kind kind) {
    static const char *const names[MO_STRESS_KINDS] = {
        [MO_STRESS_L2] = "l2", [MO_STRESS_L3] = "l3", [MO_STRESS_MEMORY] = "memory"};
    return names[kind];
}

/* --- walking --- */
/* One read and one write of every line. */
static void walk(char *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += LINE)
        ++*(volatile uint32_t *)(from + i);
}

static void walk_piece(struct walker *w) {
    int64_t n = w->buffer_bytes - w->at < PIECE ? w->buffer_bytes - w->at : PIECE;
    walk(w->buffer + w->at, n);
    w->at = w->at + n < w->buffer_bytes ? w->at + n : 0;
    atomic_store_explicit(&w->moved, atomic_load_explicit(&w->moved, memory_order_relaxed) + 2 * n,
                          memory_order_relaxed);
}

static int64_t evict_bytes(const struct mo_stress *s, int level) {
    return s->config.l2_bytes * 2 * level / (MO_STRESS_LEVELS - 1) / LINE * LINE;
}

static void burst(struct walker *w, int level) {
    const struct mo_env *env = w->stress->env;
    int64_t begin = mo_now(env), left = evict_bytes(w->stress, level);
    for (; left > 0; left -= PIECE)
        walk_piece(w);
    env->sys->sleep_until(env->sys->self, begin + BURST_NS);
}

static void paced_piece(struct walker *w, int level) {
    int64_t period = w->stress->period[level];
    int64_t until = period ? mo_now(w->stress->env) + period : 0;
    walk_piece(w);
    while (period && mo_now(w->stress->env) < until)
        mo_cpu_relax();
}

static void *walker_main(void *arg) {
    struct walker *w = arg;
    struct mo_stress *s = w->stress;
    const struct mo_sys *sys = s->env->sys;
    if (w->cpu >= 0 && sys->pin(sys->self, w->cpu) < 0) atomic_fetch_add(&s->unpinned, 1);
    walk(w->buffer, w->buffer_bytes); /* its pages are on this core's node from here on */
    atomic_fetch_add(&s->ready, 1);
    for (;;) {
        uint32_t level = atomic_load_explicit(&s->level, memory_order_acquire); /* with its period */
        if (level == quit) return NULL;
        if (!level)
            sys->futex_wait(sys->self, &s->level, 0, 0);
        else if (s->config.bursts)
            burst(w, (int)level);
        else
            paced_piece(w, (int)level);
    }
}

/* --- life --- */
static void put_level(struct mo_stress *s, uint32_t level) {
    atomic_store(&s->level, level);
    s->env->sys->futex_wake(s->env->sys->self, &s->level, s->config.n);
}

/* Bytes of all walkers' buffers together. */
static int64_t footprint(const struct mo_stress_config *c) {
    const int64_t bytes[MO_STRESS_KINDS] = {[MO_STRESS_L2] = c->l2_bytes / 2 * c->n,
                                            [MO_STRESS_L3] = c->l3_bytes,
                                            [MO_STRESS_MEMORY] = 4 * c->l3_bytes};
    return bytes[c->kind];
}

static int allocate(struct mo_stress *s, moire_error *err) {
    const struct mo_stress_config *c = &s->config;
    s->walker = mo_alloc(s->env, (size_t)(c->n + 1) * sizeof *s->walker);
    s->evict = mo_alloc(s->env, (size_t)evict_bytes(s, MO_STRESS_LEVELS - 1));
    s->victim_bytes = c->l3_bytes / 4 / LINE * LINE;
    s->victim = mo_alloc(s->env, (size_t)s->victim_bytes);
    bool ok = s->walker && s->evict && s->victim;
    for (int i = 0; ok && i < c->n; i++) {
        struct walker *w = &s->walker[i];
        *w = (struct walker){.stress = s, .cpu = c->cpu ? c->cpu[i] : -1};
        w->buffer_bytes = footprint(c) / c->n / LINE * LINE;
        ok = (w->buffer = mo_alloc(s->env, (size_t)w->buffer_bytes)) != NULL;
    }
    return ok ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d stress threads", c->n);
}

static int start(struct mo_stress *s, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    for (int i = 0; i < s->config.n; i++) {
        struct walker *w = &s->walker[i];
        int rc = sys->thread_start(sys->self, &w->thread, walker_main, w);
        if (rc) return mo_fail(err, MOIRE_EIO, "cannot start stress thread %d: %s", i + 1, strerror(-rc));
        w->started = true;
    }
    while (atomic_load(&s->ready) < s->config.n)
        sys->sleep_until(sys->self, mo_now(s->env) + BURST_NS);
    return MOIRE_OK;
}

/* Paces the lower levels to a share of what level 5 moves. */
static void calibrate(struct mo_stress *s) {
    if (!s->config.n || s->config.bursts) return;
    put_level(s, MO_STRESS_LEVELS - 1);
    int64_t begin = mo_now(s->env), before = mo_stress_bytes(s);
    s->env->sys->sleep_until(s->env->sys->self, begin + CALIBRATE_NS);
    int64_t pieces = (mo_stress_bytes(s) - before) / 2 / PIECE, spent = mo_now(s->env) - begin;
    put_level(s, 0);
    if (pieces < 1) pieces = 1;
    for (int level = 1; level < MO_STRESS_LEVELS - 1; level++)
        s->period[level] = spent * s->config.n / pieces * (MO_STRESS_LEVELS - 1) / level;
}

int mo_stress_create(const struct mo_stress_config *config, struct mo_stress **out, moire_error *err) {
    *out = NULL;
    struct mo_stress *s = mo_alloc(config->env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "out of memory for stress threads");
    s->env = config->env;
    s->config = *config;
    if (s->config.l2_bytes <= 0) s->config.l2_bytes = USUAL_L2;
    if (s->config.l3_bytes <= s->config.l2_bytes) s->config.l3_bytes = USUAL_L3;
    int rc = allocate(s, err);
    if (!rc) rc = start(s, err);
    if (rc) {
        mo_stress_destroy(s);
        return rc;
    }
    calibrate(s);
    *out = s;
    return MOIRE_OK;
}

void mo_stress_destroy(struct mo_stress *s) {
    if (!s) return;
    put_level(s, quit);
    for (int i = 0; s->walker && i < s->config.n; i++) {
        if (s->walker[i].started) s->env->sys->thread_join(s->env->sys->self, s->walker[i].thread);
        mo_free(s->env, s->walker[i].buffer);
    }
    mo_free(s->env, s->walker);
    mo_free(s->env, s->evict);
    mo_free(s->env, s->victim);
    mo_free(s->env, s);
}

/* --- use --- */
static int cut(int level) {
    return level < 0 ? 0 : level >= MO_STRESS_LEVELS ? MO_STRESS_LEVELS - 1 : level;
}

void mo_stress_set(struct mo_stress *s, int level) {
    put_level(s, (uint32_t)cut(level));
}

int mo_stress_level(const struct mo_stress *s) {
    return (int)atomic_load(&s->level);
}

int64_t mo_stress_bytes(const struct mo_stress *s) {
    int64_t sum = 0;
    for (int i = 0; i < s->config.n; i++)
        sum += atomic_load_explicit(&s->walker[i].moved, memory_order_relaxed);
    return sum;
}

int mo_stress_unpinned(const struct mo_stress *s) {
    return atomic_load(&s->unpinned);
}

void mo_stress_evict(struct mo_stress *s, int level) {
    walk(s->evict, evict_bytes(s, cut(level)));
}

int64_t mo_stress_evict_bytes(const struct mo_stress *s, int level) {
    return evict_bytes(s, cut(level));
}

double mo_stress_victim(struct mo_stress *s, int64_t ns) {
    int64_t begin = mo_now(s->env), end = begin, best = INT64_MAX;
    do {
        int64_t from = end;
        uint32_t sum = 0;
        for (int64_t i = 0; i < s->victim_bytes; i += LINE)
            sum += *(const volatile uint32_t *)(s->victim + i);
        (void)sum;
        end = mo_now(s->env);
        if (end - from < best) best = end - from;
    } while (end - begin < ns);
    return (double)s->victim_bytes / (double)(best > 0 ? best : 1);
}

void mo_stress_measure(struct mo_stress *s, int level, struct mo_stress_effect *out) {
    walk(s->victim, s->victim_bytes);
    mo_stress_set(s, 0);
    out->solo_gbs = mo_stress_victim(s, VICTIM_NS);
    mo_stress_set(s, level);
    mo_stress_victim(s, VICTIM_NS); /* lets the caches settle */
    int64_t begin = mo_now(s->env), before = mo_stress_bytes(s);
    out->victim_gbs = mo_stress_victim(s, VICTIM_NS);
    int64_t spent = mo_now(s->env) - begin;
    out->gbs = (double)(mo_stress_bytes(s) - before) / (double)(spent > 0 ? spent : 1);
    out->victim_slowdown = out->solo_gbs / out->victim_gbs;
}
