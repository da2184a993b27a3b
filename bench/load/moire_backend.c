/* SPDX-License-Identifier: Apache-2.0
 * moire_backend.c - moire under load, through its public interface; see moire_backend.h.
 *
 * Inputs are prepared once a tenant; moire_submit() copies them, and that copy is part of what is measured.
 *
 * A tenant of the job is one of the runtime; an application is one a stage, and its queries go their way by
 * the flow that the simulator has (flow.h): a stage is submitted by the callback that made it ready. */
#define _GNU_SOURCE
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "bench/load/flow.h"
#include "bench/load/moire_backend.h"
#include "bench/load/moire_report.h"
#include "codegen/frontend.h"
#include "runtime/ops/trial.h"

enum { EVENTS = 1 << 16, RECORD_EVENTS = 1 << 19 };

/* A tenant of the runtime. */
struct target {
    moire_tenant *tenant;
    int64_t qos_ns;
    moire_tensor inputs[MO_BENCH_MAX_INPUTS];
    int n_inputs;
};

/* One accepted query on its way to its callback. */
struct request {
    struct self *self;
    struct mo_bench_drive *drive;
    int index;
    struct mo_bench_flow_part *part; /* of an application; NULL = of a tenant with one model */
    moire_query query;
};

struct self {
    const struct mo_env *env;
    moire_runtime *runtime;
    struct target *targets;
    int n_targets, n_tenants;
    struct mo_bench_flow_app apps[MO_BENCH_MAX_TENANTS]; /* by tenant of the job; `first` is set for all */
    int most;                     /* queries of the runtime that one of the job's makes */
    struct mo_bench_flow *flow;   /* of this run; NULL = there are no applications */
    struct mo_bench_drive *drive; /* of this run, once a query has been issued */
    bool trace;
    const char *record; /* the job's */
    int64_t since;
    struct mo_run_look look[2]; /* at the begin and the end of this run */
    struct request *requests;   /* grown between runs only */
    int n_requests;
    atomic_int issued;
    sem_t solo_done;
    moire_error solo;
};

static void log_line(void *user, int level, const char *line) {
    (void)user;
    if (level <= MOIRE_LOG_WARN) fprintf(stderr, "moire: %s\n", line);
}

/* --- loading ------------------------------------------------------------------------------------------ */
static size_t width(moire_dtype dtype) {
    switch (dtype) {
    case MOIRE_F64:
    case MOIRE_I64:
    case MOIRE_U64:
        return 8;
    case MOIRE_F32:
    case MOIRE_I32:
    case MOIRE_U32:
        return 4;
    case MOIRE_F16:
    case MOIRE_BF16:
    case MOIRE_I16:
    case MOIRE_U16:
        return 2;
    default:
        return 1;
    }
}

static void fill(const moire_tenant *tenant, int input, moire_tensor *t, size_t n) {
    const struct mo_graph *g = mo_tenant_parts(tenant).ports;
    mo_trial_fill(g, input, t->data);
    for (size_t i = 0; t->dtype == MOIRE_F32 && i < n; i++)
        ((float *)t->data)[i] = (float)(i * 2654435761u % 1000) * 1e-3f;
    mo_trial_repair(g, input, t->data);
}

static int make_input(struct self *self, struct target *target, int i, const char *model, moire_error *err) {
    moire_port port;
    int code = moire_input(target->tenant, i, &port);
    if (code) return mo_fail(err, code, "%s: input %d", model, i);
    moire_tensor *t = &target->inputs[i];
    *t = (moire_tensor){.dtype = port.dtype, .rank = port.rank};
    size_t n = 1;
    for (int k = 0; k < port.rank; k++) {
        t->shape[k] = port.shape[k];
        if (port.shape[k] < 1 || __builtin_mul_overflow(n, (size_t)port.shape[k], &n))
            return mo_fail(err, MOIRE_ESHAPE, "%s: input '%s' needs a shape (--shape %s=...)", model,
                           port.name, port.name);
    }
    t->bytes = n * width(port.dtype);
    t->data = mo_alloc(self->env, t->bytes + 64);
    if (!t->data) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", model);
    fill(target->tenant, i, t, n);
    return MOIRE_OK;
}

/* Loads one model for tenant `of` of the job; each query of the tenant runs it `count` times. */
static int load_target(struct self *self, const struct mo_bench_job *job, const struct mo_bench_tenant *of,
                       const struct mo_bench_tenant *want, const char *name, int64_t qos_ns, int count,
                       moire_error *err) {
    struct target *target = &self->targets[self->n_targets];
    moire_tenant_config config;
    moire_tenant_config_init(&config);
    config.name = name;
    config.qos_ns = target->qos_ns = qos_ns;
    config.cls = of->cls;
    config.priority = of->priority;
    config.shed_late = of->shed_late;
    config.cores = of->cores;
    config.weight = of->share;
    config.shapes = want->shapes;
    config.n_shapes = want->n_shapes;
    config.exact = job->exact;
    if (!job->device) config.precision = mo_precision_of(job->precision);
    config.device_only = job->device != NULL;
    config.rate = count * of->declared;
    int code = moire_load(self->runtime, want->model, &config, &target->tenant, err);
    if (code) return code;
    self->n_targets++;
    int n = moire_n_inputs(target->tenant);
    if (n > MO_BENCH_MAX_INPUTS)
        return mo_fail(err, MOIRE_ELIMIT, "%s: more than %d inputs", want->model, MO_BENCH_MAX_INPUTS);
    for (int k = 0; !code && k < n; k++)
        code = make_input(self, target, k, want->model, err);
    target->n_inputs = n;
    return code;
}

