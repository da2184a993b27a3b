/* SPDX-License-Identifier: Apache-2.0
 * test_targets.c - targets from the solo times of a peer that is a shell script, whose times are made up:
 * what they are multiples of, and what the result says of trust.  The machine may be busy while the test
 * runs, which the result then says too; the test asks only for sentences on the peer. */
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
#include <sys/stat.h>
#include <unistd.h>
#include "bench/load/solo_times.h"

static const struct mo_bench_system peer = {"ort-fcfs-all", "onnxruntime", "fcfs-all", "a made-up peer",
                                            NULL};

struct place {
    struct mo_env env;
    struct mo_sys sys; /* of env, when a test says how much memory there is */
    struct mo_bench_session session;
    struct mo_bench_serve_options options;
    struct mo_bench_mix mix;
    char venv[64], python[96];
};

/* One tenant, whose target is four times the peer's time with two threads.  one, two: what the peer answers
 * to a slice with so many threads.  A model small.onnx takes it 20 ms. */
static struct place *open_place(const char *one, const char *two) {
    moire_error err = {0};
    char *argv[] = {"bench"};
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->env = mo_env_default();
    if (mo_bench_session_open(&p->env, 1, argv, &p->session, &err)) fail_msg("%s", err.message);
    snprintf(p->venv, sizeof p->venv, "/tmp/moire-venv-XXXXXX");
    assert_non_null(mkdtemp(p->venv));
    snprintf(p->python, sizeof p->python, "%s/bin", p->venv);
    assert_int_equal(mkdir(p->python, 0755), 0);
    snprintf(p->python, sizeof p->python, "%s/bin/python", p->venv);
    FILE *f = fopen(p->python, "w");
    assert_non_null(f);
    fprintf(f,
            "#!/bin/sh\nfor job; do :; done\nanswer='%s'\ngrep -q '\"threads\": *2' \"$job\" && answer='%s'\n"
            "grep -q small.onnx \"$job\" && answer='solo 1 20000000'\necho ready\nwhile read l; do [ \"$l\" "
            "= quit ] && exit; echo \"$answer\"; done\n",
            one, two);
    fclose(f);
    assert_int_equal(chmod(p->python, 0755), 0);
    p->session.venv = p->venv;
    p->session.quiet = true;
    p->options = (struct mo_bench_serve_options){.peers = {&peer}, .n_peers = 1, .calibration_seconds = 0.01};
    p->mix.cores = 2;
    p->mix.scenario.n_tenants = 1;
    p->mix.scenario.tenants[0] =
        (struct mo_bench_tenant){.name = "resnet50", .model = "m.onnx", .qos = {.times_solo = 4}};
    return p;
}

static void close_place(struct place *p) {
    json_decref(p->mix.calibration);
    mo_bench_session_close(&p->session);
    unlink(p->python);
    *strrchr(p->python, '/') = 0;
    rmdir(p->python);
    rmdir(p->venv);
    free(p);
}

/* Sentences of the calibration that contain a text. */
static int sentences(const struct place *p, const char *text) {
    int n = 0;
    size_t i;
    json_t *sentence;
    json_array_foreach(json_object_get(p->mix.calibration, "why"), i, sentence) n +=
        strstr(json_string_value(sentence), text) != NULL;
    return n;
}

static const json_t *tenant(const struct place *p) {
    return json_array_get(json_object_get(p->mix.calibration, "tenants"), 0);
}

