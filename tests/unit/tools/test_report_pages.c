/* SPDX-License-Identifier: Apache-2.0
 * test_report_pages.c - what pages show of a made document: charts, tables, the machine, tables of policies.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/plans/plans.h"
#include "bench/report/report_page.h"
#include "bench/sim/tables.h"

/* What a section prints of a document. */
static char *section_of(const json_t *document, mo_page_section section) {
    const struct mo_env env = mo_env_default();
    struct mo_page_view view;
    char *text = NULL;
    size_t n;
    assert_int_equal(mo_page_view_open(&env, document, &view, NULL), MOIRE_OK);
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    section(out, &view);
    fclose(out);
    mo_page_view_close(&env, &view);
    return text;
}

static json_t *tenant(const char *name, int n, double within, double slowest) {
    json_t *t =
        json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:[[f,f],[f,f]]}", "name", name, "n", n,
                  "within_qos", within, "p50_ms", slowest / 2, "p95_ms", slowest, "p99_ms", slowest, "shed",
                  0, "failed", 0, "unfinished", 3, "quantiles", 50.0, slowest / 2, 100.0, slowest);
    json_object_set_new(t, "entry", json_pack("{s:f, s:f}", "p50_ms", 1.25, "p99_ms", 7.5));
    return t;
}

static json_t *result(const char *system, const char *name, double within, double slowest) {
    return json_pack("{s:s, s:s, s:s, s:i, s:[{s:f, s:f, s:f, s:f, s:i, s:b, s:[o]}]}", "system", system,
                     "name", name, "about", "x", "seed", 1, "loads", "load", 0.5, "qps", 10.0, "overall",
                     within, "worst_tenant", within, "n", 50, "stopped_early", 0, "tenants",
                     tenant("/m/net.onnx", 50, within, slowest));
}

/* moire answers within 8 ms of a target of 10, the peer within 400 ms, the bound has no latency. */
static json_t *document(void) {
    json_t *doc =
        json_pack("{s:s, s:f, s:{s:[{s:s, s:f, s:f}]}, s:[o,o,o], s:b}", "scenario", "s", "seconds", 5.0,
                  "calibration", "tenants", "name", "/m/net.onnx", "qos_ms", 10.0, "solo_ms", 2.0, "results",
                  result("moire", "moire/moire", 0.9, 8), result("onnxruntime", "ort-fcfs-all", 0.1, 400),
                  result("moire", "moire/bound", 1, 10), "complete", 1);
    assert_non_null(doc);
    return doc;
}

static void curves_beyond_the_axis_are_named(void **state) {
    (void)state;
    json_t *doc = document();
    char *text = section_of(doc, mo_page_latency);
    const char *beyond = strstr(text, "Later than 25 ms, or never: ");
    assert_non_null(beyond);
    assert_non_null(strstr(beyond, "ort-fcfs-all 100.0 % (p50 200 ms)"));
    assert_null(strstr(beyond, "moire/moire"));
    assert_null(strstr(text, "bound")); /* no latency, no curve, not in the legend */
    free(text);
    json_decref(doc);
}

static void tenants_have_a_row_for_each_system(void **state) {
    (void)state;
    json_t *doc = document();
    char *text = section_of(doc, mo_page_tenants);
    assert_non_null(strstr(text, "Tenants at load 0.50"));
    assert_non_null(strstr(text, "rowspan=\"2\" title=\"/m/net.onnx\">net</td>"));
    assert_non_null(strstr(text, "90.0 % <span class=\"soft\">79 to 96</span>"));
    assert_non_null(strstr(text, "<td>9.4</td>")); /* 47 answers in 5 s */
    assert_non_null(strstr(text, "<td>1.25, 7.50</td>"));
    assert_null(strstr(text, "bound"));
    assert_null(strstr(text, "failed")); /* nothing did */
    assert_null(strstr(text, "No query came"));
    assert_null(strstr(text, "Fell behind"));
    assert_non_null(strstr(text, "An unanswered query enters"));
    free(text);
    json_t *load =
        json_array_get(json_object_get(json_array_get(json_object_get(doc, "results"), 0), "loads"), 0);
    json_array_append_new(json_object_get(load, "tenants"), tenant("/m/rare.onnx", 0, 0, 0));
    json_object_set_new(load, "keeps_up", json_false());
    text = section_of(doc, mo_page_tenants);
    assert_non_null(strstr(text, "No query came in this time (a longer --seconds helps): /m/rare.onnx."));
    assert_non_null(strstr(text, "Fell behind, with overdue queries unanswered at the end: moire/moire."));
    free(text);
    json_decref(doc);
}

/* The same result at another load, too. */
static void add_load(json_t *result, double load) {
    json_t *loads = json_object_get(result, "loads"), *point = json_deep_copy(json_array_get(loads, 0));
    json_object_set_new(point, "load", json_real(load));
    json_array_append_new(loads, point);
}

