/* SPDX-License-Identifier: Apache-2.0
 * test_bound.c - the upper limit: exact where an optimum is known, and beaten by no policy. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/sim/bound.h"
#include "tests/unit/sched/sim_engine.h"

static double solve(struct mo_bound_query *q, int n, int cores) {
    struct mo_env env = mo_env_default();
    double sum = 0;
    assert_int_equal(mo_bound_solve(&env, q, n, cores), MOIRE_OK);
    for (int i = 0; i < n; i++) {
        assert_true(q[i].fraction >= 0 && q[i].fraction <= 1);
        sum += q[i].fraction;
    }
    return sum;
}

static void small_cases_are_exact(void **state) {
    (void)state;
    /* two of ten fit into ten at once; of the third nothing, or half with five more */
    struct mo_bound_query same[] = {{0, 10, 5, 0}, {0, 10, 5, 0}, {0, 10, 5, 0}};
    assert_true(fabs(solve(same, 3, 1) - 2) < 1e-9);
    assert_true(fabs(solve(same, 3, 2) - 3) < 1e-9);
    struct mo_bound_query half[] = {{0, 10, 5, 0}, {0, 10, 5, 0}, {5, 15, 10, 0}};
    assert_true(fabs(solve(half, 3, 1) - 2.5) < 1e-9);
    /* the short ones come first, whatever the order of arrival; out of reach counts nothing */
    struct mo_bound_query mixed[] = {{0, 10, 10, 0}, {2, 6, 2, 0}, {3, 3, 1, 0}};
    assert_true(fabs(solve(mixed, 3, 1) - 1.8) < 1e-9);
    assert_true(fabs(mixed[0].fraction - 0.8) < 1e-9);
    /* a gap between arrivals is no capacity for the later ones */
    struct mo_bound_query apart[] = {{0, 4, 4, 0}, {100, 104, 8, 0}};
    assert_true(fabs(solve(apart, 2, 1) - 1.5) < 1e-9);
}

/* 100 on one core, 60 on two: 100 of work when there is time; half of it on two cores when 80 is left. */
static void a_tight_target_costs_core_time(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_profile *p = mo_profile_create(&env, 1, 2);
    assert_non_null(p);
    mo_profile_record(p, 1, (int64_t[]){100});
    mo_profile_record(p, 2, (int64_t[]){60});
    mo_profile_finish(p);
    assert_true(fabs(mo_bound_need(p, 2, 200) - 100) < 1e-9);
    assert_true(fabs(mo_bound_need(p, 2, 80) - 110) < 1e-6);
    assert_true(fabs(mo_bound_need(p, 2, 60) - 120) < 1e-3);
    assert_true(fabs(mo_bound_need(p, 1, 80) - 100) > 1e3); /* out of reach: beyond any amount */
    mo_profile_destroy(p);
}

/* One core, ten units of time: nine short queries and a long one.  All short ones fit with a tenth of the
 * long one; but a tenant that only has the long one cannot have more than the work that fits, 10 of 19. */
static void the_worst_tenant_has_a_limit_of_its_own(void **state) {
    (void)state;
    struct mo_bound_query q[10] = {{0, 10, 10, 0}};
    for (int i = 1; i < 10; i++)
        q[i] = (struct mo_bound_query){0, 10, 1, 0};
    assert_true(fabs(solve(q, 10, 1) - 9.1) < 1e-9);
    struct mo_bound_shares s = mo_bound_shares(q, 10);
    assert_true(fabs(s.overall - 0.91) < 1e-9 && fabs(s.every - 10.0 / 19) < 1e-9);
}

static uint64_t next(uint64_t *s) {
    *s = *s * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *s >> 33;
}

/* Work granted must fit into every interval, and no query could have had more: both checked the slow way. */
static double excess(const struct mo_bound_query *q, int n, int cores) {
    double most = -1e300;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            double work = 0;
            if (q[b].deadline <= q[a].arrival) continue;
            for (int i = 0; i < n; i++)
                if (q[i].arrival >= q[a].arrival && q[i].deadline <= q[b].deadline)
                    work += q[i].fraction * q[i].need;
            double over = work - (double)cores * (double)(q[b].deadline - q[a].arrival);
            if (over > most) most = over;
        }
    return most;
}

static void grants_fit_and_leave_no_room(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t rng = seed;
        struct mo_bound_query q[24];
        int n = 6 + (int)(next(&rng) % 18), cores = 1 + (int)(next(&rng) % 3);
        int64_t at = 0;
        for (int i = 0; i < n; i++) {
            at += (int64_t)(next(&rng) % 12);
            q[i] = (struct mo_bound_query){at, at + 4 + (int64_t)(next(&rng) % 40),
                                           1 + (double)(next(&rng) % 20), 0};
        }
        solve(q, n, cores);
        assert_true(excess(q, n, cores) < 1e-6);
        for (int i = 0; i < n; i++) {
            if (q[i].fraction > 1 - 1e-9) continue;
            q[i].fraction += 1e-3;
            assert_true(excess(q, n, cores) > 1e-6); /* it could not have had more */
            q[i].fraction -= 1e-3;
        }
    }
}

/* Every policy of a list; all queries are answered, too. */
static void stays_below(const struct mo_policy *const *p) {
    static struct sim_trace trace;
    for (; *p; p++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct sim_config c = {.policy = *p,
                                   .n_cores = seed % 2 ? 2 : 12,
                                   .duration_ns = 2000000000,
                                   .seed = seed,
                                   .drain = true,
                                   .trace = &trace};
            sim_mix(&c, 0.5 + 0.25 * (double)seed, 3, 1);
            for (int i = 0; i < c.n_tenants; i++)
                c.tenant[i].shed_late = i % 2;
            struct sim_result r;
            trace.n = 0;
            assert_int_equal(sim_run(&c, &r), MOIRE_OK);
            double limit = solve(trace.query, trace.n, c.n_cores);
            int met = 0;
            struct mo_bound_shares most = mo_bound_shares(trace.query, trace.n);
            assert_true(fabs(most.overall * trace.n - limit) < 1e-6);
            for (int i = 0; i < c.n_tenants; i++)
                met += r.tenant[i].in_time;
            assert_true(r.worst <= most.every + 1e-9);
            if (met > limit + 1e-6)
                fail_msg("%s, seed %d: %d in time, the bound is %.2f", (*p)->name, (int)seed, met, limit);
            assert_true(limit <= trace.n);
            assert_int_equal(r.violations + r.unanswered, 0);
        }
}

static void no_policy_beats_the_bound(void **state) {
    (void)state;
    stays_below(mo_policies());
    stays_below(mo_policy_ablations());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_cases_are_exact),
        cmocka_unit_test(a_tight_target_costs_core_time),
        cmocka_unit_test(the_worst_tenant_has_a_limit_of_its_own),
        cmocka_unit_test(grants_fit_and_leave_no_room),
        cmocka_unit_test(no_policy_beats_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
