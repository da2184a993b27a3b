/* SPDX-License-Identifier: Apache-2.0
 * test_choices.c - from events to blocks, reasons, bins and versions; two policies in turns; how the page
 * says it. */
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
#include "bench/choice/choices.h"
#include "bench/choice/versus.h"
#include "bench/report/report_page.h"
#include "tests/unit/base/fault_sys.h"

#define EVIL "<b>\"&"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-6;
}

/* --- events ------------------------------------------------------------------------------------------- */
static const unsigned char two_of_four[] = {1, 3, 0, 2}, none_of_two[] = {0, 0};
static const int64_t ns[] = {100000, 2000000, 300000, 400000};
static const char *const label[] = {"a", "b", "c", EVIL};
static const struct mo_choice_model models[] = {
    {"tuned " EVIL, 4, two_of_four, ns, ns, label},
    {"plain", 2, none_of_two, ns, ns, NULL},
};

/* The locked ring is the third, as in an engine of two cores. */
static void decide(struct mo_events *e, int64_t time, uint64_t query, int tenant, int begin, int end,
                   double pressure, enum mo_cut cut) {
    mo_event_put(&e->ring[2], time, MO_LOG_DISPATCH, query, tenant, begin, end, 1);
    mo_event_put(&e->ring[2], time, MO_LOG_BASIS, query, tenant, (int64_t)(pressure * MO_EVENT_UNIT), cut,
                 500000);
}

/* Query 7 in two blocks of which the second runs version 2 of layer 1 and version 1 of layer 3; query 9 in
 * one, all in first versions; query 8 of the model without choices; query 5 ended before the run. */
static struct mo_events *history(const struct mo_env *env) {
    struct mo_events *e = mo_events_create(env, 3, 64);
    assert_non_null(e);
    decide(e, 50, 5, 0, 0, 4, 0.9, MO_CUT_MODEL);
    decide(e, 1000, 7, 0, 0, 1, 0.95, MO_CUT_BOUND);
    decide(e, 2000, 8, 1, 0, 2, 0.5, MO_CUT_MODEL);
    decide(e, 3000, 9, 0, 0, 4, 0.05, MO_CUT_MEET);
    decide(e, 4000, 7, 0, 1, 4, 1.0, MO_CUT_MODEL);
    mo_event_put(&e->ring[2], 4500, MO_LOG_PRESSURE, 0, -1, 1000000, 0, 0);
    decide(e, 4600, 11, 6, 0, 4, 0.1, MO_CUT_MODEL); /* a tenant that nobody described */
    decide(e, 4700, 12, 0, 2, 9, 0.1, MO_CUT_MODEL); /* layers that it does not have */
    mo_event_put(&e->ring[0], 4100, MO_LOG_VERSIONS, 7, 0, 1, 2 | 1 << 6, 3);
    mo_event_put(&e->ring[1], 60, MO_LOG_VERSIONS, 5, 0, 0, 1 << 3, 4);
    return e;
}

static void blocks_are_gathered_with_their_versions(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_events *e = history(&env);
    struct mo_choices c;
    assert_int_equal(mo_choices_gather(&env, e, 100, models, 2, &c), MOIRE_OK);
    assert_int_equal(c.n, 4);
    const struct mo_choice_block *first = &c.block[0], *second = &c.block[1], *last = &c.block[3];
    assert_true(first->query == 7 && first->begin == 0 && first->end == 1 && first->cut == MO_CUT_BOUND);
    assert_int_equal(first->ran[0], 0); /* its layer has one version */
    assert_true(second->query == 7 && second->begin == 1 && second->end == 4 && near(second->pressure, 1));
    assert_true(second->ran[0] == 0 && second->ran[1] == 1 && second->ran[2] == 1);
    assert_true(last->query == 9 && last->ran[0] == 2 && last->ran[1] == 0 && last->cut == MO_CUT_MEET);
    mo_choices_free(&c);
    mo_events_destroy(e);
}

static json_t *described(const struct mo_env *env) {
    struct mo_events *e = history(env);
    struct mo_choices c;
    assert_int_equal(mo_choices_gather(env, e, 100, models, 2, &c), MOIRE_OK);
    json_t *doc = mo_choices_json(&c, models, 2, 100, 2000000100, 1000000);
    mo_choices_free(&c);
    mo_events_destroy(e);
    assert_non_null(doc);
    return doc;
}

static json_int_t whole(const json_t *list, size_t i) {
    return json_integer_value(json_array_get(list, i));
}

