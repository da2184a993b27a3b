/* SPDX-License-Identifier: Apache-2.0
 * test_beside.c - what versions are worth beside a neighbour: what turns chose is added up, the neighbour
 * keeps and changes its level, and text and page tell gains from losses. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/choice/beside.h"
#include "bench/choice/serve_neighbour.h"
#include "bench/report/report_page.h"
#include "runtime/sched/policy.h"
#include "tests/unit/bench/simulate_bed.h"

#define EVIL "<b>\"&"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-6;
}

/* --- turns -------------------------------------------------------------------------------------------- */
static void policies_are_known_less_their_choice(void **state) {
    (void)state;
    static const char *const policies[] = {"moire", "veltair"};
    for (size_t i = 0; i < 2; i++) {
        const char *without = mo_bench_without_choice(policies[i]);
        assert_non_null(mo_policy_find(policies[i]));
        assert_non_null(without);
        assert_non_null(mo_policy_find(without));
    }
    assert_null(mo_bench_without_choice("fcfs"));
}

static void what_turns_chose_is_added_up(void **state) {
    (void)state;
    struct mo_beside_choices sum = {.blocks = 0};
    json_t *turn = json_pack("{s:[{s:[i,i,i], s:i, s:i}, {s:[i], s:i, s:i}], s:[{s:i, s:[i,i,i]}], "
                             "s:[[f,i,i,i,i,f], [f,i,i,i,i,f]]}",
                             "tenants", "ran", 2, 1, 1, "again", 3, "changed", 2, "ran", 4, "again", 1,
                             "changed", 0, "bins", "blocks", 1, "layers", 6, 1, 1, "blocks", 0.1, 0, 1, 0, 4,
                             0.05, 0.2, 0, 1, 0, 4, 0.15);
    assert_non_null(turn);
    mo_beside_add(&sum, NULL);
    mo_beside_add(&sum, turn);
    mo_beside_add(&sum, turn);
    json_decref(turn);
    assert_true(sum.ran[0] == 12 && sum.ran[1] == 2 && sum.ran[2] == 2 && sum.ran[3] == 0);
    assert_true(sum.again == 8 && sum.changed == 4);
    assert_true(sum.blocks == 4 && near(sum.pressure, 0.4));
    assert_true(sum.bin[0][0] == 12 && sum.bin[0][1] == 2 && sum.bin_blocks[0] == 2 &&
                sum.bin_blocks[1] == 0);
    json_t *out = mo_beside_json(&sum);
    assert_true(near(mo_json_number(out, "pressure"), 0.1));
    assert_int_equal(json_integer_value(json_array_get(json_object_get(out, "layers"), 1)), 2);
    json_decref(out);
    out = mo_beside_json(&(struct mo_beside_choices){.blocks = 0});
    assert_true(json_is_null(json_object_get(out, "pressure")));
    json_decref(out);
}

/* It moves bytes at a level, also while it changes, and none asleep. */
static void a_neighbour_keeps_and_changes_its_level(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_bench_neighbour *b;
    moire_error err;
    static const int levels[] = {0, 5};
    assert_int_equal(mo_bench_neighbour_open(&env, MO_MAX_CORES, &b, &err), MOIRE_OK);
    assert_int_equal(mo_bench_neighbour_change(b, levels, 2, &err), MOIRE_OK);
    mo_bench_neighbour_keep(b, 3);
    double moved = 0;
    for (int k = 0; k < 100 && !(moved > 0); k++) { /* on a busy machine its threads may have to wait */
        json_t *about = mo_bench_neighbour_about(b, levels, 2);
        const json_t *rows = json_object_get(about, "levels");
        assert_true(json_is_true(json_object_get(about, "same_core")));
        assert_true(mo_json_number(about, "threads") >= 1);
        assert_true(mo_json_number(json_array_get(rows, 1), "victim_slowdown") > 0);
        moved = mo_json_number(json_array_get(rows, 1), "gbs");
        json_decref(about);
    }
    assert_true(moved > 0);
    assert_int_equal(mo_bench_neighbour_change(b, levels, 2, &err), MOIRE_OK);
    mo_bench_neighbour_close(b); /* while it changes */
    mo_bench_neighbour_close(NULL);
}

/* --- what is told ------------------------------------------------------------------------------------- */
static json_t *measure(double low, double mean, double high) {
    return json_pack("{s:f, s:f, s:f}", "mean", mean, "low", low, "high", high);
}

/* A measurement under one condition; layers: in the first version and in another. */
static json_t *condition(int level, bool changing, json_t *latency, int first, int other) {
    json_t *c =
        json_pack("{s:i, s:b, s:i, s:o, s:o, s:o, s:{s:[i,i,i,i,i], s:i, s:i, s:i, s:f, s:[{s:f, s:f, "
                  "s:i, s:[i,i,i,i,i]}]}}",
                  "level", level, "changing", (int)changing, "pairs", 5, "within_points", measure(-1, 0, 1),
                  "latency_ratio", latency, "core_time_ratio", measure(0.9, 1, 1.1), "choices", "layers",
                  first, other, 0, 0, 0, "again", 50, "changed", 5, "blocks", 9, "pressure", 0.25, "bins",
                  "from", 0.2, "to", 0.3, "blocks", 9, "layers", first, other, 0, 0, 0);
    assert_non_null(c);
    return c;
}

