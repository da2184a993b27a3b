/* SPDX-License-Identifier: Apache-2.0
 * test_report_parts.c - what reports are made of: short names, colours, seeds put together, the headline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/load/session.h"
#include "bench/report/headline.h"
#include "bench/report/series.h"
#include "bench/report/short_names.h"
#include "runtime/planner/planner.h"
#include "runtime/sched/policy.h"

/* --- names -------------------------------------------------------------------------------------------- */
static void names_are_short_and_distinct(void **state) {
    (void)state;
    static const char *const names[] = {"resnet50",
                                        "/home/user/models/v1/detector.onnx",
                                        "/home/user/models/v2/detector.onnx",
                                        "/home/user/models/reader.onnx",
                                        "a-model-whose-name-somebody-made-very-long-first.onnx",
                                        "a-model-whose-name-somebody-made-very-long-fast.onnx",
                                        "dir/a-model-whose-middle-one-is-very-long-indeed-tail",
                                        "dir/a-model-whose-middle-two-is-very-long-indeed-tail",
                                        ""};
    enum { N = sizeof names / sizeof *names };
    char shown[N][MO_SHORT_NAME];
    mo_short_names(names, N, shown);
    assert_string_equal(shown[0], "resnet50");
    assert_string_equal(shown[1], "v1/detector");
    assert_string_equal(shown[2], "v2/detector");
    assert_string_equal(shown[3], "reader");
    assert_string_equal(shown[4], "a-model-whose-nam\xe2\x80\xa6y-long-first");
    assert_string_equal(shown[8], "");
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(shown[i], shown[k]);
}

static void names_are_cut_between_characters(void **state) {
    (void)state;
    char name[61] = "", shown[1][MO_SHORT_NAME];
    const char *const one = name;
    for (int i = 0; i < 60; i++)
        name[i] = i % 2 ? '\xa4' : '\xc3';
    for (int lead = 0; lead < 2; lead++) {
        if (lead) name[0] = 'x', memmove(name + 1, name + 2, strlen(name + 2) + 1);
        mo_short_names(&one, 1, shown);
        assert_true(strlen(shown[0]) < MO_SHORT_NAME);
        json_t *text = json_string(shown[0]); /* takes only valid UTF-8 */
        assert_non_null(text);
        json_decref(text);
    }
}

static void a_document_goes_by_short_names(void **state) {
    (void)state;
    json_t *doc =
        json_pack("{s:{s:[{s:s},{s:s}], s:[s,s]}, s:[{s:s, s:[{s:[{s:s}]}]}], s:s}", "calibration", "tenants",
                  "name", "/m/v1/net.onnx", "name", "/m/v2/net.onnx", "why", "/m/v2/net.onnx was disturbed",
                  "/m/v2/net.onnxes", "results", "name", "moire/moire", "loads", "tenants", "name",
                  "/m/v1/net.onnx", "about", "/m/v1/net.onnx");
    json_t *shown = mo_short_document(doc), *calibration = json_object_get(shown, "calibration");
    const json_t *second = json_array_get(json_object_get(calibration, "tenants"), 1);
    assert_string_equal(mo_json_text(second, "name"), "v2/net");
    assert_string_equal(mo_json_text(second, "given_name"), "/m/v2/net.onnx");
    const json_t *why = json_object_get(calibration, "why");
    assert_string_equal(json_string_value(json_array_get(why, 0)), "v2/net was disturbed");
    assert_string_equal(json_string_value(json_array_get(why, 1)), "/m/v2/net.onnxes");
    const json_t *row = json_array_get(json_object_get(shown, "results"), 0);
    const json_t *load = json_array_get(json_object_get(row, "loads"), 0);
    assert_string_equal(mo_json_text(json_array_get(json_object_get(load, "tenants"), 0), "name"), "v1/net");
    assert_string_equal(mo_json_text(row, "name"), "moire/moire");
    assert_string_equal(mo_json_text(shown, "about"), "/m/v1/net.onnx"); /* the scenario's own words stay */
    json_decref(shown);
    json_decref(doc);
}

/* --- colours ------------------------------------------------------------------------------------------ */
static bool alike(const char *a, const char *b) {
    struct mo_series x = mo_series_of(a), y = mo_series_of(b);
    return !strcmp(x.colour, y.colour) && x.dashed == y.dashed;
}

