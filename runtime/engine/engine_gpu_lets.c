/* SPDX-License-Identifier: Apache-2.0
 * engine_gpu_lets.c - lets of GPUs from one plan to the next, on a thread of its own (`prepare` of
 * engine_gpu.h); opening and closing the device. */
#include <stdio.h>
#include <string.h>
#include "runtime/engine/engine_gpu_impl.h"

static const int64_t HANG_NS = 1000000000, LOOK_NS = 50000000; /* the latter: how often at a lost GPU */

void mo_engine_gpu_ring(struct mo_engine_gpu *g) {
    atomic_fetch_add(&g->doorbell, 1);
    g->env->sys->futex_wake(g->env->sys->self, &g->doorbell, 1);
}

/* --- a change of plan ----------------------------------------------------------------------------------- */
/* Of its tenants the most urgent decides: 0 with a priority of its own, 2 when all are best effort. */
static int priority_of(const struct mo_sched *sched, const struct mo_planned_let *let) {
    const struct mo_view *view = mo_sched_view(sched);
    int best = MO_GPU_PRIORITIES - 1;
    for (int i = 0; i < let->n_entries; i++) {
        const struct mo_view_tenant *t = &view->tenants[let->entries[i].tenant];
        int is = t->best_effort ? MO_GPU_PRIORITIES - 1 : t->priority > 0 ? 0 : 1;
        if (is < best) best = is;
    }
    return best;
}

static struct mo_open_let *find(const struct mo_engine_gpu *g, const struct mo_planned_let *let,
                                int priority) {
    for (struct mo_open_let *l = g->lets; l; l = l->next)
        if (l->gpu == let->gpu && l->first == let->first && l->units == let->units &&
            l->priority == priority && l->let)
            return l;
    return NULL;
}

/* NULL: out of memory. */
static struct mo_open_let *open_let(struct mo_engine_gpu *g, const struct mo_planned_let *let, int priority) {
    moire_error err = {0};
    struct mo_open_let *l = mo_alloc(g->env, sizeof *l);
    if (!l) return NULL;
    *l =
        (struct mo_open_let){.gpu = let->gpu, .first = let->first, .units = let->units, .priority = priority};
    l->code =
        g->config.ops->let_open(g->config.system, let->gpu, let->first, let->units, priority, &l->let, &err);
    if (l->code) {
        l->let = NULL;
        snprintf(l->why, sizeof l->why, "%.*s", MO_ENGINE_WHY - 1, err.message);
        mo_log(g->env, MOIRE_LOG_ERROR, "GPU %d: no let of %d units at unit %d: %s", let->gpu, let->units,
               let->first, err.message);
    }
    l->next = g->lets;
    g->lets = l;
    return l;
}

/* Graphs of every program that a batch of the let's tenants can take. */
static void warm(struct mo_engine_gpu *g, const struct mo_open_let *l, const struct mo_planned_let *let) {
    moire_error err;
    for (int i = 0; l->let && i < let->n_entries; i++) {
        const struct mo_gpu_resident *t = &g->tenant[let->entries[i].tenant];
        for (int r = 0; t->open && r < t->n_buckets; r++) {
            struct mo_gpu_loaded *loaded = t->host[let->gpu].loaded[r];
            if (loaded && g->config.ops->prepare(loaded, l->let, &err))
                mo_log(g->env, MOIRE_LOG_WARN, "GPU %d: graphs of a batch of %d are made when it runs: %s",
                       let->gpu, t->batch[r], err.message);
            if (t->batch[r] >= let->entries[i].batch) break;
        }
    }
}

/* The lock is held. */
static void install(struct mo_engine_gpu *g) {
    memset(g->at, 0, (size_t)g->gpus.n_units * sizeof *g->at);
    for (struct mo_open_let *l = g->lets; l; l = l->next) {
        g->stats.opened += l->coming && !l->in_force && l->let;
        l->in_force = l->coming;
        l->coming = false;
        if (l->in_force) g->at[g->gpus.first[l->gpu] + l->first] = l;
    }
    int64_t now = mo_now(g->env), took = now - g->asked_at;
    g->stats.changes++;
    g->stats.ready_ns += took;
    if (took > g->stats.ready_max_ns) g->stats.ready_max_ns = took;
    mo_sched_prepared(g->device->sched, now);
}

static void change(struct mo_engine_gpu *g) {
    mo_lock_take(g->env->sys, &g->changing); /* no tenant comes or goes meanwhile */
    for (int i = 0; i < g->plan->n_lets; i++) {
        const struct mo_planned_let *let = &g->plan->lets[i];
        mo_device_take(g->device);
        int priority = priority_of(g->device->sched, let);
        mo_device_drop(g->device);
        struct mo_open_let *l = find(g, let, priority);
        if (!l) l = open_let(g, let, priority);
        if (!l) continue; /* its blocks answer that no let begins there */
        l->coming = true;
        warm(g, l, let);
    }
    mo_lock_drop(g->env->sys, &g->changing);
    mo_device_take(g->device);
    install(g);
    mo_device_drop(g->device);
    mo_device_note_change(g->device);
}

