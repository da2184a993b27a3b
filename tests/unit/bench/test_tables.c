/* SPDX-License-Identifier: Apache-2.0
 * test_tables.c - `moire tables`: rows by hand-made results, and a run that is taken up again. */
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
#include "bench/sim/tables.h"
#include "tests/unit/bench/simulate_bed.h"

static double mean(const json_t *of, const char *key) {
    return json_number_value(json_object_get(json_object_get(of, key), "mean"));
}

static double interval(const json_t *of, const char *key) {
    return json_number_value(json_object_get(json_object_get(of, key), "ci95"));
}

static void near(double a, double b) {
    if (fabs(a - b) > 1e-3) fail_msg("%.6g, expected %.6g", a, b);
}

/* --- rows ----------------------------------------------------------------------------------------------- */
static json_t *result(const char *policy, int seed, double overall, double every, double heavy) {
    char name[64];
    snprintf(name, sizeof name, "moire/%s", policy);
    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:[{s:f, s:[{s:s, s:f}, {s:s, s:f}]}, {s:f, s:[{s:s, s:f}, "
                     "{s:s, s:f}]}]}",
                     "name", name, "policy", policy, "seed", seed, "max_load_overall", overall,
                     "max_load_every_tenant", every, "loads", "load", overall, "tenants", "name", "light",
                     "within_qos", 1.0, "name", "heavy", "within_qos", heavy, "load", every, "tenants",
                     "name", "light", "within_qos", 1.0, "name", "heavy", "within_qos", 0.96);
}

/* Two seeds: ratios are of equal seeds, and every mean has its interval (Student's t of two values). */
static void rows_have_shares_of_the_bound_and_tenants(void **state) {
    (void)state;
    json_t *doc = json_pack("{s:{s:[{s:f}, {s:f}]}, s:[o,o,o,o]}", "calibration", "tenants", "fastest_ms",
                            1.0, "fastest_ms", 9.0, "results", result("moire", 1, 0.8, 0.4, 0.5),
                            result("moire", 2, 0.6, 0.4, 0.7), result("bound", 1, 1.0, 0.8, 1),
                            result("bound", 2, 1.0, 0.5, 1));
    json_t *rows = mo_bench_tables_rows(doc);
    const json_t *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 2);
    assert_int_equal(json_integer_value(json_object_get(row, "seeds")), 2);
    near(mean(row, "max_load_overall"), 0.7);
    near(interval(row, "max_load_overall"), 12.706 * 0.1);
    near(mean(row, "of_bound_overall"), 0.7);
    near(interval(row, "of_bound_overall"), 12.706 * 0.1);
    near(mean(row, "of_bound_every_tenant"), (0.4 / 0.8 + 0.4 / 0.5) / 2);
    near(interval(row, "of_bound_every_tenant"), 12.706 * 0.15);
    assert_true(json_is_null(json_object_get(row, "over_layerwise")));
    const json_t *heavy = json_array_get(json_object_get(row, "tenants"), 1);
    assert_string_equal(json_string_value(json_object_get(heavy, "name")), "heavy");
    near(mean(heavy, "at_overall"), 0.6);
    near(interval(heavy, "at_overall"), 12.706 * 0.1);
    near(mean(heavy, "at_every_tenant"), 0.96);
    json_decref(rows);
    json_decref(doc);
}

/* --- a run ---------------------------------------------------------------------------------------------- */
struct table {
    struct simulate_bed bed;
    struct mo_bench_session session;
    struct mo_bench_tables_options options;
    char path[280];
};

static void open_table(struct table *t) {
    static char *argv[] = {"moire", "tables"};
    simulate_bed_open(&t->bed, FOUR_CORES, TWO_TENANTS);
    snprintf(t->path, sizeof t->path, "%s/t.json", t->bed.folder);
    assert_int_equal(mo_bench_session_open(&t->bed.env, 2, argv, &t->session, NULL), MOIRE_OK);
    t->session.quiet = true;
    t->options = (struct mo_bench_tables_options){.simulate = simulate_bed_options(&t->bed),
                                                  .scenarios = {t->bed.scenario},
                                                  .n_scenarios = 1,
                                                  .processes = {{MO_PROCESS_GAMMA, 4}},
                                                  .n_processes = 1,
                                                  .output = t->path};
    struct mo_bench_serve_options *serve = &t->options.simulate.serve;
    serve->find_max = 0.5;
    serve->n_loads = 0;
    serve->policies[2] = "layerwise";
    serve->policies[3] = "bound";
    serve->n_policies = 4;
}

/* The page of a document with this piece, the caller's. */
static char *page_of(const struct table *t, json_t *piece) {
    char path[280];
    static char text[65536];
    json_t *document = json_pack("{s:[O], s:{s:s}}", "results", piece, "experiment", "command", "test");
    snprintf(path, sizeof path, "%s/t.html", t->bed.folder);
    assert_int_equal(mo_bench_tables_html(&t->bed.env, document, path, NULL), MOIRE_OK);
    json_decref(document);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    unlink(path);
    return text;
}

static void close_table(struct table *t) {
    unlink(t->path);
    mo_bench_session_close(&t->session);
    simulate_bed_close(&t->bed);
}

/* The one piece of the table, a new reference. */
static json_t *piece_of(struct table *t) {
    json_t *document = NULL;
    moire_error err = {0};
    if (mo_bench_tables(&t->session, &t->options, &document, &err)) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(json_object_get(document, "results")), 1);
    json_t *piece = json_incref(json_array_get(json_object_get(document, "results"), 0));
    json_decref(document);
    return piece;
}

