/* SPDX-License-Identifier: Apache-2.0
 * publish.c - a served model into the store; see publish.h. */
#include "tools/moire/compile/publish.h"

#include <string.h>
#include "codegen/family/family.h"
#include "codegen/search/writer.h"
#include "runtime/ops/trial.h"
#include "runtime/serve/parts.h"
#include "runtime/base/caches.h"
#include "variants/packed.h"

enum { MAX_PORTS = 64, RACE_NS = 30000000 };

/* --- writing --- */
struct source {
    const moire_tenant *tenant;
    const char *key;
    struct mo_image_times times;
};

static int fill(void *ctx, mo_writer_put *put, void *put_ctx, moire_error *err) {
    const struct source *s = ctx;
    return mo_image_write(mo_tenant_parts(s->tenant).plan, s->key, &s->times, put, put_ctx, err);
}

/* The measured rows of a profile, as layer times.  Two arrays for mo_free(). */
static int take_times(const struct mo_env *env, const struct mo_profile *p, int64_t **cores, int64_t **ns,
                      struct mo_image_times *times, moire_error *err) {
    *cores = mo_alloc(env, ((size_t)p->max_cores + 1) * sizeof **cores);
    *ns = mo_alloc(env, ((size_t)p->max_cores + 1) * (size_t)p->n_layers * sizeof **ns);
    if (!*cores || !*ns) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    int n = 0;
    for (int c = 1; c <= p->max_cores; c++) {
        if (!p->measured[c]) continue;
        for (int k = 0; k < p->n_layers; k++)
            (*ns)[n * p->n_layers + k] = mo_profile_time(p, c, k, k + 1);
        (*cores)[n++] = c;
    }
    *times = (struct mo_image_times){n, p->n_layers, *cores, *ns};
    return MOIRE_OK;
}

static int write_model(const struct mo_env *env, struct mo_writer *writer, const moire_tenant *tenant,
                       const char *key, moire_error *err) {
    struct source s = {.tenant = tenant, .key = key};
    int64_t *cores = NULL, *ns = NULL;
    int rc = take_times(env, mo_tenant_parts(tenant).profile, &cores, &ns, &s.times, err);
    if (!rc) rc = mo_writer_stream(writer, key, MO_MODEL_SUFFIX, fill, &s, err);
    mo_free(env, cores);
    mo_free(env, ns);
    return rc;
}

/* Whether the stamp names this very model and the model is intact. */
static bool is_there(const moire_runtime *rt, const struct mo_compiled_request *request, const char *key,
                     int64_t *bytes) {
    const struct mo_runtime_parts parts = mo_runtime_parts(rt);
    struct mo_compiled c;
    if (mo_compiled_open(parts.store, parts.env, request, false, &c, NULL) || !c.graph) return false;
    bool same = !mo_compiled_check(&c, NULL) &&
                !memcmp(((const struct mo_image_head *)c.file.bytes)->key, key, MO_IMAGE_KEY);
    *bytes = (int64_t)c.file.n;
    mo_graph_destroy(c.graph);
    mo_compiled_close(&c);
    return same;
}

/* --- checking --- */
static void fill_input(const struct mo_env *env, const moire_tenant *t, int i, moire_tensor *in) {
    moire_port port;
    if (moire_input(t, i, &port)) return;
    size_t n = 1;
    *in = (moire_tensor){.dtype = port.dtype, .rank = port.rank};
    for (int k = 0; k < port.rank; k++)
        n *= (size_t)(in->shape[k] = port.shape[k]);
    in->bytes = n * mo_dtype_bytes(port.dtype);
    in->data = mo_alloc(env, in->bytes + 1);
    if (!in->data) return;
    const struct mo_graph *graph = mo_tenant_parts(t).plan->graph;
    mo_trial_fill(graph, i, in->data);
    for (size_t k = 0; port.dtype == MOIRE_F32 && k < n; k++)
        ((float *)in->data)[k] = (float)(k * 2654435761u % 1000) * 1e-3f;
    mo_trial_repair(graph, i, in->data);
}

/* The answers of one query, as a digest of their bytes; or that the model fails on it, which a compiled model
 * must do as well. */
struct answers {
    const struct mo_env *env;
    _Atomic uint32_t done;
    int code;
    uint8_t digest[MO_SHA256_BYTES];
};

static void on_answer(void *user, const moire_answer *answer) {
    struct answers *a = user;
    struct mo_sha256 h;
    mo_sha256_init(&h);
    for (int i = 0; i < answer->n_outputs && !answer->code; i++)
        mo_sha256_add(&h, answer->outputs[i].data, answer->outputs[i].bytes);
    mo_sha256_end(&h, a->digest);
    a->code = answer->code;
    const struct mo_sys *sys = a->env->sys;
    atomic_store(&a->done, 1);
    sys->futex_wake(sys->self, &a->done, 1);
}