static void bins_hold_layers_by_version(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    json_t *doc = described(&env);
    const json_t *bins = json_object_get(doc, "bins"), *low = json_array_get(bins, 0),
                 *high = json_array_get(bins, 9);
    assert_int_equal(json_array_size(bins), MO_CHOICE_BINS);
    assert_true(mo_choices_bin(0) == 0 && mo_choices_bin(0.1) == 1 && mo_choices_bin(1) == 9);
    assert_int_equal(json_integer_value(json_object_get(low, "blocks")), 1);
    assert_int_equal(whole(json_object_get(low, "layers"), 0), 2);
    assert_int_equal(json_integer_value(json_object_get(high, "blocks")),
                     1); /* the first of query 7 has no choice */
    assert_int_equal(whole(json_object_get(high, "layers"), 0), 0);
    assert_int_equal(whole(json_object_get(high, "layers"), 1), 1);
    assert_int_equal(whole(json_object_get(high, "layers"), 2), 1);
    assert_int_equal(json_array_size(json_object_get(doc, "blocks")), 2);
    json_decref(doc);
}

static void reasons_and_begins_are_counted(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    json_t *doc = described(&env);
    const json_t *tuned = json_array_get(json_object_get(doc, "tenants"), 0),
                 *cuts = json_object_get(tuned, "cuts"), *begins = json_object_get(tuned, "begins");
    assert_int_equal(json_integer_value(json_object_get(tuned, "blocks")), 3);
    assert_int_equal(json_integer_value(json_object_get(tuned, "choices")), 2);
    assert_int_equal(json_integer_value(json_object_get(cuts, "bound")), 1);
    assert_int_equal(json_integer_value(json_object_get(cuts, "meet")), 1);
    assert_int_equal(json_integer_value(json_object_get(cuts, "model")), 1);
    assert_null(json_object_get(cuts, "pivot"));
    assert_true(whole(begins, 0) == 2 && whole(begins, 1) == 1 && whole(begins, 2) == 0);
    assert_true(near(json_number_value(json_object_get(doc, "seconds")), 2));
    json_decref(doc);
}

/* Layer 1 of the model has three versions and layer 3 two; the fifth query comes back to the first's. */
static void changes_of_versions_are_counted_in_order_of_time(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_events *e = mo_events_create(&env, 3, 64);
    struct mo_choices c;
    assert_non_null(e);
    static const int ran[5][2] = {{0, 0}, {0, 1}, {2, 1}, {2, 1}, {0, 0}};
    for (int i = 0; i < 5; i++) { /* later queries have smaller numbers */
        decide(e, 1000 + i, (uint64_t)(20 - i), 0, 0, 4, 0.5, MO_CUT_MODEL);
        mo_event_put(&e->ring[0], 1000 + i, MO_LOG_VERSIONS, (uint64_t)(20 - i), 0, 0,
                     ran[i][0] << 3 | ran[i][1] << 9, 4);
    }
    assert_int_equal(mo_choices_gather(&env, e, 0, models, 2, &c), MOIRE_OK);
    assert_int_equal(c.n, 5);
    static const int changed[5] = {0, 1, 1, 0, 2};
    for (int i = 0; i < 5; i++) {
        const struct mo_choice_block *b = &c.block[4 - i];
        assert_int_equal(b->again, i ? 2 : 0);
        assert_int_equal(b->changed, changed[i]);
        assert_true(b->version[1] == ran[i][0] && b->version[3] == ran[i][1]);
    }
    json_t *doc = mo_choices_json(&c, models, 2, 0, 1000000000, 1000000);
    const json_t *tuned = json_array_get(json_object_get(doc, "tenants"), 0);
    assert_int_equal(json_integer_value(json_object_get(tuned, "again")), 8);
    assert_int_equal(json_integer_value(json_object_get(tuned, "changed")), 4);
    assert_true(whole(json_object_get(tuned, "ran"), 0) == 5 &&
                whole(json_object_get(tuned, "ran"), 1) == 3 && whole(json_object_get(tuned, "ran"), 2) == 2);
    json_decref(doc);
    mo_choices_free(&c);
    mo_events_destroy(e);
}

static int gather_once(void *ctx) {
    struct fault_sys *fault = ctx;
    struct mo_env plain = mo_env_default(), env = plain;
    struct mo_events *e = history(&plain);
    struct mo_choices c;
    env.sys = &fault->table;
    int code = mo_choices_gather(&env, e, 100, models, 2, &c);
    if (!code) mo_choices_free(&c);
    mo_events_destroy(e);
    return code;
}

static void without_memory_nothing_is_gathered(void **state) {
    (void)state;
    struct fault_sys fault;
    fault_sys_init(&fault);
    assert_true(fault_sys_sweep(&fault, gather_once, &fault, MOIRE_ENOMEM) >= 4);
}

