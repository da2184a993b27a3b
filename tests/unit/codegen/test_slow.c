/* SPDX-License-Identifier: Apache-2.0
 * test_slow.c - layers that run by the slow reference are named with their share of the work, and models
 * whose references are negligible are not spoken of: by estimates, by measured times, by moire_load() and in
 * its statistics. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/frontend.h"
#include "runtime/plan/estimate.h"
#include "runtime/plan/slow.h"
#include "tests/unit/codegen/onnx_build.h"

/* --- models --------------------------------------------------------------------------------------------- */
/* Groups of several frames. */
static void conv3d(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,4,6,14,14");
    ob_random(b, "w", "16,2,3,3,3");
    ob_random(b, "v", "16,8,3,3,3");
    ob_node(b, "Conv", "x w", "a");
    ob_int(b, "group", 2);
    ob_node(b, "Relu", "a", "r");
    ob_node(b, "Conv", "r v", "y");
    ob_int(b, "group", 2);
    ob_output(b, "y");
}

/* No kernel takes weights that a query brings. */
static void bilstm(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "16,1,32");
    ob_input(b, "r", MOIRE_F32, "2,128,32");
    ob_random(b, "w", "2,128,32");
    ob_random(b, "v", "32,8");
    ob_node(b, "LSTM", "x w r", "h");
    ob_int(b, "hidden_size", 32);
    ob_string(b, "direction", "bidirectional");
    ob_node(b, "MatMul", "h v", "y");
    ob_output(b, "y");
}

/* fp32 weights between conversions, as exporters write int8 models. */
static void qdq(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,16,28,28");
    ob_random(b, "w", "16,16,3,3");
    ob_scalar(b, "s", 0.02f);
    ob_node(b, "QuantizeLinear", "x s", "q");
    ob_node(b, "DequantizeLinear", "q s", "d");
    ob_node(b, "Conv", "d w", "y");
    ob_output(b, "y");
}

/* The same with a scale for each channel of the input. */
static void qdq_by_channel(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,16,28,28");
    ob_random(b, "w", "16,16,3,3");
    ob_random(b, "s", "16");
    ob_node(b, "QuantizeLinear", "x s", "q");
    ob_node(b, "DequantizeLinear", "q s", "d");
    ob_node(b, "Conv", "d w", "y");
    ob_output(b, "y");
}

static void integers(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,8,14,14");
    ob_random(b, "w", "16,8,3,3");
    ob_scalar(b, "s", 0.02f);
    ob_node(b, "QuantizeLinear", "x s", "q");
    ob_node(b, "QuantizeLinear", "w s", "v");
    ob_node(b, "ConvInteger", "q v", "y");
    ob_output(b, "y");
}

/* 65 groups of 12 channels fill no blocks of 16 together, and are too many to be one. */
static void grouped(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,780,7,7");
    ob_random(b, "w", "780,12,3,3");
    ob_random(b, "v", "36,780,1,1");
    ob_node(b, "Conv", "x w", "a");
    ob_int(b, "group", 65);
    ob_node(b, "Conv", "a v", "y");
    ob_output(b, "y");
}

/* Nothing but kernels, and views. */
static void fast(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "1,16,28,28");
    ob_random(b, "w", "32,16,3,3");
    ob_random(b, "v", "21632,10");
    ob_int64s(b, "shape", "1,21632");
    ob_node(b, "Conv", "x w", "a");
    ob_node(b, "Relu", "a", "r");
    ob_node(b, "Reshape", "r shape", "f");
    ob_node(b, "MatMul", "f v", "y");
    ob_output(b, "y");
}

/* A reference that costs nothing beside the product. */
static void negligible(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "64,512");
    ob_random(b, "w", "512,512");
    ob_random(b, "v", "512,4");
    ob_node(b, "MatMul", "x w", "a");
    ob_node(b, "MatMul", "a v", "n");
    ob_node(b, "CumSum", "n axis", "y");
    ob_int64s(b, "axis", "1")->n_dims = 0;
    ob_output(b, "y");
}

/* How many rows there are depends on what is in x. */
static void unsized(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "64");
    ob_random(b, "w", "1,64");
    ob_node(b, "NonZero", "x", "i");
    ob_node(b, "Cast", "i", "f");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Transpose", "f", "t");
    ob_node(b, "MatMul", "t w", "y");
    ob_output(b, "y");
}

