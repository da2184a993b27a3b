/* SPDX-License-Identifier: Apache-2.0
 * work_claims.c - steps that are published, pieces that are claimed by compare and swap.
 *
 * `now` says what the team does: OVER, TAKEN (one member runs a step alone, or the first has not been begun),
 * FREE and a step that whoever comes may go on with, or the step that is shared.  It carries a serial number
 * that grows with every change.  A range of pieces carries the serial number of the step it belongs to; one
 * of an older step is whole, for its owner or for whoever takes from it first.  That is safe because a step
 * ends only when every range has been claimed empty under its number: who still holds an old number finds
 * none that is older, and its compare and swap fails on a newer one.
 *
 * The member that finishes its pieces adds them to `done`; the sum of all lets one of them, the last, go on.
 * Between two members that is one transfer of a cache line each way, as in a barrier. */
#include "runtime/device/work_claims.h"
#include "runtime/base/cores.h"
#include "runtime/base/lock.h"

/* STEAL_POLLS: before taking from others: the step may be over by then.  LAST_SPINS: in the last step a
 * member polls so many times longer before it sleeps.  LAST_STEP: beside the width in `cut`, for a late
 * member may find the n_steps of the next block. */
enum { STEAL_POLLS = 16, LAST_SPINS = 16, LAST_STEP = 0x8000 };
_Static_assert((int)MO_MAX_CORES < (int)LAST_STEP, "a team's width and the flag beside it need 16 bits");

#define FREE  UINT32_C(0x80000000)
#define OVER  UINT32_C(0xffffffff)
#define TAKEN UINT32_C(0xfffffffe)

static uint32_t serial_of(uint64_t word) {
    return (uint32_t)(word >> 32);
}

static uint64_t numbered(uint32_t serial, uint32_t what) {
    return (uint64_t)serial << 32 | what;
}

static uint32_t pair(uint32_t high, uint32_t low) {
    return high << 16 | low;
}

void mo_claims_init(struct mo_claims *c, const struct mo_env *env, struct mo_claims_range *ranges, int n,
                    int spin) {
    *c = (struct mo_claims){.env = env, .range = ranges, .n = n, .spin = spin, .width = 1};
    atomic_store_explicit(&c->now, numbered(1, OVER), memory_order_relaxed);
}

/* Whoever sleeps looks again. */
static void ring(struct mo_claims *c) {
    const struct mo_sys *sys = c->env->sys;
    atomic_fetch_add(&c->rung, 1);
    sys->futex_wake(sys->self, &c->rung, INT32_MAX);
}

void mo_claims_begin(struct mo_claims *c, int n_steps, int width) {
    uint32_t serial = serial_of(atomic_load_explicit(&c->now, memory_order_relaxed));
    if (serial > UINT32_MAX / 2) { /* numbers begin anew long before they could wrap within a block */
        for (int i = 0; i < c->n; i++)
            atomic_store_explicit(&c->range[i].left, 0, memory_order_relaxed);
        serial = 0;
    }
    c->n_steps = n_steps;
    c->code = 0;
    atomic_store_explicit(&c->width, (uint32_t)width, memory_order_relaxed);
    atomic_store_explicit(&c->now, numbered(serial + 1, FREE), memory_order_release);
}

void mo_claims_resize(struct mo_claims *c, int width) {
    atomic_store_explicit(&c->width, (uint32_t)width, memory_order_relaxed);
}

void mo_claims_seat(struct mo_claims_member *m, int seat) {
    atomic_store_explicit(&m->leave, 0, memory_order_relaxed);
    mo_claims_move(m, seat);
}

int mo_claims_width(const struct mo_claims *c) {
    return (int)atomic_load_explicit(&c->width, memory_order_relaxed);
}

void mo_claims_move(struct mo_claims_member *m, int seat) {
    atomic_store_explicit(&m->seat, (uint32_t)seat, memory_order_relaxed);
}

void mo_claims_leave(struct mo_claims_member *m) {
    atomic_store(&m->leave, 1);
}

/* A sleeper counts itself, then looks whether it leaves; here it is asked first, then it is counted. */
void mo_claims_rouse(struct mo_claims *c) {
    if (atomic_load(&c->asleep)) ring(c);
}

int mo_claims_seat_of(const struct mo_claims_member *m) {
    return (int)atomic_load_explicit(&m->seat, memory_order_relaxed);
}

