/* SPDX-License-Identifier: Apache-2.0
 * child_serve_ask.c - the process of the GPUs: what it is asked; see child_serve_impl.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/child/child_serve_impl.h"
#include "runtime/gpu/plugin.h"

static const int64_t POLL_NS = 20000;

static void lock(struct mo_serving *s) {
    mo_lock_take(s->env->sys, &s->lock);
}
static void unlock(struct mo_serving *s) {
    mo_lock_drop(s->env->sys, &s->lock);
}

static int open_plugin(struct mo_serving *s, const struct mo_child_ask *a, struct mo_child_reply *reply,
                       moire_error *err) {
    const struct mo_gpu_config config = {.env = s->env,
                                         .queue = a->n[0],
                                         .hang_ns = a->x[0],
                                         .memory = a->x[1],
                                         .libraries_first = a->n[2] != 0,
                                         .path = a->text[1][0] ? a->text[1] : NULL,
                                         .cache = a->text[2]};
    if (a->n[1] != MO_GPU_ABI)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "moire-gpu-child is of another version of moire");
    int code = mo_gpu_plugin_load(s->env, a->text[0], &s->object, &s->ops, err);
    if (!code) code = s->ops->open(&config, &s->system, err);
    if (!code) reply->x = s->ops->count(s->system);
    return code;
}

/* --- lets ----------------------------------------------------------------------------------------------- */
static struct mo_gpu_let *let_of(struct mo_serving *s, int id, moire_error *err) {
    lock(s);
    struct mo_gpu_let *let = id >= 0 && id < MO_CHILD_LETS ? s->lets[id] : NULL;
    unlock(s);
    if (!let) mo_fail(err, MOIRE_EINTERNAL, "the process of the GPUs has no let %d", id);
    return let;
}

static int open_let(struct mo_serving *s, const struct mo_child_ask *a, moire_error *err) {
    struct mo_gpu_let *let;
    const int code = s->ops->let_open(s->system, a->n[1], a->n[2], a->n[3], a->n[4], &let, err);
    if (code) return code;
    lock(s);
    s->lets[a->n[0]] = let;
    unlock(s);
    return MOIRE_OK;
}

/* --- programs ------------------------------------------------------------------------------------------- */
/* Part of the pool, mapped: what it begins with need not be at the begin of a page. */
static int map_pool(struct mo_serving *s, int64_t offset, int64_t bytes, void **out, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    const int rc = sys->map_shared(sys->self, s->pool_fd, offset, (size_t)bytes, out);
    if (!rc) return MOIRE_OK;
    return mo_fail(err, MOIRE_ENOMEM, "the process of the GPUs cannot map %lld bytes: %s", (long long)bytes,
                   strerror(-rc));
}

static void unmap(struct mo_serving *s, const void *at, int64_t bytes) {
    s->env->sys->unmap(s->env->sys->self, at, (size_t)bytes);
}

/* Weights' data: from offsets to memory, as many as can be mapped. */
static int map_weights(struct mo_serving *s, struct mo_gpu_program *p, int *n, moire_error *err) {
    int code = MOIRE_OK;
    for (*n = 0; *n < p->n_weights && !code;) {
        struct mo_gpu_weight *w = &p->weights[*n];
        void *at = NULL;
        if (w->bytes) code = map_pool(s, (int64_t)(uintptr_t)w->data, w->bytes, &at, err);
        if (code) break;
        w->data = at;
        ++*n;
    }
    return code;
}

static int keep_ports(struct mo_serving *s, struct mo_serving_program *to, const struct mo_gpu_program *p,
                      moire_error *err) {
    const size_t n = (size_t)p->n_inputs + (size_t)p->n_outputs;
    *to = (struct mo_serving_program){
        .n_inputs = p->n_inputs, .n_outputs = p->n_outputs, .n_segments = p->n_segments};
    to->port_bytes = mo_alloc(s->env, (n + 1) * sizeof *to->port_bytes);
    if (!to->port_bytes) return mo_fail(err, MOIRE_ENOMEM, "no host memory for a program");
    for (int i = 0; i < p->n_inputs; i++)
        to->port_bytes[i] = p->inputs[i].bytes / p->batch;
    for (int i = 0; i < p->n_outputs; i++)
        to->port_bytes[p->n_inputs + i] = p->outputs[i].bytes / p->batch;
    return MOIRE_OK;
}

