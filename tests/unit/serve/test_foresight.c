/* SPDX-License-Identifier: Apache-2.0
 * test_foresight.c - what a model learns from how long its queries took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "serve/query/foresight.h"

enum { PREDICTED = 1000000 };

static void learn(struct ms_foresight *f, int n, double ratio) {
    for (int i = 0; i < n; i++)
        ms_foresight_learn(f, PREDICTED, (int64_t)(ratio * PREDICTED));
}

static void without_experience_the_prediction_counts(void **state) {
    (void)state;
    struct ms_foresight f = {0};
    assert_true(ms_foresight_factor(&f) == 1);
    ms_foresight_learn(&f, 0, PREDICTED);
    ms_foresight_learn(&f, PREDICTED, 0);
    ms_foresight_learn(&f, -1, PREDICTED);
    assert_true(ms_foresight_factor(&f) == 1);
}

static void steady_times_are_known_soon(void **state) {
    (void)state;
    static const double ratio[] = {0.5, 1, 1.7, 3};
    for (size_t i = 0; i < sizeof ratio / sizeof *ratio; i++) {
        struct ms_foresight f = {0};
        learn(&f, 100, ratio[i]);
        assert_float_equal(ms_foresight_factor(&f), ratio[i], 0.01 * ratio[i]);
    }
}

static void what_was_learned_in_bad_times_is_forgotten(void **state) {
    (void)state;
    struct ms_foresight f = {0};
    learn(&f, 50, 1);
    learn(&f, 50, 4);
    assert_true(ms_foresight_factor(&f) > 3.5);
    learn(&f, 200, 1);
    assert_true(ms_foresight_factor(&f) < 1.1);
}

static void it_has_bounds(void **state) {
    (void)state;
    struct ms_foresight f = {0}, g = {0};
    learn(&f, 1000, 1e6);
    assert_true(ms_foresight_factor(&f) == MS_FORESIGHT_MOST);
    learn(&g, 1000, 1e-3);
    assert_true(ms_foresight_factor(&g) == MS_FORESIGHT_LEAST);
}

static uint64_t draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 40;
}

/* Sums of twelve draws are all but normal: mean 1.2, standard deviation 0.2. */
static double scattered(uint64_t *seed) {
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)draw(seed) / (double)(1 << 24);
    return 1.2 + 0.2 * sum;
}

static void some_nineteen_of_twenty_stay_below(void **state) {
    (void)state;
    enum { N = 20000 };
    struct ms_foresight f = {0};
    uint64_t seed = 20;
    int below = 0;
    learn(&f, 50, 1.2);
    for (int i = 0; i < N; i++) {
        const double ratio = scattered(&seed);
        below += ratio <= ms_foresight_factor(&f);
        learn(&f, 1, ratio);
    }
    assert_in_range(below, N * 90 / 100, N * 98 / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_experience_the_prediction_counts),
        cmocka_unit_test(steady_times_are_known_soon),
        cmocka_unit_test(what_was_learned_in_bad_times_is_forgotten),
        cmocka_unit_test(it_has_bounds),
        cmocka_unit_test(some_nineteen_of_twenty_stay_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
