/* SPDX-License-Identifier: Apache-2.0
 * test_share_profile.c - latency and use by batch and share: what is exact, what is interpolated, what is
 * filled, what holds for any measurements; and slowdown beside neighbours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/planner/interference.h"
#include "tests/unit/base/fault_sys.h"

enum { MS = 1000000 };

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9 * (1 + fabs(b));
}

static double draw(uint64_t *rng) {
    *rng = *rng * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(*rng >> 11) * 0x1p-53;
}

static void put(struct mo_share_profile *p, int i, int j, double ms, double l2) {
    struct mo_share_cell cell = {(int64_t)(ms * MS + 0.5), {.sm = -1, .l2 = l2, .dram = -1}};
    mo_share_record(p, i, j, &cell);
}

/* Batches 1, 4, 8 at shares 200, 500, 1000, without holes: serial + parallel / share. */
static struct mo_share_profile *three_by_three(void) {
    static const int batch[] = {1, 4, 8}, share[] = {200, 500, 1000};
    static const double serial[] = {2, 4, 6}, parallel[] = {1, 4, 10};
    struct mo_share_profile *p = mo_share_create(the_env(), 3, batch, 3, share);
    assert_non_null(p);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            put(p, i, j, serial[i] + parallel[i] * 1000 / share[j], 0.1 * (j + 1));
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    return p;
}

static void measured_points_are_exact_and_lines_join_them(void **state) {
    (void)state;
    struct mo_share_profile *p = three_by_three();
    assert_int_equal(mo_share_latency(p, 1, 1000), 3 * MS);
    assert_int_equal(mo_share_latency(p, 8, 200), 56 * MS);
    /* batch 5 is a quarter of the way from 4 to 8 */
    assert_int_equal(mo_share_latency(p, 5, 500), (12 * 3 + 26) * MS / 4);
    /* Amdahl's law between measured shares, where it holds exactly */
    assert_int_equal(mo_share_latency(p, 4, 250), 20 * MS);
    assert_int_equal(mo_share_latency(p, 8, 800), (int64_t)(18.5 * MS));
    /* below the smallest share the product stays */
    assert_int_equal(mo_share_latency(p, 1, 100), 14 * MS);
    /* odd arguments */
    assert_int_equal(mo_share_latency(p, 0, 500), 0);
    assert_int_equal(mo_share_latency(p, -3, 500), 0);
    assert_int_equal(mo_share_latency(p, 9, 500), MO_SHARE_NEVER);
    assert_int_equal(mo_share_latency(p, 1, 0), MO_SHARE_NEVER);
    assert_int_equal(mo_share_latency(p, 1, 5000), 3 * MS);
    mo_share_destroy(p);
}

static void holes_take_the_ratio_of_their_neighbours(void **state) {
    (void)state;
    static const int batch[] = {1, 3, 5, 9}, share[] = {100, 200, 1000};
    struct mo_share_profile *p = mo_share_create(the_env(), 4, batch, 3, share);
    for (int i = 0; i < 4; i++)
        put(p, i, 1, 10.0 * batch[i], 0.2);
    put(p, 0, 0, 15, 0.1);
    put(p, 2, 0, 95, -1);
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    assert_int_equal(mo_share_latency(p, 3, 100), (int64_t)(30 * 1.7 * MS)); /* between 1.5 and 1.9 */
    assert_int_equal(mo_share_latency(p, 9, 100), (int64_t)(90 * 1.9 * MS)); /* the last known ratio */
    assert_int_equal(mo_share_latency(p, 5, 1000), 10 * MS); /* nothing known: inverse of the shares */
    /* the use of a hole goes with throughput */
    assert_true(near(mo_share_use_at(p, 5, 100).l2, 0.2 * 50 / 95));
    assert_true(near(mo_share_use_at(p, 1, 1000).l2, 1));
    assert_true(near(mo_share_use_at(p, 1, 100).l2, 0.1));
    assert_true(near(mo_share_use_at(p, 1, 50).l2, 0.05));
    assert_true(near(mo_share_use_at(p, 1, 150).l2, 0.15));
    assert_true(near(mo_share_use_at(p, 3, 150).sm, 0));
    mo_share_destroy(p);
}

