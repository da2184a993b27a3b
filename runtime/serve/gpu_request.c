/* SPDX-License-Identifier: Apache-2.0
 * gpu_request.c - queries on GPUs: staging memory, answers, and the way to the cores when a GPU fails; see
 * gpu.h.  The pool grows to the largest number of queries that were open at once. */
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

static struct mo_gpu_request *take(struct mo_serve_gpu *s) {
    const struct mo_sys *sys = s->tenant->runtime->env.sys;
    mo_lock_take(sys, &s->pool_lock);
    struct mo_gpu_request *r = s->pool;
    if (r) s->pool = r->next;
    mo_lock_drop(sys, &s->pool_lock);
    return r ? r : make(s);
}

static void give(struct mo_serve_gpu *s, struct mo_gpu_request *r) {
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

int mo_serve_gpu_submit(struct mo_serve_gpu *s, const moire_tensor *inputs, int64_t arrival,
                        moire_callback callback, void *user, moire_query *handle, moire_error *err) {
    uint64_t query;
    struct mo_gpu_request *r = take(s);
    if (!r) return mo_fail(err, MOIRE_ENOMEM, "out of staging memory for a query of '%s'", s->tenant->name);
    r->callback = callback;
    r->user = user;
    for (int i = 0; i < s->n_inputs; i++)
        if (inputs[i].bytes) memcpy(r->staging + s->offset[i], inputs[i].data, inputs[i].bytes);
    int code = mo_engine_submit(s->tenant->runtime->device->engine, s->index, arrival, r, &query, err);
    if (code) give(s, r);
    if (!code && handle) *handle = query | MO_GPU_QUERY;
    return code;
}

/* --- the engine's view ---------------------------------------------------------------------------------- */
static void tensors(void *model, void *user, const void **inputs, void **outputs) {
    const struct mo_serve_gpu *s = model;
    const struct mo_gpu_request *r = user;
    for (int i = 0; i < s->n_inputs; i++)
        inputs[i] = r->staging + s->offset[i];
    for (int i = 0; i < s->n_outputs; i++)
        outputs[i] = r->staging + s->offset[s->n_inputs + i];
}

/* --- queries that cores took over ------------------------------------------------------------------------
 */
void mo_serve_gpu_settled(moire_runtime *rt, struct mo_request *request) {
    const struct mo_sys *sys = rt->env.sys;
    mo_lock_take(sys, &rt->device->moving);
    struct mo_request **at = &rt->device->moved;
    while (*at && *at != request)
        at = &(*at)->next_moved;
    if (*at) *at = request->next_moved;
    mo_lock_drop(sys, &rt->device->moving);
}

/* It is listed before the cores have it, so that its answer finds it there. */
static int submit_moved(struct mo_serve_gpu *s, struct mo_request *r, int64_t arrival) {
    moire_runtime *rt = s->tenant->runtime;
    mo_lock_take(rt->env.sys, &rt->device->moving);
    r->next_moved = rt->device->moved;
    rt->device->moved = r;
    mo_lock_drop(rt->env.sys, &rt->device->moving);
    int code = mo_engine_submit(rt->engine, s->tenant->index, arrival, r, NULL, NULL);
    if (code) mo_serve_gpu_settled(rt, r);
    return code;
}

/* While the lock is held no listed query can be answered, so it is still there. */
int mo_serve_gpu_cancel(moire_runtime *rt, moire_query query) {
    struct mo_serve_device *d = rt->device;
    int code = d ? mo_engine_cancel(d->engine, query & ~MO_GPU_QUERY) : MOIRE_ESTALE;
    if (!d || code != MOIRE_ESTALE) return code;
    mo_lock_take(rt->env.sys, &d->moving);
    struct mo_request *r = d->moved;
    while (r && r->known != query)
        r = r->next_moved;
    if (r) code = mo_engine_cancel_user(rt->engine, r);
    mo_lock_drop(rt->env.sys, &d->moving);
    return code;
}

/* A query that the GPU failed goes to the cores with its own arrival time; false: they do not take it. */
static bool move(struct mo_serve_gpu *s, const struct mo_gpu_request *r, const struct mo_answer *a) {
    moire_tenant *t = s->tenant;
    moire_runtime *rt = t->runtime;
    bool failed = a->code == MOIRE_EDEVICE || a->code == MOIRE_ENOMEM || a->code == MOIRE_EFAILED;
    if (!failed || s->fixed || atomic_load(&rt->closing)) return false;
    struct mo_request *to = mo_request_take(t);
    if (!to) return false;
    const struct mo_graph *graph = t->ports;
    to->callback = r->callback;
    to->user = r->user;
    to->known = a->query | MO_GPU_QUERY;
    for (int i = 0; i < s->n_inputs; i++)
        memcpy(to->input[i], r->staging + s->offset[i],
               (size_t)mo_tensor_bytes(graph->tensors[graph->inputs[i]]));
    if (submit_moved(s, to, a->arrival)) {
        mo_request_give(t, to);
        return false;
    }
    atomic_fetch_add(&s->moved, 1);
    return true;
}

static void answer(void *model, const struct mo_answer *a) {
    struct mo_serve_gpu *s = model;
    struct mo_gpu_request *r = a->user;
    char why[MO_ENGINE_WHY] = "";
    if (move(s, r, a)) return;
    bool ok = a->code == MOIRE_OK, device = a->code == MOIRE_EDEVICE || a->code == MOIRE_ENOMEM;
    if (device || a->code == MOIRE_EFAILED)
        mo_engine_gpu_why(s->tenant->runtime->device->engine, s->index, why);
    moire_answer out = {.query = a->query | MO_GPU_QUERY,
                        .code = a->code,
                        .message = *why ? why : moire_code_text(a->code),
                        .outputs = ok ? r->outputs : NULL,
                        .n_outputs = ok ? s->n_outputs : 0,
                        .arrival_ns = a->arrival,
                        .start_ns = a->start,
                        .end_ns = a->end,
                        .deadline_ns = a->deadline};
    if (r->callback) r->callback(r->user, &out);
}

static void release(void *model, void *user) {
    give(model, user);
}

const struct mo_engine_gpu_model mo_serve_gpu_model = {{.answer = answer, .release = release}, tensors};