/* A ring that is too small tells what it still has, and nothing wrong. */
static void a_ring_that_went_round_is_read(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_events *e = mo_events_create(&env, 3, 4);
    struct mo_choices c;
    assert_non_null(e);
    for (int i = 0; i < 101; i++)
        decide(e, 1000 + i, 100 + (uint64_t)i, 0, 0, 4, 0.5, MO_CUT_MODEL);
    assert_int_equal(mo_choices_gather(&env, e, 0, models, 2, &c), MOIRE_OK);
    assert_true(c.n >= 1 && c.n <= (int)(e->ring[2].mask + 1));
    for (int i = 0; i < c.n; i++)
        assert_true(c.block[i].query > 100 && c.block[i].ran[0] == 2);
    mo_choices_free(&c);
    mo_events_destroy(e);
}

/* --- in turns ----------------------------------------------------------------------------------------- */
static void turns_are_read_and_compared(void **state) {
    (void)state;
    struct mo_versus_turn a[3], b[3];
    json_t *report = json_pack("{s:{s:i, s:f}}", "scheduling", "accepted", 10, "kernel_core_s", 2.0);
    json_t *point = json_pack("{s:f, s:[{s:i, s:f}, {s:i, s:n}, {s:i, s:f}]}", "overall", 0.9, "tenants", "n",
                              3, "mean_ms", 1.0, "n", 0, "mean_ms", "n", 1, "mean_ms", exp(4));
    assert_true(mo_versus_read(point, report, &a[0]));
    assert_true(a[0].n == 4 && near(a[0].latency, 1) && near(a[0].core_s, 0.2) && near(a[0].within, 0.9));
    json_object_set_new(json_object_get(report, "scheduling"), "accepted", json_integer(0));
    assert_false(mo_versus_read(point, report, &a[0]));
    json_decref(report);
    json_decref(point);
    for (int i = 0; i < 3; i++) {
        b[i] = (struct mo_versus_turn){.n = 5, .within = 0.8, .latency = i, .core_s = 1 + i};
        a[i] = (struct mo_versus_turn){
            .n = 5, .within = 0.7 + 0.1 * i, .latency = i - log(2), .core_s = 2 + 2 * i};
    }
    json_t *v = mo_versus_json(a, b, 3);
    const json_t *within = json_object_get(v, "within_points"),
                 *latency = json_object_get(v, "latency_ratio");
    assert_int_equal(json_integer_value(json_object_get(v, "queries")), 30);
    assert_true(near(mo_json_number(within, "mean"), 0));
    /* differences -10, 0, 10: s = 10, t(2) = 4.303 */
    assert_true(near(mo_json_number(within, "high"), 4.303 * 10 / sqrt(3)));
    assert_true(near(mo_json_number(latency, "mean"), 0.5) && near(mo_json_number(latency, "low"), 0.5));
    assert_true(near(mo_json_number(json_object_get(v, "core_time_ratio"), "mean"), 2));
    json_decref(v);
    v = mo_versus_json(a, b, 1);
    assert_true(json_is_null(json_object_get(json_object_get(v, "within_points"), "low")));
    json_decref(v);
}

/* --- the page ----------------------------------------------------------------------------------------- */
static char *page_of(const json_t *document) {
    struct mo_page_view view;
    const struct mo_env env = mo_env_default();
    moire_error err;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(mo_page_view_open(&env, document, &view, &err), MOIRE_OK);
    mo_page_choices(out, &view);
    fclose(out);
    mo_page_view_close(&env, &view);
    return text;
}

static json_t *measure(double low, double mean, double high) {
    return json_pack("{s:f, s:f, s:f}", "mean", mean, "low", low, "high", high);
}

static json_t *document(const struct mo_env *env, json_t *within, json_t *latency) {
    json_t *doc =
        json_pack("{s:[{s:s, s:o}], s:{s:[{s:s, s:f}]}, s:[{s:s, s:[{s:s, s:i, s:[{s:i, s:s, s:f, s:f, "
                  "s:[f,f,f,f,f,f]}, "
                  "{s:n, s:s, s:f, s:f, s:[f]}]}]}], s:{s:s, s:s, s:f, s:i, s:f, s:i, s:o, s:o, s:o}}",
                  "results", "policy", "moire", "choices", described(env), "calibration", "tenants", "name",
                  "tuned " EVIL, "qos_ms", 40.0, "fronts", "tenant", "tuned " EVIL, "layers", "layer",
                  "conv:f32:n1:c256:h14:w14:o1024:k1x1:s1x1", "uses", 5, "points", "version", 0, "kernel",
                  EVIL, "parallelism", 6.0, "block_kib", 70.0, "us", 9.0, 9.1, 9.2, 9.3, 9.4, 9.5, "version",
                  "kernel", "other", "parallelism", 3.0, "block_kib", 7.0, "us", 10.0, "versus", "policy",
                  "moire", "against", EVIL, "load", 0.7, "pairs", 5, "seconds", 2.0, "queries", 500,
                  "within_points", within, "latency_ratio", latency, "core_time_ratio", measure(0.9, 1, 1.1));
    assert_non_null(doc);
    return doc;
}

