/* SPDX-License-Identifier: Apache-2.0
 * gpu.c - tenants on GPUs: loading, profiles, closing; see gpu.h.  Queries are in gpu_request.c. */
#include "runtime/serve/gpu.h"

#include <stdio.h>
#include <string.h>
#include "runtime/base/caches.h"
#include "runtime/gpu/measure_shares.h"
#include "runtime/profile/share_table.h"
#include "runtime/serve/gpu_request.h"

enum { BATCH = 32, REPETITIONS = 5, WORD = 200 };
enum { RING = 4 }; /* times what a core remembers: one ring has all events of the GPUs */
static const int64_t CELL_NS = 20000000;

/* --- a runtime's device --------------------------------------------------------------------------------- */
static void describe(const struct mo_device_config *device, struct mo_serve_device *d,
                     struct mo_engine_config *engine) {
    d->options = (struct mo_engine_gpu_options){
        .ops = d->device.ops, .system = d->device.system, .gpus = &d->gpus, .max_batch = d->max_batch};
    d->number = engine->n_devices++;
    struct mo_device_config *own = &engine->device[d->number];
    *own = *device;
    own->calls = &mo_engine_gpus;
    own->options = &d->options;
    own->policy = d->policy;
    own->events = RING * device->events;
}

static int read_options(const moire_config *c, struct mo_serve_device *d, moire_error *err) {
    d->max_batch = c->device_batch ? c->device_batch : BATCH;
    if (d->max_batch < 1 || d->max_batch > MO_SHARE_BATCH)
        return mo_fail(err, MOIRE_EINVAL, "config: device_batch must be 1 to %d", MO_SHARE_BATCH);
    if (c->device_precision && !mo_gpu_precision_of(c->device_precision, &d->precision))
        return mo_fail(err, MOIRE_EINVAL, "config: no precision '%s': fp32, tf32, fp16, bf16",
                       c->device_precision);
    return MOIRE_OK;
}

/* The folder that the config names, or the user's; NULL: nothing is kept. */
static const char *cache_of(const moire_runtime *rt, const moire_config *c, char *room, size_t n) {
    if (c->device_cache) return c->device_cache;
    return mo_caches_folder(rt->env.sys, "gpu", room, n, NULL) ? NULL : room;
}

/* What the policy was trained to, where it is one that learned. */
static int read_learned(moire_runtime *rt, const moire_config *c, struct mo_serve_device *d,
                        moire_error *err) {
    if (!d->policy->learned)
        return c->device_weights ? mo_fail(err, MOIRE_EINVAL,
                                           "config: device_weights '%.200s' go with a policy that learned, "
                                           "and '%s' did not",
                                           c->device_weights, d->policy->name)
                                 : MOIRE_OK;
    if (!c->device_weights)
        return mo_fail(
            err, MOIRE_EINVAL,
            "config: policy '%s' decides by what `moire train` writes: device_weights must name it",
            d->policy->name);
    if (d->gpus.n_kinds > 1)
        return mo_fail(err, MOIRE_EINVAL, "config: policy '%s' plans for GPUs of one type; here are %d types",
                       d->policy->name, d->gpus.n_kinds);
    int code = mo_inss_policy_open(&rt->env, c->device_weights, &d->gpus.kinds[0], &d->learned, err);
    if (!code) d->gpus.learned = &d->learned;
    return code;
}

int mo_serve_device_open(moire_runtime *rt, const moire_config *c, const struct mo_device_config *device,
                         struct mo_engine_config *engine, moire_error *err) {
    if (!c->device) return MOIRE_OK;
    struct mo_serve_device *d = rt->device = mo_alloc(&rt->env, sizeof *d);
    if (!d) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a device");
    size_t n = c->device_profiles ? strlen(c->device_profiles) + 1 : 0;
    if (n && !(d->folder = mo_alloc(&rt->env, n)))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for a device");
    if (n) memcpy(d->folder, c->device_profiles, n);
    int code = read_options(c, d, err);
    if (!code)
        code = mo_policy_choose(c->device_policy ? c->device_policy : "moire-gpu", true, rt->research,
                                &d->policy, err);
    if (!code && d->policy->simulated)
        code = mo_fail(err, MOIRE_EINVAL, "config: policy '%s' is for simulated machines", d->policy->name);
    char cache[MO_CACHES_PATH];
    const struct mo_gpu_config gpu = {.process = c->device_process,
                                      .path = c->device_libraries,
                                      .cache = cache_of(rt, c, cache, sizeof cache)};
    if (!code) code = mo_gpu_device_open(&rt->env, c->device, &gpu, &d->device, err);
    if (!code) code = mo_gpu_device_gpus(&d->device, c->device_lets, &d->gpus, err);
    if (!code) code = read_learned(rt, c, d, err);
    if (!code) describe(device, d, engine);
    return code;
}

