/* SPDX-License-Identifier: Apache-2.0
 * test_bounds.c - tenants with a bound on their cores under every policy, and weights under `moire`:
 * simulated machines whose engine checks after each event that nobody holds more than it may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/sched/sim_engine.h"

static const int64_t SECOND = 1000000000, MS = 1000000;

static struct sim_config machine(const char *policy, int cores, uint64_t seed) {
    return (struct sim_config){.policy = mo_policy_find(policy),
                               .n_cores = cores,
                               .duration_ns = 20 * SECOND,
                               .warmup_ns = SECOND,
                               .noise = 0.1,
                               .seed = seed};
}

static struct sim_result run(struct sim_config *c) {
    struct sim_result r;
    assert_int_equal(sim_run(c, &r), MOIRE_OK);
    assert_int_equal(r.violations, 0);
    assert_int_equal(r.stats.refused, 0);
    return r;
}

static double share(const struct sim_tenant_result *t) {
    assert_true(t->n > 100);
    return (double)t->in_time / t->n;
}

static void nobody_holds_more_than_its_bound(void **state) {
    (void)state;
    for (const struct mo_policy *const *p = mo_policies(); *p; p++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct sim_config c = machine((*p)->name, 8, seed);
            sim_mix(&c, 0.3 + 0.3 * (double)seed, 4, 1);
            c.cancel_rate = 0.1;
            c.drain = true;
            c.duration_ns = 8 * SECOND;
            for (int i = 0; i < c.n_tenants; i++) {
                c.tenant[i].cores = (i + (int)seed) % 4; /* 0: no bound */
                c.tenant[i].shed_late = i % 2;
                c.tenant[i].instances = 1 + i;
            }
            struct sim_result r = run(&c);
            assert_int_equal(r.unanswered, 0);
        }
}

/* A query of four layers, 10 ms on a core, 5.5 on two. */
static struct sim_tenant tenant(double rate, int64_t qos_ns, int cores) {
    return (struct sim_tenant){.solo_ns = 10 * MS,
                               .n_layers = 8,
                               .speedup2 = 1.8,
                               .qos_ns = qos_ns,
                               .rate = rate,
                               .cores = cores,
                               .best_effort = !qos_ns};
}

/* One asks for twice the machine: what it may not have, others have. */
static void a_bound_leaves_the_rest_to_others(void **state) {
    (void)state;
    static const char *const policies[] = {"moire", "edf-reject", "srpt", "planaria", "veltair"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        struct sim_config c = machine(policies[p], 4, 5);
        c.n_tenants = 2;
        c.tenant[0] = tenant(800, 30 * MS, 1);
        c.tenant[1] = tenant(150, 30 * MS, 0);
        struct sim_result r = run(&c);
        assert_true(share(&r.tenant[1]) > 0.95);
        assert_true(r.tenant[0].ok > 900 && r.tenant[0].ok < 1950); /* of 1900 on a core */
    }
}

/* Cores that one may not have are not left idle while another has work. */
static void no_core_idles_for_a_bound(void **state) {
    (void)state;
    for (const char *const *policy = (const char *const[]){"moire", "srpt", "edf-reject", NULL}; *policy;
         policy++) {
        struct sim_config c = machine(*policy, 4, 7);
        c.n_tenants = 2;
        c.tenant[0] = tenant(800, 0, 1);
        c.tenant[1] = tenant(800, 0, 0);
        struct sim_result r = run(&c);
        assert_true(r.utilisation > 0.97);
        assert_true(r.tenant[1].ok > 2 * r.tenant[0].ok);
    }
}

static void misses_go_by_weight(void **state) {
    (void)state;
    struct sim_config c = machine("moire", 2, 3);
    c.n_tenants = 2;
    c.duration_ns = 60 * SECOND;
    c.tenant[0] = c.tenant[1] = tenant(140, 60 * MS, 0);
    c.tenant[0].shed_late = c.tenant[1].shed_late = true;
    c.tenant[1].weight = 4;
    struct sim_result r = run(&c);
    const double light = 1 - share(&r.tenant[0]), heavy = 1 - share(&r.tenant[1]);
    assert_true(light > 0.3 && heavy > 0);
    assert_true(light / heavy > 2.5 && light / heavy < 6);
    c.tenant[1].weight = 1;
    r = run(&c);
    assert_true(share(&r.tenant[0]) - share(&r.tenant[1]) < 0.05);
    assert_true(share(&r.tenant[1]) - share(&r.tenant[0]) < 0.05);
}

static void core_time_without_targets_goes_by_weight(void **state) {
    (void)state;
    struct sim_config c = machine("moire", 4, 9);
    c.n_tenants = 3;
    c.tenant[0] = tenant(300, 0, 0);
    c.tenant[1] = c.tenant[2] = tenant(100, 0, 0);
    c.tenant[0].weight = 3;
    c.tenant[1].rate = 34;
    c.tenant[1].solo_ns = 30 * MS; /* fewer answers for the same core time */
    struct sim_result r = run(&c);
    const double base = r.tenant[2].ok;
    assert_true(r.tenant[0].ok / base > 2.7 && r.tenant[0].ok / base < 3.3);
    assert_true(3 * r.tenant[1].ok / base > 0.85 && 3 * r.tenant[1].ok / base < 1.15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_holds_more_than_its_bound),
        cmocka_unit_test(a_bound_leaves_the_rest_to_others),
        cmocka_unit_test(no_core_idles_for_a_bound),
        cmocka_unit_test(misses_go_by_weight),
        cmocka_unit_test(core_time_without_targets_goes_by_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