static void a_batch_without_times_is_named(void **state) {
    (void)state;
    static const int batch[] = {1, 7}, share[] = {100, 200}, falls[] = {4, 2}, big[] = {1, 1001};
    moire_error err = {0};
    struct mo_share_profile *p = mo_share_create(the_env(), 2, batch, 2, share);
    put(p, 0, 0, 1, 0);
    assert_int_equal(mo_share_finish(p, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "batch 7"));
    mo_share_destroy(p);
    assert_null(mo_share_create(the_env(), 2, falls, 2, share));
    assert_null(mo_share_create(the_env(), 2, batch, 2, big));
    assert_null(mo_share_create(the_env(), 0, batch, 2, share));
    mo_share_destroy(NULL);
}

/* What is noise in the measurements is none in the tables, and every search finds what trying all finds. */
static void searches_agree_with_trying_all(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t rng = seed;
        static const int batch[] = {1, 2, 5, 16, 32}, share[] = {100, 250, 400, 800};
        struct mo_share_profile *p = mo_share_create(the_env(), 5, batch, 4, share);
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 4; j++)
                if (j == 1 || draw(&rng) < 0.7)
                    put(p, i, j, (batch[i] + 3) * 300.0 / share[j] * (0.7 + 0.6 * draw(&rng)), draw(&rng));
        p->in_bytes = (int64_t)(draw(&rng) * 1e6);
        p->copy_bytes_ns = seed % 2 ? 10 : 0;
        assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
        for (int b = 1; b <= 32; b++)
            for (int s = 1; s <= 1000; s += 37) {
                int64_t t = mo_share_latency(p, b, s);
                struct mo_share_use use = mo_share_use_at(p, b, s);
                if (mo_share_latency(p, b - 1, s) > t || mo_share_latency(p, b, s + 1) > t)
                    fail_msg("seed %d: latency falls at batch %d share %d", (int)seed, b, s);
                if (!(use.l2 >= 0 && use.l2 <= 1)) fail_msg("seed %d: use %g", (int)seed, use.l2);
            }
        for (int round = 0; round < 40; round++) {
            int s = 1 + (int)(draw(&rng) * 1000), most = 0;
            int64_t limit = (int64_t)(draw(&rng) * 60 * MS);
            double slow = 1 + draw(&rng), rate = 0, cost = INFINITY;
            for (int b = 1; b <= 32; b++) {
                double t = (double)mo_share_latency(p, b, s), copy = (double)mo_share_copy(p, b);
                if (t * slow + copy <= (double)limit) {
                    most = b;
                    rate = fmax(rate, b * 1e9 / fmax(t * slow, copy));
                }
                if (t + copy <= (double)limit) cost = fmin(cost, t / b * s * 1e-12);
            }
            if (mo_share_batch(p, s, slow, limit) != most || !near(mo_share_rate(p, s, slow, limit), rate) ||
                (isinf(cost) ? !isinf(mo_share_cost(p, s, limit)) : !near(mo_share_cost(p, s, limit), cost)))
                fail_msg("seed %d: share %d limit %lld: not what trying all batches finds", (int)seed, s,
                         (long long)limit);
        }
        mo_share_destroy(p);
    }
}

/* A millisecond each, of the longest batch or of what the limit allows. */
static void long_models_have_more_segments(void **state) {
    (void)state;
    struct mo_share_profile *p = three_by_three();
    assert_int_equal(mo_share_segments(p, 1000, 0), 16);
    assert_int_equal(mo_share_segments(p, 500, 0), 26);
    assert_int_equal(mo_share_segments(p, 1000, 5 * MS + 1), 6);
    assert_int_equal(mo_share_segments(p, 1000, 1), 1);
    assert_int_equal(mo_share_segments(p, 100, 0), MO_SHARE_SEGMENTS);
    mo_share_destroy(p);
}

