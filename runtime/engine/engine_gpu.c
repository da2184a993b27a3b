/* SPDX-License-Identifier: Apache-2.0
 * engine_gpu.c - the table of GPUs: blocks to the plugin and back; see engine_gpu.h.
 *
 * A batch holds a *context* on its GPU, a set of activations, from its first block to its last: what a
 * segment leaves there the next one reads.  Queries of a batch that are cancelled on the way keep their place
 * in it, and their outputs are discarded.
 *
 * A let has a queue of two (struct mo_let_queue), which the plugin takes in order and one at a time: a block
 * is on the list of those to be submitted until the one before it has been.  What the plugin refuses while
 * another runs before it is answered in its turn, because the core knows blocks by their let. */
#include "runtime/engine/engine_gpu_impl.h"

#include <stdio.h>
#include <string.h>

static void log_units(struct mo_engine_gpu *g, const struct mo_gpu_work *w, int kind, int64_t now) {
    struct mo_ring *ring = mo_device_locked_ring(g->device);
    if (!ring) return;
    for (int c = w->run.lead; c >= 0; c = mo_cores_next(&w->run.cores, c))
        mo_event_put(ring, now, kind, w->handle, w->run.tenant, w->run.begin, w->run.end, c);
}

enum { HANG_TIMES = 50 }; /* a block that takes so many times its profiled time has hung */

/* --- contexts ------------------------------------------------------------------------------------------- */
/* `before`: the context of the batch of the same tenant that ends before this one begins; NULL = there is
 * none. */
static struct mo_batch_context *unused_context(struct mo_gpu_host *host,
                                               const struct mo_batch_context *before) {
    const int n = host->n_contexts;
    if (before) {
        struct mo_batch_context *other = &host->context[(before - host->context + n) % (2 * n)];
        return other->taken ? NULL : other;
    }
    for (int i = 0; i < n; i++)
        if (!host->context[i].taken && !host->context[n + i].taken) return &host->context[i];
    return NULL;
}

/* The smallest program that holds the batch, -1 when none does. */
static int bucket_of(const struct mo_gpu_resident *t, int batch) {
    for (int i = 0; i < t->n_buckets; i++)
        if (t->batch[i] >= batch) return i;
    return -1;
}

/* A new batch takes a context. */
static struct mo_batch_context *take_context(struct mo_engine_gpu *g, struct mo_gpu_resident *t,
                                             struct mo_gpu_host *host, const struct mo_run *run,
                                             const struct mo_batch_context *before) {
    struct mo_queries *q = mo_sched_queries(g->device->sched);
    struct mo_batch_context *context = unused_context(host, before);
    int bucket = bucket_of(t, run->batch), n = 0;
    if (!context || bucket < 0) return NULL;
    for (int slot = run->query; slot >= 0; slot = q->record[slot].next_in_batch, n++) {
        context->user[n] = q->record[slot].user;
        t->context_of[q->record[slot].instance] = (int)(context - host->context);
        t->tensors(t->model, context->user[n], context->inputs + (size_t)n * (size_t)t->n_inputs,
                   context->outputs + (size_t)n * (size_t)t->n_outputs);
    }
    context->taken = true;
    context->bucket = bucket;
    context->batch = context->left = n;
    return context;
}

/* The batch that goes on; NULL unless it is whole and on its GPU. */
static struct mo_batch_context *resume_context(struct mo_engine_gpu *g, struct mo_gpu_resident *t,
                                               struct mo_gpu_host *host, const struct mo_run *run) {
    struct mo_queries *q = mo_sched_queries(g->device->sched);
    int at = t->context_of[run->instance];
    struct mo_batch_context *context = at >= 0 && at < 2 * host->n_contexts ? &host->context[at] : NULL;
    if (!context || !context->taken || context->running || context->left != run->batch) return NULL;
    for (int slot = run->query; slot >= 0; slot = q->record[slot].next_in_batch) {
        int i = 0;
        while (i < context->batch && context->user[i] != q->record[slot].user)
            i++;
        if (i == context->batch) return NULL;
    }
    return context;
}