static int load_unpacked(struct mo_serving *s, const struct mo_child_ask *a, struct mo_gpu_program *program,
                         struct mo_child_reply *reply, moire_error *err) {
    struct mo_serving_program made;
    int mapped = 0, code = keep_ports(s, &made, program, err);
    if (!code) code = map_weights(s, program, &mapped, err);
    if (!code) code = s->ops->program_load(s->system, a->n[1], program, a->n[2], &made.loaded, err);
    for (int i = 0; i < mapped; i++)
        if (program->weights[i].data) unmap(s, program->weights[i].data, program->weights[i].bytes);
    if (code) {
        mo_free(s->env, made.port_bytes);
        return code;
    }
    reply->x = s->ops->program_bytes(made.loaded);
    lock(s);
    s->programs[a->n[0]] = made;
    unlock(s);
    return MOIRE_OK;
}

static int load(struct mo_serving *s, const struct mo_child_ask *a, struct mo_child_reply *reply,
                moire_error *err) {
    void *packed, *own = mo_alloc(s->env, (size_t)a->x[1]);
    if (!own) return mo_fail(err, MOIRE_ENOMEM, "the process of the GPUs has no host memory for a program");
    int code = map_pool(s, a->x[0], a->x[1], &packed, err);
    if (!code) {
        memcpy(own, packed, (size_t)a->x[1]);
        unmap(s, packed, a->x[1]);
        code = load_unpacked(s, a, mo_gpu_unpack(own), reply, err);
    }
    mo_free(s->env, own);
    return code;
}

static struct mo_gpu_loaded *program_of(struct mo_serving *s, int id, moire_error *err) {
    lock(s);
    struct mo_gpu_loaded *p = id >= 0 && id < MO_CHILD_PROGRAMS ? s->programs[id].loaded : NULL;
    unlock(s);
    if (!p) mo_fail(err, MOIRE_EINTERNAL, "the process of the GPUs has no program %d", id);
    return p;
}

static int unload(struct mo_serving *s, int id, moire_error *err) {
    struct mo_gpu_loaded *p = program_of(s, id, err);
    if (!p) return MOIRE_EINTERNAL;
    lock(s);
    int64_t *bytes = s->programs[id].port_bytes;
    s->programs[id] = (struct mo_serving_program){0};
    unlock(s);
    s->ops->program_unload(p);
    mo_free(s->env, bytes);
    return MOIRE_OK;
}

static int prepare(struct mo_serving *s, const struct mo_child_ask *a, moire_error *err) {
    struct mo_gpu_loaded *p = program_of(s, a->n[0], err);
    struct mo_gpu_let *let = p ? let_of(s, a->n[1], err) : NULL;
    return let ? s->ops->prepare(p, let, err) : MOIRE_EINTERNAL;
}

static int ways(struct mo_serving *s, const struct mo_child_ask *a, struct mo_child_reply *reply,
                moire_error *err) {
    struct mo_gpu_loaded *p = program_of(s, a->n[0], err);
    if (!p) return MOIRE_EINTERNAL;
    reply->x = s->ops->program_ways ? s->ops->program_ways(p, reply->ways, MO_GPU_UNITS) : 0;
    return MOIRE_OK;
}

/* --- staging memory ------------------------------------------------------------------------------------- */
static int register_buffer(struct mo_serving *s, const struct mo_child_ask *a, moire_error *err) {
    void *at;
    int code = map_pool(s, a->x[0], a->x[1], &at, err);
    if (code) return code;
    if (s->ops->staging_register) code = s->ops->staging_register(s->system, at, (size_t)a->x[1], err);
    if (code) {
        unmap(s, at, a->x[1]);
        if (code == MOIRE_EDEVICE) return code;
        return mo_fail_context(err, code,
                               "memory that two processes share is of no use to the GPU; "
                               "--device-process in does without");
    }
    lock(s);
    s->buffers[a->n[0]] = (struct mo_serving_buffer){.at = at, .bytes = (size_t)a->x[1]};
    unlock(s);
    return MOIRE_OK;
}

