/* SPDX-License-Identifier: Apache-2.0
 * work_claims.h - a team whose members claim their work, so that any core may join or leave while it runs.
 *
 * A block is a sequence of steps.  A step is run by one member alone, or cut into pieces that all share:
 * every member begins with its own range of pieces, the same one for the same seat, so that its caches stay
 * warm; whoever has finished takes pieces of the range with most left.  Whoever finishes the
 * last piece of a step goes on with the next one: runs it alone, or shares it.  So nobody waits for a member
 * that does not hold a piece, however late it is, and no count of members has to be met.  A step may be
 * shared several times, in rounds.
 *
 * A member comes by mo_claims_work(), at any time, and goes when the block is over or when it is asked to
 * leave, which it sees between two pieces.  A member whose core stops between two pieces touches nothing but
 * this object when it runs again: what the steps work on may be gone by then.
 *
 * Waiting spins for a bounded time, then sleeps on the futex; a wake-up costs a call only when one sleeps. In
 * the last step it spins longer: who sleeps at the end of a block is missed at the beginning of the next.
 * Every atomic is sequentially consistent where sleeping is decided; there are no bare fences. */
#ifndef MO_WORK_CLAIMS_H
#define MO_WORK_CLAIMS_H
#include "runtime/base/env.h"

/* Most pieces of a step. */
enum { MO_CLAIMS_PIECES = 65535 };

/* Pieces [from, to) of a step that is cut into `of`. */
struct mo_pieces {
    int step, from, to, of;
};

struct mo_claims_calls {
    /* The caller is the only one at work.  0: has run the step, or there was nothing to run.  Above 0: it
     * should be shared by the team of `width`, cut into so many pieces.  Below 0: the block ends, with this
     * code. */
    int (*step)(void *ctx, int step, int width, void *scratch);
    void (*run)(void *ctx, const struct mo_pieces *pieces, void *scratch);
    /* All pieces of the step have been run, and the caller is the only one at work.  Above 0: the step has
     * another round of so many pieces.  Below 0: the block ends, with this code.  May be NULL: no step has.
     */
    int (*again)(void *ctx, int step, int width);
};

/* What a worker keeps about the team it is in; a cache line. */
struct mo_claims_member {
    _Atomic uint32_t leave;         /* 1: it is asked to leave */
    _Atomic uint32_t seat;          /* which range of pieces is its own: from 0, best without gaps */
    uint32_t serial, width, pieces; /* its own: the step that it shares */
    char pad[44];
};

struct mo_claims_range {
    _Atomic uint64_t left; /* serial number of the step, next piece, end */
    char pad[56];
};

struct mo_claims {
    const struct mo_env *env;
    struct mo_claims_range *range; /* of every seat */
    int n, spin, n_steps;
    int code; /* that the block ended with; the members' caches keep this line: nobody writes it before */
    _Atomic uint32_t width; /* members that the team should have, and ranges of the next step */
    /* what all look at: one cache line */
    _Alignas(64) _Atomic uint64_t now; /* serial number, and what is done: work_claims.c */
    _Atomic uint64_t cut;              /* serial number, ranges and pieces of the step that is shared */
    _Atomic uint32_t done, asleep, rung;
};

enum mo_claims_end {
    MO_CLAIMS_LEFT, /* it was asked to leave */
    MO_CLAIMS_OVER, /* the block is over; */
    MO_CLAIMS_LAST  /* and this member has ended it */
};

/* Once, before use, with zeroed ranges of n seats.  spin: polls before a waiter sleeps. */
void mo_claims_init(struct mo_claims *c, const struct mo_env *env, struct mo_claims_range *ranges, int n,
                    int spin);
/* A block of so many steps for a team of `width` (1 to n).  Nobody is in it. */
void mo_claims_begin(struct mo_claims *c, int n_steps, int width);
/* Members come or go; from the next step on. */
void mo_claims_resize(struct mo_claims *c, int width);
int mo_claims_width(const struct mo_claims *c);
/* Before a member comes; it is not in a team. */
void mo_claims_seat(struct mo_claims_member *m, int seat);
/* At any time: it gets another seat; it is asked to leave. */
void mo_claims_move(struct mo_claims_member *m, int seat);
void mo_claims_leave(struct mo_claims_member *m);
/* After members were asked to leave: those that sleep, because another holds the last piece of a step, go,
 * too. */
void mo_claims_rouse(struct mo_claims *c);
int mo_claims_seat_of(const struct mo_claims_member *m);
/* Works until the block is over or the member is asked to leave.  *code is set unless it left: 0, or what a
 * step has returned. */
enum mo_claims_end mo_claims_work(struct mo_claims *c, struct mo_claims_member *m,
                                  const struct mo_claims_calls *calls, void *ctx, void *scratch, int *code);
#endif