static void no_two_known_systems_look_alike(void **state) {
    (void)state;
    const char *known[64];
    int n = 0;
    for (const struct mo_policy *const *p = mo_policies(); *p; p++)
        known[n++] = (*p)->name;
    int n_peers;
    const struct mo_bench_system *peers = mo_bench_peers(&n_peers);
    for (int i = 0; i < n_peers; i++)
        known[n++] = peers[i].name;
    known[n++] = "bound";
    known[n++] = "offline";
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (alike(known[i], known[k])) fail_msg("%s and %s look alike", known[i], known[k]);
}

static void a_system_looks_the_same_everywhere(void **state) {
    (void)state;
    assert_true(alike("moire/fcfs", "fcfs"));
    assert_true(alike("somebody/else", "somebody/else"));
    assert_false(mo_series_of("moire/fcfs").dashed);
    assert_true(mo_series_of("ort-fcfs-all").dashed);
    assert_true(mo_series_is_limit("moire/bound") && mo_series_is_limit("offline"));
    assert_false(mo_series_is_limit("moire/moire"));
    assert_true(mo_series_has_latency("moire/offline") && !mo_series_has_latency("moire/bound"));
}

static void no_two_planners_look_alike(void **state) {
    (void)state;
    for (const struct mo_planner *const *p = mo_planners(); *p; p++)
        for (const struct mo_planner *const *q = mo_planners(); q != p; q++)
            if (alike((*p)->name, (*q)->name)) fail_msg("%s and %s look alike", (*p)->name, (*q)->name);
}

/* --- documents ---------------------------------------------------------------------------------------- */
/* One run: tenant a with so many queries and so many in time, tenant b with ten, all in time. */
static json_t *run(double load, int n, int met, int shed) {
    double share = n ? (double)met / n : 0;
    json_t *a =
        json_pack("{s:s, s:i, s:o, s:f, s:f, s:f, s:i, s:i, s:i, s:[[f,f],[f,f]]}", "name", "a", "n", n,
                  "within_qos", n ? json_real(share) : json_null(), "p50_ms", 2.0, "p95_ms", 8.0, "p99_ms",
                  9.0, "shed", shed, "failed", 0, "unfinished", 1, "quantiles", 50.0, 2.0, 100.0, 10.0);
    json_t *b = json_pack("{s:s, s:i, s:f, s:i, s:i, s:i, s:[]}", "name", "b", "n", 10, "within_qos", 1.0,
                          "shed", 0, "failed", 0, "unfinished", 0, "quantiles");
    return json_pack("{s:f, s:f, s:f, s:f, s:i, s:b, s:[o,o]}", "load", load, "qps", 10.0, "overall",
                     (met + 10.0) / (n + 10.0), "worst_tenant", n ? share : 1.0, "n", n + 10, "stopped_early",
                     0, "tenants", a, b);
}

static json_t *of_system(const char *system, const char *name, double every, json_t *loads) {
    return json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o}", "system", system, "name", name, "about", "x",
                     "seed", 1, "max_load_overall", every < 0 ? json_null() : json_real(every + 0.1),
                     "max_load_every_tenant", every < 0 ? json_null() : json_real(every), "loads", loads);
}

static json_t *made(double goal, json_t *results) {
    return json_pack("{s:s, s:f, s:f, s:{s:[{s:s, s:f},{s:s, s:f}]}, s:o, s:b}", "scenario", "s", "goal",
                     goal, "seconds", 5.0, "calibration", "tenants", "name", "a", "qos_ms", 4.0, "name", "b",
                     "qos_ms", 4.0, "results", results, "complete", 1);
}

