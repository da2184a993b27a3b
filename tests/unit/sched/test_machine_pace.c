/* SPDX-License-Identifier: Apache-2.0
 * test_machine_pace.c - the machine's pace from blocks that ended, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include "runtime/sched/machine_pace.h"

enum { MS = 1000000, BLOCK = 1 * MS, CORES = 2 };

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

/* n blocks on one core, each 1 ms by its profile, one after the other; returns the pace then. */
static double run_blocks(struct mo_pace *p, int n, double ratio, int64_t *now) {
    for (int i = 0; i < n; i++) {
        *now += (int64_t)(ratio * BLOCK);
        mo_pace_note(p, 1, ratio * BLOCK, BLOCK, *now);
    }
    return p->value;
}

static void a_constant_machine_has_pace_1(void **state) {
    (void)state;
    struct mo_pace p;
    int64_t now = 0;
    mo_pace_init(&p, CORES);
    assert_true(p.value == 1);
    for (int i = 0; i < 200; i++) /* layers that differ from their profiles by 8 % */
        assert_true(run_blocks(&p, 1, i % 3 ? 1.08 : 0.96, &now) == 1);
}

static void one_stall_moves_nothing(void **state) {
    (void)state;
    struct mo_pace p;
    int64_t now = 0;
    mo_pace_init(&p, CORES);
    run_blocks(&p, MO_PACE_SAMPLES, 1, &now);
    for (int i = 0; i < 3; i++) { /* fewer than a quarter of the window */
        assert_true(run_blocks(&p, 1, 30, &now) == 1);
        assert_true(run_blocks(&p, 1, 1, &now) == 1);
    }
}

/* The window's middle half is over when 12 of 16 samples are of the new pace; it is half way after 8. */
static void a_change_is_followed_and_so_is_its_end(void **state) {
    (void)state;
    struct mo_pace p;
    int64_t now = 0;
    mo_pace_init(&p, CORES);
    run_blocks(&p, MO_PACE_SAMPLES, 1, &now);
    assert_true(run_blocks(&p, 4, 2, &now) == 1);
    assert_true(near(run_blocks(&p, 4, 2, &now), 1.5));
    assert_true(near(run_blocks(&p, 4, 2, &now), 2));
    run_blocks(&p, MO_PACE_SAMPLES, 2, &now);
    assert_true(near(run_blocks(&p, 8, 1, &now), 1.5));
    assert_true(run_blocks(&p, 4, 1, &now) == 1);
}

static void short_blocks_make_up_samples(void **state) {
    (void)state;
    struct mo_pace p;
    mo_pace_init(&p, CORES);
    for (int i = 1; i <= 40; i++) /* 0.1 ms of core time each: five are a sample on two cores */
        assert_int_equal(mo_pace_note(&p, 2, 0.1 * MS, 0.05 * MS, i), i == 20);
    assert_int_equal(p.n, 8);
    assert_true(near(p.value, 2));
}

static void what_is_old_is_forgotten(void **state) {
    (void)state;
    struct mo_pace p;
    int64_t now = 0;
    mo_pace_init(&p, CORES);
    assert_true(near(run_blocks(&p, MO_PACE_SAMPLES, 2, &now), 2));
    assert_false(mo_pace_forget(&p, now + 100 * MS));
    assert_true(mo_pace_forget(&p, now + 100 * MS + 1));
    assert_true(p.value == 1);
    assert_false(mo_pace_forget(&p, now + 900 * MS));
}

static void absurd_times_are_bounded(void **state) {
    (void)state;
    struct mo_pace p;
    int64_t now = 0;
    mo_pace_init(&p, CORES);
    assert_true(near(run_blocks(&p, MO_PACE_SAMPLES, 50, &now), 4));
    mo_pace_init(&p, CORES);
    assert_true(near(run_blocks(&p, MO_PACE_SAMPLES, 1e-6, &now), 0.25));
}

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* On samples at random, some of them alike: the mean of the middle half of the last ones. */
static void it_is_the_middle_of_the_last(void **state) {
    (void)state;
    struct mo_pace p;
    double seen[300], last[MO_PACE_SAMPLES];
    int64_t now = 0;
    mo_pace_init(&p, CORES);
    srand(3);
    for (int i = 0; i < 300; i++) {
        seen[i] = 1.5 + (rand() % 20) / 10.0;
        double pace = run_blocks(&p, 1, seen[i], &now), sum = 0;
        int n = i + 1 < MO_PACE_SAMPLES ? i + 1 : MO_PACE_SAMPLES, skip = n / 4;
        for (int k = 0; k < n; k++)
            last[k] = seen[i - k];
        qsort(last, (size_t)n, sizeof *last, rising);
        for (int k = skip; k < n - skip; k++)
            sum += last[k];
        if (n >= 4) assert_true(near(pace, sum / (n - 2 * skip)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_machine_has_pace_1),
        cmocka_unit_test(one_stall_moves_nothing),
        cmocka_unit_test(a_change_is_followed_and_so_is_its_end),
        cmocka_unit_test(short_blocks_make_up_samples),
        cmocka_unit_test(what_is_old_is_forgotten),
        cmocka_unit_test(it_is_the_middle_of_the_last),
        cmocka_unit_test(absurd_times_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