static int ask(const struct mo_env *env, moire_tenant *t, struct answers *a, moire_error *err) {
    moire_tensor in[MAX_PORTS] = {{0}};
    int n = moire_n_inputs(t), rc = MOIRE_OK;
    *a = (struct answers){.env = env};
    if (n > MAX_PORTS) return mo_fail(err, MOIRE_ELIMIT, "more than %d inputs", MAX_PORTS);
    for (int i = 0; i < n; i++) {
        fill_input(env, t, i, &in[i]);
        if (!in[i].data) rc = mo_fail(err, MOIRE_ENOMEM, "out of memory for an input");
    }
    if (!rc) rc = moire_submit(t, in, n, 0, on_answer, a, NULL, err);
    while (!rc && !atomic_load(&a->done))
        env->sys->futex_wait(env->sys->self, &a->done, 0, 0);
    for (int i = 0; i < n; i++)
        mo_free(env, in[i].data);
    return a->code == MOIRE_ENOMEM ? mo_fail(err, a->code, "out of memory for a query") : rc;
}

/* Loads the model from the store and compares an answer. */
static int check(moire_runtime *rt, const struct mo_compiled_request *request,
                 const moire_tenant_config *config, const struct answers *want, moire_error *err) {
    moire_tenant *t;
    struct answers got;
    mo_runtime_set_recording(rt, false);
    int rc = moire_load(rt, request->path, config, &t, err);
    if (rc) return rc;
    if (!mo_tenant_parts(t).image) rc = mo_fail(err, MOIRE_EFAILED, "the compiled model does not load");
    if (!rc) rc = ask(mo_runtime_parts(rt).env, t, &got, err);
    if (!rc && (got.code != want->code || memcmp(got.digest, want->digest, MO_SHA256_BYTES)))
        rc = mo_fail(err, MOIRE_EFAILED, "the compiled model answers differently");
    moire_unload(t, NULL);
    return rc;
}

/* --- the whole --- */
static int64_t packed_bytes(const struct mo_plan *plan) {
    int64_t sum = 0;
    for (int k = 0; k < plan->n_steps; k++) {
        const struct mo_packed_place *p = mo_packed_find(plan->graph->packed, plan->steps[k].weights);
        if (p) sum += p->bytes;
    }
    return sum;
}

struct names {
    char stamp[MO_SHA256_HEX], key[MO_SHA256_HEX];
};

/* Notes where the model file is, for people who list the store.  A path that does not fit is left out. */
static void note_path(const struct mo_env *env, struct mo_store_stamp *stamp, const char *path) {
    char real[4400];
    size_t n = 0;
    if (mo_caches_real(env->sys, path, real, sizeof real, NULL)) return;
    while (real[n] > 31 && real[n] < 127)
        n++;
    if (!real[n] && n < sizeof stamp->path) memcpy(stamp->path, real, n + 1);
}

/* Who publishes what. */
struct publishing {
    struct mo_writer *writer;
    const struct mo_compiled_request *request;
    const struct mo_verified *verified;
    moire_tenant_config config;
};

/* What was found of the very plan that is stored, with it. */
static int note_verified(const moire_tenant *t, const struct publishing *p, struct mo_store_stamp *stamp,
                         moire_error *err) {
    const struct mo_verified *v = p->verified;
    char state[MO_SHA256_HEX];
    int rc = v ? mo_compiled_state(mo_tenant_parts(t).plan, p->request, state, err) : MOIRE_OK;
    if (rc || !v) return rc;
    if (strcmp(v->state, state))
        return mo_fail(
            err, MOIRE_EBUSY,
            "its kernels or its file have changed since they were verified; run the command again");
    stamp->verified = v->layers;
    stamp->unverified = v->unverified;
    stamp->error = v->error;
    memcpy(stamp->error_layer, v->layer, sizeof stamp->error_layer);
    return MOIRE_OK;
}

/* Names of what will be stored.  A file that is written while it is read is noticed: a pause longer than the
 * grain of file times lies before, and its state must be the same after. */
static int make_names(const moire_tenant *t, const struct mo_compiled_request *request, struct names *out,
                      struct mo_store_stamp *stamp, moire_error *err) {
    const struct mo_plan *plan = mo_tenant_parts(t).plan;
    const struct mo_env *env = plan->env;
    char after[MO_SHA256_HEX];
    int rc = mo_compiled_stamp(env, request, out->stamp, err);
    if (!rc) rc = mo_compiled_outside(env, request->path, plan->graph, stamp->outside, err);
    env->sys->sleep_until(env->sys->self, mo_now(env) + RACE_NS);
    if (!rc) rc = mo_compiled_key(plan, request, out->key, err);
    if (!rc) rc = mo_compiled_stamp(env, request, after, err);
    if (!rc && strcmp(after, out->stamp))
        rc = mo_fail(err, MOIRE_EIO, "'%.300s' is being written", request->path);
    memcpy(stamp->model, out->key, sizeof stamp->model);
    stamp->abi = MO_KERNEL_ABI;
    stamp->generator = MO_GENERATOR_VERSION;
    note_path(env, stamp, request->path);
    return rc;
}

