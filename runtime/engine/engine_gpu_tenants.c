/* SPDX-License-Identifier: Apache-2.0
 * engine_gpu_tenants.c - tenants on GPUs: their programs and contexts; see engine_gpu.h. */
#include <string.h>
#include "runtime/engine/engine_gpu_impl.h"

/* Contexts of a tenant on every GPU, and what is known by its instances, in one piece of memory. */
static int make_contexts(const struct mo_engine_gpu *e, struct mo_gpu_resident *t, int instances) {
    const struct mo_gpus *gpus = &e->gpus;
    size_t most = (size_t)t->batch[t->n_buckets - 1], ports = (size_t)t->n_inputs + (size_t)t->n_outputs;
    size_t contexts = 0, pointers = most * (ports + 1) * sizeof(void *);
    for (int g = 0; g < gpus->n_gpus; g++)
        contexts += 2 * ((size_t)mo_gpus_kind(gpus, g)->max_lets + 1);
    size_t hosts = (size_t)gpus->n_gpus * sizeof(struct mo_gpu_host);
    char *at = t->memory = mo_alloc(e->env, hosts + contexts * (sizeof(struct mo_batch_context) + pointers) +
                                                (size_t)instances * sizeof(int));
    if (!at) return MOIRE_ENOMEM;
    t->host = (struct mo_gpu_host *)(void *)at;
    struct mo_batch_context *context = (struct mo_batch_context *)(void *)(at += hosts);
    void **pointer = (void **)(void *)(at += contexts * sizeof *context);
    t->context_of = (int *)(void *)(at + contexts * pointers);
    for (int i = 0; i < instances; i++)
        t->context_of[i] = -1;
    for (int g = 0; g < gpus->n_gpus; g++) {
        t->host[g].n_contexts = mo_gpus_kind(gpus, g)->max_lets + 1;
        t->host[g].context = context;
        for (int i = 0; i < 2 * t->host[g].n_contexts; i++, context++, pointer += most * (ports + 1)) {
            context->inputs = (const void **)pointer;
            context->outputs = pointer + most * (size_t)t->n_inputs;
            context->user = pointer + most * ports;
        }
    }
    return MOIRE_OK;
}

static int load(const struct mo_engine_gpu *g, struct mo_gpu_resident *t,
                const struct mo_sched_tenant_config *sched, const struct mo_engine_gpu_programs *c,
                moire_error *err) {
    const struct mo_gpu_ops *ops = g->config.ops;
    int code = make_contexts(g, t, sched->instances)
                   ? mo_fail(err, MOIRE_ENOMEM, "out of memory for a tenant of GPUs")
                   : MOIRE_OK;
    if (!code && c->output_bytes)
        code = ops->staging_alloc(g->config.system, (size_t)c->output_bytes, &t->discard, err);
    for (int i = 0; i < g->gpus.n_gpus && !code; i++) {
        if (!sched->share || !sched->share[g->gpus.kind[i]]) continue;
        for (int r = 0; r < t->n_buckets && !code; r++)
            code = ops->program_load(g->config.system, i, c->program[r], t->host[i].n_contexts,
                                     &t->host[i].loaded[r], err);
    }
    return code;
}

static void unload(const struct mo_engine_gpu *g, struct mo_gpu_resident *t) {
    for (int i = 0; t->host && i < g->gpus.n_gpus; i++)
        for (int r = 0; r < t->n_buckets; r++)
            g->config.ops->program_unload(t->host[i].loaded[r]);
    g->config.ops->staging_free(g->config.system, t->discard);
    mo_free(g->env, t->memory);
    *t = (struct mo_gpu_resident){0};
}

static int check(const struct mo_engine_gpu *g, const struct mo_engine_gpu_programs *c, int n_layers,
                 moire_error *err) {
    bool rises = c->n_buckets >= 1 && c->n_buckets <= MO_ENGINE_BUCKETS && c->batch[0] >= 1;
    for (int i = 1; rises && i < c->n_buckets; i++)
        rises = c->batch[i] > c->batch[i - 1];
    if (!rises || c->batch[c->n_buckets - 1] > g->config.max_batch)
        return mo_fail(err, MOIRE_EINVAL, "batches of a tenant must rise from 1 to at most %d",
                       g->config.max_batch);
    if (c->n_segments != n_layers)
        return mo_fail(err, MOIRE_EINVAL, "the programs have %d segments, the profile has %d layers",
                       c->n_segments, n_layers);
    return MOIRE_OK;
}

