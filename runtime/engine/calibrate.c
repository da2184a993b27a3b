/* SPDX-License-Identifier: Apache-2.0
 * calibrate.c - layer times, on threads of their own; and the ceiling of memory, through exclusive jobs.
 *
 * A layer may take tens of milliseconds and nothing can cut it, so workers do not measure: others would wait
 * for them.  A team of threads does, one where each worker is; while other tenants serve it is in the
 * background, where the system takes its core away whenever a worker wakes up.  What a core did for others
 * does not count: processor time says how much that was. */
#include "runtime/engine/calibrate.h"

#include "runtime/device/barrier.h"
#include "runtime/device/work_claims.h"

enum {
    SPIN = 4000,
    COLD_REPETITIONS = 3,
    CACHE_LINE = 64,
    MOST_SWEEP = 256 << 20,
    WALK = 8 << 20,   /* bytes of a walk: what keeps neighbours waiting is short */
    WALK_PASSES = 4,  /* the first brings the pages in */
    SHARES_CACHE = 4, /* cores that share a cache of the last level, at least */
    LOOK_NS = 50000   /* in less nobody looks whether cores were taken away: looking costs a call for each */
};

struct job {
    const struct mo_env *env;
    const struct mo_model_ops *ops;
    void *model;
    int instance, n_layers;
    struct mo_team *team;
    int n; /* its members */
    void **scratch;
    struct mo_barrier barrier;
    struct mo_barrier_flag *flags;
    struct mo_claims claims;
    struct mo_claims_range *ranges;
    struct mo_claims_member *member;
    /* the pass that is under way */
    int cores;
    int64_t *layer_ns, since;
    int64_t looked, *cpu_ns; /* when we looked last, and the processor time of each member then */
    _Atomic int rc;
    /* the job that is under way */
    void (*run)(struct job *job, int worker);
    _Atomic int left;
    _Atomic uint32_t done;
    unsigned char *sweep;
    int64_t sweep_bytes;
};

/* --- jobs of the team ----------------------------------------------------------------------------------- */
static void take_part(void *ctx, int core, int worker, int n_workers) {
    struct job *job = ctx;
    const struct mo_sys *sys = job->env->sys;
    (void)core, (void)n_workers;
    job->run(job, worker);
    if (atomic_fetch_sub(&job->left, 1) != 1) return;
    atomic_store(&job->done, 1);
    sys->futex_wake(sys->self, &job->done, 1);
}

/* Runs it on the first members and waits for them. */
static void run_on(struct job *job, int cores, void (*run)(struct job *job, int worker)) {
    const struct mo_sys *sys = job->env->sys;
    job->run = run;
    job->left = cores;
    atomic_store(&job->done, 0);
    for (int i = 0; i < cores; i++)
        mo_team_post(job->team, i, &(struct mo_job){take_part, job, i, cores});
    while (!atomic_load(&job->done))
        sys->futex_wait(sys->self, &job->done, 0, 0);
}

/* --- a pass over the layers ----------------------------------------------------------------------------- */
/* Notes how much every member has computed so far.  Returns: the most that one has since the last look. */
static int64_t look(struct job *job) {
    int64_t most = 0;
    for (int i = 0; i < job->cores; i++) {
        const int64_t now = mo_team_core_cpu_ns(job->team, i), more = now - job->cpu_ns[i];
        job->cpu_ns[i] = now;
        if (more > most) most = more;
    }
    job->looked = mo_now(job->env);
    return most;
}

/* What the layer that ends now took: the time since its beginning, without that in which no member of the
 * team had its core. */
static int64_t took(struct job *job, int64_t now) {
    const int64_t wall = now - job->since, whole = now - job->looked;
    if (whole < LOOK_NS) return wall;
    const int64_t lost = whole - look(job);
    return lost <= 0 ? wall : lost < wall ? wall - lost : 1;
}

/* A layer takes until the next one begins; behind the last is one step more. */
static int measure_step(void *ctx, int step, int width, void *scratch) {
    struct job *job = ctx;
    if (step)
        job->layer_ns[step - 1] = took(job, mo_now(job->env));
    else
        look(job);
    job->since = mo_now(job->env);
    return step < job->n_layers ? job->ops->step(job->model, job->instance, step, width, scratch) : 0;
}

static void measure_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    const struct job *job = ctx;
    job->ops->pieces(job->model, job->instance, p->step, p->from, p->to, p->of, scratch);
}

static int measure_again(void *ctx, int step, int width) {
    const struct job *job = ctx;
    return job->ops->again ? job->ops->again(job->model, job->instance, step, width) : 0;
}

/* All are there before the first layer begins. */
static void measure(struct job *job, int worker) {
    static const struct mo_claims_calls calls = {measure_step, measure_pieces, measure_again};
    int code = MOIRE_OK;
    if (job->cores > 1) mo_barrier_wait(&job->barrier, worker);
    mo_claims_work(&job->claims, &job->member[worker], &calls, job, job->scratch[worker], &code);
    if (code) atomic_store(&job->rc, code);
}

static int measure_pass(struct job *job, int cores) {
    job->cores = cores;
    mo_barrier_begin(&job->barrier, cores);
    mo_claims_begin(&job->claims, job->n_layers + 1, cores);
    run_on(job, cores, measure);
    return atomic_load(&job->rc);
}

