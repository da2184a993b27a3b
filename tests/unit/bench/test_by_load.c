/* SPDX-License-Identifier: Apache-2.0
 * test_by_load.c - counters of runs, and policies at the same loads, by hand-made numbers. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/sim/by_load.h"
#include "bench/sim/run_counters.h"

static void near(double a, double b) {
    if (fabs(a - b) > 1e-9) fail_msg("%.9g, expected %.9g", a, b);
}

static void counters_go_to_their_points(void **state) {
    (void)state;
    struct mo_bench_run_counters c = {.n = 0};
    const struct mo_bench_played none = {.stats = {.blocks = 10, .accepted = 5, .kernel_core_ns = 20000000},
                                         .joules = 0,
                                         .seconds = 0.5},
                                 some = {.stats = {.blocks = 40,
                                                   .accepted = 5,
                                                   .ok = 4,
                                                   .conflicts = 4,
                                                   .conflict_ns = 880000,
                                                   .kernel_core_ns = 30000000},
                                         .joules = 60,
                                         .seconds = 0.5},
                                 nothing = {.stats = {0}, .joules = 0, .seconds = 0.5};
    mo_bench_run_counters_note(&c, 0.5, &some);
    mo_bench_run_counters_note(&c, 0.5, &none); /* the later one counts */
    mo_bench_run_counters_note(&c, 0.7, &some);
    mo_bench_run_counters_note(&c, 0.8, &some);
    mo_bench_run_counters_note(&c, 0.9, &nothing);
    json_t *row = json_pack("{s:[{s:f}, {s:f}, {s:f, s:b}, {s:f}, {s:f}]}", "loads", "load", 0.5, "load", 0.7,
                            "load", 0.8, "stopped_early", 1, "load", 0.9, "load", 1.0);
    mo_bench_run_counters_add(&c, row);
    const json_t *loads = json_object_get(row, "loads"), *at = json_array_get(loads, 0);
    near(mo_json_number(at, "conflict_rate"), 0);
    assert_true(json_is_null(json_object_get(at, "conflict_us")));
    near(mo_json_number(at, "core_ms"), 4);
    assert_null(json_object_get(at, "watts")); /* nothing is known of its power */
    at = json_array_get(loads, 1);
    near(mo_json_number(at, "conflict_rate"), 0.1);
    near(mo_json_number(at, "conflict_us"), 220);
    near(mo_json_number(at, "core_ms"), 6);
    near(mo_json_number(at, "watts"), 120);
    near(mo_json_number(at, "joules_query"), 15);
    assert_null(json_object_get(json_array_get(loads, 2), "core_ms")); /* it ended early */
    near(mo_json_number(json_array_get(loads, 3), "conflict_rate"), 0);
    assert_null(json_object_get(json_array_get(loads, 4), "core_ms")); /* it was not played */
    json_decref(row);
}

struct answers {
    int64_t start[2], end[2];
};

static void note(void *ctx, int tenant, const struct mo_answer *answer) {
    struct answers *a = ctx;
    a->start[tenant] = answer->start;
    a->end[tenant] = answer->end;
}

/* Two queries of one layer that need two cores each (1 ms on one, 0.5 ms on two) on three: what the second
 * takes longer than on two is the cost of its conflict, whether it gets the other core later or not. */
static void a_conflict_costs_what_its_block_takes_longer(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct answers a = {{0}, {0}};
    struct mo_sim_config c = {.env = &env,
                              .policy = mo_policy_find("layerwise"),
                              .machine = {.n_cores = 3},
                              .max_queries = 4,
                              .max_tenants = 2,
                              .answer = note,
                              .ctx = &a};
    struct mo_profile *p = mo_profile_create(&env, 1, 3);
    mo_profile_record(p, 1, (int64_t[]){1000000});
    mo_profile_record(p, 2, (int64_t[]){500000});
    mo_profile_record(p, 3, (int64_t[]){500000});
    mo_profile_finish(p);
    struct mo_sim *sim;
    assert_int_equal(mo_sim_create(&c, &sim, NULL), MOIRE_OK);
    for (int i = 0; i < 2; i++) {
        struct mo_sched_tenant_config tc = {.qos_ns = 800000, .queue = 4, .instances = 4, .profile = p};
        int tenant;
        assert_int_equal(mo_sim_open(sim, &tc, &tenant, NULL), MOIRE_OK);
        assert_int_equal(mo_sim_submit(sim, tenant, NULL, NULL, NULL), MOIRE_OK);
    }
    assert_int_equal(mo_sim_drain(sim), 0);
    const struct mo_sched_stats *s = mo_sched_stats(mo_sim_sched(sim));
    assert_int_equal(a.end[0] - a.start[0], 500000);
    assert_true(a.end[1] - a.start[1] >= 750000);
    assert_int_equal(s->conflicts, 1);
    assert_int_equal(s->conflict_ns, a.end[1] - a.start[1] - 500000);
    mo_sim_destroy(sim);
    mo_profile_destroy(p);
}

