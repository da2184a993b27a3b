/* SPDX-License-Identifier: Apache-2.0
 * test_front.c - the choice of versions: share of the target, front, spread, what others cover, crossovers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "codegen/tune/front.h"

static struct mo_store_point point(double ns, int64_t parallelism, int64_t block, int64_t l3) {
    return (struct mo_store_point){
        .units = 64, .parallelism_milli = parallelism, .block_bytes = block, .l3_bytes = l3, .ns = {ns}};
}

static struct mo_store_front front_of(const struct mo_store_point *points, int n) {
    struct mo_store_front f = {.n = n};
    memcpy(f.point, points, (size_t)n * sizeof *points);
    return f;
}

static enum mo_point_state state_of(const struct mo_store_front *f, double ns) {
    for (int i = 0; i < f->n; i++)
        if (f->point[i].ns[0] == ns) return f->point[i].state;
    return MO_POINT_STATES;
}

static void late_and_dominated_points_go(void **state) {
    (void)state;
    const struct mo_store_point points[] = {
        point(300, 9000, 90, 10),                             /* misses the share, else it would dominate */
        point(150, 1000, 50, 100), point(100, 2000, 10, 100), /* fastest */
        point(160, 1000, 40, 100),                            /* worse than 150 in blocking */
        point(170, 500, 5, 50),                               /* least traffic */
    };
    struct mo_store_front f = front_of(points, 5);
    mo_front_select(&f, &(struct mo_front_rule){.share_ns = 200, .cores = 1, .versions = 5});
    assert_true(f.point[0].ns[0] == 100); /* sorted */
    assert_int_equal(state_of(&f, 300), MO_POINT_LATE);
    assert_int_equal(state_of(&f, 160), MO_POINT_DOMINATED);
    assert_int_equal(state_of(&f, 100), MO_POINT_VERSION);
    assert_int_equal(state_of(&f, 150), MO_POINT_VERSION);
    assert_int_equal(state_of(&f, 170), MO_POINT_VERSION);
}

/* On four cores the late one makes it, unless its units do not divide. */
static void more_cores_meet_the_share(void **state) {
    (void)state;
    struct mo_store_point points[] = {point(100, 2000, 10, 100), point(300, 9000, 90, 10)};
    struct mo_store_front f = front_of(points, 2);
    mo_front_select(&f, &(struct mo_front_rule){.share_ns = 80, .cores = 4, .versions = 5});
    assert_int_equal(state_of(&f, 300), MO_POINT_VERSION);
    points[1].units = 5; /* two of five on one core: 120 ns */
    f = front_of(points, 2);
    mo_front_select(&f, &(struct mo_front_rule){.share_ns = 80, .cores = 4, .versions = 5});
    assert_int_equal(state_of(&f, 300), MO_POINT_LATE);
    assert_int_equal(state_of(&f, 100), MO_POINT_VERSION); /* the fastest stays whatever the target */
}

static void versions_are_spread_evenly(void **state) {
    (void)state;
    struct mo_store_point points[9];
    for (int versions = 1; versions <= 5; versions++)
        for (int fastest = 0; fastest < 9; fastest++) {
            for (int i = 0; i < 9; i++)
                points[i] = point(i == fastest ? 50 : 100 + i, 9000 - 1000 * i, 10 + i, 100);
            struct mo_store_front f = front_of(points, 9);
            mo_front_select(&f, &(struct mo_front_rule){.cores = 1, .versions = versions});
            assert_int_equal(mo_front_versions(&f), versions);
            assert_int_equal(state_of(&f, 50), MO_POINT_VERSION);
            for (int end = 0; end < 9 && versions >= 4; end += 8) /* both ends or what took their place */
                assert_true(end == fastest || state_of(&f, 100 + end) == MO_POINT_VERSION ||
                            (fastest > end ? fastest - end : end - fastest) == 1);
        }
}

