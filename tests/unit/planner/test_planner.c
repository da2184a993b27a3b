/* SPDX-License-Identifier: Apache-2.0
 * test_planner.c - planners of lets: what is known for small machines, what is kept, and what is said to bad
 * input; random ones are in test_planner_random.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "runtime/planner/check.h"
#include "runtime/planner/fewest.h"
#include "runtime/planner/planner.h"
#include "tests/unit/planner/plan_case.h"

static struct mo_lets_plan plans[2]; /* too large for a stack */

static void a_small_fall_is_kept_a_rise_is_not(void **state) {
    (void)state;
    struct plan_case c;
    const struct mo_planner *p = mo_planner_find("moire-gpu");
    plan_case_paper(&c, 4);
    for (int i = 0; i < 5; i++)
        c.tenants[i].rate = 100;
    assert_int_equal(plan_case_make(p, &c, &plans[0], NULL), MOIRE_OK);
    assert_true(plans[0].complete && !plans[0].kept);
    c.view.in_force = &plans[0];
    c.view.keep = 0.1;
    c.tenants[2].rate = 91;
    assert_int_equal(plan_case_make(p, &c, &plans[1], NULL), MOIRE_OK);
    assert_true(plans[1].kept && plans[1].tenants[2].rate == 100);
    c.tenants[2].rate = 89;
    assert_int_equal(plan_case_make(p, &c, &plans[1], NULL), MOIRE_OK);
    assert_false(plans[1].kept);
    c.tenants[2].rate = 101;
    assert_int_equal(plan_case_make(p, &c, &plans[1], NULL), MOIRE_OK);
    assert_true(!plans[1].kept && plans[1].complete);
    plan_case_close(&c);
}

/* One GPU without interference: batches of b take b ms on the whole of it, and twice that on half. */
static void the_smallest_machine_is_exact(void **state) {
    (void)state;
    struct plan_case c = {.env = mo_env_default()};
    struct mo_share_profile *p = mo_share_create(&c.env, 2, (int[]){1, 10}, 2, (int[]){500, 1000});
    assert_non_null(p);
    for (int i = 0; i < 4; i++)
        mo_share_record(
            p, i / 2, i % 2,
            &(struct mo_share_cell){.ns = (i / 2 ? 10000000 : 1000000) * (i % 2 ? 1 : 2), .use = {0, 0, 0}});
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    c.profiles[c.n_profiles++] = p;
    c.kinds[0] = (struct mo_plan_kind){
        .name = "gpu", .units = 2, .n_sizes = 2, .sizes = {1, 2}, .max_lets = 2, .memory_bytes = 1};
    c.tenants[0] = (struct mo_plan_tenant){.name = "a", .target_ns = 20000000, .profile = {p}};
    c.tenants[1] = (struct mo_plan_tenant){.name = "b", .target_ns = 4000000, .profile = {p}};
    c.view = (struct mo_plan_view){.n_tenants = 2, .n_kinds = 1, .n_gpus = 1, .max_share = 2};
    c.view.tenants = c.tenants;
    c.view.kinds = c.kinds;
    c.view.gpu_kind = c.gpu_kind;
    c.scratch_bytes = mo_plan_scratch_bytes(2, 1, 1);
    c.scratch = mo_alloc(&c.env, c.scratch_bytes);
    assert_non_null(c.scratch);
    for (int i = 0; mo_planners()[i]; i++) {
        /* a thousand a second in all, and not one more; 500 each fit on halves or by turns of 1 + 1 */
        c.tenants[0].rate = c.tenants[1].rate = 500;
        assert_int_equal(plan_case_make(mo_planners()[i], &c, &plans[0], NULL), MOIRE_OK);
        assert_true(plans[0].complete);
        c.tenants[1].rate = 501;
        assert_int_equal(plan_case_make(mo_planners()[i], &c, &plans[0], NULL), MOIRE_OK);
        assert_false(plans[0].complete);
    }
    plan_case_close(&c);
}