static int forget(struct mo_serving *s, int id) {
    lock(s);
    const struct mo_serving_buffer b = s->buffers[id];
    s->buffers[id] = (struct mo_serving_buffer){0};
    unlock(s);
    if (!b.at) return MOIRE_OK;
    if (s->ops->staging_forget) s->ops->staging_forget(s->system, b.at);
    unmap(s, b.at, (int64_t)b.bytes);
    return MOIRE_OK;
}

static int quit(struct mo_serving *s) {
    for (int i = 0; i < MO_CHILD_BUFFERS; i++)
        forget(s, i);
    for (int i = 0; i < MO_CHILD_PROGRAMS; i++)
        if (s->programs[i].loaded) unload(s, i, NULL);
    for (int i = 0; i < MO_CHILD_LETS; i++)
        s->ops->let_close(s->lets[i]);
    s->ops->close(s->system);
    return MOIRE_OK;
}

/* --- slots ---------------------------------------------------------------------------------------------- */
static int perform(struct mo_serving *s, const struct mo_child_ask *a, struct mo_child_reply *reply,
                   moire_error *err) {
    struct mo_gpu_let *let;
    switch (a->kind) {
    case MO_CHILD_OPEN:
        return open_plugin(s, a, reply, err);
    case MO_CHILD_DESCRIBE:
        return s->ops->describe(s->system, a->n[0], &reply->info, err);
    case MO_CHILD_COUNTERS:
        return s->ops->counters(s->system, a->n[0], a->n[1] ? &reply->counters : NULL, err);
    case MO_CHILD_LET_OPEN:
        return open_let(s, a, err);
    case MO_CHILD_LET_PROBE:
        let = let_of(s, a->n[0], err);
        return let ? s->ops->let_probe(let, reply->sms, err) : MOIRE_EINTERNAL;
    case MO_CHILD_LOAD:
        return load(s, a, reply, err);
    case MO_CHILD_UNLOAD:
        return unload(s, a->n[0], err);
    case MO_CHILD_PREPARE:
        return prepare(s, a, err);
    case MO_CHILD_WAYS:
        return ways(s, a, reply, err);
    case MO_CHILD_REGISTER:
        return register_buffer(s, a, err);
    case MO_CHILD_FORGET:
        return forget(s, a->n[0]);
    case MO_CHILD_QUIT:
        return quit(s);
    default:
        return mo_fail(err, MOIRE_EINTERNAL, "the process of the GPUs does not know %d", a->kind);
    }
}

static void wait_for_records(const struct mo_serving *s, uint32_t after) {
    const struct mo_sys *sys = s->env->sys;
    while ((int32_t)(atomic_load_explicit(&s->channel->down.head, memory_order_acquire) - after) < 0)
        sys->sleep_until(sys->self, mo_now(s->env) + POLL_NS);
}

void *mo_serving_answer_slot(void *ctx) {
    const struct mo_serving_slot *mine = ctx;
    struct mo_serving *s = mine->serving;
    struct mo_child_slot *slot = mine->slot;
    const struct mo_sys *sys = s->env->sys;
    for (;;) {
        const uint32_t state = atomic_load(&slot->state);
        if (state != MO_CHILD_ASKED) {
            sys->shared_wait(sys->self, &slot->state, state, 0);
            continue;
        }
        const struct mo_child_ask ask = slot->ask;
        struct mo_child_reply reply = {0};
        moire_error err = {0};
        wait_for_records(s, slot->after);
        reply.code = perform(s, &ask, &reply, &err);
        if (reply.code) snprintf(reply.message, sizeof reply.message, "%s", err.message);
        slot->reply = reply;
        atomic_store(&slot->state, MO_CHILD_ANSWERED);
        atomic_fetch_add(&slot->doorbell, 1);
        sys->shared_wake(sys->self, &slot->doorbell, 1);
        if (ask.kind == MO_CHILD_QUIT) exit(0);
    }
}