static void seeds_are_one_row(void **state) {
    (void)state;
    json_t *doc = made(
        0, json_pack("[o,o,o]", of_system("moire", "moire/moire", -1, json_pack("[o]", run(0.5, 30, 30, 0))),
                     of_system("moire", "moire/moire", -1, json_pack("[o]", run(0.5, 10, 2, 4))),
                     of_system("moire", "moire/fcfs", -1, json_pack("[o]", run(0.5, 10, 2, 4)))));
    static struct mo_merged_load at;
    assert_int_equal(mo_merge_load(doc, "moire/moire", 0.5, &at), 2);
    assert_int_equal(at.n_tenants, 2);
    const struct mo_merged *a = &at.tenants[0];
    assert_true(a->n == 40 && a->met == 32 && a->shed == 4 && a->unanswered == 2);
    assert_true(mo_merged_share(a) == 0.8 && a->least == 0.2 && a->most == 1);
    assert_true(a->p50 == 2 && a->p99 == 9 && a->wait_p50 == -1);
    assert_true(at.tenants[1].p50 == -1);                      /* no quantiles, no latency */
    assert_true(a->answered_s > 3.39 && a->answered_s < 3.41); /* (29 + 5) in 2 x 5 s */
    assert_ptr_equal(mo_merged_worst(&at), a);
    assert_true(at.all.n == 60 && at.all.met == 52);
    /* half of 30 and half of the 6 that were not shed, of 40 in all */
    assert_true(mo_merged_within(doc, "moire/moire", 0.5, "a", 2.0) == 18.0 / 40);
    assert_int_equal(mo_merge_load(doc, "moire/moire", 0.6, &at), 0);
    static struct mo_curve curves[MO_CURVES];
    assert_int_equal(mo_doc_curves(doc, curves), 2);
    assert_true(curves[0].n == 1 && curves[0].seeds[0] == 2 && curves[0].worst[0] == 0.8);
    assert_true(curves[0].worst_range[0] == 0.2 && curves[0].worst_range[1] == 1);
    /* one seed: by the number of its queries, 2 of 10 */
    assert_true(curves[1].worst_range[0] > 0.05 && curves[1].worst_range[0] < 0.06);
    assert_true(curves[1].worst_range[1] > 0.50 && curves[1].worst_range[1] < 0.52);
    json_decref(doc);
}

static void who_fell_behind_is_counted(void **state) {
    (void)state;
    json_t *behind = run(0.5, 30, 30, 0), *kept = run(0.5, 10, 9, 0);
    json_object_set_new(behind, "keeps_up", json_false());
    json_object_set_new(behind, "backlog", json_pack("{s:i}", "queries", 7));
    json_object_set_new(kept, "keeps_up", json_true());
    json_object_set_new(kept, "backlog", json_pack("{s:i}", "queries", 1));
    json_t *doc = made(0, json_pack("[o,o]", of_system("moire", "moire/moire", -1, json_pack("[o]", behind)),
                                    of_system("moire", "moire/moire", -1, json_pack("[o]", kept))));
    static struct mo_merged_load at;
    assert_int_equal(mo_merge_load(doc, "moire/moire", 0.5, &at), 2);
    assert_int_equal(at.behind, 1);
    assert_true(at.overdue == 7);
    json_decref(doc);
}

static void a_tenant_without_queries_is_not_the_worst(void **state) {
    (void)state;
    json_t *doc =
        made(0, json_pack("[o]", of_system("moire", "moire/moire", -1, json_pack("[o]", run(0.5, 0, 0, 0)))));
    static struct mo_merged_load at;
    assert_int_equal(mo_merge_load(doc, "moire/moire", 0.5, &at), 1);
    assert_true(mo_merged_share(&at.tenants[0]) == -1);
    assert_string_equal(mo_merged_worst(&at)->name, "b");
    json_decref(doc);
}

/* --- the headline ------------------------------------------------------------------------------------- */
static int headline_of(json_t *doc, char (*lines)[MO_HEADLINE]) {
    static struct mo_curve curves[MO_CURVES];
    int n = mo_headline(doc, curves, mo_doc_curves(doc, curves), lines);
    json_decref(doc);
    return n;
}

static void a_search_names_the_loads(void **state) {
    (void)state;
    char lines[MO_HEADLINES][MO_HEADLINE];
    json_t *high = json_pack("[o,o]", run(0.65, 20, 20, 0), run(0.9, 20, 2, 0));
    json_t *low = json_pack("[o,o]", run(0.1, 20, 20, 0), run(0.5, 20, 2, 0));
    json_t *doc =
        made(0.95, json_pack("[o,o,o,o,o]", of_system("moire", "moire/fcfs", 0.4, json_incref(high)),
                             of_system("moire", "moire/moire", 0.65, high),
                             of_system("moire", "moire/bound", 0.8, json_pack("[o]", run(1.2, 20, 2, 0))),
                             of_system("onnxruntime", "ort-fcfs-all", 0, json_incref(low)),
                             of_system("onnxruntime", "ort-core-per-query", 0.1, low)));
    assert_int_equal(headline_of(doc, lines), 3);
    assert_string_equal(lines[0], "moire keeps every tenant at 95 % up to load 0.65; best of the peers "
                                  "(ort-core-per-query) up to load 0.10.");
    assert_string_equal(lines[1],
                        "Of all queries together it keeps 95 % in time up to load 0.75; best of the peers "
                        "(ort-core-per-query) up to load 0.20.");
    assert_string_equal(lines[2], "No scheduler whatsoever can keep every tenant at 95 % beyond load 0.80.");
}