static void reasons_are_given(void **state) {
    (void)state;
    struct plan_case c;
    const struct mo_planner *p = mo_planner_find("moire-gpu");
    char text[256];
    plan_case_paper(&c, 1);
    c.tenants[0].rate = c.tenants[1].rate = c.tenants[2].rate = 1;
    c.tenants[3].rate = 1e5;
    c.tenants[0].profile[0] = NULL;
    c.tenants[1].target_ns = 1000;
    c.profiles[2]->memory_bytes = INT64_C(1) << 40;
    assert_int_equal(plan_case_make(p, &c, &plans[0], NULL), MOIRE_OK);
    static const enum mo_plan_reason want[] = {MO_PLAN_NO_PROFILE, MO_PLAN_TARGET, MO_PLAN_MEMORY,
                                               MO_PLAN_CAPACITY, MO_PLAN_PLACED};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(plans[0].tenants[i].reason, want[i]);
        mo_plan_why(&c.view, &plans[0], i, text, sizeof text);
        assert_int_equal(text[0] == 0, want[i] == MO_PLAN_PLACED);
        if (text[0]) assert_non_null(strstr(text, c.tenants[i].name));
    }
    /* the rate that was placed is feasible, twice as much is not */
    double nearest = plans[0].tenants[3].placed;
    c.tenants[0].rate = c.tenants[1].rate = c.tenants[2].rate = 0;
    c.tenants[3].rate = nearest;
    assert_int_equal(plan_case_make(p, &c, &plans[0], NULL), MOIRE_OK);
    assert_true(plans[0].complete);
    c.tenants[3].rate = nearest * 2;
    assert_int_equal(plan_case_make(p, &c, &plans[0], NULL), MOIRE_OK);
    assert_false(plans[0].complete);
    plan_case_close(&c);
}

/* Whoever plans: a load that cannot be served is no error, what is out of reach is told from what is full,
 * and what was placed is feasible. */
static void every_planner_answers_what_is_infeasible(void **state) {
    (void)state;
    struct plan_case c;
    plan_case_paper(&c, 2);
    c.kinds[0].interference = (struct mo_interference){0}; /* some do not look at it */
    for (int i = 0; i < 4; i++)
        c.tenants[i].rate = 1;
    c.tenants[3].rate = 1e9; /* odd, but a number */
    c.tenants[0].profile[0] = NULL;
    c.tenants[1].target_ns = 1000;
    c.profiles[2]->memory_bytes = INT64_C(1) << 40;
    for (int i = 0; mo_planners()[i]; i++) {
        const struct mo_planner *p = mo_planners()[i];
        moire_error err = {0};
        if (plan_case_make(p, &c, &plans[0], &err)) fail_msg("%s: %s", p->name, err.message);
        assert_false(plans[0].complete);
        assert_int_equal(plans[0].tenants[0].reason, MO_PLAN_NO_PROFILE);
        assert_int_equal(plans[0].tenants[1].reason, MO_PLAN_TARGET);
        assert_int_equal(plans[0].tenants[2].reason, MO_PLAN_MEMORY);
        assert_int_equal(plans[0].tenants[3].reason, MO_PLAN_CAPACITY);
        double placed = plans[0].tenants[3].placed;
        if (!(placed > 0 && placed < 1e6)) fail_msg("%s: places %g", p->name, placed);
        if (mo_plan_check(&c.view, &plans[0], &err)) fail_msg("%s: %s", p->name, err.message);
    }
    plan_case_close(&c);
}

static void best_effort_takes_what_is_left(void **state) {
    (void)state;
    struct plan_case c;
    plan_case_paper(&c, 2);
    c.tenants[4].best_effort = true;
    c.tenants[4].target_ns = 0;
    c.tenants[4].rate = 1e5;
    c.tenants[2].rate = 200;
    for (int i = 0; mo_planners()[i]; i++) {
        assert_int_equal(plan_case_make(mo_planners()[i], &c, &plans[0], NULL), MOIRE_OK);
        assert_true(plans[0].complete);
        assert_true(plans[0].tenants[4].placed > 0 && plans[0].tenants[4].placed < 1e5);
        assert_int_equal(plans[0].tenants[4].reason, MO_PLAN_CAPACITY);
    }
    plan_case_close(&c);
}

static void refused(struct plan_case *c, const char *item) {
    moire_error err = {0};
    assert_int_equal(plan_case_make(mo_planner_find("moire-gpu"), c, &plans[0], &err), MOIRE_EINVAL);
    if (!strstr(err.message, item)) fail_msg("'%s' does not name %s", err.message, item);
}

