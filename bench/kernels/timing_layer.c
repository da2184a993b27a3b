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
    int64_t batch;       /* of the round that runs; 0 = the end.  Written by worker 0 between two barriers */
    int64_t begun, took; /* the batch */
    int n;
    double sample[MO_TIMING_SAMPLES];
    _Atomic int rc;
};

/* The first step begins the batch, and the one behind the last ends it. */
static int run_step(void *ctx, int step, int width, void *scratch) {
    struct session *s = ctx;
    if (step == 0) s->begun = mo_now(s->env);
    if (step < s->batch) return mo_instance_step(s->instance, s->layer, width, scratch);
    s->took = mo_now(s->env) - s->begun;
    return 0;
}

static void run_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    const struct session *s = ctx;
    mo_instance_pieces(s->instance, s->layer, p->from, p->to, p->of, scratch);
}

static int run_again(void *ctx, int step, int width) {
    const struct session *s = ctx;
    (void)step;
    return mo_instance_again(s->instance, s->layer, width);
}

/* Worker 0: takes a sample, and says how many runs the next one has. */
static void decide(struct session *s) {
    const int64_t took = s->took;
    if (took < SHORT_NS && s->batch < MOST_BATCH) {
        s->batch *= 2;
        s->n = 0;
        return;
    }
    s->sample[s->n++ % MO_TIMING_SAMPLES] = (double)took / (double)s->batch;
    if (s->n >= FEWEST && mo_now(s->env) > s->deadline) s->batch = 0;
}

static void work(void *ctx, struct mo_together *team, int worker) {
    static const struct mo_claims_calls calls = {run_step, run_pieces, run_again};
    struct session *s = ctx;
    char *scratch = s->scratch + (size_t)worker * s->stride;
    int rc = MOIRE_OK;
    for (int block = 0; !rc && s->batch; block++) {
        struct mo_claims *claims = mo_together_begin(team, worker, (int)s->batch + 1, block);
        mo_claims_work(claims, &team->member[worker], &calls, s, scratch, &rc);
        if (worker == 0 && block == 0) s->deadline = mo_now(s->env) + s->budget_ns; /* it does not count */
        if (team->n > 1) mo_barrier_wait(&team->barrier, worker);
        if (worker == 0 && block > 0) decide(s);
        if (team->n > 1) mo_barrier_wait(&team->barrier, worker);
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
