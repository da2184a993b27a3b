/* SPDX-License-Identifier: Apache-2.0
 * child_serve.c - the process of the GPUs: its ring of runs; see child_serve_impl.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/gpu/child/child_serve_impl.h"

static const int64_t POLL_NS = 20000;

/* --- answers -------------------------------------------------------------------------------------------- */
static void answer(struct mo_serving *s, uint64_t run, int code, const char *message,
                   const struct mo_gpu_times *times) {
    const struct mo_sys *sys = s->env->sys;
    struct mo_child_ring *up = &s->channel->up;
    mo_lock_take(sys, &s->lock);
    const uint32_t tail = atomic_load_explicit(&up->tail, memory_order_relaxed);
    while (tail - atomic_load_explicit(&up->head, memory_order_acquire) >= MO_CHILD_ANSWERS)
        sys->sleep_until(sys->self, mo_now(s->env) + POLL_NS);
    struct mo_child_answer *a = &s->channel->answers[tail % MO_CHILD_ANSWERS];
    a->run = run;
    a->code = code;
    a->times = times ? *times : (struct mo_gpu_times){0};
    a->message[0] = 0;
    if (message) snprintf(a->message, sizeof a->message, "%s", message);
    atomic_store(&up->tail, tail + 1);
    mo_child_ring_doorbell(sys, up);
    mo_lock_drop(sys, &s->lock);
}

/* --- runs ----------------------------------------------------------------------------------------------- */
struct running {
    struct mo_serving *serving;
    uint64_t run;
    const void **inputs; /* of all queries */
    void **outputs;
};

static void done(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct running *r = ctx;
    struct mo_serving *s = r->serving;
    answer(s, r->run, code, message, times);
    mo_free(s->env, r);
}

static struct running *make_running(struct mo_serving *s, uint64_t run, int n_inputs, int n_outputs) {
    const size_t n = (size_t)n_inputs + (size_t)n_outputs;
    struct running *r = mo_alloc(s->env, sizeof *r + n * sizeof(void *));
    if (!r) return NULL;
    *r = (struct running){.serving = s, .run = run};
    r->inputs = (const void **)(void *)(r + 1);
    r->outputs = (void **)(void *)(r->inputs + n_inputs);
    return r;
}

/* NULL: there is no such memory.  The lock is held. */
static void *find(const struct mo_serving *s, uint64_t place, int64_t bytes) {
    const uint64_t id = place >> 40, at = place & ((UINT64_C(1) << 40) - 1);
    const struct mo_serving_buffer *b = id < MO_CHILD_BUFFERS ? &s->buffers[id] : NULL;
    return b && b->at && at <= b->bytes && (uint64_t)bytes <= b->bytes - at ? b->at + at : NULL;
}

static bool place_tensors(struct running *r, const struct mo_serving_program *p, const uint64_t *places,
                          int n_inputs, int n_outputs) {
    const int64_t *bytes = p->port_bytes;
    for (int i = 0; i < n_inputs; i++)
        if (!(r->inputs[i] = find(r->serving, places[i], bytes[i % p->n_inputs]))) return false;
    places += n_inputs;
    bytes += p->n_inputs;
    for (int i = 0; i < n_outputs; i++)
        if (!(r->outputs[i] = find(r->serving, places[i], bytes[i % p->n_outputs]))) return false;
    return true;
}

/* Everything that a record names; NULL: some of it is not there (a bug of the library, told to it). */
static struct running *read_run(struct mo_serving *s, const struct mo_child_run *head, const uint64_t *places,
                                uint32_t n_places, struct mo_gpu_run *out) {
    const bool known = head->let < MO_CHILD_LETS && s->lets[head->let] && head->program < MO_CHILD_PROGRAMS &&
                       s->programs[head->program].loaded;
    if (!known) return NULL;
    const struct mo_serving_program *p = &s->programs[head->program];
    const int n_inputs = head->begin == 0 ? head->batch * p->n_inputs : 0;
    const int n_outputs = head->end == p->n_segments ? head->batch * p->n_outputs : 0;
    if ((uint32_t)(n_inputs + n_outputs) != n_places) return NULL;
    struct running *r = make_running(s, head->run, n_inputs, n_outputs);
    if (!r || !place_tensors(r, p, places, n_inputs, n_outputs)) {
        mo_free(s->env, r);
        return NULL;
    }
    *out = (struct mo_gpu_run){.let = s->lets[head->let],
                               .program = p->loaded,
                               .instance = head->instance,
                               .begin = head->begin,
                               .end = head->end,
                               .batch = head->batch,
                               .inputs = r->inputs,
                               .outputs = r->outputs,
                               .hang_ns = head->hang_ns,
                               .done = done,
                               .ctx = r};
    return r;
}

