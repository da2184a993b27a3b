/* SPDX-License-Identifier: Apache-2.0
 * test_grid.c - axes, cells and rows of `moire grid`, and the paper's claims beside them. */
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
#include <unistd.h>
#include "bench/sim/paper_claims.h"
#include "bench/sim/grid.h"

static void near(double a, double b) {
    if (fabs(a - b) > 1e-9) fail_msg("%.9g, expected %.9g", a, b);
}

static void axes_are_read_or_refused(void **state) {
    (void)state;
    struct mo_bench_axis a;
    assert_true(mo_bench_axis_parse("contention=none,factor:1.8", &a));
    assert_string_equal(a.key, "contention");
    assert_int_equal(a.n, 2);
    assert_string_equal(a.value[1], "factor:1.8");
    assert_true(mo_bench_axis_parse("k=v", &a) && a.n == 1);
    static const char *const bad[] = {"",
                                      "k",
                                      "k=",
                                      "=v",
                                      "k=v,",
                                      "k=,v",
                                      "k=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
                                      "k=a_value_of_more_than_thirty_one_letters",
                                      "a_key_that_has_more_than_31_letters=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mo_bench_axis_parse(bad[i], &a));
}

static json_t *result(const char *policy, int seed, double held) {
    return json_pack("{s:s, s:o, s:i, s:f, s:[{s:f, s:f, s:f, s:[{s:i, s:f}]}]}", "policy", policy, "name",
                     json_sprintf("moire/%s", policy), "seed", seed, "max_load_overall", held, "loads",
                     "load", held, "qps", 200 * held, "conflict_rate", held / 10, "tenants", "n", 4,
                     "mean_ms", 6.0);
}

static double mean(const json_t *rows, size_t policy, const char *key) {
    return json_number_value(json_object_get(json_object_get(json_array_get(rows, policy), key), "mean"));
}

static void rows_are_paired_by_seed(void **state) {
    (void)state;
    json_t *doc =
        json_pack("{s:{s:[{s:f}]}, s:[{s:s}, {s:s}], s:[o,o,o,o,o,o]}", "calibration", "tenants",
                  "fastest_ms", 2.0, "summary", "name", "moire/layerwise", "name", "moire/veltair", "results",
                  result("layerwise", 1, 0.2), result("layerwise", 2, 0.5), result("layerwise", 3, 0),
                  result("veltair", 1, 0.4), result("veltair", 2, 0.5), result("veltair", 3, 0.6));
    json_t *rows = mo_bench_grid_rows(doc);
    assert_int_equal(json_array_size(rows), 2);
    near(mean(rows, 1, "max_load_overall"), 0.5);
    near(mean(rows, 1, "over_layerwise"), 1.5); /* 2 and 1; the third seed has nothing to compare with */
    near(mean(rows, 0, "over_layerwise"), 1);
    near(mean(rows, 1, "qps"), 100);
    near(mean(rows, 1, "latency_over_solo"), 3);
    near(mean(rows, 1, "conflict_rate"), 0.05);
    json_decref(rows);
    json_decref(doc);
}

/* The bound decides nothing and answers nothing; who was not searched for has no load. */
static void what_is_not_there_is_not_zero(void **state) {
    (void)state;
    json_t *bound = result("bound", 1, 0.9), *unsearched = result("fcfs", 1, 0.5);
    json_object_del(json_array_get(json_object_get(bound, "loads"), 0), "conflict_rate");
    json_object_set_new(unsearched, "max_load_overall", json_null());
    json_t *doc =
        json_pack("{s:{s:[{s:f}]}, s:[{s:s}, {s:s}], s:[o,o]}", "calibration", "tenants", "fastest_ms", 2.0,
                  "summary", "name", "moire/bound", "name", "moire/fcfs", "results", bound, unsearched);
    json_t *rows = mo_bench_grid_rows(doc), *first = json_array_get(rows, 0),
           *second = json_array_get(rows, 1);
    near(mean(rows, 0, "max_load_overall"), 0.9);
    assert_true(json_is_null(json_object_get(first, "latency_over_solo")));
    assert_true(json_is_null(json_object_get(first, "conflict_rate")));
    assert_true(json_is_null(json_object_get(second, "max_load_overall")));
    assert_true(json_is_null(json_object_get(second, "qps")));
    json_decref(rows);
    json_decref(doc);
}

static void claims_are_the_papers(void **state) {
    (void)state;
    near(mo_bench_claim("veltair-light", "veltair", "over_layerwise"), 1.71);
    near(mo_bench_claim("veltair-mix", "veltair-ac", "over_layerwise"), 1.5);
    near(mo_bench_claim("veltair-light", "veltair-ac", "over_layerwise"), 0);
    near(mo_bench_claim("anything", "veltair-as", "latency_over_solo"), 1.6);
    near(mo_bench_claim("veltair-mix", "moire", "over_layerwise"), 0);
}

static json_t *cell(const char *scenario, const char *contention, double ratio) {
    return json_pack("{s:s, s:{s:s}, s:[{s:s, s:{s:f, s:n}}]}", "scenario", scenario, "cell", "contention",
                     contention, "rows", "policy", "veltair", "over_layerwise", "mean", ratio, "ci95");
}

static void the_headline_counts_cells_that_reach_a_claim(void **state) {
    (void)state;
    json_t *doc = json_pack("{s:[o,o,o,o]}", "results", cell("veltair-heavy", "none", 1.2),
                            cell("veltair-heavy", "factor:2", 1.46), cell("veltair-mix", "none", 0.9),
                            cell("other", "none", 3));
    json_t *lines = mo_bench_grid_headline(doc);
    assert_int_equal(json_array_size(lines), 2);
    assert_string_equal(
        json_string_value(json_array_get(lines, 0)),
        "veltair-heavy: veltair holds the 1.45 times layerwise's load that the paper claims in "
        "1 of 2 cells; at most 1.46 times, at contention=factor:2.");
    assert_string_equal(
        json_string_value(json_array_get(lines, 1)),
        "veltair-mix: veltair holds the 1.68 times layerwise's load that the paper claims in 0 "
        "of 1 cells; at most 0.90 times, at contention=none.");
    json_decref(lines);
    json_decref(doc);
}

/* --- whole runs ----------------------------------------------------------------------------------------- */
struct place {
    struct mo_env env;
    char folder[64], machine[128], scenario[128], output[128];
};

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void set_up(struct place *p) {
    char profile[128];
    *p = (struct place){.env = mo_env_default()};
    strcpy(p->folder, "/tmp/moire-grid-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->machine, sizeof p->machine, "%s/m.json", p->folder);
    snprintf(p->scenario, sizeof p->scenario, "%s/s.json", p->folder);
    snprintf(p->output, sizeof p->output, "%s/g.json", p->folder);
    snprintf(profile, sizeof profile, "%s/a.csv", p->folder);
    put(p->machine, "{\"name\": \"m\", \"cores\": 4, \"profiles\": \".\", \"memory_gib_s\": 4, \"caches\": "
                    "[{\"level\": 3, \"kib\": 512, \"shared_by\": 2}]}");
    put(p->scenario, "{\"name\": \"s\", \"qos\": {\"ms\": 4}, \"tenants\": [{\"model\": \"a\"}]}");
    put(profile, "# moire-profile 1\nlayer,name,variant,batch,pressure,kib,1,2\n0,x,0,1,0,1000,1000,520\n");
}

static void tear_down(const struct place *p) {
    static const char *const names[] = {"m.json", "s.json", "g.json", "a.csv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", p->folder, names[i]);
        unlink(path);
    }
    rmdir(p->folder);
}

static struct mo_bench_grid_options options(const struct place *p) {
    struct mo_bench_grid_options o = {.simulate = {.machine = p->machine,
                                                   .serve = {.policies = {"layerwise", "fcfs-1"},
                                                             .n_policies = 2,
                                                             .find_max = 0.9,
                                                             .step = 0.1,
                                                             .max_load = 1,
                                                             .seconds = 0.5,
                                                             .warmup = 0.1,
                                                             .seeds = {1, 2},
                                                             .n_seeds = 2}},
                                      .scenarios = {p->scenario},
                                      .n_scenarios = 1,
                                      .n_axes = 2,
                                      .output = p->output};
    assert_true(mo_bench_axis_parse("contention=none,memory,factor:3", &o.axes[0]));
    assert_true(mo_bench_axis_parse("last_level=pooled,sliced", &o.axes[1]));
    return o;
}

static const char *in_cell(const json_t *doc, size_t i, const char *key) {
    const json_t *one = json_array_get(json_object_get(doc, "results"), i);
    return json_string_value(json_object_get(json_object_get(one, "cell"), key));
}

static void refused(struct mo_bench_session *session, const struct mo_bench_grid_options *o,
                    const char *why) {
    json_t *doc = NULL;
    moire_error err = {0};
    assert_int_equal(mo_bench_grid(session, o, &doc, &err), MOIRE_EINVAL);
    if (!strstr(err.message, why)) fail_msg("'%s' is not in: %s", why, err.message);
    assert_null(doc); /* nothing to write over what there is */
}

/* Three kinds of contention, of which one knows caches: four cells; the second run plays none of them, and
 * one with other settings is not mixed with them. */
static void cells_are_machines_and_a_run_resumes(void **state) {
    (void)state;
    struct place p;
    struct mo_bench_session session;
    char *argv[] = {"moire", "grid"};
    moire_error err = {0};
    json_t *doc, *again;
    set_up(&p);
    assert_int_equal(mo_bench_session_open(&p.env, 2, argv, &session, NULL), MOIRE_OK);
    session.quiet = true;
    struct mo_bench_grid_options o = options(&p);
    if (mo_bench_grid(&session, &o, &doc, &err)) fail_msg("%s", err.message);
    const json_t *results = json_object_get(doc, "results");
    assert_int_equal(json_array_size(results), 4);
    assert_string_equal(in_cell(doc, 0, "contention"), "none");
    assert_string_equal(in_cell(doc, 2, "contention"), "memory");
    assert_string_equal(in_cell(doc, 2, "last_level"), "sliced");
    assert_string_equal(in_cell(doc, 3, "last_level"), "pooled");
    double calm = mean(json_object_get(json_array_get(results, 0), "rows"), 1, "max_load_overall");
    double slow = mean(json_object_get(json_array_get(results, 3), "rows"), 1, "max_load_overall");
    assert_true(slow > 0 && slow < calm); /* three times slower where all cores are busy */
    o.resume = true;
    put(p.scenario, "no scenario"); /* would fail if a cell were played again */
    if (mo_bench_grid(&session, &o, &again, &err)) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(json_object_get(again, "results")), 4);
    json_decref(again);
    o.simulate.serve.policies[1] = "lanes";
    refused(&session, &o, "\"policies\" [\"layerwise\",\"fcfs-1\"] in place of [\"layerwise\",\"lanes\"]");
    o.simulate.serve.policies[1] = "fcfs-1";
    o.simulate.serve.process = (struct mo_process){MO_PROCESS_GAMMA, 4};
    refused(&session, &o, "\"arrivals\" \"poisson\" in place of \"gamma:4\"");
    o.simulate.serve.process = (struct mo_process){MO_PROCESS_POISSON, 0};
    o.simulate.serve.seconds = 4;
    refused(&session, &o, "\"seconds\" \"0.5\" in place of \"4\"");
    json_decref(doc);
    mo_bench_session_close(&session);
    tear_down(&p);
}

