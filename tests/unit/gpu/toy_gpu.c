/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/gpu/toy_gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE = 2, MAX_RUNS = 64, INSTANCES = 32, BATCH = 64 };

struct mo_gpu_let {
    struct mo_gpu_system *system;
    int gpu, first, units, queued;
    int64_t idle_at; /* when the last run that it has taken ends */
    bool closed;
};

struct mo_gpu_loaded {
    struct mo_gpu_system *system;
    int batch, segments, instances, gpu;
    int busy[INSTANCES];                      /* runs that use them, */
    const struct mo_gpu_let *user[INSTANCES]; /* all on this let */
    int next[INSTANCES];                      /* segment that an instance is at */
    float x[INSTANCES][BATCH];
};

struct pending {
    struct mo_gpu_run run;
    int64_t submitted, start, end;
    int code;
};

struct mo_gpu_system {
    const struct mo_env *env;
    pthread_mutex_t lock;
    pthread_cond_t doorbell;
    pthread_t thread;
    bool stop, lost[MO_GPU_MAX];
    int n_gpus, units, n;
    struct pending pending[MAX_RUNS];
    int64_t free_at[MO_GPU_MAX][MO_GPU_UNITS];
    double stretch;
    struct toy_gpu_faults faults;
    struct toy_gpu_counts counts;
};

static void breaks(struct mo_gpu_system *s, bool is) {
    s->counts.broken += is;
}

/* Counts down to the call that fails; the lock is held. */
static bool fails(int *countdown) {
    return *countdown > 0 && --*countdown == 0;
}

static int let_open(struct mo_gpu_system *s, int gpu, int first, int units, int priority,
                    struct mo_gpu_let **out, moire_error *err) {
    pthread_mutex_lock(&s->lock);
    bool bad = fails(&s->faults.open_let);
    breaks(s, gpu < 0 || gpu >= s->n_gpus || first < 0 || units < 1 || first + units > s->units ||
                  priority < 0 || priority >= MO_GPU_PRIORITIES);
    if (!bad) {
        s->counts.lets++;
        s->counts.opened++;
    }
    pthread_mutex_unlock(&s->lock);
    if (bad) return mo_fail(err, s->faults.code, "toy: let_open fails");
    *out = calloc(1, sizeof **out);
    **out = (struct mo_gpu_let){.system = s, .gpu = gpu, .first = first, .units = units};
    return MOIRE_OK;
}

static void let_close(struct mo_gpu_let *let) {
    if (!let) return;
    struct mo_gpu_system *s = let->system;
    pthread_mutex_lock(&s->lock);
    s->counts.lets--;
    let->closed = true;
    bool gone = !let->queued;
    pthread_mutex_unlock(&s->lock);
    if (gone) free(let);
}

static int program_load(struct mo_gpu_system *s, int gpu, const struct mo_gpu_program *program, int instances,
                        struct mo_gpu_loaded **out, moire_error *err) {
    pthread_mutex_lock(&s->lock);
    bool bad = fails(&s->faults.load);
    breaks(s, program->batch > BATCH || instances > INSTANCES);
    s->counts.programs += !bad;
    pthread_mutex_unlock(&s->lock);
    if (bad) return mo_fail(err, s->faults.code, "toy: program_load fails");
    *out = calloc(1, sizeof **out);
    (*out)->system = s;
    (*out)->gpu = gpu;
    (*out)->batch = (int)program->batch;
    (*out)->segments = program->n_segments;
    (*out)->instances = instances;
    return MOIRE_OK;
}

static void program_unload(struct mo_gpu_loaded *p) {
    if (!p) return;
    pthread_mutex_lock(&p->system->lock);
    p->system->counts.programs--;
    for (int i = 0; i < p->instances; i++)
        breaks(p->system, p->busy[i] > 0);
    pthread_mutex_unlock(&p->system->lock);
    free(p);
}

static int prepare(struct mo_gpu_loaded *p, struct mo_gpu_let *let, moire_error *err) {
    struct mo_gpu_system *s = let->system;
    pthread_mutex_lock(&s->lock);
    bool bad = fails(&s->faults.prepare);
    breaks(s, let->gpu != p->gpu);
    pthread_mutex_unlock(&s->lock);
    return bad ? mo_fail(err, s->faults.code, "toy: prepare fails") : MOIRE_OK;
}

static void compute(const struct mo_gpu_run *r) {
    struct mo_gpu_loaded *p = r->program;
    float *x = p->x[r->instance];
    for (int q = 0; q < r->batch; q++) {
        if (r->begin == 0) x[q] = *(const float *)r->inputs[q];
        for (int s = r->begin; s < r->end; s++)
            x[q] = 2 * x[q] + (float)(s + 1);
        if (r->end == p->segments) *(float *)r->outputs[q] = x[q];
    }
}

