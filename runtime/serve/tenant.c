/* SPDX-License-Identifier: Apache-2.0
 * tenant.c - loading and unloading models.  Everything slow (import, packing, the solo profile) happens
 * before the tenant is open, and neighbours are not held for it. */
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/ops/trial.h"
#include "runtime/plan/estimate.h"
#include "runtime/plan/versions.h"
#include "runtime/engine/calibrate.h"
#include "runtime/serve/gpu.h"

enum { REPETITIONS = 3, SPARE_INSTANCES = 8, MAX_NAME = 200, LEAST_INSTANCES = 3, SCRATCH_SPARE = 64 };
static const int64_t POOL_BYTES = INT64_C(1) << 30; /* arenas of one tenant */

void moire_tenant_config_init(moire_tenant_config *config) {
    *config = (moire_tenant_config){.size = sizeof *config};
}

/* The caller may have been built against an older, shorter struct. */
static int read_config(const moire_tenant_config *given, moire_tenant_config *out, moire_error *err) {
    moire_tenant_config_init(out);
    if (!given) return MOIRE_OK;
    if (given->size < sizeof(size_t) || given->size > 4096)
        return mo_fail(err, MOIRE_EINVAL, "tenant config: size is %zu; use moire_tenant_config_init()",
                       given->size);
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (out->qos_ns < 0 || out->queue < 0 || out->n_shapes < 0 || (out->n_shapes && !out->shapes))
        return mo_fail(err, MOIRE_EINVAL, "tenant config: qos_ns, queue and n_shapes must not be negative");
    if (out->cls != MOIRE_LATENCY_CRITICAL && out->cls != MOIRE_BEST_EFFORT)
        return mo_fail(err, MOIRE_EINVAL, "tenant config: unknown class %d", (int)out->cls);
    return MOIRE_OK;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* From the store.  Whatever is wrong there costs time, never service: one line, and ONNX it is. */
static int build_compiled(moire_tenant *t, const char *path, const moire_tenant_config *c, moire_error *err) {
    const moire_runtime *rt = t->runtime;
    struct mo_compiled_request request = {path, c->shapes, c->n_shapes, c->exact != 0, rt->isa};
    struct mo_plan_options options = {.isa = rt->isa, .store = rt->store};
    moire_error why;
    bool helper = mo_device_units(rt->cores) > 1;
    int rc = mo_compiled_open(rt->store, &rt->env, &request, helper, &t->compiled, &why);
    if (!rc && !t->compiled.graph) return MOIRE_OK;
    if (!rc) rc = mo_plan_build(t->compiled.graph, &options, &t->plan, &why);
    if (!rc && (rc = mo_compiled_check(&t->compiled, &why))) mo_plan_destroy(t->plan);
    if (!rc) {
        mo_compiled_trim(&t->compiled, t->plan);
        return MOIRE_OK;
    }
    t->plan = NULL;
    mo_compiled_close(&t->compiled);
    if (rc == MOIRE_ENOMEM) return mo_fail(err, rc, "%s", why.message);
    mo_store_note(rt->store, false);
    mo_log(&rt->env, MOIRE_LOG_WARN, "compiled model of '%s' skipped, loading ONNX: %s", path, why.message);
    return MOIRE_OK;
}

static int build_from_onnx(moire_tenant *t, const char *path, const moire_tenant_config *c,
                           moire_error *err) {
    struct mo_frontend_options front = {.shapes = c->shapes, .n_shapes = c->n_shapes, .exact = c->exact};
    struct mo_plan_options options = {.isa = t->runtime->isa, .store = t->runtime->store};
    struct mo_graph *graph;
    int rc = mo_frontend_load(&t->runtime->env, path, &front, &graph, err);
    if (rc) return rc;
    if (t->runtime->recording && !mo_image_record(graph)) {
        mo_graph_destroy(graph);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory loading '%s'", path);
    }
    return mo_plan_build(graph, &options, &t->plan, err);
}

/* Before anything of that size is allocated: pages are given when they are touched, so that a query which
 * does not fit would end the process instead of the load. */
static int check_memory(const moire_tenant *t, const char *path, moire_error *err) {
    const struct mo_sys *sys = t->runtime->env.sys;
    int64_t has = sys->memory(sys->self), need;
    if (__builtin_add_overflow(t->plan->arena_bytes, (int64_t)t->request_bytes, &need)) need = INT64_MAX;
    if (has <= 0 || need <= has) return MOIRE_OK;
    return mo_fail(
        err, MOIRE_ELIMIT,
        "%s: a query needs %lld bytes, this process may have %lld: bind smaller shapes or give it more "
        "memory",
        path, (long long)need, (long long)has);
}

static int build_plan(moire_tenant *t, const char *path, const moire_tenant_config *c, moire_error *err) {
    int rc = t->runtime->store && !t->runtime->recording ? build_compiled(t, path, c, err) : MOIRE_OK;
    if (!rc && !t->plan) rc = build_from_onnx(t, path, c, err);
    if (rc) return rc;
    if (t->plan->n_steps < 1)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: the graph has no layer to run", path);
    if (t->plan->arena_bytes > t->runtime->env.limits.arena_bytes)
        return mo_fail(err, MOIRE_ELIMIT, "%s: limit 'arena_bytes' (%lld) exceeded: a query needs %lld", path,
                       (long long)t->runtime->env.limits.arena_bytes, (long long)t->plan->arena_bytes);
    t->ports = t->plan->graph;
    t->request_bytes = mo_request_size(t->ports);
    if (!t->request_bytes) return mo_fail(err, MOIRE_ELIMIT, "%s: the inputs are too large", path);
    return check_memory(t, path, err);
}

/* One a core and some that are paused; fewer of large ones, but never too few to change between queries. */
static int pool_size(const moire_tenant *t) {
    int64_t n = mo_device_units(t->runtime->cores) + SPARE_INSTANCES;
    int64_t fit = POOL_BYTES / (t->plan->arena_bytes + 1), most = t->runtime->env.limits.arenas;
    if (n > fit) n = fit < LEAST_INSTANCES ? LEAST_INSTANCES : fit;
    return (int)(n > most ? most : n);
}

static int build_instances(moire_tenant *t, moire_error *err) {
    const struct mo_env *env = &t->runtime->env;
    int n = pool_size(t);
    size_t outputs = (size_t)t->plan->graph->n_outputs;
    t->instances = mo_alloc(env, (size_t)n * sizeof *t->instances);
    t->outputs = mo_alloc(env, ((size_t)n * outputs + 1) * sizeof *t->outputs);
    if (!t->instances || !t->outputs) return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%s'", t->name);
    for (; t->n_instances < n; t->n_instances++) {
        int rc = mo_instance_create_bare(t->plan, &t->instances[t->n_instances], err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* How paused queries give up their arenas. */
static int prepare_spills(moire_tenant *t, moire_error *err) {
    int rc = mo_live_create(t->plan, &t->live, err);
    t->spiller = (struct mo_spiller){.env = &t->runtime->env,
                                     .pools = &t->runtime->pools,
                                     .live = t->live,
                                     .bytes = mo_instance_arena_bytes(t->plan),
                                     .owner = t->number,
                                     .freed = mo_request_left,
                                     .ctx = t};
    return rc;
}

int mo_tenant_sample(moire_tenant *t, struct mo_request **out, moire_error *err) {
    struct mo_request *r = *out = mo_request_take(t, false);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the inputs of '%s'", t->name);
    const struct mo_graph *graph = t->plan->graph;
    for (int i = 0; i < graph->n_inputs; i++)
        mo_trial_fill(graph, i, mo_place_on_cores.input(t, &r->head, i));
    int rc = mo_serve_model.begin(t, 0, r);
    return rc ? mo_fail(err, rc, "'%s': the sample input was refused", t->name) : MOIRE_OK;
}

/* The profile that `moire compile` took, when it covers the core counts that a calibration would measure;
 * NULL otherwise. */
static struct mo_profile *stored_profile(const moire_tenant *t) {
    const struct mo_image_times *times = &t->compiled.times;
    int n = mo_device_units(t->runtime->cores);
    if (!t->compiled.file.bytes || times->n_layers != t->plan->n_steps) return NULL;
    struct mo_profile *p = mo_profile_create(&t->runtime->env, times->n_layers, n);
    for (int i = 0; p && i < times->n; i++)
        if (times->cores[i] >= 1 && times->cores[i] <= n)
            mo_profile_record(p, (int)times->cores[i], times->ns + (int64_t)i * times->n_layers);
    bool covered = p != NULL;
    for (int cores = 1; covered && cores <= n; cores = mo_calibrate_next(cores, n))
        covered = p->measured[cores];
    if (covered) {
        mo_profile_finish(p);
        return p;
    }
    mo_profile_destroy(p);
    return NULL;
}

/* The profile by runs of the sample input. */
static int calibrate(moire_tenant *t, moire_error *err) {
    moire_runtime *rt = t->runtime;
    struct mo_request *sample;
    int rc = mo_tenant_sample(t, &sample, err);
    /* only replays of recordings ask for cold times: others need not wait, nor have their caches swept */
    int64_t sweep = mo_device_events(rt->cores) ? mo_calibrate_sweep(rt->topology) : 0;
    if (!rc)
        rc = mo_calibrate(rt->cores, &rt->env, &mo_serve_model, t, 0, t->plan->n_steps,
                          t->plan->scratch_bytes + SCRATCH_SPARE, REPETITIONS, mo_device_units(rt->cores),
                          sweep, &t->profile, err);
    if (sample) mo_serve_model.release(t, sample);
    return rc;
}

/* The profile of a model that fails on every input we can think of, but may not on its users': by operator
 * and work.  Policies correct it by what queries take. */
static int estimate(moire_tenant *t, moire_error *err) {
    int n = mo_device_units(t->runtime->cores), layers = t->plan->n_steps;
    t->profile = mo_profile_create(&t->runtime->env, layers, n);
    int64_t *ns = mo_alloc(&t->runtime->env, (size_t)layers * sizeof *ns);
    for (int cores = 1; t->profile && ns && cores <= n; cores = mo_calibrate_next(cores, n)) {
        for (int k = 0; k < layers; k++) {
            const struct mo_step *s = &t->plan->steps[k];
            ns[k] = 1 + (int64_t)mo_step_estimate(t->plan->graph, s) / mo_step_workers(s, cores);
        }
        mo_profile_record(t->profile, cores, ns);
    }
    bool bad = !t->profile || !ns;
    mo_free(&t->runtime->env, ns);
    if (bad) return mo_fail(err, MOIRE_ENOMEM, "out of memory for the profile of '%s'", t->name);
    mo_profile_finish(t->profile);
    return MOIRE_OK;
}

/* Memory that the first query will need: a model that it cannot have is refused, not its queries. */
static int reserve(const moire_tenant *t, moire_error *err) {
    struct mo_arena *arena =
        mo_arenas_take(t->runtime->pools.arenas, mo_instance_arena_bytes(t->plan), t->number);
    if (!arena)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory: a query of '%s' needs %lld bytes", t->name,
                       (long long)t->plan->arena_bytes);
    mo_arenas_give(t->runtime->pools.arenas, arena);
    return mo_engine_cores_scratch(t->runtime->cores, t->plan->scratch_bytes + SCRATCH_SPARE, err);
}

static int measure(moire_tenant *t, moire_error *err) {
    int rc = reserve(t, err);
    if (rc || (t->profile = stored_profile(t))) return rc;
    rc = calibrate(t, err);
    if (!rc || rc == MOIRE_ENOMEM) return rc;
    const char *why = mo_instance_message(t->instances[0]);
    mo_log(&t->runtime->env, MOIRE_LOG_WARN, "'%s': scheduled by estimates, as the trial run failed: %s",
           t->name, why && *why ? why : moire_code_text(rc));
    return estimate(t, err);
}

/* What memory gives, once a runtime: policies foresee neighbours by it. */
static void measure_memory(moire_tenant *t) {
    moire_runtime *rt = t->runtime;
    if (rt->memory_known || !mo_profile_has_choice(t->profile, 0, t->profile->n_layers)) return;
    rt->memory_known = true;
    struct mo_memory memory = {
        mo_calibrate_memory(rt->cores, &rt->env, mo_calibrate_sweep(rt->topology)),
        (double)rt->topology->l3_bytes,
    };
    mo_device_set_memory(rt->cores, &memory);
    mo_log(&rt->env, MOIRE_LOG_INFO, "memory: %.1f GB/s read and written by all cores", memory.bytes_ns);
}

static int open_tenant(moire_tenant *t, const moire_tenant_config *c, moire_error *err) {
    const struct mo_limits *limits = &t->runtime->env.limits;
    int64_t queue = c->queue ? c->queue : limits->queue;
    if (queue > limits->queue)
        return mo_fail(err, MOIRE_ELIMIT, "limit 'queue' is %lld, the tenant asks for %lld",
                       (long long)limits->queue, (long long)queue);
    t->serving = (struct mo_sched_tenant_config){.qos_ns = c->qos_ns,
                                                 .best_effort = c->cls == MOIRE_BEST_EFFORT,
                                                 .shed_late = c->shed_late != 0,
                                                 .priority = c->priority,
                                                 .queue = (int)queue,
                                                 .instances = t->n_instances,
                                                 .profile = t->profile};
    if (!mo_plan_slowdown(t->plan, t->serving.slowdown)) t->serving.slowdown[0] = 0;
    const struct mo_device_tenant tenant = {
        .sched = t->serving, .ops = &mo_serve_model, .model = t, .owner = t->number};
    const struct mo_place place = {.calls = &mo_place_on_cores, .self = t};
    return mo_tenant_open_place(t, mo_engine_devices(t->runtime->engine) - 1, &tenant, &place, err);
}

/* Of a tenant that no device has any more. */
static void destroy(moire_tenant *t) {
    const struct mo_env *env = &t->runtime->env;
    if (t->gpu) mo_serve_gpu_free(t->gpu);
    for (int i = 0; i < t->n_instances; i++)
        mo_instance_destroy(t->instances[i]);
    mo_arenas_destroy(t->requests);
    mo_live_destroy(t->live);
    mo_profile_destroy(t->profile);
    mo_free(env, t->instances);
    mo_free(env, t->outputs);
    mo_plan_destroy(t->plan);
    mo_compiled_close(&t->compiled);
    mo_free(env, t->name);
    mo_free(env, t);
}

static int set_name(moire_tenant *t, const char *name, moire_error *err) {
    const char *stop = memchr(name, 0, MAX_NAME);
    size_t length = stop ? (size_t)(stop - name) : MAX_NAME;
    t->name = mo_alloc(&t->runtime->env, length + 1);
    if (!t->name) return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%s'", name);
    memcpy(t->name, name, length);
    return MOIRE_OK;
}

static int load_on_cores(moire_tenant *t, const char *path, const moire_tenant_config *c, moire_error *err) {
    t->requests = mo_arenas_create(&t->runtime->env);
    if (!t->requests) return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%s'", path);
    int rc = build_plan(t, path, c, err);
    if (!rc) rc = build_instances(t, err);
    if (!rc) rc = prepare_spills(t, err);
    if (!rc) rc = measure(t, err);
    if (!rc) rc = mo_tenant_describe_layers(t, err);
    if (!rc) rc = mo_tenant_find_slow(t, err);
    if (!rc) measure_memory(t);
    return rc ? rc : open_tenant(t, c, err);
}

/* What runs on GPUs and nowhere else is compiled, packed and measured for them only. */
static int load(moire_tenant *t, const char *path, const moire_tenant_config *c, moire_error *err) {
    bool cores = !c->device_only || !t->runtime->device;
    int rc = set_name(t, c->name ? c->name : base_name(path), err);
    if (!rc && cores) rc = load_on_cores(t, path, c, err);
    if (!rc && t->runtime->device) rc = mo_serve_gpu_open(t, path, c, &t->gpu, err);
    if (rc) mo_tenant_close_places(t, rc);
    return rc;
}

static void log_loaded(const moire_tenant *t) {
    const struct mo_env *env = &t->runtime->env;
    if (!t->plan) {
        mo_log(env, MOIRE_LOG_INFO, "loaded '%s': %d segments, on the device only", t->name,
               t->gpu->profile->n_layers);
        return;
    }
    mo_log(env, MOIRE_LOG_INFO, "loaded '%s': %d layers, %lld bytes of weights, %lld a query, %.2f ms solo",
           t->name, t->plan->n_steps, (long long)t->plan->weight_bytes, (long long)t->plan->arena_bytes,
           (double)mo_profile_time(t->profile, 1, 0, t->profile->n_layers) / 1e6);
    mo_tenant_log_slow(t);
}

/* Under the loading lock, and so no other load comes between the count and the tenant. */
static int add_tenant(moire_runtime *rt, const char *path, const moire_tenant_config *c,
                      struct mo_loading *loading, moire_tenant **out, moire_error *err) {
    if (mo_tenants_count(rt) >= rt->env.limits.tenants)
        return mo_fail(err, MOIRE_ELIMIT, "limit 'tenants' (%lld) reached: unload a model first",
                       (long long)rt->env.limits.tenants);
    moire_tenant *t = mo_alloc(&rt->env, sizeof *t);
    if (!t) return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%s'", path);
    t->runtime = rt;
    t->number = loading->number;
    int rc = load(t, path, c, err);
    if (rc) {
        destroy(t);
        return rc;
    }
    mo_tenants_loaded(loading, t);
    *out = t;
    log_loaded(t);
    return MOIRE_OK;
}

int moire_load(moire_runtime *rt, const char *path, const moire_tenant_config *config, moire_tenant **out,
               moire_error *err) {
    if (!rt || !path || !out)
        return mo_fail(err, MOIRE_EINVAL, "moire_load: runtime, path and out must be given");
    *out = NULL;
    moire_tenant_config c;
    int rc = mo_runtime_here(rt, err);
    if (!rc) rc = read_config(config, &c, err);
    if (rc) return rc;
    struct mo_loading loading = {.name = c.name ? c.name : base_name(path)};
    mo_tenants_load(rt, &loading);
    mo_lock_take(rt->env.sys, &rt->loading);
    rc = add_tenant(rt, path, &c, &loading, out, err);
    mo_lock_drop(rt->env.sys, &rt->loading);
    if (rc) mo_tenants_not_loaded(rt, &loading);
    return rc;
}

void mo_tenant_close(moire_tenant *t, int code) {
    moire_runtime *rt = t->runtime;
    mo_account_close(rt->env.sys, &t->accounting);
    mo_tenant_close_places(t, code);
    mo_tenants_gone(t);
    destroy(t);
}

int moire_unload(moire_tenant *t, moire_error *err) {
    if (!t) return mo_fail(err, MOIRE_EINVAL, "moire_unload: no tenant given");
    int rc = mo_runtime_here(t->runtime, err);
    if (!rc) mo_tenant_close(t, MOIRE_EUNLOADED);
    return rc;
}

/* --- ports --- */
static int describe(const struct mo_graph *graph, int n, const int *ids, int index, moire_port *out) {
    if (index < 0 || index >= n || !out) return MOIRE_EINVAL;
    const struct mo_tensor *t = graph->tensors[ids[index]];
    *out = (moire_port){.name = t->name, .dtype = t->dtype, .rank = t->shape.rank};
    for (int i = 0; i < t->shape.rank; i++) {
        out->shape[i] = t->shape.d[i];
        if (t->shape.d[i] < 0) out->rank = -1;
    }
    return MOIRE_OK;
}

int moire_n_inputs(const moire_tenant *t) {
    return t ? t->ports->n_inputs : 0;
}
int moire_n_outputs(const moire_tenant *t) {
    return t ? t->ports->n_outputs : 0;
}
int moire_input(const moire_tenant *t, int index, moire_port *out) {
    return t ? describe(t->ports, t->ports->n_inputs, t->ports->inputs, index, out) : MOIRE_EINVAL;
}
int moire_output(const moire_tenant *t, int index, moire_port *out) {
    return t ? describe(t->ports, t->ports->n_outputs, t->ports->outputs, index, out) : MOIRE_EINVAL;
}
