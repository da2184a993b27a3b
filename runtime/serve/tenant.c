/* SPDX-License-Identifier: Apache-2.0
 * tenant.c - loading and unloading models.  Everything slow (import, packing, the solo profile) happens
 * before the tenant is open, and neighbours are not held for it.
 *
 * Tenants of one file share its constants and packed weights (common.h).  One that is loaded *at once* beside
 * another needs neither the file nor a profile run; it has a lock of its own, and waits for no other load but
 * the planning of its own model. */
#include <string.h>
#include "codegen/region_graph.h"
#include "runtime/plan/versions.h"
#include "runtime/serve/common.h"
#include "runtime/serve/gpu.h"

enum { SPARE_INSTANCES = 8, MAX_NAME = 200, MAX_WEIGHT = 1000, LEAST_INSTANCES = 3 };
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
    if (out->at_once < 0 || out->at_once > 2)
        return mo_fail(err, MOIRE_EINVAL, "tenant config: at_once is 0, 1 or 2");
    if (out->cores < 0) return mo_fail(err, MOIRE_EINVAL, "tenant config: cores must not be negative");
    if (!(out->weight >= 0 && out->weight <= MAX_WEIGHT))
        return mo_fail(err, MOIRE_EINVAL, "tenant config: weight is %g; it must be 0 to %d", out->weight,
                       MAX_WEIGHT);
    if (out->precision < MOIRE_PRECISION_AUTO || out->precision > MOIRE_PRECISION_FP16)
        return mo_fail(err, MOIRE_EINVAL, "tenant config: unknown precision %d", (int)out->precision);
    if (!(out->tolerance >= 0 && out->tolerance <= 1) || (out->tolerance > 0 && out->precision))
        return mo_fail(err, MOIRE_EINVAL,
                       "tenant config: tolerance is %g; it must be 0 to 1, and 0 where a "
                       "precision is given",
                       out->tolerance);
    if (out->cls != MOIRE_LATENCY_CRITICAL && out->cls != MOIRE_BEST_EFFORT)
        return mo_fail(err, MOIRE_EINVAL, "tenant config: unknown class %d", (int)out->cls);
    return MOIRE_OK;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* From the store, where it has the model. */
static int build_compiled(moire_tenant *t, const char *path, const moire_tenant_config *c, moire_error *err) {
    const moire_runtime *rt = t->runtime;
    const struct mo_compiled_request request = {path,          c->shapes, c->n_shapes,
                                                c->exact != 0, rt->isa,   c->precision};
    const struct mo_plan_options planning = {.isa = rt->isa, .store = rt->store, .shaped = mo_region_graph};
    const struct mo_compiled_ask ask = {.env = &rt->env,
                                        .request = &request,
                                        .planning = &planning,
                                        .helper = mo_device_units(rt->cores) > 1};
    return mo_compiled_plan(&ask, &t->compiled, &t->plan, err);
}

/* For measurements and compiled models, which want a plan of its own. */
static int build_alone(moire_tenant *t, const char *path, const struct mo_frontend_options *front,
                       const struct mo_plan_options *options, moire_error *err) {
    struct mo_graph *graph;
    int rc = mo_frontend_load(&t->runtime->env, path, front, &graph, err);
    if (rc) return rc;
    if (mo_image_record(graph)) return mo_plan_build(graph, options, &t->plan, err);
    mo_graph_destroy(graph);
    return mo_fail(err, MOIRE_ENOMEM, "out of memory loading '%s'", path);
}

