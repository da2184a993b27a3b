/* SPDX-License-Identifier: Apache-2.0
 * test_kernels.c - `moire bench kernels` with peers made of shell: documents, peers that are missing, refuse
 * or die, and runs that are resumed; and the machine's file.  No times are asserted. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bench/kernels/kernels.h"
#include "bench/kernels/layer_profile.h"
#include "bench/data/layer_spec.h"
#include "bench/data/machine.h"
#include "bench/kernels/machine_measure.h"
#include "bench/report/report.h"
#include "tests/unit/kernels/bench_place.h"
#include "tests/unit/kernels/layer_case.h"

/* Answers as a runner does; ANSWER is what it says to `layer`. */
#define PEER(answer)                                                                                         \
    "#!/bin/sh\necho ready\nwhile read w l; do case $w in quit) exit;; layer) " answer                       \
    ";; solo) echo solo 3 2000000 1000000 3000000;; esac; done\n"

/* --- layers in numbers ---------------------------------------------------------------------------------- */
static void layers_survive_their_line(void **state) {
    (void)state;
    static const struct {
        struct layer_case c;
        int64_t groups, c_in, out, rows, kernel, stride, product, residual;
    } rows[] = {
        {{"Conv", "", 13, "1x32x14x14 c48x8x3x3 c48", "pads:v=1,1,1,1 strides:v=2,2 group:i=4 act:i=2", 0, 1},
         4,
         32,
         48,
         14,
         3,
         2,
         0,
         0},
        {{"MatMul", "", 13, "2x7x24 c24x40", "", 0, 1}, 1, 24, 40, 14, 1, 1, 1, 0},
    };
    struct mo_env env = mo_env_default();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char why[256], line[400];
        struct mo_layer_spec s, back;
        struct mo_graph *g = layer_case_graph(&env, &rows[i].c, 0, why, sizeof why);
        if (!g) fail_msg("%s", why);
        const struct mo_node *node = NULL;
        for (int k = 0; k < g->n_nodes; k++)
            if (!strcmp(g->nodes[k]->op_type, rows[i].c.op_type)) node = g->nodes[k];
        assert_non_null(node);
        assert_true(mo_layer_spec_of(g, node, &s));
        assert_int_equal(s.groups, rows[i].groups);
        assert_int_equal(s.c, rows[i].c_in);
        assert_int_equal(s.o, rows[i].out);
        assert_int_equal(s.w, rows[i].rows);
        assert_int_equal(s.kh, rows[i].kernel);
        assert_int_equal(s.sw, rows[i].stride);
        assert_int_equal(s.product, rows[i].product);
        assert_int_equal(s.residual, rows[i].residual);
        mo_layer_spec_print(&s, line, sizeof line);
        assert_true(mo_layer_spec_parse(line, &back));
        assert_memory_equal(&s, &back, sizeof s);
        mo_graph_destroy(g);
    }
}

static void nonsense_is_no_layer(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "conv",
        "1 2 3",
        "0 1 8 8 8 8 8 8 3 3 1 1 1 1 1 1 1 1 0 1 0 0 1 0 0",  /* no groups */
        "0 1 -8 8 8 8 8 8 3 3 1 1 1 1 1 1 1 1 1 1 0 0 1 0 0", /* negative */
        "0 1 99999999999999999999 8 8 8 8 8 3 3 1 1 1 1 1 1 1 1 1 1 0 0 1 0 0",
        "0 1 8 8 8 8 8 8 3 3 1 1 1 1 1 1 1 1 1 1 0 0 99 0 0",     /* no such activation */
        "0 1 8 8 8 8 8 8 3 3 1 1 1 1 1 1 1 1 1 1 0 0 1 0 0 tail", /* more than a layer */
    };
    struct mo_layer_spec s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (mo_layer_spec_parse(bad[i], &s)) fail_msg("'%s' passed", bad[i]);
}

/* --- kernels -------------------------------------------------------------------------------------------- */
static const char *const lenet[] = {"lenet"};

static int run_kernels(struct bench_place *p, bool peer, bool save, bool resume, json_t **out,
                       moire_error *err) {
    const struct mo_bench_kernels_options o = {.models = lenet,
                                               .n_models = 1,
                                               .threads = {1},
                                               .n_threads = 1,
                                               .onednn = peer,
                                               .seconds = 0.002,
                                               .slices = 2,
                                               .save = save ? p->output : NULL,
                                               .resume = resume};
    *out = NULL;
    memset(err, 0, sizeof *err);
    return mo_bench_kernels(&p->session, &o, out, err);
}

