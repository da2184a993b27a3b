/* SPDX-License-Identifier: Apache-2.0
 * test_beam.c - the planner `beam`: small machines worked by hand, and that more budget is never worse.  What
 * holds for every planner is in test_planner_random.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "runtime/planner/check.h"
#include "runtime/planner/planner.h"
#include "tests/unit/planner/plan_case.h"

enum { CASES = 40 };

static struct mo_lets_plan plans[2]; /* too large for a stack */

/* A batch of b takes b x ms on the whole GPU and no more on a part than the part is smaller. */
static struct mo_share_profile *linear(struct plan_case *c, double ms) {
    struct mo_share_profile *p = mo_share_create(&c->env, 2, (int[]){1, 20}, 3, (int[]){250, 500, 1000});
    assert_non_null(p);
    for (int b = 0; b < 2; b++)
        for (int s = 0; s < 3; s++)
            mo_share_record(p, b, s,
                            &(struct mo_share_cell){.ns = (int64_t)((b ? 20 : 1) * ms * 1e6) * (4 >> s),
                                                    .use = {0, 0, 0}});
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    c->profiles[c->n_profiles++] = p;
    return p;
}

/* One GPU in quarters, no interference, one tenant a let. */
static void quarters(struct plan_case *c) {
    *c = (struct plan_case){.env = mo_env_default()};
    c->kinds[0] = (struct mo_plan_kind){.name = "gpu", .units = 4, .max_lets = 4, .memory_bytes = 1};
    mo_plan_sizes(&c->kinds[0], 1, 1);
    c->view = (struct mo_plan_view){.n_kinds = 1, .n_gpus = 1, .max_share = 1};
    c->view.tenants = c->tenants;
    c->view.kinds = c->kinds;
    c->view.gpu_kind = c->gpu_kind;
    c->scratch_bytes = mo_plan_scratch_bytes(4, 1, 1);
    c->scratch = mo_alloc(&c->env, c->scratch_bytes);
    assert_non_null(c->scratch);
}

static void add(struct plan_case *c, const char *name, double ms, double rate, double target_ms) {
    c->tenants[c->view.n_tenants++] = (struct mo_plan_tenant){
        .name = name, .rate = rate, .target_ns = (int64_t)(target_ms * 1e6), .profile = {linear(c, ms)}};
}

static void make(struct plan_case *c, const char *planner, struct mo_lets_plan *out) {
    moire_error err = {0};
    if (plan_case_make(mo_planner_find(planner), c, out, &err)) fail_msg("%s: %s", planner, err.message);
    if (mo_plan_check(&c->view, out, &err)) fail_msg("%s: %s", planner, err.message);
}

static int units_of(const struct mo_lets_plan *plan, int tenant) {
    for (int l = 0; l < plan->n_lets; l++)
        if (plan->lets[l].entries[0].tenant == tenant) return plan->lets[l].units;
    return 0;
}

/* 400 queries/s of 1 ms need two quarters, on which they take 80 % of the time; Poisson arrivals queue there,
 * and two quarters are nobody's. */
static void what_is_left_goes_to_the_lets_at_risk(void **state) {
    (void)state;
    struct plan_case c;
    quarters(&c);
    add(&c, "a", 1, 400, 20);
    make(&c, "gslice", &plans[0]);
    make(&c, "beam", &plans[1]);
    assert_int_equal(units_of(&plans[0], 0), 2);
    assert_int_equal(units_of(&plans[1], 0), 4);
    assert_true(plans[1].complete);
    plan_case_close(&c);
}

/* Alone a has enough of two quarters and b of one.  Beside each other both are a quarter slower: a needs 2.5
 * quarters and b one, to which its rate is just not too much. */
static void neighbours_take_more_when_one_comes(void **state) {
    (void)state;
    struct plan_case c;
    quarters(&c);
    c.kinds[0].interference.constant = 1.25;
    add(&c, "a", 1, 490, 50);
    add(&c, "b", 1, 190, 50);
    make(&c, "beam", &plans[0]);
    assert_true(plans[0].complete);
    assert_int_equal(units_of(&plans[0], 0), 3);
    assert_int_equal(units_of(&plans[0], 1), 1);
    plan_case_close(&c);
}

/* 700 queries/s of 1 ms and 60 of 10 ms: three quarters serve all of the first, and one 25 of the others.
 * Whoever gives those of 10 ms what they need in GPU time serves fewer. */
static void the_most_queries_are_placed(void **state) {
    (void)state;
    static const char *const planners[] = {"beam", "moire-gpu"};
    for (int i = 0; i < 2; i++) {
        struct plan_case c;
        quarters(&c);
        add(&c, "quick", 1, 700, 100);
        add(&c, "slow", 10, 60, 1000);
        make(&c, planners[i], &plans[0]);
        assert_false(plans[0].complete);
        assert_true(plans[0].tenants[0].placed > 699.9 && plans[0].tenants[1].placed > 24.9);
        plan_case_close(&c);
    }
}

static double placed(const struct plan_case *c, const struct mo_lets_plan *plan) {
    double sum = 0;
    for (int t = 0; t < plan->n_tenants; t++)
        if (!c->tenants[t].best_effort) sum += plan->tenants[t].placed;
    return sum;
}

static void more_budget_is_never_worse(void **state) {
    (void)state;
    static const int64_t budgets[] = {1, 300, 3000, 30000};
    int better = 0;
    print_message("random cases of seeds 1 to %d\n", CASES);
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct plan_case c;
        double before = 0;
        plan_case_random(&c, seed, false);
        for (int i = 0; i < 4; i++) {
            c.view.budget = budgets[i];
            make(&c, "beam", &plans[0]);
            const double now = placed(&c, &plans[0]);
            if (now < before * (1 - 1e-9))
                fail_msg("seed %d: %f with %d steps, %f with fewer", (int)seed, now, (int)budgets[i], before);
            better += i > 0 && now > before * (1 + 1e-6);
            before = now;
        }
        plan_case_close(&c);
    }
    print_message("better in %d steps of %d\n", better, 3 * CASES);
    assert_true(better > 0);
}

/* moire-gpu places no less than those that it has among its ways. */
static void moire_gpu_places_no_less(void **state) {
    (void)state;
    static const char *const others[] = {"beam", "gpulet-int"};
    int more = 0;
    print_message("random cases of seeds 1 to %d\n", CASES);
    for (uint64_t seed = 1; seed <= CASES; seed++)
        for (int i = 0; i < 2; i++) {
            struct plan_case c;
            plan_case_random(&c, seed, false);
            make(&c, "moire-gpu", &plans[0]);
            make(&c, others[i], &plans[1]);
            const double ours = placed(&c, &plans[0]), theirs = placed(&c, &plans[1]);
            if (ours < theirs * (1 - 1e-6))
                fail_msg("seed %d: %f, %s %f", (int)seed, ours, others[i], theirs);
            more += ours > theirs * (1 + 1e-6);
            plan_case_close(&c);
        }
    assert_true(more > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_goes_to_the_lets_at_risk),
        cmocka_unit_test(neighbours_take_more_when_one_comes),
        cmocka_unit_test(the_most_queries_are_placed),
        cmocka_unit_test(more_budget_is_never_worse),
        cmocka_unit_test(moire_gpu_places_no_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
