/* SPDX-License-Identifier: Apache-2.0
 * timing.c - runs a plan several times and keeps the times; see timing.h.
 *
 * A team gets one job for all repetitions, so that no start-up is in the times.  By layer, the end of a
 * worker's share is the moment it comes to the layer's barrier: the time until worker 0 is past it is what
 * the layer took, and the rest of each worker's time is waiting.  Worker 0 keeps the books; the others write
 * only their own stamps, before a barrier that worker 0 reads them behind. */
#include <stdlib.h>
#include <string.h>
#include "bench/load/together.h"
#include "bench/kernels/timing.h"

enum { MAX_REPEAT = 1000000, FEWEST = 3, MOST_TIMED = 4096 };

struct session {
    const struct mo_env *env;
    const struct mo_plan *plan;
    struct mo_instance *instance;
    struct mo_timing *timing;
    const struct mo_timing_options *options;
    int most;             /* repetitions that there is room for */
    int64_t *sample;      /* [layer][MO_TIMING_SAMPLES] */
    int64_t *begin, *end; /* of the repetition that runs, as in mo_timing */
    char *scratch;        /* stride bytes a worker */
    size_t stride;
    int64_t started, fastest;
    _Atomic int stop, rc;
};

/* What the barrier of one worker needs to know. */
struct arrival {
    struct session *s;
    struct mo_together *team;
    int64_t *end; /* where the stamp goes; NULL: no profile */
};

static void arrive(void *ctx, int worker) {
    const struct arrival *a = ctx;
    if (a->end) *a->end = mo_now(a->s->env);
    mo_barrier_wait(&a->team->barrier, worker);
}

static int run_range(struct session *s, struct mo_together *team, int begin, int end, int worker,
                     int64_t *stamp) {
    struct arrival a = {.s = s, .team = team, .end = stamp};
    return mo_instance_run(s->instance, begin, end, worker, team->n, arrive, &a,
                           s->scratch + (size_t)worker * s->stride);
}

static int run_layers(struct session *s, struct mo_together *team, int worker, int sample) {
    const int n = s->plan->n_steps;
    int rc = MOIRE_OK;
    for (int k = 0; !rc && k < n; k++) {
        int64_t *begin = &s->begin[(size_t)worker * n + k], *end = &s->end[(size_t)worker * n + k];
        *begin = mo_now(s->env);
        *end = 0;
        rc = run_range(s, team, k, k + 1, worker, end);
        int64_t now = mo_now(s->env);
        if (!*end) *end = now; /* alone, or a layer that runs nothing */
        if (worker == 0 && sample >= 0)
            s->sample[(size_t)k * MO_TIMING_SAMPLES + sample % MO_TIMING_SAMPLES] = now - *begin;
        if (worker == 0 && sample >= 0 && (!s->timing->min_ns[k] || now - *begin < s->timing->min_ns[k]))
            s->timing->min_ns[k] = now - *begin;
    }
    return rc;
}

/* Worker 0, behind the last barrier of a repetition. */
static void keep_fastest(struct session *s, int64_t start, int64_t took) {
    if (s->fastest && took >= s->fastest) return;
    s->fastest = took;
    for (size_t i = 0; i < (size_t)s->plan->n_steps * (size_t)s->timing->threads; i++) {
        s->timing->begin_ns[i] = s->begin[i] > start ? s->begin[i] - start : 0;
        s->timing->end_ns[i] = s->end[i] > start ? s->end[i] - start : 0;
    }
}

static bool enough(const struct session *s, int done) {
    if (s->options->repeat) return done >= s->most;
    return done >= s->most || (done >= FEWEST && mo_now(s->env) - s->started > s->options->budget_ns);
}