static void expect(json_t *doc, const char *text) {
    char *page = page_of(doc);
    if (!strstr(page, text)) fail_msg("the page lacks \"%s\"", text);
    assert_null(strstr(page, "<b>\"&"));
    assert_null(strstr(page, "nan"));
    free(page);
    json_decref(doc);
}

static void the_page_says_what_was_gained_lost_or_neither(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    expect(document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1)),
           "no difference that can be told from noise");
    expect(document(&env, measure(1, 2, 3), measure(0.9, 1, 1.1)), "In this run moire gained.");
    expect(document(&env, measure(-1, 0, 1), measure(0.8, 0.9, 0.95)), "In this run moire gained.");
    expect(document(&env, measure(-3, -2, -1), measure(0.9, 1, 1.1)), "In this run moire lost.");
    expect(document(&env, measure(-1, 0, 1), measure(1.1, 1.2, 1.3)), "In this run moire lost.");
    expect(document(&env, measure(1, 2, 3), measure(1.1, 1.2, 1.3)), "lost by another");
    json_t *pinned = document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1));
    json_object_set_new(json_object_get(pinned, "versus"), "against", json_string("moire-no-versions"));
    expect(pinned, "In this run choosing among versions made no difference");
}

static void the_page_has_fronts_blocks_and_reasons(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    expect(document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1)), "1x1, 256 to 1024, 14x14");
    expect(document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1)), "one layer more would have exceeded");
    expect(document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1)),
           "1 of its 4 layers take longer than the bound");
    expect(document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1)), "none is a pivot");
    expect(document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1)),
           "Of 2 layers with a choice that had run before, 100.0 % ran in another version then.");
}

/* Of many layers and models those with most to choose among are shown, each once. */
static void those_with_most_versions_are_shown(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    json_t *doc = document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1)),
           *fronts = json_object_get(doc, "fronts"), *first = json_array_get(fronts, 0),
           *layers = json_object_get(first, "layers");
    for (int k = 0; k < 4;
         k++) { /* layer 0 and these; the third has most versions, the fourth as many as the others */
        json_t *more = json_deep_copy(json_array_get(layers, 0)), *points = json_object_get(more, "points");
        char signature[64];
        snprintf(signature, sizeof signature, "conv:f32:n1:c%d:h14:w14:o8:k3x3:s1x1", k + 1);
        json_object_set_new(more, "layer", json_string(signature));
        if (k == 2) json_array_append(points, json_array_get(points, 0));
        json_array_append_new(layers, more);
    }
    for (int k = 0; k < 3; k++) {
        json_t *more = json_deep_copy(first);
        json_object_set_new(more, "tenant", json_sprintf("another%d", k));
        if (k < 2) json_object_set_new(more, "layers", json_array());
        json_array_append_new(fronts, more);
    }
    char *page = page_of(doc);
    assert_non_null(strstr(page, "3x3, 3 to 8, 14x14"));
    assert_non_null(strstr(page, "1x1, 256 to 1024, 14x14")); /* the earlier of those that are alike */
    assert_null(strstr(page, "3x3, 1 to 8"));
    assert_non_null(strstr(page, "another2</b>: 5 kinds"));
    assert_null(strstr(page, "another0"));
    assert_non_null(strstr(page, "2 more of the models"));
    free(page);
    json_decref(doc);
}

static void without_choices_the_page_says_so_or_nothing(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    json_t *old = json_pack("{s:[{s:s}]}", "results", "policy", "moire");
    char *page = page_of(old);
    assert_string_equal(page, "");
    free(page);
    json_decref(old);
    json_t *doc = document(&env, measure(-1, 0, 1), measure(0.9, 1, 1.1));
    const json_t *choices = json_object_get(json_array_get(json_object_get(doc, "results"), 0), "choices");
    json_object_set_new(json_array_get(json_object_get(choices, "tenants"), 0), "choices", json_integer(0));
    expect(doc, "no model is tuned");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_gathered_with_their_versions),
        cmocka_unit_test(bins_hold_layers_by_version),
        cmocka_unit_test(reasons_and_begins_are_counted),
        cmocka_unit_test(changes_of_versions_are_counted_in_order_of_time),
        cmocka_unit_test(without_memory_nothing_is_gathered),
        cmocka_unit_test(a_ring_that_went_round_is_read),
        cmocka_unit_test(turns_are_read_and_compared),
        cmocka_unit_test(the_page_says_what_was_gained_lost_or_neither),
        cmocka_unit_test(the_page_has_fronts_blocks_and_reasons),
        cmocka_unit_test(those_with_most_versions_are_shown),
        cmocka_unit_test(without_choices_the_page_says_so_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