static int load_tenant(struct self *self, const struct mo_bench_job *job, int i, moire_error *err) {
    const struct mo_bench_tenant *t = &job->tenants[i];
    const struct mo_bench_application *app = t->app;
    int code = MOIRE_OK, queries = 0;
    self->apps[i] = (struct mo_bench_flow_app){.first = self->n_targets, .target_ns = job->qos_ns[i]};
    if (!app) return load_target(self, job, t, t, t->name, job->qos_ns[i], 1, err);
    self->apps[i].dag = &app->dag;
    self->apps[i].split = app->split_ns;
    for (int k = 0; k < app->dag.n && !code; k++) {
        char name[256];
        snprintf(name, sizeof name, "%.120s/%.120s", t->name, app->dag.stage[k].name);
        code = load_target(self, job, t, &app->stage[k], name, app->split_ns[app->dag.level[k]],
                           app->dag.stage[k].count, err);
        queries += app->dag.stage[k].count;
    }
    if (queries > self->most) self->most = queries;
    return code;
}

static int load_tenants(struct self *self, const struct mo_bench_job *job, moire_error *err) {
    int n = 0, code = MOIRE_OK;
    for (int i = 0; i < job->n_tenants; i++)
        n += job->tenants[i].app ? job->tenants[i].app->dag.n : 1;
    self->targets = mo_alloc(self->env, (size_t)n * sizeof *self->targets);
    if (!self->targets) return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d models", n);
    self->most = 1;
    for (int i = 0; !code && i < job->n_tenants; i++)
        code = load_tenant(self, job, i, err);
    self->n_tenants = job->n_tenants;
    return code;
}

static void backend_close(void *opaque) {
    struct self *self = opaque;
    if (self->runtime) moire_runtime_destroy(self->runtime, 0);
    for (int i = 0; i < self->n_targets; i++)
        for (int k = 0; k < self->targets[i].n_inputs; k++)
            mo_free(self->env, self->targets[i].inputs[k].data);
    sem_destroy(&self->solo_done);
    mo_bench_flow_destroy(self->flow);
    mo_free(self->env, self->targets);
    mo_free(self->env, self->requests);
    mo_free(self->env, self);
}

static int backend_open(const struct mo_env *env, const struct mo_bench_job *job, void **out,
                        moire_error *err) {
    struct self *self = mo_alloc(env, sizeof *self);
    if (!self) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    self->env = env;
    self->trace = job->trace;
    self->record = job->record;
    sem_init(&self->solo_done, 0, 0);
    moire_config config;
    moire_config_init(&config);
    config.threads = (int)job->threads;
    const struct mo_policy *policy = mo_policy_find(job->arrangement);
    if (policy && policy->gpus)
        config.device_policy = job->arrangement;
    else
        config.policy = job->arrangement;
    config.device = job->device;
    config.device_process = job->device_process;
    config.device_libraries = job->device_libraries;
    config.device_cache = job->device_cache;
    config.device_profiles = job->device_profiles;
    config.device_weights = job->device_weights;
    if (job->device) config.device_precision = job->precision;
    config.store = job->store;
    config.generic_only = job->generic;
    config.log = log_line;
    config.record = job->record ? RECORD_EVENTS : 0;
    config.objective = job->objective;
    config.pressure = job->pressure;
    config.proxy = job->proxy;
    int code = mo_runtime_create(&config, NULL, job->trace ? EVENTS : 0, &self->runtime, err);
    if (!code) code = load_tenants(self, job, err);
    if (code)
        backend_close(self);
    else
        *out = self;
    return code;
}

/* --- running ------------------------------------------------------------------------------------------ */
static void on_solo(void *user, const moire_answer *answer) {
    struct self *self = user;
    self->solo.code = answer->code;
    if (answer->code) mo_fail(&self->solo, answer->code, "%s", answer->message);
    sem_post(&self->solo_done);
}

static int solo(struct self *self, const struct target *t, moire_error *err) {
    int code = moire_submit(t->tenant, t->inputs, t->n_inputs, 0, on_solo, self, NULL, err);
    if (code) return code;
    while (sem_wait(&self->solo_done))
        continue;
    return self->solo.code ? mo_fail(err, self->solo.code, "%s", self->solo.message) : MOIRE_OK;
}