static void start(struct mo_serving *s, const uint64_t *words, uint32_t n) {
    const uint32_t fixed = sizeof(struct mo_child_run) / sizeof *words;
    struct mo_child_run head;
    struct mo_gpu_run run;
    moire_error err = {0};
    if (n < fixed) return;
    memcpy(&head, words, sizeof head);
    mo_lock_take(s->env->sys, &s->lock);
    struct running *r = read_run(s, &head, words + fixed, n - fixed, &run);
    mo_lock_drop(s->env->sys, &s->lock);
    if (!r) {
        answer(s, head.run, MOIRE_EINTERNAL, "the process of the GPUs cannot read a run", NULL);
        return;
    }
    const int code = s->ops->run(&run, &err);
    if (!code) return;
    answer(s, head.run, code, err.message, NULL);
    mo_free(s->env, r);
}

static void close_let(struct mo_serving *s, uint64_t id) {
    if (id >= MO_CHILD_LETS) return;
    mo_lock_take(s->env->sys, &s->lock);
    struct mo_gpu_let *let = s->lets[id];
    s->lets[id] = NULL;
    mo_lock_drop(s->env->sys, &s->lock);
    s->ops->let_close(let);
}

/* --- the ring ------------------------------------------------------------------------------------------- */
static void take_record(struct mo_serving *s, uint32_t *at) {
    const uint64_t *words = &s->channel->words[*at % MO_CHILD_WORDS];
    struct mo_child_head head;
    memcpy(&head, words, sizeof head);
    if (head.kind == MO_CHILD_RUN) start(s, words + 1, head.words);
    if (head.kind == MO_CHILD_CLOSE) close_let(s, words[1]);
    *at += 1 + head.words;
}

static void serve(struct mo_serving *s) {
    struct mo_child_ring *down = &s->channel->down;
    uint32_t at = 0;
    for (;;) {
        const uint32_t tail = atomic_load_explicit(&down->tail, memory_order_acquire);
        if (tail == at) {
            mo_child_ring_wait(s->env->sys, down, at, 0);
            continue;
        }
        take_record(s, &at);
        atomic_store_explicit(&down->head, at, memory_order_release);
    }
}

/* The library has ended, however it did: so do we, and the driver frees what we have. */
static void *watch_link(void *fd) {
    char byte;
    while (read((int)(intptr_t)fd, &byte, 1) > 0) {
    }
    _exit(0);
}

int mo_child_serve(const struct mo_env *env, int link_fd, int channel_fd, int pool_fd) {
    const struct mo_sys *sys = env->sys;
    struct mo_serving *s = mo_alloc(env, sizeof *s);
    void *channel;
    struct mo_thread thread;
    struct mo_stat is;
    if (!s) return 1;
    if (sys->stat(sys->self, channel_fd, &is) || is.size != (int64_t)sizeof *s->channel)
        return MO_CHILD_VERSION_EXIT;
    if (sys->map_shared(sys->self, channel_fd, 0, sizeof *s->channel, &channel)) return 1;
    s->env = env;
    s->channel = channel;
    s->pool_fd = pool_fd;
    if (s->channel->magic != MO_CHILD_MAGIC || s->channel->bytes != sizeof *s->channel)
        return MO_CHILD_VERSION_EXIT;
    if (s->channel->parent != (int32_t)getppid()) return 0; /* it has gone already */
    if (sys->thread_start(sys->self, &thread, watch_link, (void *)(intptr_t)link_fd)) return 1;
    for (int i = 0; i < MO_CHILD_SLOTS; i++) {
        s->slots[i] = (struct mo_serving_slot){s, &s->channel->slots[i]};
        if (sys->thread_start(sys->self, &thread, mo_serving_answer_slot, &s->slots[i])) return 1;
    }
    serve(s);
    return 0;
}