static void kernels_are_judged_and_compared(void **state) {
    (void)state;
    struct bench_place p;
    json_t *doc, *row;
    moire_error err;
    size_t i;
    int compared = 0;
    bench_place_open(&p, PEER("echo layer jit:made-up"));
    if (run_kernels(&p, true, false, false, &doc, &err)) fail_msg("%s", err.message);
    assert_true(json_is_true(json_object_get(doc, "complete")));
    assert_int_equal(json_array_size(json_object_get(doc, "ceilings")), 1);
    assert_int_equal(json_array_size(json_object_get(doc, "ceilings_after")), 1);
    const double fma = bench_place_number(json_array_get(json_object_get(doc, "ceilings"), 0), "fma_gflops");
    json_array_foreach(json_object_get(doc, "results"), i, row) {
        assert_string_equal(bench_place_text(row, "model"), "lenet");
        assert_true(bench_place_number(row, "min_ms") > 0 &&
                    bench_place_number(row, "median_ms") >= bench_place_number(row, "min_ms"));
        assert_float_equal(
            bench_place_number(row, "fma_share") * fma / bench_place_number(row, "executed_gflops"), 1, 1e-6);
        assert_true(bench_place_number(row, "roofline_share") > 0 && bench_place_number(row, "uses") >= 1);
        bench_place_text(row, "kernel"), bench_place_text(row, "kind"), bench_place_text(row, "limit"),
            bench_place_text(row, "signature");
        const json_t *onednn = json_object_get(row, "onednn");
        if (json_object_get(onednn, "why")) continue;
        compared++;
        assert_string_equal(bench_place_text(onednn, "kernel"), "jit:made-up");
        assert_float_equal(bench_place_number(onednn, "min_ms"), 1, 1e-9);
        assert_float_equal(bench_place_number(onednn, "speed_of_moire") * bench_place_number(row, "min_ms"),
                           1, 1e-6);
    }
    assert_true(compared >= 4); /* two convolutions, two or three products; not the pools */
    row = json_array_get(json_object_get(doc, "summary"), 0);
    assert_int_equal(bench_place_number(row, "compared"), compared);
    assert_true(bench_place_number(row, "geomean_speed_vs_onednn") > 0);
    mo_bench_kernels_print(doc);
    json_decref(doc);
    bench_place_close(&p);
}

static void a_layer_the_peer_refuses_is_measured_alone(void **state) {
    (void)state;
    struct bench_place p;
    json_t *doc, *row;
    moire_error err;
    size_t i;
    int why = 0;
    bench_place_open(&p, PEER("echo error -5 oneDNN has no such layer"));
    if (run_kernels(&p, true, false, false, &doc, &err)) fail_msg("%s", err.message);
    json_array_foreach(json_object_get(doc, "results"), i, row) why +=
        strstr(bench_place_text(json_object_get(row, "onednn"), "why"), "no such layer") != NULL;
    assert_int_equal(why, json_array_size(json_object_get(doc, "results")));
    json_decref(doc);
    bench_place_close(&p);
}