static void a_search_without_peers_names_the_next_policy(void **state) {
    (void)state;
    char lines[MO_HEADLINES][MO_HEADLINE];
    json_t *doc = made(
        0.9, json_pack("[o,o,o]", of_system("moire", "moire/moire", 0, json_pack("[o]", run(0.1, 20, 2, 0))),
                       of_system("moire", "moire/fcfs", 0.6, json_pack("[o]", run(0.6, 20, 20, 0))),
                       of_system("moire", "moire/fcfs", 0.4, json_pack("[o]", run(0.6, 20, 20, 0)))));
    assert_int_equal(headline_of(doc, lines), 2);
    assert_string_equal(
        lines[0], "moire keeps every tenant at 90 % at no load that was tried; best of the other policies "
                  "(moire/fcfs) up to load 0.50 (0.40 to 0.60 by seed).");
}

static void given_loads_name_the_shares(void **state) {
    (void)state;
    char lines[MO_HEADLINES][MO_HEADLINE];
    json_t *doc = made(
        0, json_pack("[o,o]",
                     of_system("moire", "moire/moire", -1,
                               json_pack("[o,o]", run(0.3, 30, 30, 0), run(0.7, 30, 15, 0))),
                     of_system("openvino", "openvino-latency", -1, json_pack("[o]", run(0.7, 30, 0, 0)))));
    json_object_set_new(doc, "complete", json_false());
    assert_int_equal(headline_of(doc, lines), 3);
    assert_string_equal(
        lines[0], "At load 0.70 moire answers 62.5 % of all queries in time (best of the peers: 25.0 %, "
                  "openvino-latency), and 50.0 % of those of its worst tenant (the peers none).");
    assert_string_equal(
        lines[1], "At load 0.30 moire answers 100.0 % of all queries in time, and 100.0 % of those of its "
                  "worst tenant.");
    assert_non_null(strstr(lines[2], "cut short"));
}

static void one_tenant_is_not_called_every(void **state) {
    (void)state;
    char lines[MO_HEADLINES][MO_HEADLINE];
    json_t *doc = made(
        0.9, json_pack("[o]", of_system("moire", "moire/moire", 0.4, json_pack("[o]", run(0.4, 20, 20, 0)))));
    assert_false(mo_doc_one_tenant(doc));
    json_array_remove(json_object_get(json_object_get(doc, "calibration"), "tenants"), 1);
    assert_int_equal(headline_of(doc, lines), 1);
    assert_string_equal(lines[0], "moire keeps 90 % in time up to load 0.40, the highest tried.");
}

static void loads_that_rest_on_few_queries_say_so(void **state) {
    (void)state;
    char lines[MO_HEADLINES][MO_HEADLINE];
    json_t *doc = made(
        0.9, json_pack("[o]", of_system("moire", "moire/moire", 0.4, json_pack("[o]", run(0.4, 80, 80, 0)))));
    json_t *result = json_array_get(json_object_get(doc, "results"), 0);
    json_t *load = json_array_get(json_object_get(result, "loads"), 0);
    json_t *b = json_array_get(json_object_get(load, "tenants"), 1); /* ten queries */
    assert_int_equal(mo_doc_few(doc, lines, MO_HEADLINES), 0);       /* an old result without intervals */
    json_object_set_new(b, "within_interval", json_pack("[f,f]", 0.722, 1.0));
    assert_int_equal(mo_doc_few(doc, lines, 0), 0);
    assert_int_equal(mo_doc_few(doc, lines, MO_HEADLINES), 1);
    assert_string_equal(
        lines[0], "moire/moire at load 0.40: b had 10 queries, so its share may be 72 to 100 %; a longer "
                  "--seconds tells more.");
    assert_string_equal(mo_doc_load_one(doc), "all cores busy at the fastest system's speed");
    json_object_set_new(result, "rated", json_true());
    assert_string_equal(mo_doc_load_one(doc), "the scenario's own rates");
    json_decref(doc);
}