/* A second stamp: who binds every input to the shape that it has here anyway asks for the same model. */
static int stamp_bound(moire_runtime *rt, const moire_tenant *t, const struct publishing *p,
                       const struct mo_store_stamp *stamp, moire_error *err) {
    struct mo_compiled_request bound = *p->request;
    moire_shape shapes[MAX_PORTS];
    char name[MO_SHA256_HEX];
    int64_t bytes;
    moire_port port;
    int n = moire_n_inputs(t);
    if (n > MAX_PORTS) return MOIRE_OK;
    for (int i = 0; i < n; i++) {
        int rc = moire_input(t, i, &port);
        if (rc) return mo_fail(err, rc, "%s", moire_code_text(rc));
        shapes[i] = (moire_shape){.input = port.name, .rank = port.rank};
        memcpy(shapes[i].shape, port.shape, sizeof shapes[i].shape);
    }
    bound.shapes = shapes;
    bound.n_shapes = n;
    if (!p->verified && is_there(rt, &bound, stamp->model, &bytes)) return MOIRE_OK;
    int rc = mo_compiled_stamp(mo_runtime_parts(rt).env, &bound, name, err);
    return rc ? rc : mo_writer_stamp(p->writer, name, stamp, err);
}

static int store_tenant(moire_runtime *rt, moire_tenant *t, const struct publishing *p,
                        struct mo_published *out, moire_error *err) {
    const struct mo_compiled_request *request = p->request;
    struct mo_writer *writer = p->writer;
    struct mo_store_stamp stamp = {0};
    struct names names;
    struct answers want;
    out->packed_bytes = packed_bytes(mo_tenant_parts(t).plan);
    int rc = make_names(t, request, &names, &stamp, err);
    if (!rc) rc = note_verified(t, p, &stamp, err);
    if (rc) return rc;
    out->reused = is_there(rt, request, names.key, &out->bytes);
    if (out->reused) { /* what was verified may be more than before */
        rc = p->verified ? mo_writer_stamp(writer, names.stamp, &stamp, err) : MOIRE_OK;
        return rc ? rc : stamp_bound(rt, t, p, &stamp, err);
    }
    rc = ask(mo_runtime_parts(rt).env, t, &want, err);
    if (!rc) rc = write_model(mo_runtime_parts(rt).env, writer, t, names.key, err);
    if (!rc) rc = mo_writer_stamp(writer, names.stamp, &stamp, err);
    if (!rc && (rc = check(rt, request, &p->config, &want, err)))
        mo_writer_remove(writer, names.stamp, MO_STAMP_SUFFIX);
    if (!rc) is_there(rt, request, names.key, &out->bytes);
    return rc ? rc : stamp_bound(rt, t, p, &stamp, err);
}

static int publish_with(const struct mo_env *env, const char *store, struct publishing *p,
                        struct mo_published *out, moire_error *err) {
    const struct mo_compiled_request *request = p->request;
    moire_config config;
    moire_runtime *rt;
    moire_tenant *t;
    moire_config_init(&config);
    config.store = store;
    config.policy = "fcfs"; /* which runs every layer's first version: others sum in another order */
    config.log = env->log;
    config.log_user = env->log_user;
    moire_tenant_config_init(&p->config);
    p->config.shapes = request->shapes;
    p->config.n_shapes = request->n_shapes;
    p->config.exact = request->exact;
    p->config.precision = request->precision;
    int rc = mo_runtime_create(&config, env, 0, &rt, err);
    if (rc) return rc;
    mo_runtime_set_recording(rt, true);
    rc = mo_runtime_parts(rt).store
             ? moire_load(rt, request->path, &p->config, &t, err)
             : mo_fail(err, MOIRE_ESTORE, "variant store '%.200s' cannot be used", store);
    if (!rc) out->slow = *mo_tenant_parts(t).slow;
    if (!rc) rc = store_tenant(rt, t, p, out, err);
    moire_runtime_destroy(rt, 0);
    return rc;
}

int mo_publish(const struct mo_env *env, const char *store, const struct mo_compiled_request *request,
               const struct mo_verified *verified, struct mo_published *out, moire_error *err) {
    struct publishing p = {.request = request, .verified = verified};
    *out = (struct mo_published){0};
    if (request->isa != mo_isa_detect())
        return mo_fail(err, MOIRE_EUNSUPPORTED, "servers here run another ISA level");
    int rc = mo_writer_open(env, store, &p.writer, err);
    if (rc) return rc;
    rc = publish_with(env, store, &p, out, err);
    mo_writer_close(p.writer);
    return rc ? mo_fail_context(err, rc, "compiled model of '%.150s'", request->path) : MOIRE_OK;
}