int mo_engine_gpu_admit(void *self, const struct mo_device_tenant *config, int *tenant, moire_error *err) {
    /* the level of pressure on a let is by how much the tenant is slower there than alone */
    static const double curve[MO_PRESSURE_LEVELS] = {1, 1.2, 1.4, 1.6, 1.8, 2};
    struct mo_engine_gpu *g = self;
    const struct mo_engine_gpu_programs *c = config->programs;
    struct mo_gpu_resident t = {.open = true,
                                .tensors = c->tensors,
                                .model = config->model,
                                .n_buckets = c->n_buckets,
                                .n_inputs = c->n_inputs,
                                .n_outputs = c->n_outputs,
                                .n_segments = c->n_segments,
                                .n_instances = config->sched.instances};
    int code = check(g, c, config->sched.profile->n_layers, err);
    if (code) return code;
    memcpy(t.batch, c->batch, sizeof t.batch);
    struct mo_device_tenant known = *config;
    if (!(known.sched.slowdown[0] > 0)) memcpy(known.sched.slowdown, curve, sizeof curve);
    mo_lock_take(g->env->sys, &g->changing);
    code = load(g, &t, &config->sched, c, err);
    if (!code) code = mo_device_admit(g->device, &known, tenant, err);
    if (!code) {
        mo_device_take(g->device);
        g->tenant[*tenant] = t;
        mo_device_drop(g->device);
    } else {
        unload(g, &t);
    }
    mo_lock_drop(g->env->sys, &g->changing);
    return code;
}

void mo_engine_gpu_forget(void *self, int tenant) {
    struct mo_engine_gpu *g = self;
    mo_lock_take(g->env->sys, &g->changing);
    unload(g, &g->tenant[tenant]);
    mo_lock_drop(g->env->sys, &g->changing);
}

void mo_engine_gpu_stats(struct mo_device *device, struct mo_engine_gpu_stats *out) {
    const struct mo_engine_gpu *g = device->self;
    mo_device_take(device);
    *out = g->stats;
    mo_device_drop(device);
}

void mo_engine_gpu_why(struct mo_device *device, int tenant, char out[MO_ENGINE_WHY]) {
    const struct mo_engine_gpu *g = device->self;
    mo_device_take(device);
    memcpy(out, g->tenant[tenant].why, MO_ENGINE_WHY);
    mo_device_drop(device);
}

/* Of one program. */
static int ways_of(const struct mo_gpu_ops *ops, struct mo_gpu_loaded *loaded, int gpu, int batch,
                   struct mo_engine_gpu_way *out, int room) {
    struct mo_gpu_ways ways[MO_GPU_UNITS];
    const int n = loaded && ops->program_ways ? ops->program_ways(loaded, ways, MO_GPU_UNITS) : 0;
    for (int i = 0; i < n && i < room; i++)
        out[i] = (struct mo_engine_gpu_way){gpu, batch, ways[i]};
    return n;
}

int mo_engine_gpu_ways(struct mo_device *device, int tenant, struct mo_engine_gpu_way *out, int room) {
    struct mo_engine_gpu *g = device->self;
    int n = 0;
    mo_lock_take(g->env->sys, &g->changing); /* programs stay */
    const struct mo_gpu_resident *t = &g->tenant[tenant];
    for (int i = 0; t->open && i < g->gpus.n_gpus; i++)
        for (int r = 0; r < t->n_buckets; r++) {
            const int left = n < room ? room - n : 0;
            n += ways_of(g->config.ops, t->host[i].loaded[r], i, t->batch[r], left ? out + n : NULL, left);
        }
    mo_lock_drop(g->env->sys, &g->changing);
    return n;
}
