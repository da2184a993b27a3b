/* SPDX-License-Identifier: Apache-2.0
 * test_deal.c - how `moire` deals cores: on random queries every share is the least that keeps pace with the
 * common fraction, no core is dealt twice while there are enough, and each part left out leaves a policy that
 * still answers everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/policy/moire.h"
#include "tests/unit/sim_engine.h"

enum { CORES = 24, LAYERS = 7, QUERIES = 9 };

/* Layers with a serial part, so that cores help less and less. */
static struct mo_profile *profile(const struct mo_env *env, unsigned seed) {
    struct mo_profile *p = mo_profile_create(env, LAYERS, CORES);
    assert_non_null(p);
    for (int c = 1; c <= CORES; c++) {
        int64_t ns[LAYERS];
        for (int l = 0; l < LAYERS; l++)
            ns[l] = 2000 + (int64_t)((seed * 7919 + (unsigned)l * 104729) % 90 + 10) * 10000 / c;
        mo_profile_record(p, c, ns);
    }
    mo_profile_finish(p);
    return p;
}

static void fewest_is_least(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env, 3);
    const struct mo_view_tenant t = {.profile = p, .residual = 1.25};
    for (int begin = 0; begin < LAYERS; begin++)
        for (int step = 0; step < 35; step++) {
            double budget = 1e4 * pow(1.3, step);
            int n = mo_moire_fewest(&t, begin, budget, CORES);
            assert_true(n >= 1 && n <= CORES);
            if (n < CORES) assert_true((double)mo_view_time(&t, n, begin, LAYERS) <= budget + 2);
            if (n > 1) assert_true((double)mo_view_time(&t, n - 1, begin, LAYERS) > budget - 2);
        }
    mo_profile_destroy(p);
}

/* Kept queries with random progress and slack; every fourth is set aside, every third has a block. */
static void random_queries(struct mo_moire_state *s, const struct mo_view_tenant *t) {
    memset(s, 0, sizeof *s);
    s->n = 1 + rand() % QUERIES;
    for (int i = 0; i < s->n; i++) {
        int begin = rand() % LAYERS;
        int64_t whole = mo_view_time(t, CORES, begin, LAYERS);
        s->list[i] = (struct mo_moire_candidate){.keep = rand() % 4 != 0,
                                                 .running = rand() % 3 == 0,
                                                 .begin = begin,
                                                 .wide = CORES,
                                                 .cores = 1 + rand() % 4,
                                                 .deadline = whole + rand() % (40 * whole)};
    }
}

static int sum_of(const struct mo_moire_state *s) {
    int sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->list[i].keep ? s->list[i].share : 0;
    return sum;
}

static void shares_fill_the_machine(void **state) {
    (void)state;
    static const struct mo_moire_parts whole = {0}, thrifty = {.no_share = true};
    struct mo_env env = mo_env_default();
    struct mo_profile *p = profile(&env, 5);
    const struct mo_view_tenant t = {.profile = p, .residual = 1};
    const struct mo_view view = {.n_cores = CORES, .tenants = &t};
    static struct mo_moire_state s;
    int eased = 0;
    srand(11);
    for (int round = 0; round < 500; round++) {
        random_queries(&s, &t);
        s.parts = &thrifty;
        mo_moire_deal(&s, &view);
        int least = sum_of(&s), shares[QUERIES] = {0};
        for (int i = 0; i < s.n; i++)
            shares[i] = s.list[i].share;
        s.parts = &whole;
        mo_moire_deal(&s, &view);
        int sum = sum_of(&s);
        for (int i = 0; i < s.n; i++) {
            if (!s.list[i].keep) assert_int_equal(s.list[i].share, 0);
            assert_true(s.list[i].share >= shares[i]);
        }
        if (least <= CORES) assert_true(sum <= CORES);
        if (least > CORES) assert_int_equal(sum, least);
        eased += sum > least;
    }
    assert_true(eased > 100);
    mo_profile_destroy(p);
}

/* With less than it takes, every row answers all queries and breaks no rule of the core. */
static void every_row_serves(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policy_ablations(); *p; p++) {
        struct sim_config c = {
            .policy = *p, .n_cores = 4, .duration_ns = 2000000000, .seed = 4, .drain = true};
        struct sim_result r;
        sim_mix(&c, 1.1, 4, 1);
        assert_int_equal(sim_run(&c, &r), 0);
        assert_int_equal(r.violations, 0);
        assert_int_equal(r.unanswered, 0);
        assert_int_equal(r.stats.refused, 0);
        assert_int_equal(r.stats.rescues, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewest_is_least),
        cmocka_unit_test(shares_fill_the_machine),
        cmocka_unit_test(every_row_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