/* The stages of an application one after the other. */
static int backend_solo(void *opaque, int tenant, moire_error *err) {
    struct self *self = opaque;
    const struct mo_bench_flow_app *app = &self->apps[tenant];
    int code = MOIRE_OK;
    for (int i = 0; !code && i < (app->dag ? app->dag->n : 1); i++)
        code = solo(self, &self->targets[app->first + i], err);
    return code;
}

static void on_answer(void *user, const moire_answer *answer) {
    const struct request *request = user;
    if (request->part) {
        struct mo_bench_flow *flow = request->self->flow;
        mo_bench_flow_answer(flow, request->part, answer->code, answer->start_ns, answer->end_ns);
        mo_bench_flow_go_on(flow);
        return;
    }
    mo_bench_done(request->drive, request->index, answer->start_ns, answer->end_ns, answer->code);
}

static int submit(struct self *self, int target, int64_t arrival_ns, int index,
                  struct mo_bench_flow_part *part) {
    const struct target *t = &self->targets[target];
    struct request *request = &self->requests[atomic_fetch_add(&self->issued, 1)];
    *request = (struct request){.self = self, .drive = self->drive, .index = index, .part = part};
    return moire_submit(t->tenant, t->inputs, t->n_inputs, arrival_ns, on_answer, request, &request->query,
                        NULL);
}

/* A stage that got more time than its tenant's target was given what earlier ones left: it counts as one that
 * arrives later. */
static int submit_stage(void *ctx, int target, int64_t deadline, struct mo_bench_flow_part *part) {
    struct self *self = ctx;
    return submit(self, target, deadline - self->targets[target].qos_ns, -1, part);
}

static void application_done(void *ctx, int index, int code, int64_t start_ns, int64_t end_ns) {
    mo_bench_done(((struct self *)ctx)->drive, index, start_ns, end_ns, code);
}

static int64_t now(void *ctx) {
    return mo_now(((struct self *)ctx)->env);
}

static bool has_applications(const struct self *self) {
    for (int i = 0; i < self->n_tenants; i++)
        if (self->apps[i].dag) return true;
    return false;
}

/* Statistics and reports so describe the last run. */
static int backend_begin(void *opaque, int n) {
    struct self *self = opaque;
    self->issued = 0;
    self->drive = NULL;
    self->since = mo_now(self->env);
    mo_runtime_stats_reset(self->runtime);
    mo_run_look(self->runtime, &self->look[0]);
    mo_bench_flow_destroy(self->flow);
    self->flow = NULL;
    if (has_applications(self)) {
        const struct mo_bench_flow_config flow = {.env = self->env,
                                                  .apps = self->apps,
                                                  .n = n,
                                                  .now = now,
                                                  .submit = submit_stage,
                                                  .done = application_done,
                                                  .ctx = self};
        if (!(self->flow = mo_bench_flow_create(&flow))) return MOIRE_ENOMEM;
    }
    if (__builtin_mul_overflow(n, self->most, &n)) return MOIRE_ELIMIT;
    if (n <= self->n_requests) return MOIRE_OK;
    mo_free(self->env, self->requests);
    self->requests = mo_alloc(self->env, (size_t)n * sizeof *self->requests);
    self->n_requests = self->requests ? n : 0;
    return self->requests ? MOIRE_OK : MOIRE_ENOMEM;
}

static int backend_issue(void *opaque, struct mo_bench_drive *drive, int index, int tenant,
                         int64_t arrival_ns) {
    struct self *self = opaque;
    const struct mo_bench_flow_app *app = &self->apps[tenant];
    if (!self->drive) self->drive = drive;
    if (!app->dag) return submit(self, app->first, arrival_ns, index, NULL);
    mo_bench_flow_begin(self->flow, tenant, index, arrival_ns);
    return MOIRE_OK;
}

/* Stages that would begin end with the run; what waits is cancelled then. */
static void backend_stop(void *opaque) {
    struct self *self = opaque;
    if (self->flow) mo_bench_flow_stop(self->flow);
    for (int i = 0; i < self->issued; i++)
        if (self->requests[i].query) moire_cancel(self->runtime, self->requests[i].query);
    moire_drain(self->runtime);
    mo_run_look(self->runtime, &self->look[1]);
    moire_error err;
    if (self->record && mo_runtime_dump(self->runtime, self->since, self->record, &err))
        fprintf(stderr, "moire: %s\n", err.message);
}

static int backend_report(void *opaque, const char *path, moire_error *err) {
    const struct self *self = opaque;
    return mo_bench_moire_report(self->runtime, self->trace, self->since, self->look, path, err);
}

const struct mo_bench_backend *mo_bench_moire_backend(void) {
    static const struct mo_bench_backend backend = {.open = backend_open,
                                                    .solo = backend_solo,
                                                    .begin = backend_begin,
                                                    .issue = backend_issue,
                                                    .stop = backend_stop,
                                                    .answers_all = true,
                                                    .report = backend_report,
                                                    .close = backend_close};
    return &backend;
}