void mo_serve_device_close(moire_runtime *rt) {
    struct mo_serve_device *d = rt->device;
    if (!d) return;
    mo_gpu_device_close(&d->device);
    mo_policy_close(&d->learned);
    mo_free(&rt->env, d->folder);
    mo_free(&rt->env, d);
    rt->device = NULL;
}

/* --- profiles ------------------------------------------------------------------------------------------- */
/* Length of the name without "-r2" or the like at its end, which says how a zoo's file was made. */
static size_t without_revision(const char *name, size_t n) {
    size_t at = n;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    return at < n && at > 2 && !memcmp(name + at - 2, "-r", 2) ? at - 2 : n;
}

/* FOLDER/NAME.csv, where NAME is the model's file without ".onnx", or else without its revision too.
 * MOIRE_EIO: there is none. */
static int read_profile(const moire_tenant *t, const char *path, struct mo_share_profile **out,
                        moire_error *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const struct mo_env *env = &t->runtime->env;
    size_t n = strlen(name);
    struct mo_share_table table;
    if (n > 5 && !strcmp(name + n - 5, ".onnx")) n -= 5;
    const size_t lengths[] = {n, without_revision(name, n)};
    int code = MOIRE_EIO;
    for (size_t i = 0; i < 2 && code == MOIRE_EIO; i++) {
        char file[1024];
        if (snprintf(file, sizeof file, "%s/%.*s.csv", t->runtime->device->folder,
                     (int)(lengths[i] < WORD ? lengths[i] : WORD), name) >= (int)sizeof file)
            return mo_fail(err, MOIRE_ELIMIT, "device_profiles: too long a path");
        code = mo_share_table_read(env, file, &table, err);
    }
    if (code) return code;
    *out = table.profile;
    table.profile = NULL;
    mo_share_table_free(&table);
    return MOIRE_OK;
}

/* On lets of 1, 2, 4, ... units and the whole GPU: between them the profile's own law holds. */
static int measure_profile(moire_tenant *t, int gpu, const struct mo_gpu_programs *p,
                           struct mo_share_profile **out, moire_error *err) {
    const struct mo_serve_device *d = t->runtime->device;
    const struct mo_plan_kind *whole = mo_gpus_kind(&d->gpus, gpu);
    struct mo_plan_kind kind = *whole;
    struct mo_measured model;
    double link;
    kind.n_sizes = 0;
    for (int i = 0; i < whole->n_sizes; i++)
        if (!i || i + 1 == whole->n_sizes || whole->sizes[i] >= 2 * kind.sizes[kind.n_sizes - 1])
            kind.sizes[kind.n_sizes++] = whole->sizes[i];
    struct mo_measure_options o = {.kind = &kind, .repetitions = REPETITIONS, .cell_ns = CELL_NS};
    int code = mo_measured_open(&d->device, gpu, p->n, p->program, &model, err);
    if (!code) code = mo_measure_shares(&model, &o, out, &link, err);
    if (!code) (*out)->copy_bytes_ns = link;
    mo_measured_close(&model);
    return code;
}

/* Of every kind of GPU, where the folder has them; false: some are still to be measured. */
static bool read_profiles(struct mo_serve_gpu *s, const char *path, int *code, moire_error *err) {
    const struct mo_serve_device *d = s->tenant->runtime->device;
    bool all = true;
    *code = MOIRE_OK;
    for (int k = 0; k < d->gpus.n_kinds && !*code; k++) {
        *code = d->folder ? read_profile(s->tenant, path, &s->share[k], err) : MOIRE_EIO;
        if (*code == MOIRE_EIO) *code = MOIRE_OK;
        all &= s->share[k] != NULL;
    }
    return all;
}

static int measure_profiles(struct mo_serve_gpu *s, const struct mo_gpu_programs *p, moire_error *err) {
    const struct mo_serve_device *d = s->tenant->runtime->device;
    int code = MOIRE_OK;
    for (int g = 0; g < d->gpus.n_gpus && !code; g++) {
        struct mo_share_profile **share = &s->share[d->gpus.kind[g]];
        if (!*share) code = measure_profile(s->tenant, g, p, share, err);
    }
    return code;
}

