/* SPDX-License-Identifier: Apache-2.0
 * team_cost.c - times a team of two on empty steps, and one that grows and shrinks; see team_cost.h.
 *
 * Core 0 leads and decides between two of its pieces: when core 1 is out it asks it in, when that has run a
 * few pieces it asks it out.  Each times its own end of a change; core 0 reads what core 1 wrote after that
 * has told that it is out. */
#include "bench/kernels/team_cost.h"

#include <math.h>
#include "bench/load/together.h"
#include "runtime/base/lock.h"

enum { STEPS = 500, ROUNDS = 20, CHANGES = 300, PIECES = 512, STAY = 4, PIECE_NS = 1000 };
static const int64_t most_ns = 300000000; /* of all changes */

struct session {
    const struct mo_env *env;
    struct mo_team_cost *cost;
    int64_t begun;
    /* the team that grows and shrinks */
    _Atomic uint32_t asked; /* core 1 is to come in; UINT32_MAX: never again */
    _Atomic int ran;        /* pieces that core 1 has run since it came in */
    _Atomic bool out;
    int64_t asked_at, came_at, leave_at, left_at, until;
    struct mo_claims_member *guest;
    int changes;
    bool leaving;
};

static double least(double us, int64_t ns) {
    return fmin(us, (double)ns * 1e-3);
}

/* --- empty steps ---------------------------------------------------------------------------------------- */
static int empty_step(void *ctx, int step, int width, void *scratch) {
    struct session *s = ctx;
    (void)scratch;
    if (step == 0) s->begun = mo_now(s->env);
    if (step < STEPS) return width;
    s->cost->step_us = least(s->cost->step_us, (mo_now(s->env) - s->begun) / STEPS);
    return 0;
}

static void empty_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    (void)ctx, (void)p, (void)scratch;
}

/* --- changes -------------------------------------------------------------------------------------------- */
static int long_step(void *ctx, int step, int width, void *scratch) {
    const struct session *s = ctx;
    (void)step, (void)width, (void)scratch;
    return s->changes < CHANGES && mo_now(s->env) < s->until ? PIECES : MOIRE_EINTERRUPTED;
}

static void spend(const struct session *s) {
    for (int64_t end = mo_now(s->env) + PIECE_NS; mo_now(s->env) < end;)
        mo_cpu_relax();
}

static void guest_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    struct session *s = ctx;
    (void)scratch;
    if (!atomic_load(&s->ran)) s->came_at = mo_now(s->env);
    for (int i = p->from; i < p->to; i++)
        spend(s);
    atomic_fetch_add(&s->ran, 1);
}

static void lead_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    struct session *s = ctx;
    (void)scratch;
    for (int i = p->from; i < p->to; i++)
        spend(s);
    if (s->leaving && atomic_load(&s->out)) {
        s->cost->join_us = least(s->cost->join_us, s->came_at - s->asked_at);
        s->cost->leave_us = least(s->cost->leave_us, s->left_at - s->leave_at);
        s->changes++;
        s->leaving = false;
    } else if (!s->leaving && !atomic_load(&s->out) && atomic_load(&s->ran) >= STAY) {
        s->leaving = true;
        s->leave_at = mo_now(s->env);
        mo_claims_leave(s->guest);
    } else if (!s->leaving && atomic_load(&s->out)) {
        atomic_store(&s->ran, 0);
        atomic_store(&s->out, false);
        mo_claims_seat(s->guest, 1);
        s->asked_at = mo_now(s->env);
        atomic_fetch_add(&s->asked, 1);
    }
}

static void be_guest(struct session *s, struct mo_claims *claims) {
    static const struct mo_claims_calls calls = {long_step, guest_pieces, NULL};
    for (uint32_t seen = 0, asked;; seen = asked) {
        while ((asked = atomic_load(&s->asked)) == seen)
            mo_cpu_relax();
        if (asked == UINT32_MAX) return;
        int code;
        mo_claims_work(claims, s->guest, &calls, s, NULL, &code);
        s->left_at = mo_now(s->env);
        atomic_store(&s->out, true);
    }
}

/* --- both ----------------------------------------------------------------------------------------------- */
static void measure(void *ctx, struct mo_together *team, int worker) {
    static const struct mo_claims_calls empty = {empty_step, empty_pieces, NULL},
                                        lead = {long_step, lead_pieces, NULL};
    struct session *s = ctx;
    int code, block = 0;
    for (; block < ROUNDS; block++)
        mo_claims_work(mo_together_begin(team, worker, STEPS + 1, block), &team->member[worker], &empty, s,
                       NULL, &code);
    if (worker == 0) {
        s->guest = &team->member[1];
        s->until = mo_now(s->env) + most_ns;
    }
    struct mo_claims *claims = mo_together_begin(team, worker, INT32_MAX >> 1, block);
    if (worker == 1) {
        be_guest(s, claims);
        return;
    }
    mo_claims_work(claims, &team->member[0], &lead, s, NULL, &code);
    atomic_store(&s->asked, UINT32_MAX);
}

int mo_team_cost_measure(const struct mo_env *env, struct mo_team_cost *out, moire_error *err) {
    struct session s = {.env = env, .cost = out, .out = true};
    *out = (struct mo_team_cost){INFINITY, INFINITY, INFINITY};
    return mo_together(env, 2, measure, &s, err);
}

json_t *mo_team_cost_json(const struct mo_team_cost *c) {
    return json_pack("{s:f, s:f, s:f}", "step_us", c->step_us, "join_us", c->join_us, "leave_us",
                     c->leave_us);
}