int mo_calibrate_next(int cores, int n) {
    return cores < n && cores * 2 > n ? n : cores * 2;
}

int64_t mo_calibrate_sweep(const struct mo_topology *t) {
    int64_t bytes = 2 * (t->l3_bytes > t->l2_bytes ? t->l3_bytes : t->l2_bytes);
    return bytes < MOST_SWEEP ? bytes : MOST_SWEEP;
}

/* Takes the model's lines out of the caches by writing others. */
static void sweep_caches(struct job *job, int worker) {
    volatile unsigned char *bytes = job->sweep;
    (void)worker;
    for (int64_t i = 0; i < job->sweep_bytes; i += CACHE_LINE)
        bytes[i]++;
}

/* The shortest of a few passes on one core with cold caches, less the shortest warm one. */
static int measure_cold(struct job *job, int64_t sweep, struct mo_profile *profile) {
    const int n_layers = job->n_layers;
    job->sweep = mo_alloc(job->env, (size_t)sweep);
    job->sweep_bytes = sweep;
    int64_t *least = mo_alloc(job->env, (size_t)n_layers * sizeof *least);
    int rc = job->sweep && least ? MOIRE_OK : MOIRE_ENOMEM;
    for (int r = 0; !rc && r < COLD_REPETITIONS; r++) {
        run_on(job, 1, sweep_caches);
        rc = measure_pass(job, 1);
        for (int k = 0; k < n_layers; k++)
            if (!r || job->layer_ns[k] < least[k]) least[k] = job->layer_ns[k];
    }
    for (int k = 0; !rc && k < n_layers; k++)
        least[k] -= mo_profile_time(profile, 1, k, k + 1);
    if (!rc) mo_profile_cold(profile, least);
    mo_free(job->env, least);
    mo_free(job->env, job->sweep);
    return rc;
}

/* Times at 1, 2, 4, ... and n cores, then cold ones. */
static int measure_all(struct job *job, int repetitions, int64_t sweep, struct mo_profile *profile) {
    const struct mo_model_ops *ops = job->ops;
    int rc = MOIRE_OK;
    for (int cores = 1; !rc && cores <= job->n; cores = mo_calibrate_next(cores, job->n)) {
        if (ops->select_versions) ops->select_versions(job->model, job->instance, 0, job->n_layers, 0, cores);
        for (int r = 0; !rc && r < repetitions; r++) {
            rc = measure_pass(job, cores);
            if (!rc) mo_profile_record(profile, cores, job->layer_ns);
        }
    }
    if (ops->select_versions) ops->select_versions(job->model, job->instance, 0, job->n_layers, 0, 1);
    if (!rc && sweep > 0) rc = measure_cold(job, sweep, profile);
    return rc;
}

/* --- the team ------------------------------------------------------------------------------------------- */
static int start_team(struct job *job, struct mo_device *device, int64_t scratch, moire_error *err) {
    const struct mo_env *env = job->env;
    const size_t n = (size_t)job->n;
    struct mo_team_config config = mo_engine_cores_team(device);
    config.n = job->n;
    config.spin_ns = 0;
    config.background = mo_device_serves(device);
    job->layer_ns = mo_alloc(env, (size_t)job->n_layers * sizeof *job->layer_ns);
    job->cpu_ns = mo_alloc(env, n * sizeof *job->cpu_ns);
    job->flags = mo_alloc(env, n * sizeof *job->flags);
    job->ranges = mo_alloc(env, n * sizeof *job->ranges);
    job->member = mo_alloc(env, n * sizeof *job->member);
    job->scratch = mo_alloc(env, n * sizeof *job->scratch);
    bool ok = job->layer_ns && job->cpu_ns && job->flags && job->ranges && job->member && job->scratch;
    for (int i = 0; ok && i < job->n; i++)
        ok = (job->scratch[i] = mo_alloc_scratch(env, (size_t)scratch)) != NULL;
    if (!ok) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    mo_barrier_init(&job->barrier, env, job->flags, SPIN);
    mo_claims_init(&job->claims, env, job->ranges, job->n, SPIN);
    for (int i = 0; i < job->n; i++)
        mo_claims_seat(&job->member[i], i);
    return mo_team_create(&config, &job->team, err);
}

static void stop_team(struct job *job) {
    mo_team_destroy(job->team);
    for (int i = 0; job->scratch && i < job->n; i++)
        mo_free(job->env, job->scratch[i]);
    void *const parts[] = {job->layer_ns, job->cpu_ns, job->flags, job->ranges, job->member, job->scratch};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mo_free(job->env, parts[i]);
}

int mo_calibrate(struct mo_device *device, const struct mo_env *env, const struct mo_model_ops *ops,
                 void *model, int instance, int n_layers, int64_t scratch, int repetitions, int most,
                 int64_t sweep, struct mo_profile **out, moire_error *err) {
    const int units = mo_device_units(device);
    struct job job = {.env = env,
                      .ops = ops,
                      .model = model,
                      .instance = instance,
                      .n_layers = n_layers,
                      .n = most < units ? most : units};
    struct mo_profile *profile = mo_profile_create(env, n_layers, job.n);
    int rc = profile ? start_team(&job, device, scratch, err)
                     : mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    if (!rc) {
        rc = measure_all(&job, repetitions, sweep, profile);
        if (rc) mo_fail(err, rc, "the calibration run failed");
    }
    stop_team(&job);
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