static void run_all(void *ctx, struct mo_together *team, int worker) {
    struct session *s = ctx;
    int rc = MOIRE_OK;
    for (int i = s->options->repeat ? 0 : -1; !rc; i++) { /* -1: the one that does not count */
        if (worker == 0 && i == 0) s->started = mo_now(s->env);
        if (worker == 0 && i >= 0 && enough(s, i)) atomic_store(&s->stop, 1);
        if (team->n > 1) mo_barrier_wait(&team->barrier, worker);
        if (atomic_load(&s->stop)) break;
        int64_t start = mo_now(s->env);
        if (s->options->by_layer)
            rc = run_layers(s, team, worker, i);
        else
            rc = run_range(s, team, 0, s->plan->n_steps, worker, NULL);
        if (worker || rc || i < 0) continue;
        int64_t took = mo_now(s->env) - start;
        s->timing->run_ns[s->timing->n++] = took;
        if (s->options->by_layer) keep_fastest(s, start, took);
    }
    if (!worker) atomic_store(&s->rc, rc);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void settle(struct session *s) {
    struct mo_timing *t = s->timing;
    qsort(t->run_ns, (size_t)t->n, sizeof *t->run_ns, by_value);
    const int n = t->n < MO_TIMING_SAMPLES ? t->n : MO_TIMING_SAMPLES;
    for (int k = 0; t->median_ns && k < t->n_layers; k++) {
        int64_t *sample = s->sample + (size_t)k * MO_TIMING_SAMPLES;
        qsort(sample, (size_t)n, sizeof *sample, by_value);
        t->median_ns[k] = sample[n / 2];
    }
}

static bool allocate(struct session *s) {
    const struct mo_env *env = s->env;
    struct mo_timing *t = s->timing;
    const size_t layers = (size_t)t->n_layers + 1, threads = (size_t)t->threads;
    s->stride = ((size_t)s->plan->scratch_bytes + 127) / 64 * 64;
    s->scratch = mo_alloc_scratch(env, threads * s->stride);
    t->run_ns = mo_alloc(env, (size_t)s->most * sizeof *t->run_ns);
    if (!s->scratch || !t->run_ns) return false;
    if (!s->options->by_layer) return true;
    s->sample = mo_alloc(env, layers * MO_TIMING_SAMPLES * sizeof *s->sample);
    int64_t **const each[] = {&s->begin, &s->end, &t->begin_ns, &t->end_ns};
    bool ok = s->sample != NULL;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        ok = (*each[i] = mo_alloc(env, threads * layers * sizeof **each[i])) && ok;
    ok = (t->min_ns = mo_alloc(env, layers * sizeof *t->min_ns)) && ok;
    return (t->median_ns = mo_alloc(env, layers * sizeof *t->median_ns)) && ok;
}

int mo_timing_run(const struct mo_env *env, const struct mo_plan *plan, struct mo_instance *instance,
                  const struct mo_timing_options *options, struct mo_timing *out, moire_error *err) {
    *out = (struct mo_timing){.threads = options->threads, .n_layers = plan->n_steps};
    struct session s = {.env = env, .plan = plan, .instance = instance, .timing = out, .options = options};
    s.most = options->repeat ? options->repeat : MOST_TIMED;
    if (s.most > MAX_REPEAT) s.most = MAX_REPEAT;
    int rc = MOIRE_OK;
    if (!allocate(&s))
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory for the times of %d layers, %d threads", plan->n_steps,
                     options->threads);
    if (!rc) rc = mo_together(env, options->threads, run_all, &s, err);
    if (!rc && (rc = atomic_load(&s.rc))) {
        if (rc == MOIRE_EINVAL) rc = MOIRE_EFORMAT; /* values that an operator refuses */
        mo_fail(err, rc, "%s", mo_instance_message(instance));
    }
    if (!rc) settle(&s);
    void *const parts[] = {s.scratch, s.sample, s.begin, s.end};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mo_free(env, parts[i]);
    return rc;
}

void mo_timing_free(const struct mo_env *env, struct mo_timing *t) {
    void *const parts[] = {t->run_ns, t->min_ns, t->median_ns, t->begin_ns, t->end_ns};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mo_free(env, parts[i]);
    *t = (struct mo_timing){0};
}