/* A query is gone for good: nothing is written to its memory any more. */
static void leave_context(struct mo_gpu_resident *t, struct mo_gpu_host *host, const void *user) {
    for (int s = 0; s < 2 * host->n_contexts; s++) {
        struct mo_batch_context *context = &host->context[s];
        for (int i = 0; context->taken && i < context->batch; i++) {
            if (context->user[i] != user) continue;
            context->user[i] = NULL;
            for (int k = 0; k < t->n_outputs; k++)
                context->outputs[i * t->n_outputs + k] = t->discard;
            if (--context->left == 0 && !context->running) context->taken = false;
            return;
        }
    }
}

/* --- the core's calls; the lock is held ----------------------------------------------------------------- */
static int64_t hang_after(const struct mo_engine_gpu *g, const struct mo_run *run) {
    int64_t solo = mo_view_let_time(mo_sched_view(g->device->sched), run->tenant, run->lead, run->n_cores,
                                    run->begin, run->end, run->batch);
    double ns = (double)solo * HANG_TIMES;
    return ns < (double)g->config.hang_ns ? g->config.hang_ns : (int64_t)(ns < 3e11 ? ns : 3e11);
}

static void start(void *self, const struct mo_run *run) {
    struct mo_engine_gpu *g = self;
    struct mo_let_queue *queue = &g->queue[run->lead];
    const struct mo_gpu_work *before = queue->n ? &queue->work[queue->front] : NULL;
    struct mo_gpu_work *w = &queue->work[(queue->front + queue->n++) % 2];
    struct mo_gpu_resident *t = &g->tenant[run->tenant];
    int gpu = g->gpus.gpu_of[run->lead];
    struct mo_gpu_host *host = &t->host[gpu];
    int64_t now = mo_sched_view(g->device->sched)->now;
    *w = (struct mo_gpu_work){.owner = g,
                              .run = *run,
                              .let = before ? before->let : g->at[run->lead],
                              .handle = mo_query_handle(mo_sched_queries(g->device->sched), run->query),
                              .began = now,
                              .hang_ns = hang_after(g, run),
                              .gpu = gpu,
                              .late = now > run->latest_start};
    const struct mo_batch_context *previous =
        before && before->run.tenant == run->tenant ? before->context : NULL;
    if (!w->late)
        w->context = run->first ? take_context(g, t, host, run, previous) : resume_context(g, t, host, run);
    if (!w->late && !w->context) w->code = MOIRE_ELIMIT;
    if (w->context) {
        w->context->running = true;
        w->instance = (int)(w->context - host->context) % host->n_contexts;
    }
    if (w->let) w->let->running++;
    if (!before) log_units(g, w, w->late ? MO_LOG_BLOCK_DROP : MO_LOG_BLOCK_START, now);
    *g->launch_end = w;
    g->launch_end = &w->next;
}

static void released(void *self, int tenant, void *user) {
    const struct mo_engine_gpu *g = self;
    struct mo_gpu_resident *t = &g->tenant[tenant];
    for (int i = 0; i < g->gpus.n_gpus; i++)
        leave_context(t, &t->host[i], user);
}

static void prepare(void *self, int64_t expected_ns) {
    struct mo_engine_gpu *g = self;
    (void)expected_ns;
    g->asked = true;
    g->asked_at = mo_now(g->env);
    mo_engine_gpu_ring(g);
}

static bool is_lost(void *self) {
    const struct mo_engine_gpu *g = self;
    int lost = 0;
    for (int i = 0; i < g->gpus.n_gpus; i++)
        lost += g->lost[i];
    return lost == g->gpus.n_gpus;
}

