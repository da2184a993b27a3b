/* SPDX-License-Identifier: Apache-2.0
 * queue.c - runs: put into a let's stream by the caller, ended by the watcher. */
#include "runtime/gpu/cuda/cuda.h"

#include <stdio.h>

enum { POLL_LEAST_NS = 10000, POLL_MOST_NS = 200000, POLL_SHARE = 32 };

static void ring_doorbell(struct mo_gpu_system *s) {
    atomic_fetch_add_explicit(&s->doorbell, 1, memory_order_release);
    s->env->sys->futex_wake(s->env->sys->self, &s->doorbell, 1);
}

/* The parts and the marks between them.  Sets *begun once something is in the stream. */
static int enqueue(struct mo_cuda_track *t, struct mo_cuda_ticket *ticket, const struct mo_cuda_work *work,
                   bool *begun, moire_error *err) {
    struct mo_cuda_gpu *gpu = t->context->gpu;
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    int rc = MOIRE_OK;
    for (int part = 0; part < MO_CUDA_MARKS && !rc; part++) {
        const unsigned r = cu->event_record(ticket->marks[part], t->stream);
        if (r) return mo_cuda_fail(gpu, r, err, "mark the time of a run");
        *begun = true;
        if (part < MO_CUDA_MARKS - 1) rc = work->enqueue(work->work, t, part, err);
    }
    return rc;
}

/* What was queued of a run that failed half-way must end before its memory is used again: its last mark goes
 * into the stream, and the run is answered when that has passed. */
static int fail_later(struct mo_cuda_track *t, struct mo_cuda_ticket *ticket, moire_error *err) {
    struct mo_cuda_gpu *gpu = t->context->gpu;
    const unsigned r = gpu->system->cu.event_record(ticket->marks[MO_CUDA_MARKS - 1], t->stream);
    if (r) {
        mo_cuda_fail(gpu, r, err, "mark the end of a run that failed");
        mo_cuda_lose(gpu, err->message);
        return MOIRE_EDEVICE;
    }
    ticket->failed = err->code;
    snprintf(ticket->message, sizeof ticket->message, "%.290s", err->message);
    return MOIRE_OK;
}

static void publish(struct mo_cuda_track *t) {
    struct mo_gpu_system *s = t->context->gpu->system;
    mo_lock_take(s->env->sys, &s->lock);
    if (t->queued++ == 0) t->since = mo_now(s->env); /* not `submitted`: preparing may have taken long */
    if (!t->busy) {
        t->busy = true;
        t->next_busy = s->busy;
        s->busy = t;
    }
    mo_lock_drop(s->env->sys, &s->lock);
    ring_doorbell(s);
}

int mo_cuda_submit(struct mo_gpu_let *let, const struct mo_cuda_work *work, moire_error *err) {
    struct mo_cuda_track *t = let->track;
    struct mo_cuda_gpu *gpu = t->context->gpu;
    struct mo_gpu_system *s = gpu->system;
    moire_error own;
    if (!err) err = &own;
    mo_lock_take(s->env->sys, &s->lock);
    const unsigned queued = t->queued, slot = (t->head + queued) % MO_CUDA_QUEUE_MOST;
    mo_lock_drop(s->env->sys, &s->lock);
    if ((int)queued >= s->config.queue)
        return mo_fail(err, MOIRE_EBUSY, "GPU %d: %u runs are queued on the let of units %d to %d, its bound",
                       gpu->index, queued, t->context->first, t->context->first + t->context->units - 1);
    struct mo_cuda_ticket *ticket = &t->tickets[slot];
    ticket->submitted = mo_now(s->env);
    ticket->hang_ns = work->hang_ns ? work->hang_ns : s->config.hang_ns;
    ticket->failed = MOIRE_OK;
    t->filling = ticket;
    ticket->done = work->done;
    ticket->ctx = work->ctx;
    bool begun = false;
    int rc = mo_cuda_enter(gpu, t->context, err);
    if (rc) return rc;
    rc = enqueue(t, ticket, work, &begun, err);
    if (rc) mo_cuda_note(gpu, err);
    if (rc && rc != MOIRE_EDEVICE && begun) rc = fail_later(t, ticket, err);
    mo_cuda_leave(gpu, t->context);
    if (!rc) publish(t);
    return rc;
}