static struct mo_plan *plan_of(const struct mo_env *env, void (*make)(struct ob *)) {
    struct ob *b = ob_create(13);
    size_t n;
    make(b);
    const uint8_t *bytes = ob_pack(b, &n);
    moire_error err = {0};
    struct mo_graph *g = NULL;
    struct mo_plan *plan = NULL;
    /* groups that are no blocks are joined by zeros, but not in a model whose sums are to be as ONNX writes
     * them */
    const struct mo_frontend_options front = {.exact = make == grouped};
    if (mo_frontend_parse(env, bytes, n, NULL, &front, &g, &err) ||
        mo_plan_build(g, &(struct mo_plan_options){.isa = mo_isa_detect()}, &plan, &err))
        fail_msg("%s", err.message);
    ob_destroy(b);
    return plan;
}

static struct mo_slow said(void (*make)(struct ob *), char text[MO_SLOW_TEXT]) {
    struct mo_env env = mo_env_default();
    struct mo_plan *plan = plan_of(&env, make);
    struct mo_slow slow = mo_slow_find(plan, NULL);
    mo_slow_text(&slow, text, MO_SLOW_TEXT);
    mo_plan_destroy(plan);
    return slow;
}

/* --- tests ---------------------------------------------------------------------------------------------- */
static void slow_kinds_are_named(void **state) {
    (void)state;
    static const struct {
        void (*make)(struct ob *);
        const char *what;
        int layers;
    } rows[] = {
        {conv3d, "3-D Conv", 2},
        {bilstm, "LSTM", 1},
        {qdq_by_channel, "int8 QuantizeLinear/DequantizeLinear", 2},
        {integers, "int8 ConvInteger", 1},
        {grouped, "grouped Conv of 12 channels a group", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[MO_SLOW_TEXT], end[100];
        struct mo_slow slow = said(rows[i].make, text);
        snprintf(end, sizeof end, "run by the slow reference: %s (%d)", rows[i].what, rows[i].layers);
        if (!strstr(text, end)) fail_msg("\"%s\" lacks \"%s\"", text, end);
        assert_true(slow.share > 0.5 && slow.share <= 1 && !slow.measured);
        assert_int_equal(slow.row[0].layers, rows[i].layers);
        assert_true(slow.of >= slow.layers);
    }
}

static void fast_models_are_not_spoken_of(void **state) {
    (void)state;
    char text[MO_SLOW_TEXT];
    assert_int_equal(said(fast, text).layers, 0);
    assert_string_equal(text, "");
    assert_int_equal(said(negligible, text).layers, 0);
    assert_string_equal(text, "");
    assert_int_equal(said(qdq, text).layers, 0);
    assert_string_equal(text, "");
}

static void shapes_that_depend_on_data_are_unknown_work(void **state) {
    (void)state;
    char text[MO_SLOW_TEXT];
    struct mo_slow slow = said(unsized, text);
    assert_int_equal(slow.layers, 1);
    assert_true(slow.share == 0);
    assert_non_null(
        strstr(text, "of unknown work, run by the slow reference: MatMul of a shape known at run"));
}

/* Hidden loops count: an LSTM's steps, the taps of integers. */
static void work_has_its_hidden_loops(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_plan *plan = plan_of(&env, bilstm);
    assert_string_equal(plan->steps[0].node->op_type, "LSTM");
    assert_int_equal(plan->steps[0].flops, 2 * 16 * 2 * 128 * (32 + 32));
    mo_plan_destroy(plan);
    plan = plan_of(&env, integers);
    const struct mo_step *last = &plan->steps[plan->n_steps - 1];
    assert_int_equal(last->flops, 2 * 12 * 12 * 16 * 8 * 9);
    assert_true(mo_step_estimate(plan->graph, last) >
                100 * mo_step_estimate(plan->graph, &plan->steps[0]) / 50);
    mo_plan_destroy(plan);
}

/* Measured times decide where they are given; references below 5 % of them, or of 20 us, are not hot. */
static void measured_times_decide(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_plan *plan = plan_of(&env, grouped);
    int64_t ns[16] = {0}, reference = -1;
    assert_true(plan->n_steps <= 16);
    for (int i = 0; i < plan->n_steps; i++) {
        bool slow = !plan->steps[i].run && plan->steps[i].units;
        if (slow) reference = i;
        ns[i] = slow ? 30000 : 0;
    }
    assert_true(reference >= 0);
    int other = reference ? 0 : 1;
    ns[other] = 70000;
    struct mo_slow slow = mo_slow_find(plan, ns);
    char text[MO_SLOW_TEXT];
    mo_slow_text(&slow, text, sizeof text);
    assert_non_null(strstr(text, ", 30 % of the work, "));
    assert_true(slow.measured && slow.layers == 1);
    ns[other] = 700000;
    assert_int_equal(mo_slow_find(plan, ns).layers, 0); /* 4 % */
    ns[other] = 0;
    ns[reference] = 19000;
    assert_int_equal(mo_slow_find(plan, ns).layers, 0); /* nobody waits for it */
    mo_plan_destroy(plan);
}

static void long_lists_are_cut(void **state) {
    (void)state;
    struct mo_slow slow = {.layers = 9, .of = 20, .share = 0.5, .n_rows = 2, .others = 4};
    char text[MO_SLOW_TEXT], cut[16];
    slow.row[0] = (struct mo_slow_row){"LSTM", 3, 0.4};
    slow.row[1] = (struct mo_slow_row){"GRU", 2, 0.1};
    mo_slow_text(&slow, text, sizeof text);
    assert_string_equal(text,
                        "9 of 20 layers, 50 % of the work, run by the slow reference: LSTM (3), GRU (2), "
                        "others (4)");
    mo_slow_text(&slow, cut, sizeof cut);
    assert_int_equal(strlen(cut), sizeof cut - 1);
}

/* --- a load --------------------------------------------------------------------------------------------- */
struct heard {
    int lines;
    char last[600];
};

static void listen(void *user, int level, const char *line) {
    struct heard *h = user;
    if (level != MOIRE_LOG_WARN || !strstr(line, "slow reference")) return;
    h->lines++;
    snprintf(h->last, sizeof h->last, "%s", line);
}

static void write_model(const char *path, void (*make)(struct ob *)) {
    struct ob *b = ob_create(13);
    make(b);
    assert_true(ob_save(b, path));
    ob_destroy(b);
}

static void a_load_says_it_once(void **state) {
    (void)state;
    char path[] = "/tmp/moire-slow-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_model(path, conv3d);
    struct heard heard = {0};
    moire_config c;
    moire_config_init(&c);
    c.generic_only = c.threads = 1;
    c.log = listen;
    c.log_user = &heard;
    moire_runtime *rt;
    moire_tenant *t;
    assert_int_equal(moire_runtime_create(&c, &rt, NULL), MOIRE_OK);
    moire_tenant_config tc;
    moire_tenant_config_init(&tc);
    tc.name = "video";
    assert_int_equal(moire_load(rt, path, &tc, &t, NULL), MOIRE_OK);
    assert_int_equal(heard.lines, 1);
    moire_tenant_stats s = {.size = sizeof s};
    assert_int_equal(moire_tenant_get_stats(t, &s, NULL), MOIRE_OK);
    assert_int_equal(s.slow_layers, 2);
    assert_true(s.slow_share > 0.05 && s.slow_share <= 1);
    assert_non_null(strstr(s.slow, "3-D Conv (2)"));
    assert_non_null(strstr(heard.last, s.slow));
    assert_non_null(strstr(heard.last, "'video'"));
    /* a program that was built before the fields were there */
    moire_tenant_stats old;
    memset(&old, 0x5a, sizeof old);
    old.size = offsetof(moire_tenant_stats, slow_layers);
    assert_int_equal(moire_tenant_get_stats(t, &old, NULL), MOIRE_OK);
    assert_int_equal(old.slow_layers, 0x5a5a5a5a);
    write_model(path, fast);
    assert_int_equal(moire_load(rt, path, &tc, &t, NULL), MOIRE_OK);
    assert_int_equal(moire_tenant_get_stats(t, &s, NULL), MOIRE_OK);
    assert_true(heard.lines == 1 && s.slow_layers == 0 && s.slow_share == 0 && !s.slow[0]);
    moire_runtime_destroy(rt, 0);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_kinds_are_named),
        cmocka_unit_test(fast_models_are_not_spoken_of),
        cmocka_unit_test(shapes_that_depend_on_data_are_unknown_work),
        cmocka_unit_test(work_has_its_hidden_loops),
        cmocka_unit_test(measured_times_decide),
        cmocka_unit_test(long_lists_are_cut),
        cmocka_unit_test(a_load_says_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