/* --- blocks that end ------------------------------------------------------------------------------------ */
/* The core hears of it before the block's own end, so that nothing begins there any more. */
static void note_failure(struct mo_engine_gpu *g, const struct mo_gpu_work *w, int code, const char *message,
                         int64_t now) {
    g->stats.failed++;
    snprintf(g->tenant[w->run.tenant].why, MO_ENGINE_WHY, "GPU %d: %s", w->gpu, message);
    if (code == MOIRE_EDEVICE && !g->lost[w->gpu])
        mo_device_say(g->device, MOIRE_LOG_ERROR, "GPU %d is lost: %s", w->gpu, message);
    g->lost[w->gpu] = code == MOIRE_EDEVICE;
    if (!g->lost[w->gpu]) return;
    mo_sched_gpu_lost(g->device->sched, w->gpu, true, now);
    mo_engine_gpu_ring(g); /* who looks whether it comes back */
}

/* The block behind the one that has ended runs now. */
static void advance(struct mo_engine_gpu *g, struct mo_let_queue *queue, int64_t now) {
    queue->n--;
    queue->front = !queue->front;
    if (!queue->n) return;
    queue->work[queue->front].began = now;
    log_units(g, &queue->work[queue->front], MO_LOG_BLOCK_START, now);
}

/* Of the block at the front.  The lock is held; the core may start the next block on the same units before
 * this returns. */
static void finish(struct mo_gpu_work *w, int code, const char *message, const struct mo_gpu_times *times) {
    struct mo_engine_gpu *g = w->owner;

    const struct mo_run run = w->run;
    bool ran = !w->late;
    if (!ran) code = MOIRE_OK; /* the core sends its queries back */
    int64_t now = mo_now(g->env), from = times ? times->start : w->began, to = times ? times->end : now;
    if (ran) {
        if (times)
            mo_event_put(mo_device_locked_ring(g->device), now, MO_LOG_TIMES, w->handle, run.tenant,
                         times->copy_in_ns, times->compute_ns, times->copy_out_ns);
        log_units(g, w, MO_LOG_BLOCK_END, now);
        mo_sched_stats(g->device->sched)->kernel_core_ns += (to - from) * run.n_cores;
    }
    if (ran && code)
        note_failure(g, w, code, message, now);
    else if (ran)
        g->lost[w->gpu] = false;
    if (w->context) {
        w->context->running = false;
        if (code || run.end == g->tenant[run.tenant].n_segments || !w->context->left)
            w->context->taken = false;
    }
    if (w->let && --w->let->running == 0 && !w->let->in_force) {
        g->sweep = true;
        mo_engine_gpu_ring(g);
    }
    advance(g, &g->queue[run.lead], now);
    mo_sched_block_done(g->device->sched, run.lead, ran, code, from, to, NULL, now);
}

/* The block has ended, or was refused: at once when it is at the front, with the one behind it when that was
 * refused before; else in its turn. */
static void settle(struct mo_gpu_work *w, int code, const char *message, const struct mo_gpu_times *times) {
    struct mo_let_queue *queue = &w->owner->queue[w->run.lead];
    if (w != &queue->work[queue->front]) {
        w->refused = true;
        w->code = code;
        snprintf(w->why, sizeof w->why, "%.*s", MO_ENGINE_WHY - 1, message);
        return;
    }
    finish(w, code, message, times);
    w = &queue->work[queue->front];
    if (queue->n && w->refused) finish(w, w->code, w->why, NULL);
}

static void done(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct mo_gpu_work *w = ctx;
    struct mo_engine_gpu *g = w->owner;
    mo_device_take(g->device);
    settle(w, code, message ? message : "", code ? NULL : times);
    mo_device_drop(g->device);
    mo_device_note_change(g->device);
    atomic_fetch_sub_explicit(&g->calls, 1, memory_order_release); /* from here on it may be gone */
}

