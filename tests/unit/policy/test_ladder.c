/* SPDX-License-Identifier: Apache-2.0
 * test_ladder.c - plans of core counts layer by layer: by hand, and on random models never dearer than one
 * count for all layers that is as fast. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/profile/profile.h"

enum { MS = 1000000 };

/* Rows for 1 to n_cores cores of n_layers times each. */
static struct mo_profile *profile(const struct mo_env *env, int n_cores, int n_layers, const int64_t *ns) {
    struct mo_profile *p = mo_profile_create(env, n_layers, n_cores);
    assert_non_null(p);
    for (int c = 1; c <= n_cores; c++)
        mo_profile_record(p, c, ns + (int64_t)(c - 1) * n_layers);
    mo_profile_finish(p);
    return p;
}

static bool is(const struct mo_ladder_step *s, int cores, double time, double work) {
    return s->cores == cores && fabs(s->time - time) < 100 && fabs(s->work - work) < 100;
}

/* The first layer takes 12 ms and divides evenly, the second takes 6 ms on any number of cores.  On one core
 * that is 18 ms of core time.  The fastest plan has four cores for the first layer and one for the second,
 * 3 + 6 ms, with 20 us for the change: 12 + 6 ms of core time and a core's 20 us; four cores throughout would
 * take 36. */
static void narrow_layers_get_few_cores(void **state) {
    (void)state;
    static const int64_t ns[4][2] = {{12 * MS, 6 * MS}, {6 * MS, 6 * MS}, {4 * MS, 6 * MS}, {3 * MS, 6 * MS}};
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env, 4, 2, &ns[0][0]);
    int top = mo_ladder_top(p, false, 4);
    assert_int_equal(top, MO_LADDER_RUNGS - 1);
    const struct mo_ladder_step *first = mo_ladder_from(p, false, 0), *second = mo_ladder_from(p, false, 1);
    assert_true(is(&first[0], 1, 18 * MS, 18 * MS));
    assert_true(is(&second[0], 1, 6 * MS, 6 * MS) && is(&second[5], 1, 6 * MS, 6 * MS));
    bool found = false; /* at prices that are neither nothing nor all */
    for (int r = 1; r < top; r++)
        found = found || is(&first[r], 4, 9 * MS + MO_LADDER_SWITCH_NS, 18 * MS + MO_LADDER_SWITCH_NS);
    assert_true(found);
    const struct mo_ladder_step *behind = mo_ladder_from(p, false, 2);
    assert_true(is(&behind[0], 1, 0, 0) && is(&behind[top + MO_LADDER_RUNGS], 1, 0, 0));
    mo_profile_destroy(p);
}

/* A layer of 30 us on one core and 20 us on two is not worth two changes between wide ones. */
static void short_layers_keep_the_cores(void **state) {
    (void)state;
    static const int64_t ns[2][3] = {{8 * MS, 30000, 8 * MS}, {4 * MS, 30000, 4 * MS}};
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env, 2, 3, &ns[0][0]);
    for (int r = 0; r < MO_LADDER_RUNGS; r++) {
        const struct mo_ladder_step *first = &mo_ladder_from(p, false, 0)[r];
        if (first->cores == 2) assert_true(is(first, 2, 8 * MS + 30000, 16 * MS + 60000));
    }
    assert_int_equal(mo_ladder_from(p, false, 0)[MO_LADDER_RUNGS - 1].cores, 2);
    mo_profile_destroy(p);
}

/* Two cores do not make this layer faster as long as it is alone: 8 ms.  When memory is full it takes 48 ms
 * on one and 24 on two, their parts of it: 8 + 40 / 5 and 8 + 16 / 5 ms in the mean, where both are known. */
static void what_reads_much_counts_with_full_memory(void **state) {
    (void)state;
    static const int64_t ns[2] = {8 * MS, 8 * MS};
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env, 2, 1, ns);
    const struct mo_ladder_step *first = mo_ladder_from(p, false, 0), *top = &first[MO_LADDER_RUNGS - 1];
    assert_true(is(top, 1, 8 * MS, 8 * MS) && mo_ladder_from(p, true, 0) == first);
    size_t bytes = (size_t)MO_PROFILE_LEVELS * 3 * 2 * sizeof *p->level;
    p->level = mo_alloc(&env, bytes);
    memset(p->level, 0, bytes);
    for (int c = 1; c <= 2; c++)
        mo_profile_level(p, MO_PROFILE_LEVELS - 1, c)[1] =
            (struct mo_profile_does){.solo = 8 * MS, .under = 48 * MS / c};
    assert_true(mo_ladder_crowd(p));
    assert_true(is(top, 1, 8 * MS, 8 * MS));
    const struct mo_ladder_step *crowded = mo_ladder_from(p, true, 0);
    assert_true(is(&crowded[0], 1, 16 * MS, 16 * MS));
    assert_true(is(&crowded[mo_ladder_top(p, true, 2)], 2, 11.2 * MS, 22.4 * MS));
    mo_profile_destroy(p);
}

/* On a smaller machine the ladder ends below its first plan that is too wide. */
static void a_smaller_machine_has_fewer_rungs(void **state) {
    (void)state;
    static const int64_t ns[3] = {12 * MS, 6 * MS, 4 * MS};
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env, 3, 1, ns);
    for (int cores = 1; cores <= 3; cores++) {
        int top = mo_ladder_top(p, false, cores);
        assert_true(mo_ladder_from(p, false, 0)[top].cores <= cores);
        if (top < MO_LADDER_RUNGS - 1) assert_true(mo_ladder_from(p, false, 0)[top + 1].cores > cores);
    }
    assert_int_equal(mo_ladder_top(p, false, 3), MO_LADDER_RUNGS - 1);
    mo_profile_destroy(p);
}

/* Rungs get faster and dearer, and at its own price none is dearer than one count for all layers. */
static void no_plan_is_dearer_than_one_count(void **state) {
    (void)state;
    enum { CORES = 16, LAYERS = 12 };
    struct mo_env env = mo_env_default();
    srand(5);
    for (int round = 0; round < 20; round++) {
        int64_t ns[CORES][LAYERS];
        for (int l = 0; l < LAYERS; l++) {
            int64_t serial = 10000 + rand() % 500000, even = 100000 + rand() % 5000000;
            for (int c = 1; c <= CORES; c++)
                ns[c - 1][l] = serial + even / c;
        }
        struct mo_profile *p = profile(&env, CORES, LAYERS, &ns[0][0]);
        const struct mo_ladder_step *plan = mo_ladder_from(p, false, 0);
        for (int r = 1; r < MO_LADDER_RUNGS - 1; r++) {
            double price = pow(2, (r - 1) / 2.0) / 64;
            double cost = (double)plan[r].work + price * (double)plan[r].time;
            assert_true(plan[r].time <= plan[r - 1].time * 1.000001f);
            assert_true(plan[r].work >= plan[r - 1].work * 0.999999f);
            for (int c = 1; c <= CORES; c++)
                assert_true(cost <= (c + price) * (double)mo_profile_time(p, c, 0, LAYERS) * 1.000001);
        }
        mo_profile_destroy(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_layers_get_few_cores),
        cmocka_unit_test(short_layers_keep_the_cores),
        cmocka_unit_test(what_reads_much_counts_with_full_memory),
        cmocka_unit_test(a_smaller_machine_has_fewer_rungs),
        cmocka_unit_test(no_plan_is_dearer_than_one_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