static void a_bad_cell_is_refused_before_any_is_played(void **state) {
    (void)state;
    struct place p;
    struct mo_bench_session session;
    char *argv[] = {"moire", "grid"};
    moire_error err = {0};
    json_t *doc;
    set_up(&p);
    assert_int_equal(mo_bench_session_open(&p.env, 2, argv, &session, NULL), MOIRE_OK);
    struct mo_bench_grid_options o = options(&p);
    assert_true(mo_bench_axis_parse("contention=none,factor:0", &o.axes[0]));
    assert_int_equal(mo_bench_grid(&session, &o, &doc, &err), MOIRE_EFORMAT);
    assert_null(doc);
    assert_non_null(strstr(err.message, "factor:0"));
    assert_int_not_equal(access(p.output, F_OK), 0);
    mo_bench_session_close(&session);
    tear_down(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_are_read_or_refused),
        cmocka_unit_test(rows_are_paired_by_seed),
        cmocka_unit_test(what_is_not_there_is_not_zero),
        cmocka_unit_test(claims_are_the_papers),
        cmocka_unit_test(the_headline_counts_cells_that_reach_a_claim),
        cmocka_unit_test(cells_are_machines_and_a_run_resumes),
        cmocka_unit_test(a_bad_cell_is_refused_before_any_is_played),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
