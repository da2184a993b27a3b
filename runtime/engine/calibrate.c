/* SPDX-License-Identifier: Apache-2.0
 * calibrate.c - layer times, and the ceiling of memory, through exclusive jobs. */
#include "runtime/engine/calibrate.h"

#include "runtime/device/barrier.h"
#include "runtime/device/work_claims.h"

enum {
    FIRST_CHUNK = 8,
    HOLD_NS = 2000000,
    SPIN = 4000,
    COLD_REPETITIONS = 3,
    CACHE_LINE = 64,
    MOST_SWEEP = 256 << 20,
    WALK = 8 << 20,   /* bytes of a walk: what keeps neighbours waiting is short */
    WALK_PASSES = 4,  /* the first brings the pages in */
    SHARES_CACHE = 4, /* cores that share a cache of the last level, at least */
};

struct job {
    struct mo_device *device;
    const struct mo_env *env;
    const struct mo_model_ops *ops;
    void *model;
    int instance, begin, end;
    struct mo_barrier barrier;
    struct mo_claims claims;
    struct mo_claims_member *member;
    int64_t *layer_ns, since;
    _Atomic int rc;
};

struct sweep {
    volatile unsigned char *bytes;
    int64_t n;
};

/* A layer takes until the next one begins; behind the last is one step more. */
static int measure_step(void *ctx, int step, int width, void *scratch) {
    struct job *job = ctx;
    int64_t now = mo_now(job->env);
    int layer = job->begin + step;
    if (step) job->layer_ns[layer - 1] = now - job->since;
    job->since = now;
    return layer < job->end ? job->ops->step(job->model, job->instance, layer, width, scratch) : 0;
}

static void measure_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    const struct job *job = ctx;
    job->ops->pieces(job->model, job->instance, job->begin + p->step, p->from, p->to, p->of, scratch);
}

/* All are there before the first layer begins. */
static void measure(void *ctx, int core, int worker, int n_workers) {
    static const struct mo_claims_calls calls = {measure_step, measure_pieces};
    struct job *job = ctx;
    int code = MOIRE_OK;
    if (n_workers > 1) mo_barrier_wait(&job->barrier, worker);
    mo_claims_work(&job->claims, &job->member[worker], &calls, job,
                   mo_engine_cores_scratch_of(job->device, core), &code);
    if (code) atomic_store(&job->rc, code);
}

/* End of the next chunk: what took HOLD_NS the last time, or a few layers when nothing is known. */
static int chunk_end(const int64_t *known, int begin, int n) {
    int64_t sum = 0;
    if (!known) return begin + FIRST_CHUNK < n ? begin + FIRST_CHUNK : n;
    int k = begin;
    while (k < n && (k == begin || sum + known[k] <= HOLD_NS))
        sum += known[k++];
    return k;
}

