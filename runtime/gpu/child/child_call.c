/* SPDX-License-Identifier: Apache-2.0
 * child_call.c - questions to the process of the GPUs and their answers; see child_impl.h. */
#include "runtime/gpu/child/child_impl.h"

#include <string.h>

static const int64_t SLICE_NS = 100000000;

void mo_child_ring_all(struct mo_gpu_system *s) {
    atomic_fetch_add(&s->doorbell, 1);
    s->env->sys->futex_wake(s->env->sys->self, &s->doorbell, INT32_MAX);
}

/* Waits for the doorbell with the lock let go; it is held again after. */
static void wait_unlocked(struct mo_gpu_system *s, int64_t deadline) {
    const uint32_t doorbell = atomic_load(&s->doorbell);
    mo_child_unlock(s);
    s->env->sys->futex_wait(s->env->sys->self, &s->doorbell, doorbell, deadline);
    mo_child_lock(s);
}

void mo_child_settle(struct mo_gpu_system *s) {
    while (atomic_load(&s->up) == MO_CHILD_RESTORING)
        wait_unlocked(s, mo_now(s->env) + SLICE_NS);
}

int mo_child_absent(struct mo_gpu_system *s, moire_error *err) {
    return mo_fail(err, MOIRE_EDEVICE, "%s; the process of the GPUs is started anew",
                   s->reason[0] ? s->reason : "it has ended");
}

/* It may have ended already, and the life thread not have seen to it. */
static bool serves(struct mo_gpu_system *s) {
    return atomic_load(&s->up) == MO_CHILD_UP && !atomic_load(&s->gone) && !s->lost_at;
}

int mo_child_enter(struct mo_gpu_system *s, int64_t timeout, moire_error *err) {
    const int64_t until = mo_now(s->env) + timeout;
    int code = MOIRE_OK;
    mo_child_lock(s);
    while (!serves(s) && atomic_load(&s->up) != MO_CHILD_CLOSED && !atomic_load(&s->closing) &&
           mo_now(s->env) < until)
        wait_unlocked(s, until);
    if (serves(s))
        s->inside++;
    else
        code = mo_child_absent(s, err);
    mo_child_unlock(s);
    return code;
}

bool mo_child_step_in(struct mo_gpu_system *s, bool there) {
    const bool in = there && atomic_load(&s->up) == MO_CHILD_UP;
    s->inside += in;
    return in;
}

void mo_child_leave(struct mo_gpu_system *s) {
    mo_child_lock(s);
    const bool last = --s->inside == 0;
    mo_child_unlock(s);
    if (last) mo_child_ring_all(s);
}

/* --- slots ---------------------------------------------------------------------------------------------- */
static int take_slot(struct mo_gpu_system *s) {
    int at = -1;
    mo_child_lock(s);
    while (at < 0 && !atomic_load(&s->gone)) {
        for (int i = 0; i < MO_CHILD_SLOTS && at < 0; i++)
            if (!(s->slots & 1U << i)) at = i;
        if (at < 0) wait_unlocked(s, mo_now(s->env) + SLICE_NS);
    }
    if (at >= 0) s->slots |= 1U << at;
    mo_child_unlock(s);
    return at;
}

static void give_slot(struct mo_gpu_system *s, int at) {
    mo_child_lock(s);
    s->slots &= ~(1U << at);
    mo_child_unlock(s);
    mo_child_ring_all(s);
}

/* false: the child is gone without an answer. */
static bool wait_for_answer(struct mo_gpu_system *s, struct mo_child_slot *slot) {
    const struct mo_sys *sys = s->env->sys;
    const int64_t most = s->bounds.stuck_ns, begin = mo_now(s->env);
    for (;;) {
        const uint32_t doorbell = atomic_load(&slot->doorbell);
        if (atomic_load(&slot->state) == MO_CHILD_ANSWERED) return true;
        if (atomic_load(&s->gone)) return false;
        const int64_t now = mo_now(s->env);
        if (now - begin > most)
            mo_child_lose(s, true, "the process of the GPUs has not answered for %.1f s",
                          (double)(now - begin) * 1e-9);
        sys->shared_wait(sys->self, &slot->doorbell, doorbell, now + SLICE_NS);
    }
}

static int fail_absent(struct mo_gpu_system *s, moire_error *err) {
    mo_child_lock(s);
    const int code = mo_child_absent(s, err);
    mo_child_unlock(s);
    return code;
}

/* A code that there is; what else a child may write is its end. */
static int believe(struct mo_gpu_system *s, const struct mo_child_reply *reply, moire_error *err) {
    char message[MO_CHILD_TEXT];
    const int code = reply->code;
    memcpy(message, reply->message, sizeof message);
    message[sizeof message - 1] = 0;
    if (code > 0 || code < MOIRE_EDEVICE) {
        mo_child_lose(s, true, "the process of the GPUs answers with an impossible code (%d)", code);
        return fail_absent(s, err);
    }
    if (code == MOIRE_EDEVICE) mo_child_lose(s, false, "%s", message);
    return code ? mo_fail(err, code, "%s", message) : MOIRE_OK;
}

int mo_child_ask(struct mo_gpu_system *s, const struct mo_child_ask *ask, struct mo_child_reply *reply,
                 moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    const int at = take_slot(s);
    bool answered = false;
    if (at >= 0) {
        struct mo_child_slot *slot = &s->channel->slots[at];
        mo_child_lock(s);
        slot->after = s->tail;
        mo_child_unlock(s);
        slot->ask = *ask;
        atomic_store(&slot->state, MO_CHILD_ASKED);
        sys->shared_wake(sys->self, &slot->state, 1);
        answered = wait_for_answer(s, slot);
        if (answered) {
            memcpy(reply, &slot->reply, sizeof *reply);
            atomic_store(&slot->state, MO_CHILD_FREE);
        }
        give_slot(s, at);
    }
    return answered ? believe(s, reply, err) : fail_absent(s, err);
}

int mo_child_tell(struct mo_gpu_system *s, enum mo_child_kind kind, int first, int second, moire_error *err) {
    struct mo_child_reply reply;
    return mo_child_ask(s, &(struct mo_child_ask){.kind = kind, .n = {first, second}}, &reply, err);
}