static int run(const struct mo_gpu_run *r, moire_error *err) {
    struct mo_gpu_let *let = r->let;
    struct mo_gpu_system *s = let->system;
    struct mo_gpu_loaded *p = r->program;
    pthread_mutex_lock(&s->lock);
    int code = fails(&s->faults.run) ? s->faults.code : s->lost[let->gpu] ? MOIRE_EDEVICE : MOIRE_OK;
    breaks(s, let->closed || let->gpu != p->gpu || r->batch < 1 || r->batch > p->batch || r->instance < 0 ||
                  r->instance >= p->instances || (p->busy[r->instance] && p->user[r->instance] != let) ||
                  (p->busy[r->instance] && r->begin) || r->begin < 0 || r->end <= r->begin ||
                  r->end > p->segments || (r->begin && p->next[r->instance] != r->begin) ||
                  let->queued >= QUEUE || s->n == MAX_RUNS || r->hang_ns <= 0);
    if (!code) {
        struct pending *q = &s->pending[s->n++];
        int64_t now = mo_now(s->env);
        bool dies = fails(&s->faults.work);
        *q = (struct pending){.run = *r, .submitted = now, .start = let->queued ? let->idle_at : now};
        if (q->start < now) q->start = now; /* the run before it has ended and is about to be reported */
        for (int u = let->first; u < let->first + let->units; u++)
            if (!let->queued && s->free_at[let->gpu][u] > q->start)
                breaks(s, true); /* two runs on one unit */
        q->end =
            q->start + (dies && s->faults.hangs ? r->hang_ns
                                                : (int64_t)((20e3 + 10e3 * r->batch) / let->units *
                                                            s->stretch * (r->end - r->begin) / p->segments));
        q->code = dies ? s->faults.code : MOIRE_OK;
        for (int u = let->first; u < let->first + let->units; u++)
            s->free_at[let->gpu][u] = INT64_MAX;
        p->busy[r->instance]++;
        p->user[r->instance] = let;
        let->idle_at = q->end;
        s->counts.queued += let->queued > 0;
        let->queued++;
        s->counts.runs++;
        pthread_cond_signal(&s->doorbell);
    }
    pthread_mutex_unlock(&s->lock);
    return code ? mo_fail(err, code, "toy: run fails") : MOIRE_OK;
}

/* Ends a run; the lock is held, and let go for the report. */
static void end_run(struct mo_gpu_system *s, int at) {
    struct pending q = s->pending[at];
    struct mo_gpu_let *let = q.run.let;
    s->pending[at] = s->pending[--s->n];
    if (!q.code && s->lost[let->gpu]) q.code = MOIRE_EDEVICE;
    if (q.code == MOIRE_EDEVICE) s->lost[let->gpu] = true;
    if (!q.code) compute(&q.run);
    q.run.program->next[q.run.instance] = q.run.end;
    q.run.program->busy[q.run.instance]--;
    let->queued--;
    for (int u = let->first; !let->queued && u < let->first + let->units; u++)
        s->free_at[let->gpu][u] = 0;
    bool gone = let->closed && !let->queued;
    pthread_mutex_unlock(&s->lock);
    struct mo_gpu_times times = {q.submitted, q.start, q.end, 0, q.end - q.start, 0};
    q.run.done(q.run.ctx, q.code, q.code ? "toy: work fails" : "", &times);
    if (gone) free(let);
    pthread_mutex_lock(&s->lock);
}

/* Runs of one let end in the order in which they were taken. */
static bool sooner(const struct pending *a, const struct pending *b) {
    return a->end != b->end ? a->end < b->end : a->submitted < b->submitted;
}