/* Twice as fast up to 400, hardly faster above. */
static void the_knee_is_where_the_rate_stops_to_grow(void **state) {
    (void)state;
    static const int batch[] = {1}, share[] = {200, 400, 600, 800, 1000}, two[] = {200, 1000};
    static const double ms[] = {20, 10, 9.8, 9.7, 9.6};
    struct mo_share_profile *p = mo_share_create(the_env(), 1, batch, 5, share);
    for (int j = 0; j < 5; j++)
        put(p, 0, j, ms[j], 0);
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    assert_int_equal(mo_share_knee(p, share, 5, 50 * MS), 1);
    assert_int_equal(mo_share_knee(p, share, 5, 5 * MS), 4); /* nothing fits */
    assert_int_equal(mo_share_knee(p, two, 2, 50 * MS), 1);
    mo_share_destroy(p);
    p = mo_share_create(the_env(), 1, batch, 5, share);
    for (int j = 0; j < 5; j++)
        put(p, 0, j, 2000.0 / share[j], 0);
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    assert_int_equal(mo_share_knee(p, share, 5, 50 * MS), 4); /* a straight line */
    mo_share_destroy(p);
}

static int create_and_destroy(void *ctx) {
    static const int batch[] = {1, 2}, share[] = {500, 1000};
    struct mo_env env = mo_env_default();
    env.sys = &((struct fault_sys *)ctx)->table;
    struct mo_share_profile *p = mo_share_create(&env, 2, batch, 2, share);
    mo_share_destroy(p);
    return p ? MOIRE_OK : MOIRE_ENOMEM;
}

static void any_failing_allocation_is_a_null(void **state) {
    (void)state;
    struct fault_sys fault;
    fault_sys_init(&fault);
    assert_int_equal(fault_sys_sweep(&fault, create_and_destroy, &fault, MOIRE_ENOMEM), 7);
}

static void neighbours_slow_down_by_what_they_use(void **state) {
    (void)state;
    /* the constants of gpu-let for an RTX 2080 Ti, rounded */
    const struct mo_interference m = {
        .l2_self = 0.113, .l2_other = 0.716, .dram_self = 0.355, .dram_other = 0.088, .constant = 0.895};
    const struct mo_interference none = {0};
    const struct mo_share_use idle = {0}, self = {0.5, 0.2, 0.5}, heavy[] = {{1, 0.3, 0.6}, {1, 0.8, 0.6}};
    assert_true(mo_interference(&m, &self, heavy, 0) == 1);
    assert_true(near(mo_interference(&m, &self, heavy, 1),
                     0.113 * 0.2 + 0.716 * 0.3 + 0.355 * 0.5 + 0.088 * 0.6 + 0.895));
    /* sums of others stop at the whole */
    assert_true(
        near(mo_interference(&m, &self, heavy, 2), 0.113 * 0.2 + 0.716 + 0.355 * 0.5 + 0.088 + 0.895));
    assert_true(mo_interference(&m, &idle, &idle, 1) == 1); /* 0.895 would be faster than alone */
    assert_true(mo_interference(&none, &self, heavy, 2) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_points_are_exact_and_lines_join_them),
        cmocka_unit_test(long_models_have_more_segments),
        cmocka_unit_test(holes_take_the_ratio_of_their_neighbours),
        cmocka_unit_test(a_batch_without_times_is_named),
        cmocka_unit_test(searches_agree_with_trying_all),
        cmocka_unit_test(the_knee_is_where_the_rate_stops_to_grow),
        cmocka_unit_test(any_failing_allocation_is_a_null),
        cmocka_unit_test(neighbours_slow_down_by_what_they_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