/* Closes lets out of force on which nothing runs. */
static void sweep(struct mo_engine_gpu *g) {
    struct mo_open_let *idle = NULL, *l;
    mo_device_take(g->device);
    for (struct mo_open_let **at = &g->lets; (l = *at);)
        if (l->in_force || l->running || l->submitting) {
            at = &l->next;
        } else {
            *at = l->next;
            l->next = idle;
            idle = l;
            g->stats.closed += l->let != NULL;
        }
    mo_device_drop(g->device);
    while ((l = idle)) {
        idle = l->next;
        g->config.ops->let_close(l->let);
        mo_free(g->env, l);
    }
}

/* Tells the core which of the lost GPUs are back; true: some are not. */
static bool look_at_lost(struct mo_engine_gpu *g) {
    bool some = false;
    for (int i = 0; i < g->gpus.n_gpus; i++) {
        moire_error err;
        mo_device_take(g->device);
        bool was = g->lost[i] || mo_sched_view(g->device->sched)->gpu_lost[i];
        mo_device_drop(g->device);
        if (!was) continue;
        bool lost = g->config.ops->counters(g->config.system, i, NULL, &err) != MOIRE_OK;
        some |= lost;
        mo_device_take(g->device);
        g->lost[i] = lost;
        mo_sched_gpu_lost(g->device->sched, i, lost, mo_now(g->env));
        mo_device_drop(g->device);
        if (!lost) mo_log(g->env, MOIRE_LOG_WARN, "GPU %d is back", i);
    }
    return some;
}

/* The preparing thread's function. */
static void *prepare_lets(void *arg) {
    struct mo_engine_gpu *g = arg;
    const struct mo_sys *sys = g->env->sys;
    for (;;) {
        uint32_t heard = atomic_load(&g->doorbell);
        mo_device_take(g->device);
        bool asked = g->asked, swept = g->sweep, stop = g->stop;
        if (asked) *g->plan = *mo_sched_lets_coming(g->device->sched);
        g->asked = g->sweep = false;
        mo_device_drop(g->device);
        if (stop) return NULL;
        if (asked) change(g);
        if (asked || swept) sweep(g);
        bool lost = look_at_lost(g);
        if (!asked && !swept)
            sys->futex_wait(sys->self, &g->doorbell, heard, lost ? mo_now(g->env) + LOOK_NS : 0);
    }
}

/* --- create, destroy ------------------------------------------------------------------------------------ */
int mo_engine_gpu_open(struct mo_device *device, const void *options, void **self,
                       struct mo_device_about *about, moire_error *err) {
    const struct mo_engine_gpu_options *o = options;
    const struct mo_env *env = device->env;
    struct mo_engine_gpu *g = *self = mo_alloc(env, sizeof *g);
    if (!g) return mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine of GPUs");
    g->device = device;
    g->env = env;
    g->config = *o;
    g->gpus = *o->gpus;
    if (!g->config.hang_ns) g->config.hang_ns = HANG_NS;
    g->launch_end = &g->launch;
    size_t n = (size_t)g->gpus.n_units;
    g->tenant = mo_alloc(env, (size_t)device->max_tenants * sizeof *g->tenant);
    g->queue = mo_alloc(env, n * sizeof *g->queue);
    g->at = mo_alloc(env, n * sizeof *g->at);
    g->plan = mo_alloc(env, sizeof *g->plan);
    *about = (struct mo_device_about){g->gpus.n_units, g->config.max_batch, &g->gpus};
    return g->tenant && g->queue && g->at && g->plan
               ? MOIRE_OK
               : mo_fail(err, MOIRE_ENOMEM, "out of memory for an engine of %d GPUs", g->gpus.n_gpus);
}

int mo_engine_gpu_begin(void *self, moire_error *err) {
    struct mo_engine_gpu *g = self;
    const struct mo_sys *sys = g->env->sys;
    int rc = sys->thread_start(sys->self, &g->preparer, prepare_lets, g);
    if (rc) return mo_fail(err, MOIRE_EIO, "cannot start the thread that prepares lets: %s", strerror(-rc));
    g->preparer_started = true;
    return MOIRE_OK;
}

/* The last block is answered before the plugin's thread has left done(), which still rings doorbells. */
static void wait_for_calls(struct mo_engine_gpu *g) {
    const struct mo_sys *sys = g->env->sys;
    uint32_t n;
    while ((n = atomic_load_explicit(&g->calls, memory_order_acquire)))
        sys->futex_wait(sys->self, &g->calls, n, mo_now(g->env) + 1000000);
}

void mo_engine_gpu_close(void *self) {
    struct mo_engine_gpu *g = self;
    wait_for_calls(g);
    if (g->preparer_started) {
        mo_device_take(g->device);
        g->stop = true;
        mo_device_drop(g->device);
        mo_engine_gpu_ring(g);
        g->env->sys->thread_join(g->env->sys->self, g->preparer);
    }
    while (g->lets) {
        struct mo_open_let *l = g->lets;
        g->lets = l->next;
        g->config.ops->let_close(l->let);
        mo_free(g->env, l);
    }
    mo_free(g->env, g->plan);
    mo_free(g->env, (void *)g->at);
    mo_free(g->env, g->queue);
    mo_free(g->env, g->tenant);
    mo_free(g->env, g);
}