/* So many that a batch can be cut into parts of a millisecond (share_profile.h). */
static int segments(const struct mo_serve_gpu *s, const moire_tenant_config *c) {
    const struct mo_gpus *gpus = &s->tenant->runtime->device->gpus;
    int n = 1;
    for (int k = 0; k < gpus->n_kinds; k++) {
        int share = mo_share_of_units(gpus->kinds[k].sizes[0], gpus->kinds[k].units);
        int want = mo_share_segments(s->share[k], share, c->cls == MOIRE_BEST_EFFORT ? 0 : c->qos_ns);
        if (want > n) n = want;
    }
    return n;
}

/* Programs in as many segments as their profile wants; what has none is measured as one segment first. */
static int make_programs(struct mo_serve_gpu *s, const moire_tenant_config *c,
                         struct mo_gpu_programs_request *r, struct mo_gpu_programs *out, moire_error *err) {
    const struct mo_env *env = &s->tenant->runtime->env;
    int code;
    bool known = read_profiles(s, r->path, &code, err);
    if (code) return code;
    r->options.max_segments = known ? segments(s, c) : 1;
    code = mo_gpu_programs_make(env, r, out, err);
    if (known || code) return code;
    code = measure_profiles(s, out, err);
    if (!code) r->options.max_segments = segments(s, c);
    if (!code && r->options.max_segments == 1) return MOIRE_OK;
    mo_gpu_programs_free(out);
    return code ? code : mo_gpu_programs_make(env, r, out, err);
}

/* Parts of the whole by the nominal work of the segments: bytes moved, plus operations at ten a byte. */
static int make_layers(struct mo_serve_gpu *s, const struct mo_gpu_program *p, moire_error *err) {
    const struct mo_env *env = &s->tenant->runtime->env;
    int64_t *ns = mo_alloc(env, (size_t)p->n_segments * sizeof *ns);
    s->profile = ns ? mo_profile_create(env, p->n_segments, 1) : NULL;
    for (int i = 0; s->profile && i < p->n_segments; i++)
        ns[i] = 1 + p->segments[i].moved + p->segments[i].flops / 10;
    if (s->profile) {
        mo_profile_record(s->profile, 1, ns);
        mo_profile_finish(s->profile);
    }
    mo_free(env, ns);
    return s->profile ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
}

/* --- a tenant ------------------------------------------------------------------------------------------- */
void mo_serve_gpu_free(struct mo_serve_gpu *s) {
    const struct mo_env *env = &s->tenant->runtime->env;
    mo_gpu_requests_free(s);
    for (int k = 0; k < MO_PLAN_KINDS; k++)
        mo_share_destroy(s->share[k]);
    mo_profile_destroy(s->profile);
    mo_graph_destroy(s->ports);
    mo_free(env, s->offset);
    mo_free(env, s);
}

/* A GPU has the weights once, whatever batches it can run. */
static int64_t weights_on_gpus(const struct mo_serve_gpu *s, const struct mo_gpu_program *p) {
    const struct mo_gpus *gpus = &s->tenant->runtime->device->gpus;
    int64_t sum = 0;
    for (int g = 0; g < gpus->n_gpus; g++)
        if (s->share[gpus->kind[g]]) sum += p->weight_bytes;
    return sum;
}

static int open_in_engine(struct mo_serve_gpu *s, const moire_tenant_config *c,
                          const struct mo_gpu_programs *p, moire_error *err) {
    moire_runtime *rt = s->tenant->runtime;
    const struct mo_serve_device *d = rt->device;
    struct mo_engine_gpu_programs t = {.tensors = mo_serve_gpu_tensors,
                                       .n_buckets = p->n,
                                       .n_inputs = s->n_inputs,
                                       .n_outputs = s->n_outputs,
                                       .n_segments = p->program[0]->n_segments};
    int64_t queue = c->queue ? c->queue : rt->env.limits.queue;
    int most = 0;
    for (int k = 0; k < d->gpus.n_kinds; k++)
        if (d->gpus.kinds[k].max_lets > most) most = d->gpus.kinds[k].max_lets;
    for (int k = 0; k < d->gpus.n_kinds; k++)
        if (s->share[k]) mo_share_limit(s->share[k], p->batch[p->n - 1]);
    s->serving =
        (struct mo_sched_tenant_config){.qos_ns = c->qos_ns,
                                        .best_effort = c->cls == MOIRE_BEST_EFFORT,
                                        .shed_late = c->shed_late != 0,
                                        .priority = c->priority,
                                        .queue = (int)queue,
                                        .instances = d->gpus.n_gpus * (2 * most + 1) * p->batch[p->n - 1],
                                        .profile = s->profile,
                                        .share = (const struct mo_share_profile *const *)s->share,
                                        .declared = c->rate};
    s->weight_bytes = weights_on_gpus(s, p->program[0]);
    for (int i = 0; i < p->n; i++) {
        t.batch[i] = p->batch[i];
        t.program[i] = p->program[i];
    }
    for (int i = 0; i < s->n_outputs; i++)
        if (p->program[0]->outputs[i].bytes > t.output_bytes)
            t.output_bytes = p->program[0]->outputs[i].bytes;
    const struct mo_device_tenant tenant = {.sched = s->serving,
                                            .ops = &mo_serve_gpu_model,
                                            .model = s,
                                            .programs = &t,
                                            .owner = s->tenant->number};
    const struct mo_place place = {.calls = &mo_place_on_gpus, .self = s};
    return mo_tenant_open_place(s->tenant, d->number, &tenant, &place, err);
}

