/* SPDX-License-Identifier: Apache-2.0
 * child_programs.c - programs for the process of the GPUs; see child_impl.h.
 *
 * A program is packed into the pool once, the contents of its weights beside it, those that an earlier
 * program of the model brought being used again.  They stay there as long as the program does, for the next
 * child reads them too; a child maps them only while it loads. */
#include <string.h>
#include "runtime/gpu/child/child_impl.h"

/* --- weights -------------------------------------------------------------------------------------------- */
static struct mo_child_weight *find_weight(struct mo_gpu_system *s, uint64_t model,
                                           const struct mo_gpu_weight *w) {
    struct mo_child_weight *c = s->weights;
    while (c && (c->model != model || c->sum != w->sum || c->bytes != w->bytes))
        c = c->next;
    if (c) c->users++;
    return c;
}

static int copy_into_pool(struct mo_gpu_system *s, const void *data, int64_t bytes, int64_t at,
                          moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    void *to;
    if (!bytes) return MOIRE_OK;
    const int rc = sys->map_shared(sys->self, s->pool_fd, at, (size_t)bytes, &to);
    if (rc) return mo_fail(err, MOIRE_ENOMEM, "no shared memory for a weight: %s", strerror(-rc));
    memcpy(to, data, (size_t)bytes);
    sys->unmap(sys->self, to, (size_t)bytes);
    return MOIRE_OK;
}

static int make_weight(struct mo_gpu_system *s, uint64_t model, const struct mo_gpu_weight *w,
                       struct mo_child_weight **out, moire_error *err) {
    struct mo_child_weight *c = mo_alloc(s->env, sizeof *c);
    if (!c) return mo_fail(err, MOIRE_ENOMEM, "no host memory for a weight");
    *c = (struct mo_child_weight){.model = model, .sum = w->sum, .bytes = w->bytes, .users = 1};
    int code = mo_child_pool_take(s, w->bytes, &c->at, err);
    if (code) {
        mo_free(s->env, c);
        return code;
    }
    code = copy_into_pool(s, w->data, w->bytes, c->at, err);
    if (code) {
        mo_child_pool_give(s, c->at, c->bytes);
        mo_free(s->env, c);
        return code;
    }
    mo_child_lock(s);
    c->next = s->weights;
    s->weights = c;
    mo_child_unlock(s);
    *out = c;
    return MOIRE_OK;
}

static int take_weights(struct mo_gpu_loaded *p, const struct mo_gpu_program *program, moire_error *err) {
    struct mo_gpu_system *s = p->system;
    int code = MOIRE_OK;
    for (int i = 0; i < program->n_weights && !code; i++) {
        mo_child_lock(s);
        p->weight[i] = find_weight(s, program->model, &program->weights[i]);
        mo_child_unlock(s);
        if (!p->weight[i]) code = make_weight(s, program->model, &program->weights[i], &p->weight[i], err);
    }
    return code;
}

static void give_weight(struct mo_gpu_system *s, struct mo_child_weight *c) {
    mo_child_lock(s);
    const bool last = --c->users == 0;
    if (last) {
        struct mo_child_weight **at = &s->weights;
        while (*at != c)
            at = &(*at)->next;
        *at = c->next;
    }
    mo_child_unlock(s);
    if (!last) return;
    mo_child_pool_give(s, c->at, c->bytes);
    mo_free(s->env, c);
}

/* --- packing -------------------------------------------------------------------------------------------- */
static int pack(struct mo_gpu_loaded *p, const struct mo_gpu_program *program, moire_error *err) {
    struct mo_gpu_system *s = p->system;
    const int64_t bytes = (int64_t)mo_gpu_packed_bytes(program);
    int64_t *at = mo_alloc(s->env, ((size_t)program->n_weights + 1) * sizeof *at);
    void *packed = mo_alloc(s->env, (size_t)bytes);
    int code = at && packed ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "no host memory for a program");
    for (int i = 0; i < program->n_weights && !code; i++)
        at[i] = p->weight[i]->at;
    if (!code) mo_gpu_pack(program, at, packed);
    if (!code) code = mo_child_pool_take(s, bytes, &p->at, err);
    if (!code) {
        p->packed_bytes = bytes;
        code = copy_into_pool(s, packed, bytes, p->at, err);
    }
    mo_free(s->env, packed);
    mo_free(s->env, at);
    return code;
}

static void destroy(struct mo_gpu_loaded *p) {
    struct mo_gpu_system *s = p->system;
    for (int i = 0; i < p->n_weights && p->weight; i++)
        if (p->weight[i]) give_weight(s, p->weight[i]);
    if (p->packed_bytes) mo_child_pool_give(s, p->at, p->packed_bytes);
    mo_free(s->env, (void *)p->weight);
    mo_free(s->env, p->port_bytes);
    mo_free(s->env, p->filled);
    mo_free(s->env, p);
}