/* A result of one policy and seed at one load, with two tenants of 3 and 1 queries. */
static json_t *result(const char *policy, int seed, double held, double in_time, double a_ms, double b_ms,
                      double core_ms) {
    return json_pack("{s:s, s:i, s:f, s:[{s:f, s:f, s:f, s:f, s:n, s:f, s:[{s:i, s:f}, {s:i, s:f}]}]}",
                     "policy", policy, "seed", seed, "max_load_overall", held, "loads", "load", 0.5, "qps",
                     80.0, "overall", in_time, "conflict_rate", 0.25, "conflict_us", "core_ms", core_ms,
                     "tenants", "n", 3, "mean_ms", a_ms, "n", 1, "mean_ms", b_ms);
}

static json_t *document(void) {
    return json_pack("{s:{s:[{s:f}, {s:f}]}, s:[{s:s}, {s:s}], s:[o,o,o,o]}", "calibration", "tenants",
                     "fastest_ms", 2.0, "fastest_ms", 10.0, "summary", "name", "moire/layerwise", "name",
                     "moire/other", "results", result("layerwise", 1, 0.4, 0.9, 4, 30, 10),
                     result("layerwise", 2, 0.6, 0.8, 2, 10, 20), result("other", 1, 0.5, 1, 6, 20, 11),
                     result("other", 2, 0, 1, 6, 20, 26));
}

static const json_t *value(const json_t *list, int policy, const char *key) {
    const json_t *rows = json_object_get(json_array_get(list, 0), "rows");
    return json_object_get(json_array_get(rows, (size_t)policy), key);
}

static void rows_are_means_over_seeds_and_gaps_are_paired(void **state) {
    (void)state;
    json_t *doc = document(), *list = mo_bench_by_load_rows(doc);
    assert_int_equal(json_array_size(list), 1);
    near(mo_json_number(json_array_get(list, 0), "qps"), 80);
    near(mo_json_number(value(list, 0, "in_time"), "mean"), 0.85);
    near(mo_json_number(value(list, 0, "in_time"), "ci95"), 12.706 * 0.05);
    /* (3 x 4/2 + 30/10) / 4 and 1 */
    near(mo_json_number(value(list, 0, "latency_over_solo"), "mean"), (2.25 + 1) / 2);
    near(mo_json_number(value(list, 0, "core_use_gap"), "mean"), 0);
    near(mo_json_number(value(list, 1, "core_use_gap"), "mean"), (0.1 + 0.3) / 2);
    near(mo_json_number(value(list, 1, "conflict_rate"), "mean"), 0.25);
    assert_true(json_is_null(value(list, 1, "conflict_us")));
    near(mo_bench_held(doc, "layerwise"), 0.5);
    near(mo_bench_held(doc, "nobody"), 0);
    json_decref(list);
    json_decref(doc);
}

/* The page of a simulation of given loads has them; that of a search, or without counters, has not. */
static void pages_show_what_was_counted(void **state) {
    (void)state;
    json_t *doc = document();
    for (int search = 0; search < 2; search++) {
        char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);
        json_object_set_new(doc, "goal", json_real(search));
        mo_bench_by_load_section(out, doc);
        fclose(out);
        assert_true((strstr(text, "<h2>Conflicts and core time</h2>") != NULL) == !search);
        if (!search)
            assert_non_null(strstr(text, "<td>25.00 <span class=\"soft\">&plusmn; 0.00</span></td>"));
        free(text);
    }
    json_decref(doc);
}

/* Refused and failed queries have no latency, and a tenant of which all are so has none at all. */
static void latency_is_of_the_queries_that_have_one(void **state) {
    (void)state;
    json_t *doc = document(), *row = json_pack("{s:s}", "name", "moire/other"),
           *bound = json_pack("{s:s}", "name", "moire/bound");
    json_t *empty = json_pack("{s:[{s:i, s:n}]}", "tenants", "n", 0, "mean_ms");
    json_t *shed = json_pack("{s:[{s:i, s:i, s:n}, {s:i, s:f}]}", "tenants", "n", 6, "shed", 6, "mean_ms",
                             "n", 1, "mean_ms", 30.0);
    json_t *some = json_pack("{s:[{s:i, s:i, s:i, s:i, s:f}, {s:i, s:f}]}", "tenants", "n", 6, "shed", 2,
                             "failed", 1, "unfinished", 1, "mean_ms", 4.0, "n", 1, "mean_ms", 30.0);
    assert_true(isnan(mo_bench_over_solo(doc, row, empty)));
    assert_true(isnan(mo_bench_over_solo(doc, bound, some)));
    near(mo_bench_over_solo(doc, row, shed), 3);
    near(mo_bench_over_solo(doc, row, some), (3 * 2.0 + 3) / 4); /* one that still waits has waited */
    json_decref(some);
    json_decref(shed);
    json_decref(empty);
    json_decref(bound);
    json_decref(row);
    json_decref(doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_go_to_their_points),
        cmocka_unit_test(a_conflict_costs_what_its_block_takes_longer),
        cmocka_unit_test(rows_are_means_over_seeds_and_gaps_are_paired),
        cmocka_unit_test(pages_show_what_was_counted),
        cmocka_unit_test(latency_is_of_the_queries_that_have_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
