/* SPDX-License-Identifier: Apache-2.0
 * test_rivals.c - the published schedulers that VELTAIR is compared with, by hand: Planaria and PREMA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/policy/policy_bed.h"

/* A model of so many layers of `ns` each, on one core or, where it does not scale, on any count. */
static void add_tenant(struct policy_bed *f, int layers, int64_t ns, bool scales, int64_t qos_ns) {
    int64_t times[4];
    struct mo_profile *p = mo_profile_create(policy_bed_env(), layers, BED_CORES);
    for (int n = 1; n <= BED_CORES; n++) {
        for (int i = 0; i < layers; i++)
            times[i] = scales ? ns / n : ns;
        mo_profile_record(p, n, times);
    }
    mo_profile_finish(p);
    policy_bed_tenant(f, p, qos_ns);
}

/* 1600 ns of one core within 1000, of which 900 count: two cores, 800 ns.  One alone gets the spare cores
 * too; a second one as much as the first, for both have as little time left. */
static void planaria_deals_spare_cores(void **state) {
    (void)state;
    struct policy_bed f;
    policy_bed_open(&f, "planaria", true);
    add_tenant(&f, 4, 400, true, 1000);
    policy_bed_submit(&f, 0, 1, 1);
    assert_int_equal(f.run[0].n_cores, 8);
    policy_bed_submit(&f, 0, 2, 2);
    assert_int_equal(f.starts, 1);
    assert_int_equal(f.resizes, 1);
    assert_int_equal(f.resize.n_cores, 4);
    mo_sched_cores_back(f.s, f.run[0].lead, &f.resize.leave, 50);
    assert_int_equal(f.starts, 2);
    assert_int_equal(f.run[1].n_cores, 4);
    policy_bed_close(&f);
}

/* Within 335 ns, of which 90 % count, each needs six cores of eight.  Scores are equal: the first has its
 * six, the second what is left. */
static void planaria_deals_by_score_when_short(void **state) {
    (void)state;
    struct policy_bed f;
    policy_bed_open(&f, "planaria", true);
    add_tenant(&f, 4, 400, true, 335);
    policy_bed_submit(&f, 0, 1, 1);
    policy_bed_submit(&f, 0, 2, 2);
    assert_int_equal(f.resize.n_cores, 6);
    mo_sched_cores_back(f.s, f.run[0].lead, &f.resize.leave, 3);
    assert_int_equal(f.starts, 2);
    assert_int_equal(f.run[1].n_cores, 2);
    policy_bed_close(&f);
}

/* A long query of 3000 ns runs its first layer; another waits, and a short one of 100 ns comes.  The short
 * one goes next once its tokens reach the level of the long ones, and not before.
 *
 *   at     tokens of the long that ran    that waits       short              level   next
 *   1001   1                              1 + 1000/3000    1 + 1/100          1       the short one
 *   8001   1 + 6000/3000 = 3              1 + 8000/3000    1 + 1/100          3       a long one
 *   100001 1 + 98000/3000 = 33            34               1 + 901/100 = 10   9       the short one */
static void prema_goes_by_tokens(void **state) {
    (void)state;
    static const struct {
        int64_t comes, ends;
        bool shorter;
    } rows[] = {{1000, 1001, true}, {8000, 8001, false}, {99100, 100001, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy_bed f;
        policy_bed_open(&f, "prema", true);
        add_tenant(&f, 3, 1000, false, 0);
        add_tenant(&f, 1, 100, false, 0);
        policy_bed_submit(&f, 0, 1, 1);
        policy_bed_submit(&f, 0, 1, 1);
        assert_int_equal(f.starts, 1);
        if (rows[i].ends > 1001)
            policy_bed_finish(&f, f.run[0].lead, 1001); /* two layers, the second stalls */
        policy_bed_submit(&f, 1, rows[i].comes, rows[i].comes);
        policy_bed_finish(&f, f.run[f.starts - 1].lead, rows[i].ends);
        assert_int_equal(f.run[f.starts - 1].tenant, rows[i].shorter);
        policy_bed_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planaria_deals_spare_cores),
        cmocka_unit_test(planaria_deals_by_score_when_short),
        cmocka_unit_test(prema_goes_by_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
