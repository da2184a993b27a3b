/* SPDX-License-Identifier: Apache-2.0
 * test_latency.c - `moire bench latency` and `cold` with peers made of shell, and with a moire made of shell.
 * No times are asserted but those that the shell says. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "bench/alone/cold.h"
#include "bench/alone/latency.h"
#include "tests/unit/kernels/bench_place.h"

static const char *const lenet[] = {"lenet"};

/* --- latency -------------------------------------------------------------------------------------------- */
static void latency_keeps_what_peers_cannot_do(void **state) {
    (void)state;
    static const char *const families[] = {"mnn", "onnxruntime"};
    struct bench_place p;
    json_t *doc, *again, *row;
    moire_error err = {0};
    bench_place_open(
        &p, "#!/bin/sh\ncase $1 in *mnn*) echo error -12 MNN could not convert this model; exit;; esac\n"
            "echo ready\nwhile read w l; do case $w in quit) exit;; solo) echo solo 2 2000000 1000000;; "
            "esac; done\n");
    struct mo_bench_latency_options o = {
        .models = lenet,
        .n_models = 1,
        .threads = {1, 2},
        .n_threads = 2,
        .save = p.output,
        .spec = {.families = families, .n_families = 2, .seconds = 0.01, .slices = 2}};
    if (mo_bench_latency(&p.session, &o, &doc, &err)) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(json_object_get(doc, "results")), 2);
    row = json_array_get(json_object_get(doc, "results"), 1);
    assert_string_equal(bench_place_text(row, "model"), "lenet");
    assert_string_equal(bench_place_text(row, "system"), "onnxruntime");
    assert_string_equal(bench_place_text(row, "kind"), "peer");
    assert_string_equal(bench_place_text(row, "precision"), "fp32");
    assert_int_equal(bench_place_number(row, "threads"), 2);
    assert_float_equal(bench_place_number(row, "min_ms"), 1, 1e-9);
    assert_true(bench_place_number(row, "median_ms") >= 1);
    row = json_array_get(json_object_get(doc, "left_out"), 0);
    assert_string_equal(bench_place_text(row, "system"), "mnn");
    assert_non_null(strstr(bench_place_text(row, "why"), "could not convert"));
    mo_bench_latency_print(doc);
    o.resume = true;
    if (mo_bench_latency(&p.session, &o, &again, &err)) fail_msg("%s", err.message);
    bench_place_same(json_object_get(doc, "results"), json_object_get(again, "results"));
    json_decref(doc);
    json_decref(again);
    bench_place_close(&p);
}

/* What more threads gain is measured in rounds of its own: with a moire of shell whose best time in a slice
 * is 6, 5, 4, 4 ... ms on one thread and 2 on two, the shortest times say 2 and most rounds too. */
static void latency_says_what_more_threads_gain(void **state) {
    (void)state;
    struct bench_place p;
    char path[128];
    json_t *doc, *again, *row;
    moire_error err = {0};
    bench_place_open(&p, NULL);
    snprintf(path, sizeof path, "%s/moire", p.folder);
    bench_place_write(path, "#!/bin/sh\nt=6\ngrep -q '\"threads\": 2' \"$3\" && t=2\necho ready\n"
                            "while read w l; do case $w in quit) exit;; report) echo ok;; solo) "
                            "echo solo 2 9000000 ${t}000000; [ $t -gt 4 ] && t=$((t - 1));; esac; done\n");
    struct mo_bench_latency_options o = {.models = lenet,
                                         .n_models = 1,
                                         .threads = {1, 2},
                                         .n_threads = 2,
                                         .save = p.output,
                                         .spec = {.moire = true, .seconds = 0.02, .slices = 2}};
    if (mo_bench_latency(&p.session, &o, &doc, &err)) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(json_object_get(doc, "results")), 2);
    assert_int_equal(json_array_size(json_object_get(doc, "scaling")), 1);
    row = json_array_get(json_object_get(doc, "scaling"), 0);
    assert_string_equal(bench_place_text(row, "model"), "lenet");
    assert_int_equal(bench_place_number(row, "threads"), 2);
    assert_int_equal(bench_place_number(row, "from"), 1);
    assert_float_equal(bench_place_number(row, "gain"), 2, 1e-9);
    assert_float_equal(bench_place_number(row, "gain_median"), 2, 1e-9);
    mo_bench_latency_print(doc);
    o.resume = true;
    if (mo_bench_latency(&p.session, &o, &again, &err)) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(json_object_get(again, "scaling")), 1);
    json_decref(doc);
    json_decref(again);
    bench_place_close(&p);
}

/* --- cold start ----------------------------------------------------------------------------------------- */
static void cold_starts_keep_the_best_round(void **state) {
    (void)state;
    static const char *const models[] = {"lenet", "lenet"}, *const families[] = {"mnn", "onnxruntime"};
    struct bench_place p;
    json_t *doc, *row;
    moire_error err = {0};
    /* each round is a new process; from the third on it is slower */
    bench_place_open(&p, "#!/bin/sh\ncase $1 in *mnn*) exit 1;; esac\n"
                         "f=$(dirname $0)/rounds; echo >>$f; n=$(grep -c '' $f)\necho ready\n"
                         "while read w l; do case $w in quit) exit;; first) [ $n -lt 3 ] && "
                         "echo first $((9 - n))000000 2000000 || echo first 9000000 9000000;; esac; done\n");
    struct mo_bench_latency_options o = {.models = models,
                                         .n_models = 2,
                                         .threads = {1},
                                         .n_threads = 1,
                                         .spec = {.families = families, .n_families = 2}};
    if (mo_bench_cold(&p.session, &o, &doc, &err)) fail_msg("%s", err.message);
    assert_true(json_is_true(json_object_get(doc, "complete")));
    assert_int_equal(json_array_size(json_object_get(doc, "results")), 1);
    row = json_array_get(json_object_get(doc, "results"), 0);
    assert_string_equal(bench_place_text(row, "system"), "onnxruntime");
    assert_int_equal(bench_place_number(row, "rounds"), 5);
    assert_float_equal(bench_place_number(row, "load_ms"), 7, 1e-9); /* of the second */
    assert_float_equal(bench_place_number(row, "total_ms"), 9, 1e-9);
    assert_true(bench_place_number(row, "process_ms") > 0);
    row = json_array_get(json_object_get(doc, "left_out"), 0);
    assert_non_null(strstr(bench_place_text(row, "why"), "died"));
    mo_bench_cold_print(doc);
    json_decref(doc);
    bench_place_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency_keeps_what_peers_cannot_do),
        cmocka_unit_test(latency_says_what_more_threads_gain),
        cmocka_unit_test(cold_starts_keep_the_best_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