static void *work(void *arg) {
    struct mo_gpu_system *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop || s->n) {
        int first = -1;
        for (int i = 0; i < s->n; i++)
            if (first < 0 || sooner(&s->pending[i], &s->pending[first])) first = i;
        if (first < 0) {
            pthread_cond_wait(&s->doorbell, &s->lock);
        } else if (s->pending[first].end <= mo_now(s->env)) {
            end_run(s, first);
        } else {
            pthread_mutex_unlock(&s->lock);
            s->env->sys->sleep_until(s->env->sys->self, mo_now(s->env) + 20000);
            pthread_mutex_lock(&s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int staging_alloc(struct mo_gpu_system *s, size_t bytes, void **out, moire_error *err) {
    (void)err;
    pthread_mutex_lock(&s->lock);
    s->counts.staging++;
    pthread_mutex_unlock(&s->lock);
    *out = calloc(1, bytes);
    return MOIRE_OK;
}

static void staging_free(struct mo_gpu_system *s, void *at) {
    pthread_mutex_lock(&s->lock);
    s->counts.staging -= at != NULL;
    pthread_mutex_unlock(&s->lock);
    free(at);
}

static int64_t program_bytes(const struct mo_gpu_loaded *p) {
    return (int64_t)sizeof *p;
}

static int count(const struct mo_gpu_system *s) {
    return s->n_gpus;
}

static int describe(struct mo_gpu_system *s, int gpu, struct mo_gpu_info *out, moire_error *err) {
    (void)gpu, (void)err;
    *out = (struct mo_gpu_info){.name = "toy",
                                .sms = 8 * s->units,
                                .units = s->units,
                                .unit_sms = 8,
                                .memory_total = INT64_C(1) << 34,
                                .memory_free = INT64_C(1) << 34,
                                .l2_bytes = TOY_L2};
    return MOIRE_OK;
}

static int counters(struct mo_gpu_system *s, int gpu, struct mo_gpu_counters *out, moire_error *err) {
    pthread_mutex_lock(&s->lock);
    bool lost = s->lost[gpu];
    pthread_mutex_unlock(&s->lock);
    if (lost) return mo_fail(err, MOIRE_EDEVICE, "toy: lost");
    return out ? mo_fail(err, MOIRE_EUNSUPPORTED, "the plugin has no counters") : MOIRE_OK;
}

static struct mo_gpu_system *make(const struct mo_env *env, int n_gpus, int units) {
    struct mo_gpu_system *s = calloc(1, sizeof *s);
    s->env = env;
    s->n_gpus = n_gpus;
    s->units = units;
    s->stretch = 1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->doorbell, NULL);
    pthread_create(&s->thread, NULL, work, s);
    return s;
}

static int open_system(const struct mo_gpu_config *config, struct mo_gpu_system **out, moire_error *err) {
    (void)err;
    *out = make(config->env, TOY_GPUS, TOY_UNITS);
    return MOIRE_OK;
}

static void close_system(struct mo_gpu_system *s) {
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->doorbell);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->doorbell);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const struct mo_gpu_ops table = {.abi = MO_GPU_ABI,
                                        .env_bytes = sizeof(struct mo_env) + sizeof(struct mo_sys),
                                        .name = "toy",
                                        .open = open_system,
                                        .close = close_system,
                                        .count = count,
                                        .describe = describe,
                                        .counters = counters,
                                        .let_open = let_open,
                                        .let_close = let_close,
                                        .program_load = program_load,
                                        .program_unload = program_unload,
                                        .program_bytes = program_bytes,
                                        .prepare = prepare,
                                        .run = run,
                                        .staging_alloc = staging_alloc,
                                        .staging_free = staging_free};

const struct mo_gpu_ops *toy_gpu_ops(void) {
    return &table;
}

void toy_gpu_open(struct toy_gpu *toy, const struct mo_env *env, int n_gpus, int units) {
    *toy = (struct toy_gpu){&table, make(env, n_gpus, units)};
}

void toy_gpu_close(struct toy_gpu *toy) {
    close_system(toy->system);
}

void toy_gpu_fail(struct toy_gpu *toy, const struct toy_gpu_faults *faults) {
    pthread_mutex_lock(&toy->system->lock);
    toy->system->faults = *faults;
    pthread_mutex_unlock(&toy->system->lock);
}

void toy_gpu_stretch(struct toy_gpu *toy, double factor) {
    pthread_mutex_lock(&toy->system->lock);
    toy->system->stretch = factor;
    pthread_mutex_unlock(&toy->system->lock);
}

void toy_gpu_revive(struct toy_gpu *toy) {
    pthread_mutex_lock(&toy->system->lock);
    memset(toy->system->lost, 0, sizeof toy->system->lost);
    pthread_mutex_unlock(&toy->system->lock);
}

struct toy_gpu_counts toy_gpu_counts(struct toy_gpu *toy) {
    pthread_mutex_lock(&toy->system->lock);
    struct toy_gpu_counts counts = toy->system->counts;
    pthread_mutex_unlock(&toy->system->lock);
    return counts;
}

struct mo_gpu_program toy_gpu_program(int batch, int segments) {
    return (struct mo_gpu_program){.batch = batch, .n_inputs = 1, .n_outputs = 1, .n_segments = segments};
}

float toy_gpu_answer(float x, int segments) {
    for (int s = 0; s < segments; s++)
        x = 2 * x + (float)(s + 1);
    return x;
}