static json_t *beside_a_neighbour(int first, int other) {
    json_t *doc =
        json_pack("{s:[], s:{s:i, s:b, s:[{s:i, s:f, s:f}], s:[{s:s, s:s, s:f, s:f, s:[o, o, o]}]}}",
                  "results", "neighbour", "threads", 1, "same_core", 1, "levels", "level", 3, "gbs", 7.5,
                  "victim_slowdown", 1.25, "compared", "policy", "moire", "against", EVIL, "load", 0.7,
                  "seconds", 2.0, "conditions", condition(0, false, measure(0.9, 1, 1.1), first, other),
                  condition(3, false, measure(0.8, 0.9, 0.95), first, other),
                  condition(0, true, measure(1.1, 1.2, 1.3), first, other));
    assert_non_null(doc);
    return doc;
}

static char *text_of(void (*print)(FILE *out, const json_t *document), json_t *doc) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    print(out, doc);
    fclose(out);
    json_decref(doc);
    return text;
}

static void page_beside(FILE *out, const json_t *doc) {
    mo_page_neighbour(out, &(struct mo_page_view){.document = doc});
}

static void a_neighbour_is_told_with_gains_and_losses(void **state) {
    (void)state;
    char *text = text_of(mo_text_neighbour, beside_a_neighbour(75, 25));
    static const char *const says[] = {
        "beside a neighbour (1 thread on the same cores)",
        "level 3         7.50      1.25      0.25      25.0      10.0",
        "-10.0 (-20.0 to -5.0) gain",
        "changing           -         -",
        "+20.0 (+10.0 to +30.0) loss",
        "0.2 to 0.3           300   75.0  25.0   0.0",
    };
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(text, says[i])) fail_msg("\"%s\" is not in\n%s", says[i], text);
    assert_null(strstr(text, "versions to choose among"));
    free(text);
    text = text_of(page_beside, beside_a_neighbour(75, 25));
    assert_non_null(strstr(text, "<td>-10.0 (-20.0 to -5.0) gain</td>"));
    assert_non_null(strstr(text, "Versions of layers by pressure"));
    assert_null(strstr(text, EVIL));
    free(text);
    text = text_of(mo_text_neighbour, beside_a_neighbour(0, 0));
    assert_non_null(strstr(text, "no layer has versions to choose among"));
    free(text);
    text = text_of(mo_text_neighbour, json_pack("{s:n}", "neighbour"));
    assert_string_equal(text, "");
    free(text);
}

/* --- a comparison that fails -------------------------------------------------------------------------- */
static int no_thread(void *self, struct mo_thread *thread, void *(*run)(void *), void *arg) {
    (void)self;
    (void)thread;
    (void)run;
    (void)arg;
    return -EAGAIN;
}

static void a_comparison_that_fails_is_told_in_the_document(void **state) {
    (void)state;
    struct simulate_bed p;
    struct mo_bench_session session;
    char *argv[] = {"moire", "bench"}, calibration[128], scenario[256];
    json_t *doc = NULL;
    moire_error err = {0};
    simulate_bed_open(&p, ONE_CORE, ONE_TENANT);
    snprintf(
        scenario, sizeof scenario,
        "{\"name\": \"s\", \"qos\": {\"ms\": 4}, \"tenants\": [{\"model\": \"%s/a.csv\", \"name\": \"a\"}]}",
        p.folder);
    simulate_bed_put(&p, "s.json", scenario);
    simulate_bed_put(&p, "m.json",
                     "{\"calibration\": {\"tenants\": [{\"name\": \"a\", \"qos_ms\": 4, \"solo_ms\": 1}]}}");
    snprintf(calibration, sizeof calibration, "%s", p.machine);
    struct mo_sys sys = *p.env.sys;
    sys.thread_start = no_thread;
    p.env.sys = &sys;
    assert_int_equal(mo_bench_session_open(&p.env, 2, argv, &session, NULL), MOIRE_OK);
    session.quiet = true;
    const struct mo_bench_serve_options o = {.scenario = p.scenario,
                                             .calibration = calibration,
                                             .seeds = {1},
                                             .n_seeds = 1,
                                             .neighbour = {1},
                                             .n_neighbour = 1,
                                             .pairs = 1};
    if (mo_bench_serve(&session, &o, &doc, &err)) fail_msg("%s", err.message);
    const json_t *why = json_array_get(json_object_get(doc, "left_out"), 0);
    assert_true(json_is_null(json_object_get(doc, "neighbour")));
    assert_string_equal(mo_json_text(why, "system"), "comparison beside a neighbour");
    assert_string_not_equal(mo_json_text(why, "why"), "");
    json_decref(doc);
    mo_bench_session_close(&session);
    simulate_bed_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_are_known_less_their_choice),
        cmocka_unit_test(what_turns_chose_is_added_up),
        cmocka_unit_test(a_neighbour_keeps_and_changes_its_level),
        cmocka_unit_test(a_neighbour_is_told_with_gains_and_losses),
        cmocka_unit_test(a_comparison_that_fails_is_told_in_the_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
