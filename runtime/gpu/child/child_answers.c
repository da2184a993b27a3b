/* SPDX-License-Identifier: Apache-2.0
 * child_answers.c - ends of runs out of shared memory, and the watch over what does not end; see
 * child_impl.h.
 *
 * The plugin watches for runs that hang itself; here is what is left: a child that does not notice.  Its
 * bound is a second more, and begins when the child has given the run to the plugin, for until then it may
 * be making what the run needs.  A child that was killed and does not end (a driver in the kernel that waits
 * for its GPU) counts as gone after a while. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/child/child_impl.h"

static const int64_t DRAIN_NS = 300000000, LOOK_NS = 20000000, IDLE_NS = 500000000, KILLED_NS = 2000000000,
                     MARGIN_NS = 1000000000;

/* --- loss ----------------------------------------------------------------------------------------------- */
/* The lock is held. */
static void lose(struct mo_gpu_system *s, bool now, const char *reason) {
    if (!s->lost_at) {
        moire_error clean; /* control characters of the child's do not get into logs */
        mo_fail(&clean, MOIRE_EDEVICE, "%s", reason);
        snprintf(s->reason, sizeof s->reason, "%s", clean.message);
        s->lost_at = mo_now(s->env);
    }
    if (!now && s->n_runs) return; /* the answer thread ends it soon */
    if (atomic_exchange(&s->lost, true)) return;
    s->killed_at = mo_now(s->env);
    s->env->sys->kill_process(s->env->sys->self, &s->process);
}

void mo_child_lose(struct mo_gpu_system *s, bool now, const char *format, ...) {
    char reason[MO_CHILD_TEXT];
    va_list ap;
    va_start(ap, format);
    vsnprintf(reason, sizeof reason, format, ap);
    va_end(ap);
    mo_child_lock(s);
    lose(s, now, reason);
    mo_child_unlock(s);
}

/* --- answers -------------------------------------------------------------------------------------------- */
/* Takes a run off its let; the lock is held. */
static void take_off(struct mo_gpu_system *s, int at) {
    struct mo_gpu_let *let = s->runs[at].let;
    int i = 0;
    while (i < let->queued && let->queue[i] != at)
        i++;
    memmove(&let->queue[i], &let->queue[i + 1], (size_t)(let->queued - i - 1) * sizeof let->queue[0]);
    let->queued--;
    let->since = 0;
    s->runs[at].used = false;
    s->n_runs--;
    if (!let->closed || let->queued) return;
    s->lets[let->id] = NULL;
    mo_free(s->env, let);
}

/* Times that a plugin could have measured. */
static void believe(const struct mo_child_pending *run, int64_t now, struct mo_gpu_times *t) {
    t->submitted = run->submitted;
    if (t->end < t->submitted || t->end > now) t->end = now;
    if (t->start < t->submitted || t->start > t->end) t->start = t->submitted;
    int64_t *parts[] = {&t->copy_in_ns, &t->compute_ns, &t->copy_out_ns};
    for (int i = 0; i < 3; i++)
        if (*parts[i] < 0 || *parts[i] > t->end - t->start) *parts[i] = 0;
}

/* `answer` is our own copy. */
static void take(struct mo_gpu_system *s, struct mo_child_answer *answer) {
    const uint32_t at = (uint32_t)answer->run, generation = (uint32_t)(answer->run >> 32);
    answer->message[MO_CHILD_TEXT - 1] = 0;
    mo_child_lock(s);
    const bool known = at < MO_CHILD_ANSWERS && s->runs[at].used && s->runs[at].generation == generation &&
                       answer->code <= 0 && answer->code >= MOIRE_EDEVICE;
    if (!known) {
        lose(s, true, "the process of the GPUs answers what was not asked: its memory is damaged");
        mo_child_unlock(s);
        return;
    }
    const struct mo_child_pending run = s->runs[at];
    believe(&run, mo_now(s->env), &answer->times);
    take_off(s, (int)at);
    if (answer->code == MOIRE_EDEVICE || s->lost_at) lose(s, false, answer->message);
    mo_child_unlock(s);
    moire_error err = {0};
    if (answer->code) mo_fail(&err, answer->code, "%s", answer->message);
    run.done(run.ctx, answer->code, answer->code ? err.message : NULL, answer->code ? NULL : &answer->times);
}