static void same_text(const json_t *a, const json_t *b) {
    char *left = json_dumps(a, JSON_REAL_PRECISION(6)), *right = json_dumps(b, JSON_REAL_PRECISION(6));
    assert_string_equal(left, right);
    free(left);
    free(right);
}

static void a_table_has_a_row_a_policy(void **state) {
    (void)state;
    struct table t;
    open_table(&t);
    json_t *piece = piece_of(&t);
    const json_t *rows = json_object_get(piece, "rows"), *by_load = json_object_get(piece, "by_load");
    assert_string_equal(json_string_value(json_object_get(piece, "arrivals")), "gamma:4");
    assert_int_equal(json_array_size(rows), 4);
    assert_int_equal(json_array_size(by_load), 4);
    assert_int_equal(json_array_size(json_object_get(json_array_get(by_load, 0), "rows")), 3);
    const json_t *moire = json_array_get(rows, 0), *bound = json_array_get(rows, 3);
    assert_true(mean(moire, "of_bound_overall") > 0.1 && mean(moire, "of_bound_overall") <= 1);
    near(mean(bound, "of_bound_every_tenant"), 1);
    assert_true(json_is_null(json_object_get(bound, "latency_over_solo"))); /* it answers nothing */
    assert_true(mean(moire, "latency_over_solo") > 1);
    assert_true(mean(moire, "over_layerwise") > 0);
    assert_true(json_is_object(json_object_get(moire, "core_use_gap")));
    assert_int_equal(json_array_size(json_object_get(moire, "tenants")), 2);
    const char *page = page_of(&t, piece),
               *tenants = strstr(page, "In time at the highest load of every tenant");
    const char *end = tenants ? strstr(tenants, "</table>") : NULL;
    assert_non_null(end);
    assert_non_null(strstr(page, "of the bound,<br>all"));
    assert_true(strstr(tenants, ">x/b.onnx<") && strstr(tenants, ">x/b.onnx<") < end);
    assert_true(strstr(tenants, "layerwise") < end);
    const char *bound_row = strstr(tenants, ">bound"); /* its tenants are those of another schedule each */
    assert_true(!bound_row || bound_row > end);
    json_decref(piece);
    close_table(&t);
}

/* As if the table had been made where that entry was another. */
static void change_experiment(const struct table *t, const char *key) {
    json_t *document = json_load_file(t->path, 0, NULL);
    assert_non_null(json_object_get(json_object_get(document, "experiment"), key));
    json_object_set_new(json_object_get(document, "experiment"), key, json_string("another"));
    assert_int_equal(json_dump_file(document, t->path, 0), 0);
    json_decref(document);
}

/* Stopped after the first policy, the table is in the end what it is in one go; what is done is not done
 * again, and what was made otherwise is not mixed with it. */
static void a_table_goes_on_policy_by_policy(void **state) {
    (void)state;
    struct table t;
    moire_error err = {0};
    json_t *document = NULL;
    open_table(&t);
    json_t *whole = piece_of(&t);
    unlink(t.path);
    t.options.simulate.serve.n_policies = 1;
    json_decref(piece_of(&t));
    t.options.resume = true;
    t.options.simulate.serve.n_policies = 4;
    json_t *later = piece_of(&t);
    same_text(json_object_get(whole, "rows"), json_object_get(later, "rows"));
    json_decref(later);
    simulate_bed_put(&t.bed, "m.json", "no machine"); /* would fail if anything were simulated again */
    later = piece_of(&t);
    same_text(json_object_get(whole, "rows"), json_object_get(later, "rows"));
    same_text(json_object_get(whole, "by_load"), json_object_get(later, "by_load"));
    t.options.simulate.serve.seconds = 3;
    assert_int_equal(mo_bench_tables(&t.session, &t.options, &document, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "other settings, \"seconds\" \"2\" in place of \"3\""));
    assert_null(document); /* nothing to write over what there is */
    t.options.simulate.serve.seconds = 2;
    change_experiment(&t, "commit"); /* which says nothing of the simulator */
    change_experiment(&t, "cpu");
    json_decref(piece_of(&t));
    change_experiment(&t, "simulator");
    assert_int_equal(mo_bench_tables(&t.session, &t.options, &document, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "whose simulator or policies differ (commit another)"));
    json_decref(later);
    json_decref(whole);
    close_table(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_shares_of_the_bound_and_tenants),
        cmocka_unit_test(a_table_has_a_row_a_policy),
        cmocka_unit_test(a_table_goes_on_policy_by_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