static void a_peer_that_is_missing_or_dies_is_named(void **state) {
    (void)state;
    static const struct {
        const char *peer, *text;
    } rows[] = {{NULL, "make peers"},
                {"#!/bin/sh\nexit 1\n", "onednn: its runner died"},
                {PEER("exit"), "onednn: its runner died"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench_place p;
        json_t *doc;
        moire_error err;
        bench_place_open(&p, rows[i].peer);
        assert_int_not_equal(run_kernels(&p, true, false, false, &doc, &err), MOIRE_OK);
        if (!strstr(err.message, rows[i].text)) fail_msg("%s", err.message);
        assert_true(json_is_false(json_object_get(doc, "complete")));
        json_decref(doc);
        bench_place_close(&p);
    }
}

static void runs_are_resumed_and_interrupted(void **state) {
    (void)state;
    struct bench_place p;
    json_t *first, *second, *third;
    moire_error err;
    bench_place_open(&p, NULL);
    if (run_kernels(&p, false, true, false, &first, &err)) fail_msg("%s", err.message);
    if (run_kernels(&p, false, true, true, &second, &err)) fail_msg("%s", err.message);
    bench_place_same(json_object_get(first, "results"), json_object_get(second, "results"));
    /* as if half of it were there: only the rest is measured again */
    json_array_remove(json_object_get(first, "done"), 0);
    json_array_remove(json_object_get(first, "results"), 0);
    assert_int_equal(mo_bench_write_json(&p.env, first, p.output, &err), MOIRE_OK);
    if (run_kernels(&p, false, true, true, &third, &err)) fail_msg("%s", err.message);
    assert_int_equal(json_array_size(json_object_get(third, "results")),
                     json_array_size(json_object_get(second, "results")));
    json_decref(third);
    /* another build's times would not compare */
    json_object_set_new(json_object_get(first, "experiment"), "sources", json_string("another"));
    assert_int_equal(mo_bench_write_json(&p.env, first, p.output, &err), MOIRE_OK);
    assert_int_equal(run_kernels(&p, false, true, true, &third, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "by a build with other code (commit "));
    assert_int_equal(run_kernels(&p, false, false, true, &third, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--output"));
    bench_place_write(p.output, "{}");
    assert_int_equal(run_kernels(&p, false, true, true, &third, &err), MOIRE_EINVAL);
    bench_place_write(p.output, "[");
    assert_int_not_equal(run_kernels(&p, false, true, true, &third, &err), MOIRE_OK);
    kill(getpid(), SIGINT); /* blocked by the session, read from its descriptor */
    assert_int_equal(run_kernels(&p, false, true, false, &third, &err), MOIRE_EINTERRUPTED);
    assert_true(json_is_false(json_object_get(third, "complete")));
    json_decref(first);
    json_decref(second);
    json_decref(third);
    bench_place_close(&p);
}

/* --- the machine's file --------------------------------------------------------------------------------- */
static void the_machine_file_is_one_the_reader_takes(void **state) {
    (void)state;
    struct bench_place p;
    json_t *doc = NULL;
    moire_error err = {0};
    struct mo_bench_machine machine;
    bench_place_open(&p, NULL);
    if (mo_bench_machine(&p.session, &doc, &err)) fail_msg("%s", err.message);
    assert_true(bench_place_number(doc, "memory_gib_s") > 0 &&
                bench_place_number(doc, "cores") == p.session.cores);
    assert_true(json_array_size(json_object_get(doc, "ceilings")) >= 1);
    assert_int_equal(mo_bench_write_json(&p.env, doc, p.output, &err), MOIRE_OK);
    if (mo_bench_machine_load(&p.env, p.output, &machine, &err)) fail_msg("%s", err.message);
    assert_int_equal(machine.sim.n_cores, p.session.cores);
    mo_bench_machine_close(&machine);
    json_decref(doc);
    bench_place_close(&p);
}

/* A layer waits for the slower of its arithmetic and its bytes; Winograd's fewer products count only in what
 * is executed. */
static void the_floor_of_a_plan_is_that_of_its_layers(void **state) {
    (void)state;
    struct mo_step steps[] = {
        {.flops = 4000000,
         .executed = 1000000,
         .bytes = 1000},                                    /* 40 us written, 10 us executed at 100 GF/s */
        {.flops = 1000, .executed = 1000, .bytes = 500000}, /* 50 us at 10 GB/s */
        {.flops = 0, .executed = 0, .bytes = 0},            /* a view */
    };
    struct mo_ceiling ceiling = {.fma_gf = 100};
    for (int l = 0; l < MO_LEVELS; l++) {
        ceiling.level[l].capacity = l == MO_LEVEL_MEMORY ? INT64_MAX : 1 << (10 + l);
        ceiling.level[l].read_gb = l == MO_LEVEL_MEMORY ? 10 : 1000;
    }
    const struct mo_floor floor = mo_profile_floor(&(struct mo_plan){.steps = steps, .n_steps = 3}, &ceiling);
    assert_float_equal(floor.written_ms, 0.09, 1e-9);
    assert_float_equal(floor.executed_ms, 0.06, 1e-9);
    /* weights of twice what the last cache keeps: half of them comes from memory, however small a layer is */
    struct mo_tensor weights = {.dtype = MOIRE_F32, .producer = -1};
    struct mo_tensor *const tensors[] = {&weights};
    struct mo_graph graph = {.tensors = (struct mo_tensor **)(uintptr_t)tensors};
    int in[] = {0};
    struct mo_node node = {.in = in, .n_in = 1};
    const int64_t kept = ceiling.level[MO_LEVEL_MEMORY - 1].capacity;
    weights.shape = (struct mo_shape){1, {kept / 4}};
    for (int i = 0; i < 2; i++)
        steps[i] = (struct mo_step){.node = &node, .flops = 1000, .executed = 1000, .bytes = kept};
    const struct mo_plan plan = {.graph = &graph, .steps = steps, .n_steps = 2};
    assert_float_equal(mo_profile_floor(&plan, &ceiling).written_ms, (double)kept / 10 * 1e-6, 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_survive_their_line),
        cmocka_unit_test(nonsense_is_no_layer),
        cmocka_unit_test(the_floor_of_a_plan_is_that_of_its_layers),
        cmocka_unit_test(kernels_are_judged_and_compared),
        cmocka_unit_test(a_layer_the_peer_refuses_is_measured_alone),
        cmocka_unit_test(a_peer_that_is_missing_or_dies_is_named),
        cmocka_unit_test(runs_are_resumed_and_interrupted),
        cmocka_unit_test(the_machine_file_is_one_the_reader_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