static bool add_ports(struct mo_graph *g, const struct mo_gpu_port *ports, int n, int *ids) {
    for (int i = 0; i < n; i++) {
        struct mo_shape shape = {.rank = ports[i].rank};
        memcpy(shape.d, ports[i].shape, sizeof ports[i].shape);
        const struct mo_tensor *t = mo_graph_add_tensor(g, ports[i].name, ports[i].dtype, &shape);
        if (!t) return false;
        ids[i] = t->id;
    }
    return true;
}

/* Inputs and outputs of a tenant that has no plan for cores to tell of them. */
static int make_ports(struct mo_serve_gpu *s, const struct mo_gpu_program *one, moire_error *err) {
    struct mo_graph *g = s->ports = mo_graph_create(&s->tenant->runtime->env);
    if (g) {
        g->inputs = mo_region_array(g->region, (size_t)one->n_inputs + 1, sizeof *g->inputs);
        g->outputs = mo_region_array(g->region, (size_t)one->n_outputs + 1, sizeof *g->outputs);
    }
    if (!g || !g->inputs || !g->outputs || !add_ports(g, one->inputs, one->n_inputs, g->inputs) ||
        !add_ports(g, one->outputs, one->n_outputs, g->outputs))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%s'", s->tenant->name);
    g->n_inputs = one->n_inputs;
    g->n_outputs = one->n_outputs;
    s->tenant->ports = g;
    return MOIRE_OK;
}

/* The tenant, whose memory is there, with its programs. */
static int open_tenant(struct mo_serve_gpu *s, const moire_tenant_config *c, const struct mo_gpu_programs *p,
                       moire_error *err) {
    int code = s->tenant->plan ? MOIRE_OK : make_ports(s, p->program[0], err);
    if (!code) code = mo_gpu_requests_init(s, p->program[0], err);
    if (!code) code = make_layers(s, p->program[0], err);
    return code ? code : open_in_engine(s, c, p, err);
}

int mo_serve_gpu_open(moire_tenant *tenant, const char *path, const moire_tenant_config *c,
                      struct mo_serve_gpu **out, moire_error *err) {
    moire_runtime *rt = tenant->runtime;
    struct mo_serve_device *d = rt->device;
    struct mo_gpu_programs programs = {0};
    moire_error why;
    struct mo_gpu_programs_request request = {.path = path,
                                              .shapes = c->shapes,
                                              .n_shapes = c->n_shapes,
                                              .exact = c->exact != 0,
                                              .max_batch = d->max_batch,
                                              .options = {.precision = d->precision, .model = ++d->models}};
    *out = NULL;
    struct mo_serve_gpu *s = mo_alloc(&rt->env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%s'", tenant->name);
    s->tenant = tenant;
    int code = make_programs(s, c, &request, &programs, &why);
    bool cores = code == MOIRE_EUNSUPPORTED && !c->device_only;
    if (cores)
        mo_log(&rt->env, MOIRE_LOG_WARN, "'%s' runs on cores: %s", tenant->name, why.message);
    else if (code)
        mo_fail(err, code, "%s", why.message);
    else
        code = open_tenant(s, c, &programs, err);
    mo_gpu_programs_free(&programs);
    if (!code)
        *out = s;
    else
        mo_serve_gpu_free(s);
    return cores ? MOIRE_OK : code;
}
