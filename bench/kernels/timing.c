/* SPDX-License-Identifier: Apache-2.0
 * timing.c - runs a plan several times and keeps the times; see timing.h.
 *
 * A team gets one job for all repetitions, so that no start-up is in the times.  By layer, a layer takes from
 * the end of the one before to its own, whichever worker sees these; the rest of a worker's time beside its
 * own pieces is waiting.  Whoever begins a layer keeps the books, and nobody else does meanwhile. */
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
    int64_t since;        /* the layer that runs began then */
    int64_t begun, ended; /* the repetition */
    /* the block that nobody runs any more; a late worker may still be on its way into the one before */
    _Atomic int last;
    _Atomic int rc;
};

/* One worker in one repetition. */
struct walk {
    struct session *s;
    int worker, sample;
};

static void record(struct session *s, int layer, int sample, int64_t took) {
    int64_t *least = &s->timing->min_ns[layer];
    s->sample[(size_t)layer * MO_TIMING_SAMPLES + (size_t)sample % MO_TIMING_SAMPLES] = took;
    if (!*least || took < *least) *least = took;
}

/* The first layer begins a repetition, and the step behind the last one ends it.  True: it is that. */
static bool is_end(struct session *s, int layer, int64_t now) {
    if (layer == 0) s->begun = now;
    if (layer < s->plan->n_steps) return false;
    s->ended = now;
    return true;
}

static int begin_step(void *ctx, int layer, int width, void *scratch) {
    const struct walk *w = ctx;
    struct session *s = w->s;
    const bool edge = layer == 0 || layer == s->plan->n_steps;
    if (edge && is_end(s, layer, mo_now(s->env))) return 0;
    return mo_instance_step(s->instance, layer, width, scratch);
}

static void run_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    const struct walk *w = ctx;
    mo_instance_pieces(w->s->instance, p->step, p->from, p->to, p->of, scratch);
}

static int run_again(void *ctx, int layer, int width) {
    const struct walk *w = ctx;
    return mo_instance_again(w->s->instance, layer, width);
}

/* The same layer by layer: a layer takes until the next one begins. */
static int begin_layer(void *ctx, int layer, int width, void *scratch) {
    const struct walk *w = ctx;
    struct session *s = w->s;
    const size_t n = (size_t)s->plan->n_steps, own = (size_t)w->worker * n + (size_t)layer;
    const int64_t now = mo_now(s->env);
    if (layer && w->sample >= 0) record(s, layer - 1, w->sample, now - s->since);
    s->since = now;
    if (is_end(s, layer, now)) return 0;
    for (size_t i = 0; i < (size_t)s->timing->threads; i++)
        s->begin[i * n + (size_t)layer] = s->end[i * n + (size_t)layer] = 0;
    int pieces = mo_instance_step(s->instance, layer, width, scratch);
    if (pieces) return pieces;
    s->begin[own] = now;
    s->end[own] = mo_now(s->env);
    return 0;
}

static void time_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    const struct walk *w = ctx;
    struct session *s = w->s;
    const size_t at = (size_t)w->worker * (size_t)s->plan->n_steps + (size_t)p->step;
    if (!s->begin[at]) s->begin[at] = mo_now(s->env);
    run_pieces(ctx, p, scratch);
    s->end[at] = mo_now(s->env);
}

/* Worker 0, when a repetition is over. */
static void keep_fastest(struct session *s) {
    const int64_t start = s->begun, took = s->ended - start;
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
    static const struct mo_claims_calls whole = {begin_step, run_pieces, run_again},
                                        by_layer = {begin_layer, time_pieces, run_again};
    struct session *s = ctx;
    struct walk walk = {s, worker, s->options->repeat ? 0 : -1}; /* -1: the one that does not count */
    int rc = MOIRE_OK;
    for (int block = 0; !rc; block++, walk.sample++) {
        const int i = walk.sample;
        if (worker == 0 && i == 0) s->started = mo_now(s->env);
        if (worker == 0 && i >= 0 && enough(s, i)) atomic_store(&s->last, block);
        struct mo_claims *claims = mo_together_begin(team, worker, s->plan->n_steps + 1, block);
        if (atomic_load(&s->last) == block) break;
        mo_claims_work(claims, &team->member[worker], s->options->by_layer ? &by_layer : &whole, &walk,
                       s->scratch + (size_t)worker * s->stride, &rc);
        if (worker || rc || i < 0) continue;
        s->timing->run_ns[s->timing->n++] = s->ended - s->begun;
        if (s->options->by_layer) keep_fastest(s);
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
    struct session s = {
        .env = env, .plan = plan, .instance = instance, .timing = out, .options = options, .last = -1};
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
