/* SPDX-License-Identifier: Apache-2.0
 * timing_layer.c - one layer again and again; see timing.h.  Short layers are timed in batches, so that the
 * clock is not what is measured; worker 0 decides their size, and the end, before a barrier. */
#include <stdlib.h>
#include "bench/load/together.h"
#include "bench/kernels/timing.h"
#include "runtime/base/numbers.h"

enum { SHORT_NS = 100000, FEWEST = 3, MOST_BATCH = 1 << 20 };

struct session {
    const struct mo_env *env;
    struct mo_instance *instance;
    int layer;
    int64_t budget_ns, deadline;
    char *scratch;
    size_t stride;
    int64_t batch; /* of the round that runs; 0 = the end.  Written by worker 0 before a barrier */
    int n;
    double sample[MO_TIMING_SAMPLES];
    _Atomic int rc;
};

struct gate {
    struct mo_together *team;
};

static void pass(void *ctx, int worker) {
    mo_barrier_wait(&((struct gate *)ctx)->team->barrier, worker);
}

static int run(struct session *s, struct mo_together *team, int worker, int64_t times) {
    struct gate gate = {team};
    int rc = MOIRE_OK;
    for (int64_t i = 0; !rc && i < times; i++)
        rc = mo_instance_run(s->instance, s->layer, s->layer + 1, worker, team->n, pass, &gate,
                             s->scratch + (size_t)worker * s->stride);
    return rc;
}

/* Worker 0: takes a sample, and says how many runs the next one has. */
static void decide(struct session *s, int64_t took) {
    if (took < SHORT_NS && s->batch < MOST_BATCH) {
        s->batch *= 2;
        s->n = 0;
        return;
    }
    s->sample[s->n++ % MO_TIMING_SAMPLES] = (double)took / (double)s->batch;
    if (s->n >= FEWEST && mo_now(s->env) > s->deadline) s->batch = 0;
}

static void work(void *ctx, struct mo_together *team, int worker) {
    struct session *s = ctx;
    int rc = run(s, team, worker, 1); /* does not count */
    if (worker == 0) s->deadline = mo_now(s->env) + s->budget_ns;
    while (!rc) {
        if (team->n > 1) mo_barrier_wait(&team->barrier, worker);
        int64_t batch = s->batch, start = mo_now(s->env);
        if (!batch) break;
        rc = run(s, team, worker, batch);
        int64_t took = mo_now(s->env) - start;
        if (team->n > 1) mo_barrier_wait(&team->barrier, worker); /* all have read `batch` */
        if (worker == 0) decide(s, took);
    }
    if (worker == 0) atomic_store(&s->rc, rc);
}

int mo_timing_layer(const struct mo_env *env, const struct mo_plan *plan, struct mo_instance *instance,
                    int layer, int threads, int64_t budget_ns, double *best, double *median,
                    moire_error *err) {
    struct session *s = mo_alloc(env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    *s = (struct session){
        .env = env, .instance = instance, .layer = layer, .budget_ns = budget_ns, .batch = 1};
    s->stride = ((size_t)plan->scratch_bytes + 127) / 64 * 64;
    s->scratch = mo_alloc_scratch(env, (size_t)threads * s->stride);
    int rc = s->scratch ? mo_together(env, threads, work, s, err)
                        : mo_fail(err, MOIRE_ENOMEM, "out of memory for the scratch of %d threads", threads);
    if (!rc && (rc = atomic_load(&s->rc))) mo_fail(err, rc, "%s", mo_instance_message(instance));
    if (!rc) {
        const int n = s->n < MO_TIMING_SAMPLES ? s->n : MO_TIMING_SAMPLES;
        qsort(s->sample, (size_t)n, sizeof *s->sample, mo_rising);
        *best = s->sample[0];
        *median = s->sample[n / 2];
    }
    mo_free(env, s->scratch);
    mo_free(env, s);
    return rc;
}