static int measure_pass(struct job *job, int cores, int n_layers, const int64_t *known) {
    for (int k = 0; k < n_layers; k = job->end) {
        job->begin = k;
        job->end = chunk_end(known, k, n_layers);
        mo_barrier_begin(&job->barrier, cores);
        mo_claims_begin(&job->claims, job->end - job->begin + 1, cores);
        mo_engine_cores_exclusive(job->device, cores, measure, job);
        int rc = atomic_load(&job->rc);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

int mo_calibrate_next(int cores, int n) {
    return cores < n && cores * 2 > n ? n : cores * 2;
}

int64_t mo_calibrate_sweep(const struct mo_topology *t) {
    int64_t bytes = 2 * (t->l3_bytes > t->l2_bytes ? t->l3_bytes : t->l2_bytes);
    return bytes < MOST_SWEEP ? bytes : MOST_SWEEP;
}

/* Takes the model's lines out of the caches by writing others. */
static void sweep_caches(void *ctx, int core, int worker, int n_workers) {
    const struct sweep *s = ctx;
    (void)core, (void)worker, (void)n_workers;
    for (int64_t i = 0; i < s->n; i += CACHE_LINE)
        s->bytes[i]++;
}

/* The shortest of a few passes on one core with cold caches, less the shortest warm one. */
static int measure_cold(struct job *job, int n_layers, int64_t sweep, struct mo_profile *profile) {
    unsigned char *bytes = mo_alloc(job->env, (size_t)sweep);
    struct sweep s = {bytes, sweep};
    int64_t *least = mo_alloc(job->env, (size_t)n_layers * sizeof *least);
    int rc = bytes && least ? MOIRE_OK : MOIRE_ENOMEM;
    for (int r = 0; !rc && r < COLD_REPETITIONS; r++) {
        mo_engine_cores_exclusive(job->device, 1, sweep_caches, &s);
        rc = measure_pass(job, 1, n_layers, job->layer_ns);
        for (int k = 0; k < n_layers; k++)
            if (!r || job->layer_ns[k] < least[k]) least[k] = job->layer_ns[k];
    }
    for (int k = 0; !rc && k < n_layers; k++)
        least[k] -= mo_profile_time(profile, 1, k, k + 1);
    if (!rc) mo_profile_cold(profile, least);
    mo_free(job->env, least);
    mo_free(job->env, bytes);
    return rc;
}

/* Times at 1, 2, 4, ... and n cores, then cold ones. */
static int measure_all(struct job *job, int n, int n_layers, int repetitions, int64_t sweep,
                       struct mo_profile *profile) {
    const struct mo_model_ops *ops = job->ops;
    int rc = MOIRE_OK;
    bool known = false;
    for (int cores = 1; !rc && cores <= n; cores = mo_calibrate_next(cores, n)) {
        if (ops->select_versions) ops->select_versions(job->model, job->instance, 0, n_layers, 0, cores);
        for (int r = 0; !rc && r < repetitions; r++, known = true) {
            rc = measure_pass(job, cores, n_layers, known ? job->layer_ns : NULL);
            if (!rc) mo_profile_record(profile, cores, job->layer_ns);
        }
    }
    if (ops->select_versions) ops->select_versions(job->model, job->instance, 0, n_layers, 0, 1);
    if (!rc && sweep > 0) rc = measure_cold(job, n_layers, sweep, profile);
    return rc;
}

int mo_calibrate(struct mo_device *device, const struct mo_env *env, const struct mo_model_ops *ops,
                 void *model, int instance, int n_layers, int repetitions, int most, int64_t sweep,
                 struct mo_profile **out, moire_error *err) {
    int n = mo_device_units(device), rc = MOIRE_OK;
    if (most < n) n = most;
    const size_t workers = (size_t)n;
    struct mo_profile *profile = mo_profile_create(env, n_layers, n);
    struct mo_barrier_flag *flags = mo_alloc(env, workers * sizeof *flags);
    struct mo_claims_range *ranges = mo_alloc(env, workers * sizeof *ranges);
    struct job job = {.device = device, .env = env, .ops = ops, .model = model, .instance = instance};
    job.layer_ns = mo_alloc(env, (size_t)n_layers * sizeof *job.layer_ns);
    job.member = mo_alloc(env, workers * sizeof *job.member);
    if (!profile || !flags || !ranges || !job.layer_ns || !job.member) {
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    } else {
        mo_barrier_init(&job.barrier, env, flags, SPIN);
        mo_claims_init(&job.claims, env, ranges, n, SPIN);
        for (int i = 0; i < n; i++)
            mo_claims_seat(&job.member[i], i);
        rc = measure_all(&job, n, n_layers, repetitions, sweep, profile);
        if (rc) mo_fail(err, rc, "the calibration run failed");
    }
    void *const parts[] = {flags, ranges, job.layer_ns, job.member};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mo_free(env, parts[i]);
    if (rc) {
        mo_profile_destroy(profile);
        return rc;
    }
    mo_profile_finish(profile);
    *out = profile;
    return MOIRE_OK;
}

/* A piece of the walk over memory. */
struct walk {
    const struct mo_env *env;
    struct mo_barrier barrier;
    volatile unsigned char *bytes;
    int64_t n, ns;
};

static void walk(void *ctx, int core, int worker, int n_workers) {
    struct walk *w = ctx;
    (void)core;
    if (n_workers > 1) mo_barrier_wait(&w->barrier, worker);
    int64_t start = worker ? 0 : mo_now(w->env), end = w->n * (worker + 1) / n_workers;
    for (int64_t i = w->n * worker / n_workers; i < end; i += CACHE_LINE)
        w->bytes[i]++;
    if (n_workers > 1) mo_barrier_wait(&w->barrier, worker);
    if (!worker) w->ns += mo_now(w->env) - start;
}

double mo_calibrate_memory(struct mo_device *device, const struct mo_env *env, int64_t sweep) {
    int n = mo_device_units(device);
    int64_t bytes = sweep * (n > SHARES_CACHE ? (n + SHARES_CACHE - 1) / SHARES_CACHE : 1), least = 0;
    if (bytes > MOST_SWEEP) bytes = MOST_SWEEP;
    bytes -= bytes % WALK;
    unsigned char *all = bytes > 0 ? mo_alloc(env, (size_t)bytes) : NULL;
    struct mo_barrier_flag *flags = mo_alloc(env, (size_t)n * sizeof *flags);
    struct walk w = {.env = env, .n = WALK};
    if (flags) mo_barrier_init(&w.barrier, env, flags, SPIN);
    for (int pass = 0; all && flags && pass < WALK_PASSES; pass++) {
        w.ns = 0;
        for (int64_t at = 0; at < bytes; at += WALK) {
            w.bytes = all + at;
            mo_barrier_begin(&w.barrier, n);
            mo_engine_cores_exclusive(device, n, walk, &w);
        }
        if (pass && (!least || w.ns < least)) least = w.ns;
    }
    mo_free(env, all);
    mo_free(env, flags);
    return least > 0 ? 2.0 * (double)bytes / (double)least : 0;
}