static int build_from_onnx(moire_tenant *t, const char *path, const moire_tenant_config *c,
                           moire_error *err) {
    const moire_runtime *rt = t->runtime;
    struct mo_frontend_options front = {
        .shapes = c->shapes, .n_shapes = c->n_shapes, .exact = c->exact, .precision = c->precision};
    const struct mo_plan_options options = {.isa = rt->isa, .store = rt->store, .shaped = mo_region_graph};
    struct mo_graph *graph;
    if (rt->recording) return build_alone(t, path, &front, &options, err);
    int rc = t->common ? MOIRE_OK : mo_common_take(t->runtime, path, &t->common, err);
    if (!rc) rc = mo_tenant_settle(t, path, c->tolerance, &options, &front);
    if (rc) return rc;
    mo_lock_take(rt->env.sys, &t->common->building);
    for (int from_file = 0; from_file < 2; from_file++) {
        rc = mo_common_graph(t->common, path, &front, from_file, &graph, err);
        if (!rc) rc = mo_plan_build(graph, &options, &t->plan, err);
        if (rc != MOIRE_ESTORE || t->at_once) break; /* else from its file, with the weights */
    }
    mo_lock_drop(rt->env.sys, &t->common->building);
    return rc;
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

/* A compiled model has one precision: who sets a tolerance asks which is fastest. */
static int build_plan(moire_tenant *t, const char *path, const moire_tenant_config *c, moire_error *err) {
    const bool compiled = t->runtime->store && !t->runtime->recording && !t->at_once && !(c->tolerance > 0);
    int rc = compiled ? build_compiled(t, path, c, err) : MOIRE_OK;
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

/* One a core and some that are paused; fewer of large ones, but never too few to change between queries.  A
 * model may have many tenants of single shapes, each asked for now and then: one spare is enough for them. */
static int pool_size(const moire_tenant *t) {
    int64_t n = mo_device_units(t->runtime->cores) + (t->at_once ? 1 : SPARE_INSTANCES);
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
                                                 .cores = c->cores,
                                                 .weight = c->weight,
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
    mo_common_give(t->common);
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
    if (!rc) rc = mo_tenant_measure(t, err);
    if (!rc) rc = mo_tenant_describe_layers(t, err);
    if (!rc) rc = mo_tenant_find_slow(t, err);
    if (!rc) mo_tenant_measure_memory(t);
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

/* Under the lock of its kind of load. */
static int add_tenant(moire_runtime *rt, const char *path, const moire_tenant_config *c,
                      struct mo_loading *loading, struct mo_common *common, moire_tenant **out,
                      moire_error *err) {
    if (mo_tenants_count(rt) >= rt->env.limits.tenants)
        return mo_fail(err, MOIRE_ELIMIT, "limit 'tenants' (%lld) reached: unload a model first",
                       (long long)rt->env.limits.tenants);
    moire_tenant *t = mo_alloc(&rt->env, sizeof *t);
    if (!t) return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%s'", path);
    t->runtime = rt;
    t->number = loading->number;
    t->common = common;
    t->at_once = common != NULL;
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

/* Beside a tenant of the same file; MOIRE_ESTORE: there is none, or it is not enough. */
static int load_at_once(moire_runtime *rt, const char *path, const moire_tenant_config *c,
                        struct mo_loading *loading, moire_tenant **out, moire_error *err) {
    struct mo_common *common;
    if (!c->at_once || rt->device || rt->recording || mo_common_take(rt, path, &common, NULL))
        return MOIRE_ESTORE;
    if (!mo_common_is_ready(common)) {
        mo_common_give(common);
        return MOIRE_ESTORE;
    }
    mo_lock_take(rt->env.sys, &rt->binding);
    int rc = add_tenant(rt, path, c, loading, common, out, err); /* takes over `common` */
    mo_lock_drop(rt->env.sys, &rt->binding);
    return rc;
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
    rc = load_at_once(rt, path, &c, &loading, out, err);
    if (rc == MOIRE_ESTORE && c.at_once == 2) {
        mo_fail(err, rc, "'%.300s' cannot be loaded at once: no tenant of that file has all that it needs",
                path);
    } else if (rc == MOIRE_ESTORE) {
        mo_lock_take(rt->env.sys, &rt->loading);
        rc = add_tenant(rt, path, &c, &loading, NULL, out, err);
        mo_lock_drop(rt->env.sys, &rt->loading);
    }
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