static void covered_versions_go(void **state) {
    (void)state;
    const double ns[4][MO_STORE_LEVELS] = {{100, 120, 160, 220, 300, 400},
                                           {101, 121, 161, 221, 301, 401},  /* as the first */
                                           {130, 135, 150, 170, 190, 210},  /* better under pressure */
                                           {150, 155, 160, 165, 170, 175}}; /* best at the end */
    struct mo_store_front f = {.n = 4};
    for (int i = 0; i < 4; i++) {
        memcpy(f.point[i].ns, ns[i], sizeof ns[i]);
        f.point[i].state = MO_POINT_VERSION;
    }
    mo_front_prune(&f);
    assert_int_equal(f.point[0].state, MO_POINT_VERSION);
    assert_int_equal(f.point[1].state, MO_POINT_COVERED);
    assert_int_equal(mo_front_versions(&f), 2); /* 2 and 3 cover each other within 90 % but at one level */
    assert_int_equal(f.point[3].state, MO_POINT_VERSION);
    struct mo_store_front alone = {.n = 1};
    alone.point[0] = f.point[0];
    mo_front_prune(&alone);
    assert_int_equal(mo_front_versions(&alone), 1);
}

static struct mo_store_point wide_point(double ns, int64_t units, double part_ns, int64_t packing) {
    struct mo_store_point p = point(ns, 1000, 10, 100);
    p.units = units, p.part_ns = part_ns, p.packing = packing;
    return p;
}

/* The kept one comes first; the second is the one that 64 cores run fastest, or one with the same weights
 * that is nearly as fast. */
static void one_version_serves_many_cores(void **state) {
    (void)state;
    struct mo_front_rule rule = {.cores = 64, .versions = 2, .kept = 2};
    const struct mo_store_point points[] = {wide_point(100, 4, 26, 1), wide_point(102, 8, 14, 2),
                                            wide_point(300, 128, 5, 1), wide_point(150, 64, 6, 2)};
    struct mo_store_front f = front_of(points, 4);
    f.cores = 64;
    assert_true(mo_front_widen(&f, &rule));
    assert_true(f.point[0].ns[0] == 102 && f.point[0].state == MO_POINT_VERSION);
    assert_true(f.point[1].ns[0] == 100 && f.point[3].ns[0] == 300); /* the others by time */
    assert_int_equal(state_of(&f, 150), MO_POINT_VERSION);
    assert_int_equal(mo_front_versions(&f), 2);
    f = front_of(points, 3);
    f.cores = 64;
    assert_true(mo_front_widen(&f, &rule));
    assert_int_equal(state_of(&f, 300), MO_POINT_VERSION);
    f = front_of(points, 2); /* nothing does better */
    f.cores = 64;
    assert_false(mo_front_widen(&f, &rule));
    assert_int_equal(mo_front_versions(&f), 1);
    f = front_of(points, 4);
    f.point[1].units = 256; /* enough as it is */
    assert_false(mo_front_widen(&f, &rule));
}

/* Among versions for pressure too: it takes the place of the one that many cores run worst, and is not pruned
 * although others cover it on one core. */
static void versions_for_pressure_keep_one_for_many_cores(void **state) {
    (void)state;
    struct mo_store_front f = {.n = 4, .cores = 64};
    const struct mo_front_rule rule = {.cores = 64, .versions = 3};
    for (int i = 0; i < 4; i++) {
        f.point[i] = point(100 + i, 4000 - 1000 * i, 10 + i, 100);
        f.point[i].units = 8, f.point[i].part_ns = 20 + i;
    }
    f.point[1].units = 64, f.point[1].part_ns = 4;
    mo_front_select(&f, &rule);
    assert_int_equal(mo_front_versions(&f), 3);
    assert_int_equal(state_of(&f, 101), MO_POINT_VERSION);
    for (int i = 0; i < 4; i++)
        for (int level = 1; level < MO_STORE_LEVELS; level++)
            f.point[i].ns[level] = f.point[i].ns[0];
    mo_front_prune(&f);
    assert_int_equal(mo_front_versions(&f), 2);
    assert_int_equal(state_of(&f, 100), MO_POINT_VERSION);
    assert_int_equal(state_of(&f, 101), MO_POINT_VERSION);
}

static void times_lie_between_levels(void **state) {
    (void)state;
    const double a[MO_STORE_LEVELS] = {100, 110, 120, 130, 140, 150};
    assert_true(mo_version_ns(a, 0.3) > 114.9 && mo_version_ns(a, 0.3) < 115.1);
    assert_true(mo_version_ns(a, -1) == 100 && mo_version_ns(a, 2) == 150);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_and_dominated_points_go),
        cmocka_unit_test(one_version_serves_many_cores),
        cmocka_unit_test(versions_for_pressure_keep_one_for_many_cores),
        cmocka_unit_test(more_cores_meet_the_share),
        cmocka_unit_test(versions_are_spread_evenly),
        cmocka_unit_test(covered_versions_go),
        cmocka_unit_test(times_lie_between_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