static void the_load_of_the_headline_comes_first(void **state) {
    (void)state;
    json_t *doc = document(), *results = json_object_get(doc, "results"), *own = json_array_get(results, 0);
    for (size_t i = 0; i < 2; i++) {
        add_load(json_array_get(results, i), 0.3);
        add_load(json_array_get(results, i), 0.8);
    }
    const double expected[] = {0.5, 0.8, 0.3}, held[] = {0.3, 0.8, 0.5};
    struct mo_page_view view;
    const struct mo_env env = mo_env_default();
    double loads[MO_SHOWN_LOADS];
    assert_int_equal(mo_page_view_open(&env, doc, &view, NULL), MOIRE_OK);
    assert_int_equal(mo_page_loads_shown(&view, loads), 3);
    assert_memory_equal(loads, expected, sizeof expected);
    mo_page_view_close(&env, &view);
    json_object_set_new(own, "max_load_every_tenant", json_real(0.3));
    assert_int_equal(mo_page_view_open(&env, doc, &view, NULL), MOIRE_OK);
    assert_int_equal(mo_page_loads_shown(&view, loads), 3);
    assert_memory_equal(loads, held, sizeof held);
    mo_page_view_close(&env, &view);
    json_decref(doc);
}

static void no_cost_no_table(void **state) {
    (void)state;
    json_t *doc = document(), *first = json_array_get(json_object_get(doc, "results"), 0);
    json_object_set_new(first, "scheduling", json_pack("{s:i, s:f}", "decisions", 0, "mean_us", 0.0));
    char *text = section_of(doc, mo_page_cost); /* a simulation: all zero */
    assert_string_equal(text, "");
    free(text);
    json_object_set_new(first, "memory", json_pack("{s:f}", "rss_mib", 12.4));
    text = section_of(doc, mo_page_cost);
    assert_non_null(strstr(text, "<td>12</td>"));
    assert_null(strstr(text, "ort-fcfs-all")); /* nothing is known of it */
    assert_null(strstr(text, "decisions"));
    free(text);
    json_decref(doc);
}

static void the_machine_is_told_in_words(void **state) {
    (void)state;
    char *text = NULL;
    size_t n;
    json_t *doc =
        json_pack("{s:{s:{s:s, s:[{s:i, s:i, s:i}], s:i}, s:{s:s}, s:[i,i], s:s, s:s}}", "experiment",
                  "machine", "name", "big", "caches", "level", 3, "kib", 16384, "shared_by", 4, "block_us", 3,
                  "caches", "L2 Unified", "512K", "seeds", 1, 2, "command", "moire <sim>", "odd_key", "v");
    FILE *out = open_memstream(&text, &n);
    mo_page_experiment(out, doc);
    fclose(out);
    assert_non_null(strstr(text, "big; caches L3 16 MiB for 4 cores; block 3 us"));
    assert_non_null(strstr(text, "L2 Unified 512 KiB"));
    assert_non_null(strstr(text, "1, 2"));
    assert_non_null(strstr(text, "moire &#60;sim&#62;"));
    assert_non_null(strstr(text, "<td>odd key</td>"));
    assert_null(strchr(text, '{'));
    free(text);
    json_decref(doc);
}

static json_t *policy(const char *name, double every) {
    return json_pack("{s:s, s:{s:f, s:n}, s:{s:f, s:n}}", "policy", name, "max_load_every_tenant", "mean",
                     every, "ci95", "max_load_overall", "mean", every + 0.1, "ci95");
}

static void tables_say_their_answer(void **state) {
    (void)state;
    json_t *doc =
        json_pack("{s:[{s:s, s:s, s:f, s:[o,o,o,o,o]}]}", "results", "scenario", "mix", "arrivals", "poisson",
                  "goal", 0.95, "rows", policy("moire", 0.6), policy("moire-no-fit", 0.59),
                  policy("lanes", 0.3), policy("offline", 0.8), policy("bound", 0.9));
    json_t *lines = mo_bench_tables_headline(doc);
    assert_int_equal(json_array_size(lines), 1);
    assert_string_equal(
        json_string_value(json_array_get(lines, 0)),
        "mix, poisson arrivals: moire keeps every tenant at 95 % up to load 0.60, and of all "
        "queries up to 0.70; best of the other policies (lanes) up to 0.30; no scheduler that answers all "
        "beyond 0.90 and 1.00.");
    json_decref(lines);
    json_decref(doc);
}

static json_t *planner(const char *name, const char *machine, double of_bound, double over_sbp) {
    return json_pack("{s:s, s:s, s:f, s:f}", "planner", name, "profile", machine, "rate_vs_bound", of_bound,
                     "throughput_vs_sbp", over_sbp);
}

static void planners_say_their_answer(void **state) {
    (void)state;
    json_t *doc =
        json_pack("{s:[o,o,o,o]}", "results", planner("moire-gpu", "a", 0.75, 1.25),
                  planner("ideal", "a", 0.8, 1.3), planner("sbp", "a", 0.6, 1), planner("sbp", "b", 0.5, 1));
    json_t *lines = mo_plans_headline(doc);
    assert_int_equal(json_array_size(lines), 2);
    assert_string_equal(
        json_string_value(json_array_get(lines, 0)),
        "a: moire-gpu serves 75.0 % of the highest rates that any plan could serve (1.25 times squishy "
        "bin packing); best of the others, sbp 60.0 %.");
    assert_string_equal(json_string_value(json_array_get(lines, 1)),
                        "b: sbp serves 50.0 % of the highest rates that any plan could serve.");
    json_decref(lines);
    json_decref(doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves_beyond_the_axis_are_named),
        cmocka_unit_test(tenants_have_a_row_for_each_system),
        cmocka_unit_test(no_cost_no_table),
        cmocka_unit_test(the_load_of_the_headline_comes_first),
        cmocka_unit_test(the_machine_is_told_in_words),
        cmocka_unit_test(tables_say_their_answer),
        cmocka_unit_test(planners_say_their_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