/* --- what the team does --------------------------------------------------------------------------------- */
static bool leaves(const struct mo_claims_member *m) {
    return atomic_load_explicit(&m->leave, memory_order_relaxed) != 0;
}

static void announce(struct mo_claims *c, uint32_t what) {
    uint32_t serial = serial_of(atomic_load_explicit(&c->now, memory_order_relaxed)) + 1;
    atomic_store(&c->now, numbered(serial, what));
    if (atomic_load(&c->asleep)) ring(c);
}

static bool changed(struct mo_claims *c, uint64_t seen) {
    return atomic_load_explicit(&c->now, memory_order_acquire) != seen;
}

/* Polls for a while; true: something has changed, or it is asked to leave. */
static bool poll(struct mo_claims *c, const struct mo_claims_member *m, uint64_t seen, int polls) {
    for (int i = 0; i < polls; i++) {
        if (changed(c, seen) || leaves(m)) return true;
        mo_cpu_relax();
    }
    return false;
}

static void await(struct mo_claims *c, const struct mo_claims_member *m, uint64_t seen, int polls) {
    const struct mo_sys *sys = c->env->sys;
    if (poll(c, m, seen, polls)) return;
    atomic_fetch_add(&c->asleep, 1);
    while (atomic_load(&c->now) == seen && !atomic_load(&m->leave)) {
        uint32_t rung = atomic_load(&c->rung);
        if (atomic_load(&c->now) == seen && !atomic_load(&m->leave))
            sys->futex_wait(sys->self, &c->rung, rung, 0);
    }
    atomic_fetch_sub(&c->asleep, 1);
}

/* --- pieces --------------------------------------------------------------------------------------------- */
/* What is left of a seat's range in the step that the member shares; false: nothing. */
static bool left(const struct mo_claims_member *m, uint64_t word, uint32_t seat, uint32_t *next,
                 uint32_t *end) {
    uint32_t serial = serial_of(word);
    *next = (uint32_t)word >> 16;
    *end = (uint32_t)word & 0xffff;
    if (serial < m->serial) {
        *next = (uint32_t)((uint64_t)m->pieces * seat / m->width);
        *end = (uint32_t)((uint64_t)m->pieces * (seat + 1) / m->width);
    }
    return serial <= m->serial && *next < *end;
}

static bool claim_own(struct mo_claims *c, const struct mo_claims_member *m, struct mo_pieces *out) {
    uint32_t seat = atomic_load_explicit(&m->seat, memory_order_relaxed) % m->width, next, end;
    _Atomic uint64_t *word = &c->range[seat].left;
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    while (left(m, old, seat, &next, &end)) {
        uint64_t rest = numbered(m->serial, pair(next + 1, end));
        if (!atomic_compare_exchange_weak_explicit(word, &old, rest, memory_order_relaxed,
                                                   memory_order_relaxed))
            continue;
        out->from = (int)next;
        out->to = (int)next + 1;
        return true;
    }
    return false;
}

