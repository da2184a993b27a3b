/* SPDX-License-Identifier: Apache-2.0
 * test_claims.c - teams that claim their work: every piece is run once and in order, whoever comes, leaves or
 * stands still; and who holds no piece is waited for by nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/lock.h"
#include "tests/unit/base/claims_bed.h"

enum { STEPS = 60, MOST = 24, ROUNDS = 6, BLOCKS = 150 };
static const uint64_t seed = 11;

/* Steps that check that the one before them is complete. */
struct steps {
    int pieces[STEPS];    /* of each; 0: one worker runs it */
    int rounds[STEPS];    /* in which it is shared; at least 1 */
    int round;            /* of the last step that was begun, from 1 on */
    int ran[STEPS][MOST]; /* plain memory: the object has to order what the members do */
    int fails_at;         /* this step says -7 */
    int fails_after;      /* this step says -8 when its first round is over */
    int last;             /* that was begun */
    _Atomic int wrong;
};

/* All pieces of the step have been run in so many rounds. */
static void expect(struct steps *s, int step, int rounds) {
    for (int i = 0; i < s->pieces[step]; i++)
        if (s->ran[step][i] != rounds) atomic_fetch_add(&s->wrong, 1);
}

static int begin_step(void *ctx, int step, int width, void *scratch) {
    struct steps *s = ctx;
    (void)scratch;
    if (step != s->last + 1 || width < 1) atomic_fetch_add(&s->wrong, 1);
    s->last = step;
    s->round = 1;
    if (step) expect(s, step - 1, s->rounds[step - 1]);
    return step == s->fails_at ? -7 : s->pieces[step];
}

static int again(void *ctx, int step, int width) {
    struct steps *s = ctx;
    if (step != s->last || width < 1) atomic_fetch_add(&s->wrong, 1);
    expect(s, step, s->round);
    if (step == s->fails_after) return -8;
    return s->round++ < s->rounds[step] ? s->pieces[step] : 0;
}

static void run_pieces(void *ctx, const struct mo_pieces *p, void *scratch) {
    struct steps *s = ctx;
    (void)scratch;
    if (p->of != s->pieces[p->step] || p->from >= p->to) atomic_fetch_add(&s->wrong, 1);
    for (int i = p->from; i < p->to; i++) {
        s->ran[p->step][i]++;
        for (int k = 0; k < (i * 37 + p->step) % 50; k++)
            mo_cpu_relax();
    }
}

static const struct mo_claims_calls calls = {begin_step, run_pieces, again};

static void draw_steps(struct steps *s, uint64_t *rng) {
    memset(s, 0, sizeof *s);
    for (int k = 0; k < STEPS; k++)
        s->pieces[k] = claims_draw(rng, 4) ? (int)claims_draw(rng, MOST + 1) : 0;
    for (int k = 0; k < STEPS; k++)
        s->rounds[k] = claims_draw(rng, 4) ? 1 : 1 + (int)claims_draw(rng, ROUNDS);
    s->fails_at = s->fails_after = STEPS;
    s->last = -1;
}

/* The first n steps were run, and nothing else. */
static void check_steps(const struct steps *s, int n) {
    assert_int_equal(s->wrong, 0);
    for (int k = 0; k < STEPS; k++)
        for (int i = 0; i < MOST; i++)
            assert_int_equal(s->ran[k][i], k < n && i < s->pieces[k] ? s->rounds[k] : 0);
}

static void check_block(const struct claims_bed *b, const struct steps *s) {
    assert_int_equal(b->ended, 1);
    assert_int_equal(b->code, s->fails_at < STEPS ? -7 : 0);
    check_steps(s, s->fails_at);
}

/* With no spin everybody who waits sleeps; with a long one, nobody. */
static void every_piece_is_run_once_and_in_order(void **state) {
    (void)state;
    static struct claims_bed b;
    static struct steps s;
    for (int spin = 0; spin <= 2000; spin += 1000) {
        uint64_t rng = seed;
        claims_lay(&b, spin, &calls, &s);
        for (int i = 0; i < BLOCKS; i++) {
            draw_steps(&s, &rng);
            claims_run(&b, STEPS, 1 + (int)claims_draw(&rng, CLAIMS_WORKERS));
            check_block(&b, &s);
        }
        claims_strike(&b);
    }
}