/* Times of the run at the head; false: the driver would not say (then the GPU is lost). */
static bool read_times(struct mo_cuda_track *t, const struct mo_cuda_ticket *ticket,
                       struct mo_gpu_times *out) {
    struct mo_cuda_gpu *gpu = t->context->gpu;
    int64_t part[MO_CUDA_MARKS - 1];
    for (int i = 0; i < MO_CUDA_MARKS - 1; i++) {
        float ms = 0;
        const unsigned r = gpu->system->cu.event_elapsed(&ms, ticket->marks[i], ticket->marks[i + 1]);
        if (r) {
            moire_error err;
            mo_cuda_fail(gpu, r, &err, "read the times of a run");
            mo_cuda_lose(gpu, err.message);
            return false;
        }
        part[i] = (int64_t)((double)ms * 1e6);
    }
    const int64_t end = mo_now(gpu->system->env), start = end - part[0] - part[1] - part[2];
    *out = (struct mo_gpu_times){.submitted = ticket->submitted,
                                 .start = start > ticket->submitted ? start : ticket->submitted,
                                 .end = end,
                                 .copy_in_ns = part[0],
                                 .compute_ns = part[1],
                                 .copy_out_ns = part[2]};
    return true;
}

/* Takes the run at the head off the queue and answers it. */
static void finish(struct mo_cuda_track *t, int code, const char *message, const struct mo_gpu_times *times) {
    struct mo_gpu_system *s = t->context->gpu->system;
    const struct mo_cuda_ticket *ticket = &t->tickets[t->head];
    void (*done)(void *, int, const char *, const struct mo_gpu_times *) = ticket->done;
    void *ctx = ticket->ctx;
    mo_lock_take(s->env->sys, &s->lock);
    t->head = (t->head + 1) % MO_CUDA_QUEUE_MOST;
    t->queued--;
    t->since = mo_now(s->env);
    mo_lock_drop(s->env->sys, &s->lock);
    done(ctx, code, message, times);
}

static void hung(struct mo_cuda_track *t, int64_t age) {
    struct mo_cuda_gpu *gpu = t->context->gpu;
    char reason[300];
    snprintf(reason, sizeof reason,
             "GPU %d: a run on the let of units %d to %d has not ended after %.3f s and counts as hung",
             gpu->index, t->context->first, t->context->first + t->context->units - 1, (double)age * 1e-9);
    mo_cuda_lose(gpu, reason);
}

/* Has the run at the head ended?  A GPU that is lost on the way says no: the caller sees that it is. */
static bool head_ended(struct mo_cuda_track *t, int64_t now) {
    struct mo_cuda_gpu *gpu = t->context->gpu;
    const struct mo_cuda_ticket *ticket = &t->tickets[t->head];
    if (mo_cuda_enter(gpu, NULL, NULL)) return false;
    const unsigned r = gpu->system->cu.event_query(ticket->marks[MO_CUDA_MARKS - 1]);
    mo_cuda_leave(gpu, NULL);
    if (r == MO_CU_NOT_READY) {
        if (now - t->since > ticket->hang_ns) hung(t, now - t->since);
        return false;
    }
    if (!r) return true;
    moire_error err;
    char what[120];
    snprintf(what, sizeof what, "seen while a run was on the let of units %d to %d", t->context->first,
             t->context->first + t->context->units - 1);
    mo_cuda_fail(gpu, r, &err, what);
    mo_cuda_lose(gpu, err.message);
    return false;
}

