/* SPDX-License-Identifier: Apache-2.0
 * sampler.c - the sampling thread; see sampler.h. */
#include "runtime/proxy/sampler.h"

#include <string.h>
#include "runtime/base/lock.h"

struct mo_sampler {
    const struct mo_env *env;
    const struct mo_source *source;
    void *opened;
    struct mo_proxy proxy; /* source NULL: none */
    struct mo_ring *ring;
    struct mo_lock writing;
    struct mo_thread thread;
    bool started;
    _Atomic uint32_t stop; /* futex word of the thread */
    _Atomic bool gone;
    _Atomic double pressure;
};

int mo_sampler_create(const struct mo_env *env, const struct mo_source *source, void *opened,
                      const struct mo_proxy *proxy, struct mo_sampler **out, moire_error *err) {
    struct mo_sampler *s = mo_alloc(env, sizeof *s);
    if (!s) {
        source->close(opened);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the sampler of counters");
    }
    s->env = env;
    s->source = source;
    s->opened = opened;
    if (proxy) s->proxy = *proxy;
    *out = s;
    return MOIRE_OK;
}

static void record(struct mo_sampler *s, const double value[MO_OBSERVABLES]) {
    const double most = 1e12;
    int64_t v[MO_OBSERVABLES];
    for (int i = 0; i < MO_OBSERVABLES; i++)
        v[i] = (int64_t)((value[i] < most ? value[i] : most) * MO_EVENT_UNIT + 0.5);
    mo_lock_take(s->env->sys, &s->writing);
    mo_event_put(s->ring, mo_now(s->env), MO_LOG_COUNTERS, 0, -1, v[0], v[1], v[2]);
    mo_lock_drop(s->env->sys, &s->writing);
}

static void *sample_on(void *arg) {
    struct mo_sampler *s = arg;
    const struct mo_sys *sys = s->env->sys;
    int64_t next = mo_now(s->env);
    sys->name_thread(sys->self, "moire-counters");
    while (!atomic_load(&s->stop)) {
        double value[MO_OBSERVABLES] = {0};
        moire_error err;
        int64_t now = mo_now(s->env);
        next = next + MO_SAMPLER_PERIOD_NS > now ? next + MO_SAMPLER_PERIOD_NS : now;
        while (!atomic_load(&s->stop) && mo_now(s->env) < next)
            sys->futex_wait(sys->self, &s->stop, 0, next);
        if (atomic_load(&s->stop)) break;
        if (s->source->sample(s->opened, value, &err)) {
            atomic_store(&s->gone, true);
            mo_log(s->env, MOIRE_LOG_WARN, "%s: %s; its counters are not sampled any more", s->source->name,
                   err.message);
            break;
        }
        if (s->proxy.source) atomic_store(&s->pressure, mo_proxy_pressure(&s->proxy, value));
        if (s->ring) record(s, value);
    }
    return NULL;
}

int mo_sampler_start(struct mo_sampler *s, struct mo_ring *ring, moire_error *err) {
    s->ring = ring;
    int rc = s->env->sys->thread_start(s->env->sys->self, &s->thread, sample_on, s);
    if (rc)
        return mo_fail(err, MOIRE_EIO, "cannot start the thread that samples counters: %s", strerror(-rc));
    s->started = true;
    return MOIRE_OK;
}

void mo_sampler_stop(struct mo_sampler *s) {
    if (!s || !s->started) return;
    atomic_store(&s->stop, 1);
    s->env->sys->futex_wake(s->env->sys->self, &s->stop, 1);
    s->env->sys->thread_join(s->env->sys->self, s->thread);
    s->started = false;
}

void mo_sampler_destroy(struct mo_sampler *s) {
    if (!s) return;
    mo_sampler_stop(s);
    s->source->close(s->opened);
    mo_free(s->env, s);
}

const struct mo_source *mo_sampler_source(const struct mo_sampler *s) {
    return s->source;
}

bool mo_sampler_read(void *self, int64_t now, const struct mo_cores *ending, double *pressure) {
    struct mo_sampler *s = self;
    (void)now, (void)ending; /* a sample is of all cores and of some milliseconds */
    *pressure = atomic_load_explicit(&s->pressure, memory_order_relaxed);
    return !atomic_load_explicit(&s->gone, memory_order_relaxed);
}

void mo_sampler_hold(struct mo_sampler *s) {
    if (s) mo_lock_take(s->env->sys, &s->writing);
}
void mo_sampler_unhold(struct mo_sampler *s) {
    if (s) mo_lock_drop(s->env->sys, &s->writing);
}
