/* SPDX-License-Identifier: Apache-2.0
 * gpu_request.c - queries on GPUs: staging memory, answers; see gpu.h.  The pool grows to the largest number
 * of queries that were open at once. */
#include "runtime/serve/gpu_request.h"

#include <string.h>

static int64_t padded(int64_t bytes) {
    return (bytes + MO_GPU_ALIGN - 1) / MO_GPU_ALIGN * MO_GPU_ALIGN;
}

int mo_gpu_requests_init(struct mo_serve_gpu *s, const struct mo_gpu_program *one, moire_error *err) {
    const struct mo_graph *graph = s->tenant->ports;
    s->n_inputs = one->n_inputs;
    s->n_outputs = one->n_outputs;
    if (graph->n_inputs != s->n_inputs || graph->n_outputs != s->n_outputs)
        return mo_fail(err, MOIRE_EINTERNAL, "'%s' has other tensors on the GPU than on cores",
                       s->tenant->name);
    s->offset = mo_alloc(&s->tenant->runtime->env,
                         ((size_t)s->n_inputs + (size_t)s->n_outputs + 1) * sizeof *s->offset);
    if (!s->offset) return mo_fail(err, MOIRE_ENOMEM, "out of memory for '%s'", s->tenant->name);
    for (int i = 0; i < s->n_inputs + s->n_outputs; i++) {
        const struct mo_gpu_port *p = i < s->n_inputs ? &one->inputs[i] : &one->outputs[i - s->n_inputs];
        s->offset[i] = s->staging_bytes;
        s->staging_bytes += padded(p->bytes);
    }
    return MOIRE_OK;
}

static const struct mo_tensor *output_of(const struct mo_serve_gpu *s, int i) {
    const struct mo_graph *graph = s->tenant->ports;
    return graph->tensors[graph->outputs[i]];
}

static struct mo_gpu_request *make(struct mo_serve_gpu *s) {
    const moire_runtime *rt = s->tenant->runtime;
    const struct mo_gpu_device *d = &rt->device->device;
    struct mo_gpu_request *r = mo_alloc(&rt->env, sizeof *r + (size_t)s->n_outputs * sizeof r->outputs[0]);
    void *staging;
    if (!r) return NULL;
    if (d->ops->staging_alloc(d->system, (size_t)s->staging_bytes + 1, &staging, NULL)) {
        mo_free(&rt->env, r);
        return NULL;
    }
    r->staging = staging;
    atomic_fetch_add(&s->staged, s->staging_bytes + 1);
    for (int i = 0; i < s->n_outputs; i++) {
        const struct mo_tensor *t = output_of(s, i);
        r->outputs[i] = (moire_tensor){.dtype = t->dtype,
                                       .rank = t->shape.rank,
                                       .data = r->staging + s->offset[s->n_inputs + i],
                                       .bytes = (size_t)mo_tensor_bytes(t)};
        for (int k = 0; k < t->shape.rank; k++)
            r->outputs[i].shape[k] = t->shape.d[k];
    }
    return r;
}

static struct mo_request_head *take(void *self, bool lent) {
    (void)lent;
    struct mo_serve_gpu *s = self;
    const struct mo_sys *sys = s->tenant->runtime->env.sys;
    mo_lock_take(sys, &s->pool_lock);
    struct mo_gpu_request *r = s->pool;
    if (r) s->pool = r->next;
    mo_lock_drop(sys, &s->pool_lock);
    if (!r) r = make(s);
    return r ? &r->head : NULL;
}

static void give(void *self, struct mo_request_head *request) {
    struct mo_serve_gpu *s = self;
    struct mo_gpu_request *r = (struct mo_gpu_request *)(void *)request;
    const struct mo_sys *sys = s->tenant->runtime->env.sys;
    mo_lock_take(sys, &s->pool_lock);
    r->next = s->pool;
    s->pool = r;
    mo_lock_drop(sys, &s->pool_lock);
}

void mo_gpu_requests_free(struct mo_serve_gpu *s) {
    const moire_runtime *rt = s->tenant->runtime;
    const struct mo_gpu_device *d = &rt->device->device;
    while (s->pool) {
        struct mo_gpu_request *r = s->pool;
        s->pool = r->next;
        d->ops->staging_free(d->system, r->staging);
        mo_free(&rt->env, r);
    }
}

static void *input(void *self, struct mo_request_head *request, int i) {
    const struct mo_serve_gpu *s = self;
    return ((struct mo_gpu_request *)(void *)request)->staging + s->offset[i];
}

const struct mo_place_calls mo_place_on_gpus = {take, give, input, NULL};

/* --- the engine's view ---------------------------------------------------------------------------------- */
void mo_serve_gpu_tensors(void *model, void *user, const void **inputs, void **outputs) {
    const struct mo_serve_gpu *s = model;
    const struct mo_gpu_request *r = user;
    for (int i = 0; i < s->n_inputs; i++)
        inputs[i] = r->staging + s->offset[i];
    for (int i = 0; i < s->n_outputs; i++)
        outputs[i] = r->staging + s->offset[s->n_inputs + i];
}

static void answer(void *model, const struct mo_answer *a) {
    struct mo_serve_gpu *s = model;
    struct mo_gpu_request *r = a->user;
    const moire_runtime *rt = s->tenant->runtime;
    char why[MO_ENGINE_WHY] = "";
    if (mo_tenant_move(s->tenant, s, &r->head, a)) {
        atomic_fetch_add(&s->moved, 1);
        return;
    }
    bool ok = a->code == MOIRE_OK, device = a->code == MOIRE_EDEVICE || a->code == MOIRE_ENOMEM;
    if (device || a->code == MOIRE_EFAILED)
        mo_engine_gpu_why(mo_engine_device(rt->engine, rt->device->number), mo_tenant_index(s->tenant, s),
                          why);
    moire_answer out = {.query = a->query,
                        .code = a->code,
                        .message = *why ? why : moire_code_text(a->code),
                        .outputs = ok ? r->outputs : NULL,
                        .n_outputs = ok ? s->n_outputs : 0,
                        .arrival_ns = a->arrival,
                        .start_ns = a->start,
                        .end_ns = a->end,
                        .deadline_ns = a->deadline,
                        .compute_ns = a->ran};
    mo_account_answer(rt->env.sys, &s->tenant->accounting, &r->head.caller, &out);
}

static void release(void *model, void *user) {
    give(model, user);
}

static const char *name(const void *model) {
    return ((const struct mo_serve_gpu *)model)->tenant->name;
}

const struct mo_model_ops mo_serve_gpu_model = {.answer = answer, .name = name, .release = release};