static void joules_are_told_with_their_basis(void **state) {
    (void)state;
    char lines[MO_HEADLINES][MO_HEADLINE];
    json_t *list =
        json_pack("[o,o]", of_system("moire", "moire/moire", -1, json_pack("[o]", run(0.4, 80, 80, 0))),
                  of_system("moire", "moire/fcfs", -1, json_pack("[o]", run(0.4, 80, 80, 0))));
    json_t *doc = made(0, list);
    assert_int_equal(mo_doc_energy(doc, lines, MO_HEADLINES), 0); /* an old result, or a peer's */
    for (size_t i = 0; i < 2; i++)
        json_object_set_new(json_array_get(list, i), "energy",
                            json_pack("{s:f, s:f, s:f, s:f, s:f, s:s}", "joules", 24.0, "seconds", 3.0,
                                      "watts", 8.0, "joules_query", 0.125, "load", 0.4, "basis",
                                      i ? "modelled" : "measured"));
    assert_int_equal(mo_doc_energy(doc, lines, MO_HEADLINES), 2);
    assert_string_equal(lines[0],
                        "moire/moire: 24.00 J measured in 3.0 s at load 0.40: 8.00 W, 0.125 J a query.");
    assert_string_equal(
        lines[1], "moire/fcfs: 24.00 J modelled in 3.0 s at load 0.40: 8.00 W, 0.125 J a query. Modelled "
                  "joules rest on assumed watts, which `moire devices --power` names.");
    assert_int_equal(mo_doc_energy(doc, lines, 0), 0);
    json_decref(doc);
}

static void a_machine_that_stood_still_is_told(void **state) {
    (void)state;
    char lines[MO_HEADLINES][MO_HEADLINE];
    json_t *list =
        json_pack("[o,o,o]", of_system("moire", "moire/moire", -1, json_pack("[o]", run(0.4, 80, 80, 0))),
                  of_system("moire", "moire/moire", -1, json_pack("[o]", run(0.4, 80, 80, 0))),
                  of_system("moire", "moire/fcfs", -1, json_pack("[o]", run(0.4, 80, 80, 0))));
    json_t *doc = made(0, list);
    assert_int_equal(mo_doc_stalls(doc, lines, MO_HEADLINES), 0); /* an old result knows of none */
    for (size_t i = 0; i < 3; i++)
        json_object_set_new(json_array_get(list, i), "scheduling",
                            json_pack("{s:i, s:f, s:i, s:f}", "stalls", i < 2 ? 3 : 0, "stall_ms", 41.0,
                                      "stall_sheds", 2, "pace_max", i == 1 ? 1.8 : 1.2));
    assert_int_equal(mo_doc_stalls(doc, lines, MO_HEADLINES), 1);
    assert_string_equal(
        lines[0], "moire/moire: 6 blocks were late by 82 ms in all, as cores stood still or memory was "
                  "short, and 4 queries were shed meanwhile; at worst blocks took 1.8 times their time.");
    assert_int_equal(mo_doc_stalls(doc, lines, 0), 0);
    json_decref(doc);
}

static void the_json_begins_with_it(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    json_t *doc = made(
        0, json_pack("[o]", of_system("moire", "moire/moire", -1, json_pack("[o]", run(0.3, 30, 30, 0)))));
    json_t *shown = mo_headline_first(&env, doc);
    assert_string_equal(json_object_iter_key(json_object_iter(shown)), "headline");
    assert_int_equal(json_array_size(json_object_get(shown, "headline")), 1);
    assert_int_equal(json_object_size(shown), json_object_size(doc) + 1);
    json_t *again = mo_headline_first(&env, shown); /* of a document that has one */
    assert_true(json_equal(again, shown));
    json_decref(again);
    json_decref(shown);
    json_decref(doc);
}

static void nothing_is_said_of_nothing(void **state) {
    (void)state;
    char lines[MO_HEADLINES][MO_HEADLINE];
    assert_int_equal(headline_of(json_pack("{s:[]}", "results"), lines), 1);
    assert_string_equal(lines[0], "Nothing was measured.");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_short_and_distinct),
        cmocka_unit_test(names_are_cut_between_characters),
        cmocka_unit_test(a_document_goes_by_short_names),
        cmocka_unit_test(no_two_known_systems_look_alike),
        cmocka_unit_test(a_system_looks_the_same_everywhere),
        cmocka_unit_test(no_two_planners_look_alike),
        cmocka_unit_test(seeds_are_one_row),
        cmocka_unit_test(who_fell_behind_is_counted),
        cmocka_unit_test(a_tenant_without_queries_is_not_the_worst),
        cmocka_unit_test(a_search_names_the_loads),
        cmocka_unit_test(a_search_without_peers_names_the_next_policy),
        cmocka_unit_test(given_loads_name_the_shares),
        cmocka_unit_test(one_tenant_is_not_called_every),
        cmocka_unit_test(loads_that_rest_on_few_queries_say_so),
        cmocka_unit_test(joules_are_told_with_their_basis),
        cmocka_unit_test(a_machine_that_stood_still_is_told),
        cmocka_unit_test(the_json_begins_with_it),
        cmocka_unit_test(nothing_is_said_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
