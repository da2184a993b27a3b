/* SPDX-License-Identifier: Apache-2.0
 * test_loadgen.c - `moire bench loadgen` with a Python made of shell: jobs as they are written, rows,
 * verdicts, failures of moire and of a peer, and an end by the user.  tests/python/test_loadgen.py has the
 * real one. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/loadgen/loadgen.h"
#include "tests/unit/kernels/bench_place.h"

#define ROW(system, verdict)                                                                                 \
    "{\"system\": \"" system "\", \"verdict\": \"" verdict                                                   \
    "\", \"reasons\": [\"too few\"], \"loadgen\": \"6\"}"

/* Runs the command with that shell text as its Python: $J is the job file, $R the result. */
static json_t *run(struct bench_place *p, const char *script, const struct mo_loadgen_options *o,
                   int expected, const char *says) {
    char text[1024];
    moire_error err = {0};
    json_t *document = NULL;
    snprintf(text, sizeof text, "#!/bin/sh\nJ=$2 R=$3\n%s\n", script);
    bench_place_open(p, text);
    const int code = mo_loadgen(&p->session, o, &document, &err);
    if (code != expected) fail_msg("%d: %s", code, err.message);
    if (says && !strstr(err.message, says)) fail_msg("'%s' is not in '%s'", says, err.message);
    return document;
}

static void finish(struct bench_place *p, json_t *document) {
    json_decref(document);
    bench_place_close(p);
}

static struct mo_loadgen_options options(int n) {
    struct mo_loadgen_options o = {.model = "lenet",
                                   .scenario = "Offline",
                                   .output = "logs",
                                   .system = {{.family = "moire"}, {.family = "onnxruntime"}},
                                   .n_systems = n,
                                   .threads = 2,
                                   .batch = 1,
                                   .qps = 7.5};
    return o;
}

static void rows_are_what_the_process_left(void **state) {
    (void)state;
    struct bench_place p;
    const struct mo_loadgen_options o = options(2);
    json_t *d = run(
        &p,
        "grep -q '\"onnxruntime\"' $J && s=onnxruntime || s=moire\n"
        "printf '{\"system\": \"%s\", \"verdict\": \"VALID\", \"job\": ' $s >$R; cat $J >>$R; echo } >>$R",
        &o, MOIRE_OK, NULL);
    const json_t *results = json_object_get(d, "results");
    assert_int_equal(json_array_size(results), 2);
    const json_t *first = json_object_get(json_array_get(results, 0), "job");
    assert_string_equal(bench_place_text(first, "name"), "lenet");
    assert_string_equal(bench_place_text(first, "scenario"), "Offline");
    assert_string_equal(bench_place_text(first, "output"), "logs");
    assert_non_null(strstr(bench_place_text(first, "model"), "lenet"));
    assert_true(json_is_null(json_object_get(first, "server")));
    assert_float_equal(bench_place_number(first, "qps"), 7.5, 0);
    assert_int_equal((int)bench_place_number(first, "threads"), 2);
    const json_t *second = json_object_get(json_array_get(results, 1), "job");
    assert_string_equal(bench_place_text(second, "output"), "logs/onnxruntime");
    assert_true(json_is_true(json_object_get(d, "complete")));
    mo_loadgen_print(d);
    finish(&p, d);
}

static void a_verdict_that_is_not_valid_fails(void **state) {
    (void)state;
    struct bench_place p;
    const struct mo_loadgen_options o = options(1);
    json_t *d =
        run(&p, "echo '" ROW("moire", "INVALID") "' >$R", &o, MOIRE_EFAILED, "verdict is INVALID: too few");
    assert_int_equal(json_array_size(json_object_get(d, "results")), 1);
    mo_loadgen_print(d);
    finish(&p, d);
    const struct mo_loadgen_options both = options(2); /* a peer's verdict is its own */
    d = run(&p,
            "grep -q '\"onnxruntime\"' $J && echo '" ROW("onnxruntime", "INVALID") "' >$R || echo '" ROW(
                "moire", "VALID") "' >$R",
            &both, MOIRE_OK, NULL);
    assert_int_equal(json_array_size(json_object_get(d, "results")), 2);
    finish(&p, d);
}

static void failures_are_told(void **state) {
    (void)state;
    struct bench_place p;
    const struct mo_loadgen_options o = options(1), both = options(2);
    finish(&p, run(&p, "echo '{\"error\": \"a query failed\"}' >$R", &o, MOIRE_EFAILED, "a query failed"));
    finish(&p, run(&p, "echo '{\"error\": \"pip\", \"missing\": true}' >$R", &o, MOIRE_EIO, "pip"));
    finish(&p, run(&p, "exit 1", &o, MOIRE_EFAILED, "moire: its process ended without a result"));
    finish(&p, run(&p, "echo '{' >$R", &o, MOIRE_EFORMAT, ""));
    json_t *d = run(&p, "grep -q '\"onnxruntime\"' $J || echo '" ROW("moire", "VALID") "' >$R", &both,
                    MOIRE_OK, NULL);
    const json_t *out = json_array_get(json_object_get(d, "left_out"), 0);
    assert_string_equal(bench_place_text(out, "system"), "onnxruntime");
    assert_string_equal(bench_place_text(out, "why"), "onnxruntime: its process ended without a result");
    mo_loadgen_print(d);
    finish(&p, d);
}

static void without_python_it_says_so(void **state) {
    (void)state;
    struct bench_place p;
    moire_error err = {0};
    json_t *d = NULL;
    const struct mo_loadgen_options o = options(1);
    bench_place_open(&p, NULL);
    assert_int_equal(mo_loadgen(&p.session, &o, &d, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "make loadgen"));
    finish(&p, d);
}

static void the_user_may_end_it(void **state) {
    (void)state;
    struct bench_place p;
    const struct mo_loadgen_options o = options(1);
    json_t *d = run(&p, "kill -INT $PPID; exec sleep 100", &o, MOIRE_EINTERRUPTED, "interrupted");
    assert_true(json_is_false(json_object_get(d, "complete")));
    finish(&p, d);
}

static void a_server_s_model_is_no_file(void **state) {
    (void)state;
    struct bench_place p;
    struct mo_loadgen_options o = options(1);
    o.model = "nobody";
    o.server = "127.0.0.1:1";
    o.system[0].over = "http";
    json_t *d = run(
        &p,
        "printf '{\"system\": \"moire\", \"verdict\": \"VALID\", \"job\": ' >$R; cat $J >>$R; echo } >>$R",
        &o, MOIRE_OK, NULL);
    const json_t *job = json_object_get(json_array_get(json_object_get(d, "results"), 0), "job");
    assert_string_equal(bench_place_text(job, "model"), "nobody");
    assert_string_equal(bench_place_text(job, "server"), "127.0.0.1:1");
    assert_string_equal(bench_place_text(job, "over"), "http");
    finish(&p, d);
    o.server = NULL;
    finish(&p, run(&p, "exit 0", &o, MOIRE_EINVAL, "no model 'nobody'"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_what_the_process_left),
        cmocka_unit_test(a_verdict_that_is_not_valid_fails),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(without_python_it_says_so),
        cmocka_unit_test(the_user_may_end_it),
        cmocka_unit_test(a_server_s_model_is_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
