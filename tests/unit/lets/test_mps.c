/* SPDX-License-Identifier: Apache-2.0
 * test_mps.c - GPUs that are not cut: what models side by side are planned for, and what they take of one
 * another in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include "runtime/planner/check.h"
#include "runtime/sched/policy.h"
#include "tests/unit/lets/lets_bed.h"

static const int64_t MS = 1000000, SECOND = 1000000000;
enum { TENANTS = 2 };
enum { LENET, GOOGLENET, RESNET, SSD, VGG }; /* of plan_case_paper() */

static struct mo_lets_plan plan; /* too large for a stack */

/* Three models on one GPU: each has a third of it and all the others' harm, and one that finds no room beside
 * them gets none. */
static void each_of_three_is_planned_a_third(void **state) {
    (void)state;
    struct plan_case c;
    moire_error err = {0};
    plan_case_paper(&c, 1);
    c.tenants[LENET].rate = 100;
    c.tenants[GOOGLENET].rate = 20;
    c.tenants[RESNET].rate = 10;
    assert_int_equal(plan_case_make(mo_planner_find("mps"), &c, &plan, &err), MOIRE_OK);
    assert_true(plan.complete && plan.side_by_side);
    assert_int_equal(plan.n_lets, 3); /* more than the lets that the GPU can be cut into */
    assert_true(plan.n_lets > c.kinds[0].max_lets);
    assert_int_equal(mo_plan_check(&c.view, &plan, &err), MOIRE_OK);
    assert_true(mo_plan_violations(&c.view, &plan, c.scratch, c.scratch_bytes) == 0);
    for (int l = 0; l < 3; l++) {
        const struct mo_let_entry *e = &plan.lets[l].entries[0];
        const struct mo_share_profile *p = c.tenants[e->tenant].profile[0];
        const int64_t third = mo_share_latency(p, e->batch, MO_SHARE_WHOLE / 3);
        struct mo_plan_latency latency;
        mo_plan_latency(&c.view, &plan, l, 0, &latency);
        assert_true(latency.slowdown > 1);
        assert_true(latency.batch_ns >= third * latency.slowdown - 2);
        assert_true(e->latency_ns >= latency.batch_ns - 2); /* planners take the worst batch */
    }
    c.tenants[VGG].rate = 1000;
    assert_int_equal(plan_case_make(mo_planner_find("mps"), &c, &plan, &err), MOIRE_OK);
    assert_false(plan.complete);
    assert_int_equal(mo_plan_check(&c.view, &plan, &err), MOIRE_OK);
    plan_case_close(&c);
}

/* What a third on a GPU does to a plan for two is told. */
static void a_plan_that_grew_does_not_hold(void **state) {
    (void)state;
    struct plan_case c;
    moire_error err = {0};
    plan_case_paper(&c, 2);
    c.tenants[RESNET].rate = c.tenants[VGG].rate = 1e5; /* all that a GPU gives, each */
    assert_int_equal(plan_case_make(mo_planner_find("mps"), &c, &plan, &err), MOIRE_OK);
    assert_int_equal(plan.n_lets, 2);
    assert_int_equal(mo_plan_check(&c.view, &plan, &err), MOIRE_OK);
    plan.lets[1].gpu = plan.lets[0].gpu;
    plan.lets[1].first = 1;
    assert_int_equal(mo_plan_check(&c.view, &plan, &err), MOIRE_EINVAL);
    assert_true(mo_plan_violations(&c.view, &plan, c.scratch, c.scratch_bytes) > 0.9);
    plan_case_close(&c);
}

struct bed {
    struct lets_bed lets;
    const struct mo_share_profile *share[1]; /* of the model, by kind */
    int answered;
    int64_t took[TENANTS]; /* the latest answer's */
};

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    struct bed *b = ctx;
    assert_int_equal(a->code, MOIRE_OK);
    b->answered++;
    b->took[tenant] = a->end - a->arrival;
}

/* One GPU, and two tenants of one model. */
static struct bed *lay(bool harm) {
    struct bed *b = calloc(1, sizeof *b);
    lets_bed_lay(&b->lets, 1, &MS, 1);
    b->share[0] = plan_case_profile(&b->lets.c, 1e6, 4e6, 1, 0.4, 0.6);
    if (!harm) b->lets.gpus.kinds[0].interference = (struct mo_interference){0};
    lets_bed_start(&b->lets,
                   (struct mo_sim_config){.policy = mo_policy_find("mps"),
                                          .max_queries = 64,
                                          .max_tenants = TENANTS,
                                          .answer = answer,
                                          .ctx = b},
                   1 << 12);
    for (int i = 0; i < TENANTS; i++) {
        struct mo_sched_tenant_config t = {.qos_ns = SECOND,
                                           .queue = 8,
                                           .instances = 8,
                                           .profile = b->lets.profile,
                                           .share = b->share,
                                           .declared = 1};
        int index;
        assert_int_equal(mo_sim_open(b->lets.sim, &t, &index, NULL), MOIRE_OK);
    }
    return b;
}

static void submit(struct bed *b, int tenant) {
    assert_int_equal(mo_sim_submit(b->lets.sim, tenant, b, NULL, NULL), MOIRE_OK);
}

static void settle(struct bed *b, int accepted) {
    assert_int_equal(mo_sim_drain(b->lets.sim), 0);
    assert_int_equal(b->answered, accepted);
    assert_int_equal(mo_sched_stats(mo_sim_sched(b->lets.sim))->refused, 0);
}

static void strike(struct bed *b) {
    lets_bed_strike(&b->lets, b->answered);
    free(b);
}

static void close_to(int64_t took, double ns) {
    if (fabs((double)took - ns) > 1000) fail_msg("%.3f ms, not %.3f", (double)took * 1e-6, ns * 1e-6);
}

/* Alone a batch has the whole GPU; two that run at once have half of it each, from when to when they do. */
static void compute_is_shared_equally_by_those_who_run(void **state) {
    (void)state;
    struct bed *b = lay(false);
    const struct mo_share_profile *p = b->share[0];
    const double whole = (double)mo_share_latency(p, 1, 1000), half = (double)mo_share_latency(p, 1, 500);
    assert_true(half > 1.5 * whole);
    submit(b, 0);
    settle(b, 1);
    close_to(b->took[0], whole);
    submit(b, 0);
    submit(b, 1);
    settle(b, 3);
    close_to(b->took[0], half);
    close_to(b->took[1], half);
    submit(b, 0);
    mo_sim_advance(b->lets.sim, mo_sim_now(b->lets.sim) + (int64_t)(whole / 2));
    submit(b, 1);
    settle(b, 5);
    close_to(b->took[0], whole / 2 + half / 2);
    close_to(b->took[1], half / 2 + whole / 2);
    strike(b);
}

static void neighbours_harm_by_the_model(void **state) {
    (void)state;
    struct bed *b = lay(true);
    const struct mo_share_profile *p = b->share[0];
    const struct mo_share_use use = mo_share_use_at(p, 1, 500);
    const double slowdown = mo_interference(&b->lets.c.kinds[0].interference, &use, &use, 1);
    assert_true(slowdown > 1.01);
    submit(b, 0);
    submit(b, 1);
    settle(b, 2);
    close_to(b->took[0], (double)mo_share_latency(p, 1, 500) * slowdown);
    strike(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_three_is_planned_a_third),
        cmocka_unit_test(a_plan_that_grew_does_not_hold),
        cmocka_unit_test(compute_is_shared_equally_by_those_who_run),
        cmocka_unit_test(neighbours_harm_by_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