static struct mo_gpu_loaded *make(struct mo_gpu_system *s, int gpu, const struct mo_gpu_program *program,
                                  int instances) {
    struct mo_gpu_loaded *p = mo_alloc(s->env, sizeof *p);
    if (!p) return NULL;
    *p = (struct mo_gpu_loaded){.system = s,
                                .id = -1,
                                .gpu = gpu,
                                .instances = instances,
                                .batch = (int)program->batch,
                                .n_segments = program->n_segments,
                                .n_inputs = program->n_inputs,
                                .n_outputs = program->n_outputs,
                                .n_weights = program->n_weights};
    const size_t ports = (size_t)program->n_inputs + (size_t)program->n_outputs;
    p->port_bytes = mo_alloc(s->env, (ports + 1) * sizeof *p->port_bytes);
    p->weight = mo_alloc(s->env, ((size_t)program->n_weights + 1) * sizeof(void *));
    p->filled = mo_alloc(s->env, (size_t)instances * sizeof *p->filled);
    if (!p->port_bytes || !p->weight || !p->filled) {
        destroy(p);
        return NULL;
    }
    for (int i = 0; i < p->n_inputs; i++)
        p->port_bytes[i] = program->inputs[i].bytes / program->batch;
    for (int i = 0; i < p->n_outputs; i++)
        p->port_bytes[p->n_inputs + i] = program->outputs[i].bytes / program->batch;
    return p;
}

/* --- the table ------------------------------------------------------------------------------------------ */
int mo_child_ask_program(struct mo_gpu_loaded *p, moire_error *err) {
    struct mo_child_reply reply;
    const struct mo_child_ask ask = {
        .kind = MO_CHILD_LOAD, .n = {p->id, p->gpu, p->instances}, .x = {p->at, p->packed_bytes}};
    const int code = mo_child_ask(p->system, &ask, &reply, err);
    if (!code) p->bytes = reply.x;
    return code;
}

/* Into the table and the child, which is there. */
static int load(struct mo_gpu_loaded *p, moire_error *err) {
    struct mo_gpu_system *s = p->system;
    int id = 0;
    mo_child_lock(s);
    while (id < MO_CHILD_PROGRAMS && s->programs[id])
        id++;
    if (id < MO_CHILD_PROGRAMS) s->programs[id] = p;
    mo_child_unlock(s);
    if (id == MO_CHILD_PROGRAMS) return mo_fail(err, MOIRE_ELIMIT, "more than %d programs", id);
    p->id = id;
    const int code = mo_child_ask_program(p, err);
    mo_child_lock(s);
    p->there = !code;
    if (code) s->programs[id] = NULL;
    mo_child_unlock(s);
    return code;
}

int mo_child_program_load(struct mo_gpu_system *s, int gpu, const struct mo_gpu_program *program,
                          int instances, struct mo_gpu_loaded **out, moire_error *err) {
    if (gpu < 0 || gpu >= s->n_gpus)
        return mo_fail(err, MOIRE_EINVAL, "there is no GPU %d; there are 0 to %d", gpu, s->n_gpus - 1);
    if (instances < 1) return mo_fail(err, MOIRE_EINVAL, "a program needs an instance, not %d", instances);
    struct mo_gpu_loaded *p = make(s, gpu, program, instances);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "GPU %d: no host memory for a program", gpu);
    int code = take_weights(p, program, err);
    if (!code) code = pack(p, program, err);
    if (!code) code = mo_child_enter(s, s->bounds.load_timeout_ns, err);
    if (!code) {
        code = load(p, err);
        mo_child_leave(s);
    }
    if (code)
        destroy(p);
    else
        *out = p;
    return code;
}

void mo_child_program_unload(struct mo_gpu_loaded *p) {
    if (!p) return;
    struct mo_gpu_system *s = p->system;
    mo_child_lock(s);
    mo_child_settle(s);
    const bool up = mo_child_step_in(s, p->there);
    mo_child_unlock(s);
    if (up) {
        mo_child_tell(s, MO_CHILD_UNLOAD, p->id, 0, NULL);
        mo_child_leave(s);
    }
    mo_child_lock(s);
    mo_child_settle(s);
    s->programs[p->id] = NULL;
    mo_child_unlock(s);
    destroy(p);
}

/* --- graphs --------------------------------------------------------------------------------------------- */
int mo_child_prepare(struct mo_gpu_loaded *p, struct mo_gpu_let *let, moire_error *err) {
    struct mo_gpu_system *s = p->system;
    if (let->gpu != p->gpu) return mo_fail(err, MOIRE_EINVAL, "let and program are on different GPUs");
    mo_child_lock(s);
    mo_child_settle(s);
    p->prepared |= UINT32_C(1) << (let->units - 1);
    const int code = mo_child_step_in(s, p->there && let->there) ? MOIRE_OK : mo_child_absent(s, err);
    mo_child_unlock(s);
    if (code) return code; /* the next child prepares it */
    const int rc = mo_child_tell(s, MO_CHILD_PREPARE, p->id, let->id, err);
    mo_child_leave(s);
    return rc;
}

int mo_child_ways(struct mo_gpu_loaded *p, struct mo_gpu_ways *out, int room) {
    struct mo_gpu_system *s = p->system;
    struct mo_child_reply reply;
    mo_child_lock(s);
    mo_child_settle(s);
    const bool there = mo_child_step_in(s, p->there);
    mo_child_unlock(s);
    if (!there) return 0;
    const struct mo_child_ask ask = {.kind = MO_CHILD_WAYS, .n = {p->id}};
    const int rc = mo_child_ask(s, &ask, &reply, NULL);
    mo_child_leave(s);
    if (rc || reply.x < 0 || reply.x > MO_GPU_UNITS) return 0;
    const int n = (int)reply.x < room ? (int)reply.x : room;
    memcpy(out, reply.ways, (size_t)n * sizeof *out);
    return n;
}