/* The oldest run of some let, off it; false: there is none. */
static bool take_oldest(struct mo_gpu_system *s, struct mo_child_pending *run) {
    int at = 0;
    mo_child_lock(s);
    while (at < MO_CHILD_ANSWERS && !(s->runs[at].used && s->runs[at].let->queue[0] == at))
        at++;
    if (at < MO_CHILD_ANSWERS) {
        *run = s->runs[at];
        take_off(s, at);
    }
    mo_child_unlock(s);
    return at < MO_CHILD_ANSWERS;
}

void mo_child_answer_all(struct mo_gpu_system *s, const char *reason) {
    for (struct mo_child_pending run; take_oldest(s, &run);)
        run.done(run.ctx, MOIRE_EDEVICE, reason, NULL);
}

/* --- watch ---------------------------------------------------------------------------------------------- */
static bool is_past(uint32_t head, uint32_t past) {
    return (int32_t)(head - past) >= 0;
}

static void watch_let(struct mo_gpu_system *s, struct mo_gpu_let *let, uint32_t head, int64_t now) {
    const struct mo_child_pending *run = &s->runs[let->queue[0]];
    char reason[MO_CHILD_TEXT];
    if (!is_past(head, run->past)) return;
    if (!let->since) let->since = now;
    if (now - let->since <= run->hang_ns + MARGIN_NS) return;
    snprintf(reason, sizeof reason,
             "GPU %d: a run on the let of units %d to %d has not ended after %.3f s and counts as hung",
             let->gpu, let->first, let->first + let->units - 1, (double)(now - let->since) * 1e-9);
    lose(s, true, reason);
}

static void watch(struct mo_gpu_system *s) {
    const uint32_t head = atomic_load_explicit(&s->channel->down.head, memory_order_acquire);
    mo_child_lock(s);
    const int64_t now = mo_now(s->env);
    if (head != s->progress || head == s->tail) {
        s->progress = head;
        s->progress_at = now;
    } else if (now - s->progress_at > s->bounds.stuck_ns) {
        lose(s, true, "the process of the GPUs takes no more work");
    }
    for (int i = 0; i < MO_CHILD_LETS && s->n_runs; i++)
        if (s->lets[i] && s->lets[i]->queued) watch_let(s, s->lets[i], head, now);
    if (atomic_load(&s->lost) && now - s->killed_at > KILLED_NS) atomic_store(&s->gone, true);
    if (s->lost_at && (!s->n_runs || now - s->lost_at > DRAIN_NS)) lose(s, true, s->reason);
    mo_child_unlock(s);
}

/* What there is now; false: the ring cannot be right. */
static bool drain(struct mo_gpu_system *s) {
    struct mo_child_ring *up = &s->channel->up;
    for (;;) {
        const uint32_t tail = atomic_load_explicit(&up->tail, memory_order_acquire);
        if (tail == s->head) return true;
        if (tail - s->head > MO_CHILD_ANSWERS) return false;
        struct mo_child_answer answer;
        memcpy(&answer, &s->channel->answers[s->head % MO_CHILD_ANSWERS], sizeof answer);
        s->head++;
        atomic_store_explicit(&up->head, s->head, memory_order_release);
        take(s, &answer);
    }
}

void *mo_child_take_answers(void *system) {
    struct mo_gpu_system *s = system;
    int64_t looked = mo_now(s->env);
    for (;;) {
        const bool gone = atomic_load(&s->gone); /* before the last look */
        if (!drain(s)) {
            mo_child_lock(s);
            lose(s, true, "the process of the GPUs has damaged its queue");
            mo_child_unlock(s);
            return NULL;
        }
        if (gone) return NULL;
        const int64_t now = mo_now(s->env);
        if (now - looked >= LOOK_NS) {
            watch(s);
            looked = now;
            if (atomic_load(&s->gone)) mo_child_ring_all(s);
        }
        mo_child_lock(s);
        const bool busy = s->n_runs > 0 || s->lost_at;
        mo_child_unlock(s);
        mo_child_ring_wait(s->env->sys, &s->channel->up, s->head, now + (busy ? LOOK_NS : IDLE_NS));
    }
}