/* The last piece of the range with most left. */
static bool claim_others(struct mo_claims *c, const struct mo_claims_member *m, struct mo_pieces *out) {
    for (;;) {
        uint32_t most = 0, from = 0, next, end;
        uint64_t old = 0;
        for (uint32_t i = 0, seat = atomic_load_explicit(&m->seat, memory_order_relaxed); i < m->width; i++) {
            uint32_t at = (seat + 1 + i) % m->width;
            uint64_t word = atomic_load_explicit(&c->range[at].left, memory_order_relaxed);
            if (!left(m, word, at, &next, &end) || end - next <= most) continue;
            most = end - next;
            from = at;
            old = word;
        }
        if (!most || !left(m, old, from, &next, &end)) return false;
        uint64_t rest = numbered(m->serial, pair(next, end - 1));
        if (!atomic_compare_exchange_strong_explicit(&c->range[from].left, &old, rest, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        out->from = (int)end - 1;
        out->to = (int)end;
        return true;
    }
}

/* Publishes a step that the team shares. */
static void share(struct mo_claims *c, int step, uint32_t width, uint32_t pieces) {
    if (step == c->n_steps - 1) width |= LAST_STEP;
    uint32_t serial = serial_of(atomic_load_explicit(&c->now, memory_order_relaxed)) + 1;
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    atomic_store_explicit(&c->cut, numbered(serial, pair(width, pieces)), memory_order_relaxed);
    announce(c, (uint32_t)step);
}

/* A member at work. */
struct work {
    struct mo_claims *c;
    struct mo_claims_member *m;
    const struct mo_claims_calls *calls;
    void *ctx, *scratch;
};

/* Shares the step of `now`; true: the member has finished its last piece. */
static bool work_on(const struct work *w, uint64_t now) {
    struct mo_claims *c = w->c;
    struct mo_claims_member *m = w->m;
    uint64_t cut = atomic_load_explicit(&c->cut, memory_order_relaxed);
    const bool is_last = (uint32_t)cut >> 16 & LAST_STEP;
    if (serial_of(cut) != serial_of(now)) return false; /* that step is over */
    m->serial = serial_of(now);
    m->width = (uint32_t)cut >> 16 & (LAST_STEP - 1);
    m->pieces = (uint32_t)cut & 0xffff;
    struct mo_pieces p = {.step = (int)(uint32_t)now, .of = (int)m->pieces};
    uint32_t finished = 0;
    do {
        for (; !leaves(m) && claim_own(c, m, &p); finished++)
            w->calls->run(w->ctx, &p, w->scratch);
        if (finished &&
            atomic_fetch_add_explicit(&c->done, finished, memory_order_acq_rel) + finished == m->pieces)
            return true;
        if (leaves(m) || poll(c, m, now, STEAL_POLLS)) return false;
        for (finished = 0; !leaves(m) && claim_others(c, m, &p); finished++)
            w->calls->run(w->ctx, &p, w->scratch);
    } while (finished);
    await(c, m, now, is_last ? c->spin * LAST_SPINS : c->spin);
    return false;
}

/* The member has finished the last piece of a step.  Above 0: that has another round, which is shared now. */
static int share_again(const struct work *w, int step) {
    const int width = mo_claims_width(w->c),
              pieces = w->calls->again ? w->calls->again(w->ctx, step, width) : 0;
    if (pieces > 0) share(w->c, step, (uint32_t)width, (uint32_t)pieces);
    return pieces;
}

static enum mo_claims_end end_block(struct mo_claims *c, int *code) {
    *code = c->code;
    announce(c, OVER);
    return MO_CLAIMS_LAST;
}

/* Goes on from a step, alone, up to one that is shared (true), the end, or its leave. */
static bool go_on(const struct work *w, int step, enum mo_claims_end *end, int *code) {
    struct mo_claims *c = w->c;
    for (; step < c->n_steps; step++) {
        if (leaves(w->m)) {
            announce(c, FREE | (uint32_t)step);
            *end = MO_CLAIMS_LEFT;
            return false;
        }
        uint32_t width = atomic_load_explicit(&c->width, memory_order_relaxed);
        int pieces = w->calls->step(w->ctx, step, (int)width, w->scratch);
        if (pieces > 0) {
            share(c, step, width, (uint32_t)pieces);
            return true;
        }
        if (pieces < 0) {
            c->code = pieces;
            break;
        }
    }
    *end = end_block(c, code);
    return false;
}

enum mo_claims_end mo_claims_work(struct mo_claims *c, struct mo_claims_member *m,
                                  const struct mo_claims_calls *calls, void *ctx, void *scratch, int *code) {
    const struct work w = {c, m, calls, ctx, scratch};
    enum mo_claims_end end;
    for (;;) {
        uint64_t now = atomic_load_explicit(&c->now, memory_order_acquire);
        uint32_t what = (uint32_t)now;
        int next = (int)(what & ~FREE);
        if (what == OVER) {
            *code = c->code;
            return MO_CLAIMS_OVER;
        }
        if (leaves(m)) return MO_CLAIMS_LEFT;
        if (what == TAKEN) {
            await(c, m, now, c->spin);
            continue;
        }
        if (what & FREE) {
            uint64_t taken = numbered(serial_of(now) + 1, TAKEN);
            if (!atomic_compare_exchange_strong_explicit(&c->now, &now, taken, memory_order_acquire,
                                                         memory_order_relaxed))
                continue;
        } else {
            const int more = work_on(&w, now) ? share_again(&w, next) : 1;
            if (more > 0) continue;
            if (more < 0) {
                c->code = more;
                return end_block(c, code);
            }
            next++;
        }
        if (!go_on(&w, next, &end, code)) return end;
    }
}
