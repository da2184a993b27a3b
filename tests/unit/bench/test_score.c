/* SPDX-License-Identifier: Apache-2.0
 * test_score.c - percentiles and within-QoS shares against brute force; the search for the highest load. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/load/score.h"
#include "bench/search/load_search.h"
#include "bench/search/seed_run.h"
#include "tests/unit/bench/simulate_bed.h"
#include "bench/load/serve.h"

/* The smallest value that at least p percent of the values do not exceed, by counting. */
static double by_counting(const double *v, int n, double p) {
    double best = INFINITY;
    for (int i = 0; i < n; i++) {
        int below = 0;
        for (int k = 0; k < n; k++)
            below += v[k] <= v[i];
        if (below * 100.0 >= p * n - 1e-9 && v[i] < best) best = v[i];
    }
    return best;
}

static int by_value(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void percentiles_match_counting(void **state) {
    (void)state;
    struct mo_rng rng;
    mo_rng_seed(&rng, 1, 0);
    for (int n = 1; n <= 60; n++) {
        double v[60], sorted[60];
        for (int i = 0; i < n; i++)
            v[i] = floor(mo_rng_uniform(&rng) * 20); /* with ties */
        memcpy(sorted, v, sizeof v);
        qsort(sorted, (size_t)n, sizeof *sorted, by_value);
        static const double p[] = {1, 5, 50, 90, 95, 99, 99.9, 100};
        for (int k = 0; k < 8; k++)
            assert_true(mo_bench_percentile(sorted, n, p[k]) == by_counting(v, n, p[k]));
    }
    assert_true(mo_bench_percentile(NULL, 0, 50) == 0);
}

/* Warm-up 10, window 10 .. 110; tenant 0 has QoS 20, tenant 1 has QoS 50. */
static void fates_are_counted(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_bench_arrival items[] = {{5, 0},  {10, 0}, {20, 0},  {30, 0}, {40, 1},
                                       {50, 1}, {60, 1}, {109, 1}, {110, 1}};
    const struct mo_bench_record records[] = {
        {5, 5, 900, MOIRE_OK},          /* warm-up: does not count */
        {10, 11, 30, MOIRE_OK},         /* 20: just in time */
        {20, 21, 41, MOIRE_OK},         /* 21: late */
        {30, -1, -1, MOIRE_ESHED},      /* miss without latency */
        {40, 41, 60, MOIRE_OK},         /* 20 */
        {50, -1, -1, MOIRE_ECANCELLED}, /* unfinished at the cut: waited 150 */
        {60, 61, -1, MOIRE_EFAILED},    /* failed */
        {109, 110, 159, MOIRE_OK},      /* 50: in time */
        {110, 110, 111, MOIRE_OK},      /* after the window */
    };
    struct mo_bench_schedule s = {.items = items, .n = 9, .warmup_ns = 10, .window_ns = 100, .total_ns = 200};
    const int64_t qos[] = {20, 50};
    struct mo_bench_score score;
    assert_int_equal(mo_bench_score(&env, &s, records, qos, 2, INT64_MAX, &score, NULL), 0);
    assert_int_equal(score.n, 7);
    assert_int_equal(score.met, 3);
    assert_int_equal(score.tenants[0].n, 3);
    assert_int_equal(score.tenants[0].met, 1);
    assert_int_equal(score.tenants[0].shed, 1);
    assert_int_equal(score.tenants[1].n, 4);
    assert_int_equal(score.tenants[1].met, 2);
    assert_int_equal(score.tenants[1].failed, 1);
    assert_int_equal(score.tenants[1].unfinished, 1);
    assert_true(fabs(score.overall - 3.0 / 7) < 1e-12);
    assert_true(fabs(score.worst - 1.0 / 3) < 1e-12);
    assert_true(fabs(score.tenants[1].p99_ms - 150e-6) < 1e-12);
    assert_true(fabs(score.tenants[1].p50_ms - 50e-6) < 1e-12);
    mo_bench_score_free(&env, &score);
    /* cut at 70: only queries due by then remain, 30 + 20, 20, 10 + 20 of tenant 0 and none of tenant 1 */
    assert_int_equal(mo_bench_score(&env, &s, records, qos, 2, 70, &score, NULL), 0);
    assert_int_equal(score.n, 3);
    assert_true(score.tenants[1].within == -1); /* not known, and never the worst */
    assert_int_equal(score.worst_tenant, 0);
    mo_bench_score_free(&env, &score);
}

/* Against the formula's published values (Wilson 1927; Agresti and Coull 1998), and its limits. */
static void intervals_of_shares(void **state) {
    (void)state;
    double interval[2];
    mo_bench_wilson(9, 10, interval);
    assert_true(fabs(interval[0] - 0.59585) < 1e-5 && fabs(interval[1] - 0.98212) < 1e-5);
    mo_bench_wilson(0, 10, interval);
    assert_true(interval[0] == 0 && fabs(interval[1] - 0.27753) < 1e-5);
    mo_bench_wilson(10, 10, interval);
    assert_true(fabs(interval[0] - 0.72247) < 1e-5 && interval[1] == 1);
    mo_bench_wilson(0, 0, interval);
    assert_true(interval[0] == 0 && interval[1] == 1);
    for (int n = 1; n < 200; n++) {
        for (int met = 0; met <= n; met++) {
            mo_bench_wilson(met, n, interval);
            assert_true(interval[0] >= 0 && interval[0] <= (double)met / n);
            assert_true(interval[1] <= 1 && interval[1] >= (double)met / n);
        }
    }
}

/* No query counts at all: nothing is in time, and nothing is late. */
static void no_queries_are_not_a_share(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_bench_schedule s = {.warmup_ns = 10, .window_ns = 100, .total_ns = 200};
    const int64_t qos[] = {20, 50};
    struct mo_bench_score score;
    assert_int_equal(mo_bench_score(&env, &s, NULL, qos, 2, INT64_MAX, &score, NULL), 0);
    assert_true(score.overall == -1 && score.worst == -1 && score.tenants[0].within == -1);
    assert_int_equal(score.worst_tenant, -1);
    mo_bench_score_free(&env, &score);
}

/* --- how long a probe lasts ---------------------------------------------------------------------------- */
static void probes_last_until_the_rarest_tenant_has_enough(void **state) {
    (void)state;
    struct mo_bench_serve_options o = {.seconds = 10, .enough = 60};
    const double frequent[] = {100, 6}, some[] = {100, 0, 3}, rare[] = {100, 0.1}, none[] = {0, 0};
    assert_true(mo_bench_probe_seconds(&o, frequent, 2) == 10);
    assert_true(mo_bench_probe_seconds(&o, some, 3) == 20); /* one is never asked: it does not matter */
    assert_true(mo_bench_probe_seconds(&o, rare, 2) == 10.0 * MO_BENCH_LONGEST_PROBE);
    assert_true(mo_bench_probe_seconds(&o, none, 2) == 10);
    o.enough = 0;
    assert_true(mo_bench_probe_seconds(&o, rare, 2) == 10);
}

/* A load that was asked for is a verdict of the search, so it lasts as long as a probe, and no load is played
 * twice; the counters beside the answer are of a whole run. */
static void verdicts_are_of_whole_probes(void **state) {
    (void)state;
    struct simulate_bed p;
    struct mo_bench_session session = {.env = &p.env, .cores = 1, .command = "moire sim test", .quiet = true};
    json_t *doc = NULL, *row, *point;
    moire_error err = {0};
    size_t i, k;
    simulate_bed_open(&p, FOUR_CORES, TWO_TENANTS);
    struct mo_bench_simulate_options o = simulate_bed_options(&p);
    o.serve.find_max = 0.9;
    o.serve.seconds = 0.25;
    o.serve.enough = 1000;
    snprintf(session.folder, sizeof session.folder, "%.60s", p.folder);
    session.signal_fd = -1;
    if (mo_bench_simulate(&session, &o, &doc, &err)) fail_msg("%s", err.message);
    json_array_foreach(json_object_get(doc, "results"), i, row) {
        const json_t *counters = json_object_get(row, "scheduling");
        double before = 0, told = mo_json_number(counters, "load");
        json_array_foreach(json_object_get(row, "loads"), k, point) {
            const json_t *tenants = json_object_get(point, "tenants");
            const double rates[] = {mo_json_number(json_array_get(tenants, 0), "qps"),
                                    mo_json_number(json_array_get(tenants, 1), "qps")};
            double load = mo_json_number(point, "load");
            assert_true(load > before);
            before = load;
            assert_true(fabs(mo_json_number(point, "seconds") - mo_bench_probe_seconds(&o.serve, rates, 2)) <
                        1e-6);
            if (load == told) assert_true(mo_json_number(counters, "accepted") >= mo_json_number(point, "n"));
        }
    }
    assert_int_equal(i, 6);
    json_decref(doc);
    simulate_bed_close(&p);
}

static void a_tenant_without_queries_proves_nothing(void **state) {
    (void)state;
    json_t *point =
        json_pack("{s:[{s:f, s:i}, {s:f, s:i}]}", "tenants", "qps", 2.0, "n", 9, "qps", 0.1, "n", 0);
    json_t *rare = json_array_get(json_object_get(point, "tenants"), 1);
    assert_false(mo_bench_all_asked(point));
    json_object_set_new(rare, "qps", json_real(0)); /* none was to come */
    assert_true(mo_bench_all_asked(point));
    json_object_set_new(rare, "qps", json_real(0.1));
    json_object_set_new(rare, "n", json_integer(1));
    assert_true(mo_bench_all_asked(point));
    json_decref(point);
}

/* --- search ------------------------------------------------------------------------------------------- */
struct machine {
    int overall, every; /* highest passing points */
    int hiccup;         /* a point that fails once by noise, -1 = none */
    int probes;
};

static int probe(void *user, int i, struct mo_bench_search *s, moire_error *err) {
    (void)err;
    struct machine *m = user;
    assert_true(s->known[0][i] < 0); /* nothing is measured twice */
    m->probes++;
    s->known[MO_BENCH_OVERALL][i] = i <= m->overall && i != m->hiccup;
    s->known[MO_BENCH_EVERY_TENANT][i] = i <= m->every && i != m->hiccup;
    return 0;
}

static void search_finds_the_edge(void **state) {
    (void)state;
    for (int edge = -1; edge < 24; edge++) {
        for (int guess = -1; guess <= 24; guess++) {
            struct machine m = {edge, edge / 2, -1, 0};
            struct mo_bench_search s;
            int best, every;
            mo_bench_search_init(&s, 24, probe, &m);
            assert_int_equal(mo_bench_search_max(&s, MO_BENCH_OVERALL, guess, &best, NULL), 0);
            assert_int_equal(best, edge);
            assert_int_equal(mo_bench_search_max(&s, MO_BENCH_EVERY_TENANT, best, &every, NULL), 0);
            assert_int_equal(every, edge / 2);
            assert_true(m.probes <= 20);
        }
    }
}

static void search_survives_one_hiccup(void **state) {
    (void)state;
    for (int guess = 0; guess < 24; guess++)
        for (int hiccup = 1; hiccup <= 14; hiccup++) {
            struct machine m = {16, 16, hiccup, 0};
            struct mo_bench_search s;
            int best;
            mo_bench_search_init(&s, 24, probe, &m);
            assert_int_equal(mo_bench_search_max(&s, MO_BENCH_OVERALL, guess, &best, NULL), 0);
            assert_int_equal(best, 16);
        }
}

/* A test that passes by a chance that falls with the load, one half at point 20. */
struct lottery {
    uint64_t rng;
};

static int draw(void *user, int i, struct mo_bench_search *s, moire_error *err) {
    (void)err;
    struct lottery *l = user;
    l->rng = l->rng * UINT64_C(6364136223846793005) + 1442695040888963407;
    double chance = 1 / (1 + exp((i - 20) / 1.5));
    s->known[MO_BENCH_OVERALL][i] = (double)(l->rng >> 11) * 0x1p-53 < chance;
    return 0;
}

/* The mean answer lies just below where passing and failing are equally likely, wherever the search begins:
 * it passes at the answer and fails one above, so half a point below is the middle. */
static void search_does_not_look_for_luck(void **state) {
    (void)state;
    enum { RUNS = 4000 };
    for (int guess = 8; guess <= 32; guess += 8) {
        struct lottery l = {(uint64_t)guess};
        double sum = 0;
        for (int k = 0; k < RUNS; k++) {
            struct mo_bench_search s;
            int best;
            mo_bench_search_init(&s, 40, draw, &l);
            assert_int_equal(mo_bench_search_max(&s, MO_BENCH_OVERALL, guess, &best, NULL), 0);
            sum += best;
        }
        if (sum / RUNS > 19.6 || sum / RUNS < 19) fail_msg("guess %d: mean answer %.3f", guess, sum / RUNS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_match_counting),
        cmocka_unit_test(fates_are_counted),
        cmocka_unit_test(intervals_of_shares),
        cmocka_unit_test(no_queries_are_not_a_share),
        cmocka_unit_test(probes_last_until_the_rarest_tenant_has_enough),
        cmocka_unit_test(verdicts_are_of_whole_probes),
        cmocka_unit_test(a_tenant_without_queries_proves_nothing),
        cmocka_unit_test(search_finds_the_edge),
        cmocka_unit_test(search_survives_one_hiccup),
        cmocka_unit_test(search_does_not_look_for_luck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