static void a_target_is_a_multiple_of_the_shortest_time(void **state) {
    (void)state;
    moire_error err = {0};
    struct place *p = open_place("solo 3 160000000 150000000 151000000", "solo 2 80000000 91000000");
    if (mo_bench_measure_targets(&p->session, &p->options, &p->mix, &err)) fail_msg("%s", err.message);
    assert_int_equal(p->mix.qos_ns[0], 320000000);
    assert_true(fabs(p->mix.solo_ms[0] - 150) < 1e-9);
    assert_int_equal(sentences(p, "differ"), 0);
    assert_int_equal(sentences(p, "threads,"), 0);
    /* trusted exactly when nothing stands against it */
    const json_t *trusted = json_object_get(p->mix.calibration, "trusted");
    assert_true(json_is_boolean(trusted) && json_is_true(trusted) == !sentences(p, ""));
    const json_t *rows = json_object_get(tenant(p), "solo");
    assert_int_equal(json_array_size(rows), 2);
    assert_true(mo_json_number(json_array_get(rows, 0), "slices") >= 5);
    assert_true(mo_json_number(json_array_get(rows, 1), "min_ms") == 80);
    close_place(p);
}

/* The run that a user met: its target was 4 x 577 ms. */
static void a_slower_second_thread_is_said_and_does_not_count(void **state) {
    (void)state;
    moire_error err = {0};
    struct place *p = open_place("solo 1 150000000", "solo 1 577000000");
    if (mo_bench_measure_targets(&p->session, &p->options, &p->mix, &err)) fail_msg("%s", err.message);
    assert_int_equal(p->mix.qos_ns[0], 600000000);
    assert_true(json_is_false(json_object_get(p->mix.calibration, "trusted")));
    assert_int_equal(
        sentences(p, "resnet50 on onnxruntime: 577.0 ms with 2 threads, but 150.0 ms with 1, in 10"), 1);
    const json_t *row = json_array_get(json_object_get(tenant(p), "solo"), 1);
    assert_true(mo_json_number(row, "slices") == 10);
    assert_true(json_is_false(json_object_get(row, "agreed")));
    close_place(p);
}

static void a_peer_that_fails_is_left_out(void **state) {
    (void)state;
    moire_error err = {0};
    struct place *p = open_place("solo 1 150000000", "error -12 no memory");
    if (mo_bench_measure_targets(&p->session, &p->options, &p->mix, &err)) fail_msg("%s", err.message);
    assert_int_equal(p->mix.qos_ns[0], 600000000);
    assert_int_equal(json_array_size(json_object_get(tenant(p), "solo")), 1);
    close_place(p);
    p = open_place("error -12 no memory", "error -12 no memory");
    assert_int_equal(mo_bench_measure_targets(&p->session, &p->options, &p->mix, &err), MOIRE_EFAILED);
    assert_non_null(strstr(err.message, "resnet50: no system could run it alone"));
    close_place(p);
}

static int64_t little_memory(void *self) {
    (void)self;
    return 1;
}

/* Both with all tenants loaded at once, and one after the other where memory is short. */
static void tenants_keep_their_own_times(void **state) {
    (void)state;
    for (int little = 0; little < 2; little++) {
        moire_error err = {0};
        struct place *p = open_place("solo 1 150000000", "solo 1 80000000");
        p->sys = *p->env.sys;
        if (little) p->sys.memory = little_memory;
        p->env.sys = &p->sys;
        p->mix.scenario.n_tenants = 3;
        for (int i = 1; i < 3; i++)
            p->mix.scenario.tenants[i] = p->mix.scenario.tenants[0];
        p->mix.scenario.tenants[1].name = "small";
        p->mix.scenario.tenants[1].model = "small.onnx";
        if (mo_bench_measure_targets(&p->session, &p->options, &p->mix, &err)) fail_msg("%s", err.message);
        assert_int_equal(p->mix.qos_ns[0], 320000000);
        assert_int_equal(p->mix.qos_ns[1], 80000000);
        assert_int_equal(p->mix.qos_ns[2], 320000000);
        assert_int_equal(json_array_size(json_object_get(p->mix.calibration, "tenants")), 3);
        assert_int_equal(sentences(p, "differ") + sentences(p, "but"), 0);
        close_place(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_is_a_multiple_of_the_shortest_time),
        cmocka_unit_test(a_slower_second_thread_is_said_and_does_not_count),
        cmocka_unit_test(a_peer_that_fails_is_left_out),
        cmocka_unit_test(tenants_keep_their_own_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
