/* SPDX-License-Identifier: Apache-2.0
 * stalling.c - threads that keep cores from their work; see stalling.h. */
#define _GNU_SOURCE
#include "bench/load/stalling.h"

#include <pthread.h>
#include <string.h>
#include "runtime/base/lock.h"
#include "runtime/device/topology.h"

static const double WHOLE = 0.999; /* of its speed: the core is left alone */

/* Who keeps one core. */
struct keeper {
    struct mo_bench_stalling *all;
    struct mo_thread thread;
    bool started;
    int core, cpu;
    int64_t burnt;
};

struct mo_bench_stalling {
    const struct mo_env *env;
    struct mo_topology *topology;
    struct mo_sim_pace pace;
    struct keeper *keeper;
    int (*go_first)(void);
    int64_t begin;
    _Atomic uint32_t go;    /* futex word: 0 not yet, 1 keep, 2 return */
    _Atomic uint32_t ready; /* likewise: threads at their cores */
    _Atomic int refused;    /* errno of one that may not */
};

static int real_time(void) {
    const struct sched_param least = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &least);
}

/* Sleeps until then; false: it is over. */
static bool sleep_until(struct mo_bench_stalling *s, uint32_t while_go, int64_t when) {
    const struct mo_sys *sys = s->env->sys;
    uint32_t go;
    while ((go = atomic_load(&s->go)) == while_go && (!when || mo_now(s->env) < when))
        sys->futex_wait(sys->self, &s->go, go, when);
    return go != 2;
}

static bool burn_until(struct keeper *k, int64_t when) {
    struct mo_bench_stalling *s = k->all;
    int64_t from = mo_now(s->env), now = from;
    bool go_on = true;
    for (; now < when && go_on; now = mo_now(s->env)) {
        go_on = atomic_load_explicit(&s->go, memory_order_relaxed) != 2;
        mo_cpu_relax();
    }
    k->burnt += now - from;
    return go_on;
}

static void *keep(void *arg) {
    struct keeper *k = arg;
    struct mo_bench_stalling *s = k->all;
    const struct mo_sys *sys = s->env->sys;
    int rc = sys->pin(sys->self, k->cpu);
    rc = rc ? -rc : s->go_first();
    if (rc) atomic_store(&s->refused, rc);
    atomic_fetch_add(&s->ready, 1);
    sys->futex_wake(sys->self, &s->ready, 1);
    bool go_on = !rc && sleep_until(s, 0, 0);
    const double *done = s->pace.done + (int64_t)k->core * (s->pace.n_steps + 1);
    for (int i = 0; go_on && i < s->pace.n_steps; i++) {
        double rate = (done[i + 1] - done[i]) / (double)s->pace.step_ns;
        int64_t at = s->begin + i * s->pace.step_ns;
        if (rate < WHOLE)
            go_on =
                sleep_until(s, 1, at) && burn_until(k, at + (int64_t)((1 - rate) * (double)s->pace.step_ns));
    }
    return NULL;
}

static int start_threads(struct mo_bench_stalling *s, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    int n = s->pace.n_cores;
    for (int i = 0; i < n; i++) {
        struct keeper *k = &s->keeper[i];
        *k = (struct keeper){.all = s, .core = i, .cpu = s->topology->cpu[i]};
        int rc = sys->thread_start(sys->self, &k->thread, keep, k);
        if (rc) return mo_fail(err, MOIRE_EIO, "cannot start a thread that stalls a core: %s", strerror(-rc));
        k->started = true;
    }
    for (uint32_t ready; (ready = atomic_load(&s->ready)) < (uint32_t)n;)
        sys->futex_wait(sys->self, &s->ready, ready, 0);
    int refused = atomic_load(&s->refused);
    if (!refused) return MOIRE_OK;
    return mo_fail(err, MOIRE_EUNSUPPORTED, "stalls need real-time priority on every core (CAP_SYS_NICE): %s",
                   strerror(refused));
}

int mo_bench_stalling_start(const struct mo_bench_stalling_config *c, struct mo_bench_stalling **out,
                            moire_error *err) {
    const struct mo_env *env = c->env;
    *out = NULL;
    if (!mo_bench_stalls_any(c->stalls)) return MOIRE_OK;
    struct mo_bench_stalling *s = mo_alloc(env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "out of memory for stalls");
    s->env = env;
    s->go_first = c->go_first ? c->go_first : real_time;
    int code = mo_topology_create(env, NULL, c->n_cores, "", &s->topology, err);
    if (!code)
        code =
            mo_bench_stalls_draw(env, c->stalls, s->topology->n_cores, c->length_ns, c->seed, &s->pace, err);
    if (!code && !(s->keeper = mo_alloc(env, (size_t)s->pace.n_cores * sizeof *s->keeper)))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory for stalls");
    if (!code) code = start_threads(s, err);
    if (code) {
        mo_bench_stalling_stop(s);
        return code;
    }
    s->begin = mo_now(env);
    atomic_store(&s->go, 1);
    env->sys->futex_wake(env->sys->self, &s->go, s->pace.n_cores);
    *out = s;
    return MOIRE_OK;
}

int64_t mo_bench_stalling_stop(struct mo_bench_stalling *s) {
    if (!s) return 0;
    const struct mo_sys *sys = s->env->sys;
    int64_t burnt = 0;
    atomic_store(&s->go, 2);
    sys->futex_wake(sys->self, &s->go, s->pace.n_cores);
    for (int i = 0; s->keeper && i < s->pace.n_cores; i++) {
        if (s->keeper[i].started) sys->thread_join(sys->self, s->keeper[i].thread);
        burnt += s->keeper[i].burnt;
    }
    mo_topology_destroy(s->topology);
    mo_free(s->env, s->keeper);
    mo_free(s->env, s->pace.done);
    mo_free(s->env, s);
    return burnt;
}