/* Also the last one, behind which no other step could say so. */
static void a_round_that_fails_ends_the_block(void **state) {
    (void)state;
    static struct claims_bed b;
    static struct steps s;
    uint64_t rng = seed;
    claims_lay(&b, 1000, &calls, &s);
    for (int i = 0; i < BLOCKS; i++) {
        draw_steps(&s, &rng);
        s.fails_after = i % 2 ? STEPS - 1 : (int)claims_draw(&rng, STEPS);
        s.pieces[s.fails_after] = MOST;
        s.rounds[s.fails_after] = 1;
        claims_run(&b, STEPS, 1 + (int)claims_draw(&rng, CLAIMS_WORKERS));
        assert_int_equal(b.ended, 1);
        assert_int_equal(b.code, -8);
        check_steps(&s, s.fails_after + 1);
    }
    claims_strike(&b);
}

static void a_step_that_fails_ends_the_block(void **state) {
    (void)state;
    static struct claims_bed b;
    static struct steps s;
    uint64_t rng = seed;
    claims_lay(&b, 100, &calls, &s);
    for (int i = 0; i < BLOCKS; i++) {
        draw_steps(&s, &rng);
        s.fails_at = (int)claims_draw(&rng, STEPS);
        claims_run(&b, STEPS, CLAIMS_WORKERS);
        check_block(&b, &s);
    }
    claims_strike(&b);
}

static void members_come_and_go(void **state) {
    (void)state;
    static struct claims_bed b;
    static struct steps s;
    for (int spin = 0; spin <= 200; spin += 200) {
        uint64_t rng = seed;
        claims_lay(&b, spin, &calls, &s);
        for (int i = 0; i < BLOCKS; i++) {
            draw_steps(&s, &rng);
            claims_storm(&b, STEPS, &rng);
            check_block(&b, &s);
        }
        assert_true(b.left > 0);
        claims_strike(&b);
    }
}

/* Numbers of steps begin anew before they wrap. */
static void numbers_begin_anew(void **state) {
    (void)state;
    static struct claims_bed b;
    static struct steps s;
    uint64_t rng = seed;
    claims_lay(&b, 100, &calls, &s);
    draw_steps(&s, &rng);
    claims_run(&b, STEPS, CLAIMS_WORKERS);
    uint64_t now = atomic_load(&b.claims.now);
    atomic_store(&b.claims.now, (now & UINT32_MAX) | (uint64_t)UINT32_MAX / 2 << 32);
    for (int i = 0; i < 10; i++) {
        draw_steps(&s, &rng);
        claims_run(&b, STEPS, CLAIMS_WORKERS);
        check_block(&b, &s);
    }
    assert_true(atomic_load(&b.claims.now) >> 32 < UINT32_MAX / 2);
    claims_strike(&b);
}

/* --- a member that stands still ------------------------------------------------------------------------- */
/* A system whose futex_wait() does not return until the test lets it. */
struct stall {
    struct mo_sys table; /* first: its self points to this struct */
    const struct mo_sys *real;
    _Atomic int waiting;
    _Atomic uint32_t go;
};

static void stalled_wait(void *self, _Atomic uint32_t *word, uint32_t value, int64_t deadline) {
    struct stall *s = self;
    (void)word, (void)value, (void)deadline;
    atomic_fetch_add(&s->waiting, 1);
    while (!atomic_load(&s->go))
        s->real->futex_wait(s->real->self, &s->go, 0, 0);
}

static void no_wake(void *self, _Atomic uint32_t *word, int n) {
    (void)self, (void)word, (void)n;
}

/* A first step that lasts until another member sleeps. */
struct patient {
    struct steps s;
    struct stall *stall;
    _Atomic bool begun;
};

static int begin_patient_step(void *ctx, int step, int width, void *scratch) {
    struct patient *p = ctx;
    atomic_store(&p->begun, true);
    while (!atomic_load(&p->stall->waiting))
        mo_cpu_relax();
    return begin_step(&p->s, step, width, scratch);
}

static void run_patient_pieces(void *ctx, const struct mo_pieces *pieces, void *scratch) {
    run_pieces(&((struct patient *)ctx)->s, pieces, scratch);
}