static bool any_queued(struct mo_cuda_track *t) {
    struct mo_gpu_system *s = t->context->gpu->system;
    mo_lock_take(s->env->sys, &s->lock);
    const bool any = t->queued > 0;
    mo_lock_drop(s->env->sys, &s->lock);
    return any;
}

/* Answers what has ended on a track; returns the age of the run at the head then, -1 when there is none. */
static int64_t serve(struct mo_cuda_track *t) {
    struct mo_cuda_gpu *gpu = t->context->gpu;
    while (any_queued(t)) {
        const struct mo_cuda_ticket *ticket = &t->tickets[t->head];
        const int64_t now = mo_now(gpu->system->env);
        struct mo_gpu_times times;
        const bool ended = head_ended(t, now);
        moire_error err;
        if (mo_cuda_alive(gpu, &err) || (ended && !ticket->failed && !read_times(t, ticket, &times))) {
            mo_cuda_alive(gpu, &err);
            finish(t, MOIRE_EDEVICE, err.message, NULL);
        } else if (!ended) {
            return now - t->since;
        } else if (ticket->failed) {
            moire_error copy;
            snprintf(copy.message, sizeof copy.message, "%s", ticket->message);
            finish(t, ticket->failed, copy.message, NULL);
        } else {
            finish(t, MOIRE_OK, NULL, &times);
        }
    }
    return -1;
}

/* Takes tracks without runs out of the busy list; false: it is empty. */
static bool tidy(struct mo_gpu_system *s) {
    mo_lock_take(s->env->sys, &s->lock);
    for (struct mo_cuda_track **at = &s->busy; *at;) {
        struct mo_cuda_track *t = *at;
        t->busy = t->queued > 0;
        if (t->busy)
            at = &t->next_busy;
        else
            *at = t->next_busy;
    }
    const bool any = s->busy != NULL;
    mo_lock_drop(s->env->sys, &s->lock);
    return any;
}

static struct mo_cuda_track *next_busy(struct mo_gpu_system *s, const struct mo_cuda_track *after) {
    mo_lock_take(s->env->sys, &s->lock);
    struct mo_cuda_track *t = after ? after->next_busy : s->busy;
    mo_lock_drop(s->env->sys, &s->lock);
    return t;
}

static void *watch(void *system) {
    struct mo_gpu_system *s = system;
    const struct mo_sys *sys = s->env->sys;
    for (;;) {
        const uint32_t doorbell = atomic_load_explicit(&s->doorbell, memory_order_acquire);
        const bool stop = atomic_load_explicit(&s->stop, memory_order_acquire);
        int64_t youngest = INT64_MAX;
        for (struct mo_cuda_track *t = next_busy(s, NULL); t; t = next_busy(s, t)) {
            const int64_t age = serve(t);
            if (age >= 0 && age < youngest) youngest = age;
        }
        if (!tidy(s)) {
            if (stop) return NULL;
            sys->futex_wait(sys->self, &s->doorbell, doorbell, 0);
            continue;
        }
        int64_t pause = youngest / POLL_SHARE;
        if (pause < POLL_LEAST_NS) pause = POLL_LEAST_NS;
        if (pause > POLL_MOST_NS) pause = POLL_MOST_NS;
        sys->sleep_until(sys->self, mo_now(s->env) + pause);
    }
}

int mo_cuda_watch_start(struct mo_gpu_system *s, moire_error *err) {
    const int rc = s->env->sys->thread_start(s->env->sys->self, &s->watcher, watch, s);
    if (rc) return mo_fail(err, MOIRE_EIO, "the thread that watches the GPUs did not start (error %d)", -rc);
    s->watching = true;
    return MOIRE_OK;
}

void mo_cuda_watch_stop(struct mo_gpu_system *s) {
    if (!s->watching) return;
    atomic_store_explicit(&s->stop, true, memory_order_release);
    ring_doorbell(s);
    s->env->sys->thread_join(s->env->sys->self, s->watcher);
    s->watching = false;
}