static void bad_input_is_named(void **state) {
    (void)state;
    static const double rates[] = {-1, NAN, INFINITY, 1e12};
    struct plan_case c;
    plan_case_paper(&c, 2);
    for (int i = 0; i < 4; i++) {
        c.tenants[1].rate = rates[i];
        refused(&c, "'googlenet'");
    }
    c.tenants[1].rate = 1;
    c.tenants[3].target_ns = 0;
    refused(&c, "'ssd'");
    c.tenants[3].target_ns = -5;
    refused(&c, "'ssd'");
    c.tenants[3].target_ns = 1000000;
    c.tenants[3].name = "vgg16";
    refused(&c, "'vgg16'");
    c.tenants[3].name = "ssd";
    c.kinds[0].units = 1;
    refused(&c, "too small for any let");
    c.kinds[0].units = 12;
    refused(&c, "whole GPU");
    c.kinds[0].units = 10;
    c.kinds[0].interference.l2_other = NAN;
    refused(&c, "'gpu'");
    c.kinds[0].interference.l2_other = 0;
    c.gpu_kind[1] = 3;
    refused(&c, "GPU 1");
    c.gpu_kind[1] = 0;
    c.view.burst = NAN;
    refused(&c, "burst");
    c.view.burst = 0;
    moire_error err = {0};
    assert_int_equal(mo_plan_make(mo_planner_find("moire-gpu"), &c.view, c.scratch, 1000, &plans[0], &err),
                     MOIRE_ENOMEM);
    assert_non_null(strstr(err.message, "scratch"));
    plan_case_close(&c);
}

/* The checker finds what is broken on purpose. */
static void broken_plans_are_found(void **state) {
    (void)state;
    struct plan_case c;
    moire_error err = {0};
    plan_case_paper(&c, 4);
    for (int i = 0; i < 5; i++)
        c.tenants[i].rate = 200;
    assert_int_equal(plan_case_make(mo_planner_find("moire-gpu"), &c, &plans[0], NULL), MOIRE_OK);
    assert_int_equal(mo_plan_check(&c.view, &plans[0], &err), MOIRE_OK);
    assert_true(plans[0].complete && plans[0].n_lets > 1 &&
                mo_plan_violations(&c.view, &plans[0], c.scratch, c.scratch_bytes) == 0);
    struct mo_planned_let *let = &plans[1].lets[0];
    for (int kind = 0; kind < 8; kind++) {
        plans[1] = plans[0];
        switch (kind) {
        case 0:
            let->units = 3;
            break;
        case 1:
            let->gpu = plans[1].lets[plans[1].n_lets - 1].gpu;
            break; /* overlap, or too many lets */
        case 2:
            let->entries[0].batch *= 2;
            break;
        case 3:
            let->entries[0].rate *= 1.5;
            break;
        case 4:
            let->duty_ns *= 40;
            break;
        case 5:
            let->entries[0].tenant = 5;
            break;
        case 6:
            plans[1].tenants[0].placed *= 2;
            break;
        default:
            let->n_entries = 0;
        }
        if (kind == 1 && let->gpu == plans[0].lets[0].gpu) continue;
        if (mo_plan_check(&c.view, &plans[1], &err) != MOIRE_EINVAL)
            fail_msg("damage %d was not found", kind);
    }
    c.kinds[0].memory_bytes = 1;
    assert_int_equal(mo_plan_check(&c.view, &plans[0], &err), MOIRE_EINVAL);
    plan_case_close(&c);
}

/* As few GPUs as serve everything: no fewer do, and where not even all do, the plan is for all. */
static void the_fewest_gpus_are_found(void **state) {
    (void)state;
    struct plan_case c;
    const struct mo_planner *p = mo_planner_find("moire-gpu");
    int before = 0, differ = 0;
    plan_case_paper(&c, 8);
    for (int load = 1; load <= 16; load++) {
        int n = 0;
        for (int i = 0; i < 5; i++)
            c.tenants[i].rate = 50 * load;
        assert_int_equal(mo_plan_fewest(p, &c.view, c.scratch, c.scratch_bytes, &plans[0], &n, NULL),
                         MOIRE_OK);
        assert_true(n >= before && n <= 8);
        for (int l = 0; l < plans[0].n_lets; l++)
            assert_true(plans[0].lets[l].gpu < n);
        c.view.n_gpus = n - 1;
        if (n > 1 && plans[0].complete) {
            assert_int_equal(plan_case_make(p, &c, &plans[1], NULL), MOIRE_OK);
            assert_false(plans[1].complete);
        }
        c.view.n_gpus = 8;
        assert_int_equal(plan_case_make(p, &c, &plans[1], NULL), MOIRE_OK);
        assert_int_equal(plans[0].complete, plans[1].complete);
        if (!plans[0].complete) assert_int_equal(n, 8);
        differ += n > before;
        before = n;
    }
    assert_true(differ > 2);
    plan_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_fall_is_kept_a_rise_is_not),
        cmocka_unit_test(the_smallest_machine_is_exact),
        cmocka_unit_test(reasons_are_given),
        cmocka_unit_test(every_planner_answers_what_is_infeasible),
        cmocka_unit_test(best_effort_takes_what_is_left),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(broken_plans_are_found),
        cmocka_unit_test(the_fewest_gpus_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