/* Core 1 sleeps while core 0 runs the first step alone, and does not wake up: core 0 runs all pieces, also
 * those of the other's seat, and ends the block.  When core 1 wakes up, it touches nothing. */
static void nobody_waits_for_who_holds_no_piece(void **state) {
    (void)state;
    static const struct mo_claims_calls patient_calls = {begin_patient_step, run_patient_pieces, NULL};
    static struct claims_bed b;
    static struct stall stall;
    static struct patient p;
    uint64_t rng = seed;
    claims_lay(&b, 0, &patient_calls, &p);
    memset(&stall, 0, sizeof stall);
    stall.real = b.env.sys;
    stall.table.self = &stall;
    stall.table.futex_wait = stalled_wait;
    stall.table.futex_wake = no_wake;
    struct mo_env env = {.sys = &stall.table};
    mo_claims_init(&b.claims, &env, b.ranges, CLAIMS_WORKERS, 10);
    draw_steps(&p.s, &rng);
    for (int k = 0; k < STEPS; k++)
        p.s.rounds[k] = 1;
    p.s.pieces[0] = 0;
    p.s.pieces[1] = MOST;
    p.stall = &stall;
    claims_begin(&b, STEPS, 2);
    claims_enter(&b, 0, 0);
    while (!atomic_load(&p.begun)) /* from now on another can only wait */
        b.env.sys->sleep_until(b.env.sys->self, mo_now(&b.env) + 20000);
    claims_enter(&b, 1, 1);
    claims_await(&b, &b.out, 1);
    check_block(&b, &p.s);
    memset(p.s.ran, 0, sizeof p.s.ran);
    atomic_store(&stall.go, 1);
    stall.real->futex_wake(stall.real->self, &stall.go, 1);
    claims_await(&b, &b.out, 2);
    check_steps(&p.s, 0);
    claims_strike(&b);
}

/* A first step that lasts until the test lets it end. */
struct held {
    struct steps s;
    _Atomic bool begun, go;
};

static int begin_held_step(void *ctx, int step, int width, void *scratch) {
    struct held *h = ctx;
    atomic_store(&h->begun, true);
    while (!atomic_load(&h->go))
        mo_cpu_relax();
    return begin_step(&h->s, step, width, scratch);
}

static void run_held_pieces(void *ctx, const struct mo_pieces *pieces, void *scratch) {
    run_pieces(&((struct held *)ctx)->s, pieces, scratch);
}

/* Core 0 stands still in its step and core 1 sleeps: asked to, it leaves at once. */
static void who_sleeps_leaves_when_asked(void **state) {
    (void)state;
    static const struct mo_claims_calls held_calls = {begin_held_step, run_held_pieces, NULL};
    static struct claims_bed b;
    static struct held h;
    uint64_t rng = seed;
    claims_lay(&b, 10, &held_calls, &h);
    draw_steps(&h.s, &rng);
    for (int k = 0; k < STEPS; k++)
        h.s.rounds[k] = 1;
    claims_begin(&b, STEPS, 2);
    claims_enter(&b, 0, 0);
    while (!atomic_load(&h.begun))
        b.env.sys->sleep_until(b.env.sys->self, mo_now(&b.env) + 20000);
    claims_enter(&b, 1, 1);
    while (!atomic_load(&b.claims.asleep))
        b.env.sys->sleep_until(b.env.sys->self, mo_now(&b.env) + 20000);
    mo_claims_resize(&b.claims, 1);
    mo_claims_leave(&b.members[1]);
    mo_claims_rouse(&b.claims);
    claims_await(&b, &b.out, 1);
    assert_int_equal(atomic_load(&b.ended), 0);
    atomic_store(&h.go, true);
    claims_await(&b, &b.out, 2);
    check_block(&b, &h.s);
    claims_strike(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_is_run_once_and_in_order),
        cmocka_unit_test(a_step_that_fails_ends_the_block),
        cmocka_unit_test(a_round_that_fails_ends_the_block),
        cmocka_unit_test(members_come_and_go),
        cmocka_unit_test(numbers_begin_anew),
        cmocka_unit_test(nobody_waits_for_who_holds_no_piece),
        cmocka_unit_test(who_sleeps_leaves_when_asked),
    };
    printf("seed %d\n", (int)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
