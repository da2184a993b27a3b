/* SPDX-License-Identifier: Apache-2.0
 * run_time.c - runs a plan several times, on this thread or on a team, and keeps the times, whole and by
 * layer.  A team gets one job for all repetitions, so that no start-up is in the times. */
#include <stdlib.h>
#include "runtime/device/barrier.h"
#include "runtime/device/fpu.h"
#include "runtime/device/team.h"
#include "runtime/device/topology.h"
#include "tools/moire/run.h"

enum { SPIN = 20000, TEAM_SPIN_NS = 50000 };

struct session {
    const struct mo_env *env;
    const struct mo_plan *plan;
    struct mo_instance *instance;
    struct mo_run_times *times;
    int repeat, threads;
    char *scratch; /* scratch_stride bytes a worker */
    size_t scratch_stride;
    struct mo_barrier barrier;
    struct mo_barrier_flag *flags;
    _Atomic int rc;
    _Atomic uint32_t left; /* workers that are not done */
};

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Layers [begin, end) as one worker. */
static int run_range(struct session *s, int begin, int end, int worker) {
    return mo_instance_run(s->instance, begin, end, worker, s->threads, mo_barrier_wait, &s->barrier,
                           s->scratch + (size_t)worker * s->scratch_stride);
}

/* One repetition; with --profile layer by layer, keeping each one's shortest time. */
static int run_once(struct session *s, int worker) {
    int64_t *layer_ns = s->times->layer_ns;
    int rc = MOIRE_OK;
    if (!layer_ns) return run_range(s, 0, s->plan->n_steps, worker);
    for (int k = 0; !rc && k < s->plan->n_steps; k++) {
        int64_t start = mo_now(s->env);
        rc = run_range(s, k, k + 1, worker);
        int64_t took = mo_now(s->env) - start;
        if (!worker && (!layer_ns[k] || took < layer_ns[k])) layer_ns[k] = took;
    }
    return rc;
}

static void run_all(struct session *s, int worker) {
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < s->repeat; i++) {
        if (s->threads > 1) mo_barrier_wait(&s->barrier, worker);
        int64_t start = mo_now(s->env);
        rc = run_once(s, worker);
        if (worker) continue;
        s->times->run_ns[s->times->n++] = mo_now(s->env) - start;
    }
    if (!worker) atomic_store(&s->rc, rc);
}

static void work(void *ctx, int core, int worker, int n_workers) {
    struct session *s = ctx;
    (void)core;
    (void)n_workers;
    run_all(s, worker);
    if (atomic_fetch_sub(&s->left, 1) == 1) s->env->sys->futex_wake(s->env->sys->self, &s->left, 1);
}

static int run_on_team(struct session *s, moire_error *err) {
    struct mo_topology *topology = NULL;
    struct mo_team *team = NULL;
    int rc = mo_topology_create(s->env, NULL, s->threads, "", &topology, err);
    if (!rc && topology->n_cores < s->threads)
        rc = mo_fail(err, MOIRE_EINVAL, "--threads %d: only %d cores are usable here", s->threads,
                     topology->n_cores);
    if (!rc) {
        struct mo_team_config config = {
            .env = s->env, .n = s->threads, .cpu = topology->cpu, .spin_ns = TEAM_SPIN_NS};
        rc = mo_team_create(&config, &team, err);
    }
    if (!rc) {
        mo_barrier_begin(&s->barrier, s->threads);
        atomic_store(&s->left, (uint32_t)s->threads);
        for (int w = 0; w < s->threads; w++)
            mo_team_post(team, w,
                         &(struct mo_job){.run = work, .ctx = s, .worker = w, .n_workers = s->threads});
        for (uint32_t left; (left = atomic_load(&s->left)) > 0;)
            s->env->sys->futex_wait(s->env->sys->self, &s->left, left, 0);
    }
    mo_team_destroy(team);
    mo_topology_destroy(topology);
    return rc;
}

static int run_session(struct session *s, moire_error *err) {
    int rc = MOIRE_OK;
    mo_barrier_init(&s->barrier, s->env, s->flags, SPIN);
    if (s->threads > 1) {
        rc = run_on_team(s, err);
    } else {
        unsigned old = mo_fpu_flush();
        run_all(s, 0);
        mo_fpu_restore(old);
    }
    if (rc) return rc;
    rc = atomic_load(&s->rc);
    return rc ? mo_fail(err, rc, "%s", mo_instance_message(s->instance)) : rc;
}

int mo_run_repeat(const struct mo_env *env, const struct mo_run_options *o, const struct mo_plan *plan,
                  struct mo_instance *instance, struct mo_run_times *times, moire_error *err) {
    struct session s = {.env = env,
                        .plan = plan,
                        .instance = instance,
                        .times = times,
                        .repeat = o->repeat,
                        .threads = o->threads};
    size_t threads = (size_t)o->threads;
    s.scratch_stride = ((size_t)plan->scratch_bytes + 127) / 64 * 64;
    s.scratch = mo_alloc(env, threads * s.scratch_stride);
    s.flags = mo_alloc(env, threads * sizeof *s.flags);
    times->run_ns = mo_alloc(env, (size_t)o->repeat * sizeof *times->run_ns);
    times->layer_ns =
        o->profile ? mo_alloc(env, ((size_t)plan->n_steps + 1) * sizeof *times->layer_ns) : NULL;
    int rc = MOIRE_OK;
    if (!s.scratch || !s.flags || !times->run_ns || (o->profile && !times->layer_ns))
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory for %zu bytes of scratch", threads * s.scratch_stride);
    if (!rc) rc = run_session(&s, err);
    if (!rc) qsort(times->run_ns, (size_t)times->n, sizeof *times->run_ns, by_value);
    mo_free(env, s.scratch);
    mo_free(env, s.flags);
    return rc;
}

void mo_run_times_free(const struct mo_env *env, struct mo_run_times *times) {
    mo_free(env, times->run_ns);
    mo_free(env, times->layer_ns);
    *times = (struct mo_run_times){0};
}