/* Why it has none. */
static int without_context(const struct mo_gpu_resident *t, const struct mo_gpu_work *w, moire_error *err) {
    const struct mo_run *run = &w->run;
    if (!run->first)
        return mo_fail(err, w->code, "a batch of %d cannot go on at segment %d: its activations are gone",
                       run->batch, run->begin);
    if (bucket_of(t, run->batch) < 0)
        return mo_fail(err, w->code, "no program takes a batch of %d", run->batch);
    return mo_fail(err, w->code, "no activations are free for a batch of %d", run->batch);
}

/* 0: the plugin will call done(). */
static int submit_run(struct mo_engine_gpu *g, struct mo_gpu_work *w, moire_error *err) {
    const struct mo_gpu_resident *t = &g->tenant[w->run.tenant];
    if (w->late) return MOIRE_EEXPIRED;
    if (!w->context) return without_context(t, w, err);
    if (!w->let) return mo_fail(err, MOIRE_EINTERNAL, "no let begins at unit %d", w->run.lead);
    if (!w->let->let) return mo_fail(err, w->let->code, "%s", w->let->why);
    struct mo_gpu_run run = {.let = w->let->let,
                             .program = t->host[w->gpu].loaded[w->context->bucket],
                             .instance = w->instance,
                             .begin = w->run.begin,
                             .end = w->run.end,
                             .batch = w->context->batch,
                             .inputs = w->context->inputs,
                             .outputs = w->context->outputs,
                             .hang_ns = w->hang_ns,
                             .done = done,
                             .ctx = w};
    atomic_fetch_add_explicit(&g->calls, 1, memory_order_relaxed);
    int code = g->config.ops->run(&run, err);
    if (code) atomic_fetch_sub_explicit(&g->calls, 1, memory_order_release);
    return code;
}

/* Takes the first block off the list whose let has none on the way to the plugin. */
static struct mo_gpu_work *next_launch(struct mo_engine_gpu *g) {
    struct mo_gpu_work **at = &g->launch, *w;
    while ((w = *at) && w->let && w->let->submitting)
        at = &w->next;
    if (!w) return NULL;
    *at = w->next;
    if (g->launch_end == &w->next) g->launch_end = at;
    if (w->let) w->let->submitting = true;
    return w;
}

static void submitted(struct mo_engine_gpu *g, struct mo_open_let *let) {
    if (!let) return;
    let->submitting = false;
    if (let->running || let->in_force) return;
    g->sweep = true;
    mo_engine_gpu_ring(g);
}

/* Lets the lock go, but what was started stays to be submitted. */
static void let_go(struct mo_engine_gpu *g) {
    mo_device_leave_answers(g->device);
    if (mo_device_unlock(g->device)) mo_device_ring_doorbell(g->device);
}

static void launch(struct mo_engine_gpu *g) {
    mo_device_take(g->device);
    for (struct mo_gpu_work *w; (w = next_launch(g)) != NULL;) {
        struct mo_open_let *let = w->let;
        moire_error err = {0};
        let_go(g);
        int code = submit_run(g, w, &err); /* if that is 0, the block may have ended */
        mo_device_take(g->device);
        submitted(g, let);
        if (code) settle(w, code, err.message, NULL);
    }
    let_go(g);
    mo_device_note_change(g->device);
}

static void leave(void *self) {
    struct mo_engine_gpu *g = self;
    bool started = g->launch != NULL;
    if (mo_device_unlock(g->device)) mo_device_ring_doorbell(g->device);
    if (started) launch(g);
}

const struct mo_device_calls mo_engine_gpus = {
    .name = "gpus",
    .open = mo_engine_gpu_open,
    .begin = mo_engine_gpu_begin,
    .close = mo_engine_gpu_close,
    .start = start,
    .prepare = prepare,
    .released = released,
    .leave = leave,
    .is_lost = is_lost,
    .admit = mo_engine_gpu_admit,
    .forget = mo_engine_gpu_forget,
};
