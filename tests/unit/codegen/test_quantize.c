/* SPDX-License-Identifier: Apache-2.0
 * test_quantize.c - a quantized model is close to that of floats, computes in bytes, and what was asked to
 * stay stays. */
#define _DEFAULT_SOURCE
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
#include "codegen/quantize/judge.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/codegen/quantize_case.h"

/* --- the whole --- */

static bool go_on(void *ctx, const char *stage, int done, int total) {
    (void)stage, (void)done, (void)total;
    int *left = ctx;
    return !left || --*left != 0;
}

static struct mo_quantize_options usual(void) {
    return (struct mo_quantize_options){
        .per_channel = true, .correct_bias = true, .tolerance = 0.1, .progress = {.tell = go_on}};
}

static int quantize(struct quantize_case *p, const struct mo_quantize_options *o, struct mo_quantization *q,
                    moire_error *err) {
    return mo_quantize(&p->env, p->model, &p->samples, o, q, err);
}

/* Layers of the result by operator, when it runs in int8. */
static int count(struct quantize_case *p, struct mo_quantization *q, const char *op, bool passes) {
    uint8_t *bytes;
    size_t n;
    moire_error err = {0};
    struct mo_graph *g;
    const struct mo_frontend_options front = {
        .batch = 1, .precision = MOIRE_PRECISION_INT8, .no_passes = !passes};
    assert_int_equal(mo_edit_pack(&q->edit, &bytes, &n), 0);
    if (mo_frontend_parse(&p->env, bytes, n, NULL, &front, &g, &err)) fail_msg("%s", err.message);
    mo_free(&p->env, bytes);
    int found = 0;
    for (int i = 0; i < g->n_nodes; i++)
        found += !strcmp(g->nodes[i]->op_type, op);
    mo_graph_destroy(g);
    return found;
}

static void layers_compute_in_bytes(void **state) {
    static const struct {
        quantize_case_fn *build;
        int convs, points;
    } cases[] = {{case_residual, 3, 7},
                 {case_excited, 6, 9},
                 {case_joined, 4, 7},
                 {case_stepwise, 2, 2},
                 {case_narrow_chain, 3, 3}};
    struct quantize_case *p = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int form = 0; form < 4; form++) {
            struct mo_quantize_options o = usual();
            struct mo_quantization q;
            moire_error err = {0};
            o.portable = form == 1;
            o.per_channel = form != 2;
            o.narrow = form == 3;
            quantize_case_write(p, cases[i].build, i % 2 ? 11 : 13);
            if (quantize(p, &o, &q, &err)) fail_msg("case %zu: %s", i, err.message);
            assert_int_equal(q.n_on, q.layers.n);
            if (!(q.whole.error < 0.08)) fail_msg("case %zu, form %d: error %g", i, form, q.whole.error);
            if (form == 0 && q.n_points != cases[i].points) fail_msg("case %zu: %d points", i, q.n_points);
            assert_int_equal(count(p, &q, "QConv", true), cases[i].convs);
            assert_int_equal(count(p, &q, "Conv", true), 0);
            mo_quantized_close(&q);
        }
}

static void what_was_asked_to_stay_stays(void **state) {
    struct quantize_case *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantization q;
    moire_error err = {0};
    quantize_case_write(p, case_residual, 13);
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    char keep[200];
    snprintf(keep, sizeof keep, "%s,%s", q.layer_name[0], q.layer_name[3]);
    mo_quantized_close(&q);
    o.keep = keep;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(q.n_on, 2);
    assert_int_equal(count(p, &q, "QConv", true), 2);
    assert_int_equal(count(p, &q, "Conv", true), 1);
    mo_quantized_close(&q);
    o.keep = "no-such-layer";
    assert_int_equal(quantize(p, &o, &q, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no-such-layer"));
    mo_quantized_close(&q);
}

static void layers_beyond_the_tolerance_stay_floats(void **state) {
    struct quantize_case *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantization q;
    moire_error err = {0};
    quantize_case_write(p, case_excited, 13);
    o.tolerance = 0;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(q.n_on, 0);
    assert_int_equal(count(p, &q, "QuantizeLinear", false), 0);
    assert_true(q.whole.error == 0);
    mo_quantized_close(&q);
    o.tolerance = 1;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    const double all = q.whole.error;
    assert_int_equal(q.n_on, q.layers.n);
    mo_quantized_close(&q);
    o.tolerance = all * 0.7;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_true(q.whole.error <= o.tolerance);
    assert_true(q.n_on < q.layers.n);
    mo_quantized_close(&q);
}

/* Of the layers that were left out for the whole the costliest, which was tried last, really costs too much.
 */
static void no_layer_is_left_out_in_vain(void **state) {
    struct quantize_case *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantization q;
    moire_error err = {0};
    char keep[600] = "";
    quantize_case_write(p, case_excited, 13);
    o.tolerance = 1;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    const double tolerance = o.tolerance = q.whole.error * 0.7;
    mo_quantized_close(&q);
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    int worst = -1;
    for (int i = 0; i < q.layers.n; i++) {
        assert_true(q.layers.at[i].on == !*q.layers.at[i].why);
        if (strstr(q.layers.at[i].why, "whole") &&
            (worst < 0 || q.layers.at[i].error > q.layers.at[worst].error))
            worst = i;
    }
    assert_true(worst >= 0);
    for (int i = 0; i < q.layers.n; i++)
        if (!q.layers.at[i].on && i != worst)
            snprintf(keep + strlen(keep), sizeof keep - strlen(keep), "%s,", q.layer_name[i]);
    mo_quantized_close(&q);
    o.keep = keep;
    o.tolerance = 1;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_true(q.whole.error > tolerance);
    mo_quantized_close(&q);
}

/* Two of four: the first of each half. */
static void samples_from_all_over_are_judged(void **state) {
    struct quantize_case *p = *state;
    const struct mo_quantize_progress progress = {0};
    const struct mo_model_sample four[] = {p->sample[0], p->sample[0], p->sample[1], p->sample[0]};
    struct mo_model_samples samples = p->samples;
    struct mo_edit e;
    struct mo_judge of_four, of_three;
    moire_error err = {0};
    quantize_case_write(p, case_residual, 13);
    assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
    samples.n = 4;
    samples.at = (struct mo_model_sample *)four;
    assert_int_equal(mo_judge_open(&e, &samples, 2, &progress, &of_four), 0);
    assert_int_equal(mo_judge_open(&e, &p->samples, CASE_SAMPLES, &progress, &of_three), 0);
    assert_int_equal(of_four.n, 2);
    for (int s = 0; s < 2; s++)
        assert_memory_equal(of_four.want[s].data, of_three.want[s].data, 10 * sizeof(float));
    mo_judge_close(&of_four);
    mo_judge_close(&of_three);
    mo_edit_close(&e);
}

static void an_interrupted_one_goes_on(void **state) {
    struct quantize_case *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantization q;
    moire_error err = {0};
    uint8_t *whole, *resumed;
    size_t n, m;
    quantize_case_write(p, case_excited, 13);
    o.state = p->state;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(mo_edit_pack(&q.edit, &whole, &n), 0);
    mo_quantized_close(&q);
    int calls = 0, left = -1;
    o.progress.ctx = &left;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    calls = -1 - left;
    mo_quantized_close(&q);
    for (int stop = 1; stop <= calls; stop++) {
        unlink(p->state);
        left = stop;
        int rc = quantize(p, &o, &q, &err);
        mo_quantized_close(&q);
        assert_int_equal(rc, MOIRE_EINTERRUPTED);
        left = -1;
        assert_int_equal(quantize(p, &o, &q, &err), 0);
        assert_true(-1 - left <= calls);
        assert_int_equal(mo_edit_pack(&q.edit, &resumed, &m), 0);
        assert_int_equal(n, m);
        assert_memory_equal(whole, resumed, n);
        mo_free(&p->env, resumed);
        mo_quantized_close(&q);
    }
    mo_free(&p->env, whole);
}

/* Weights so small, and biases so large, that a bias in steps of both scales would not fit int32. */
static void far_biases_fit(void **state) {
    struct quantize_case *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantization q;
    struct mo_edit e;
    moire_error err = {0};
    int64_t n;
    quantize_case_write(p, case_narrow_chain, 13);
    assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
    float *w = mo_edit_floats(&e, e.graph->node[0]->input[1], &n);
    for (int64_t i = 0; i < n; i++)
        w[i] *= 1e-9f;
    uint8_t *bytes;
    size_t size;
    assert_int_equal(mo_edit_pack(&e, &bytes, &size), 0);
    FILE *f = fopen(p->model, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    mo_free(&p->env, bytes);
    mo_edit_close(&e);
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(q.n_on, 3);
    assert_true(q.whole.error < 0.08);
    mo_quantized_close(&q);
}

static void mean_errors_of_weights_are_taken_off(void **state) {
    struct quantize_case *p = *state;
    double mean[2];
    moire_error err = {0};
    quantize_case_write(p, case_narrow_chain, 13);
    for (int corrects = 0; corrects < 2; corrects++) {
        struct mo_quantize_options o = usual();
        struct mo_quantization q;
        struct mo_edit e;
        int64_t n, m;
        o.correct_bias = corrects;
        o.per_channel = false;
        o.narrow = true;
        assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
        float *want = quantize_case_run(p, &e, &n);
        assert_int_equal(quantize(p, &o, &q, &err), 0);
        float *got = quantize_case_run(p, &q.edit, &m);
        mean[corrects] = 0;
        for (int64_t c = 0; c < 8; c++) { /* [sample][channel][pixel] */
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                if (i / (CASE_SIDE * CASE_SIDE) % 8 == c) sum += (double)got[i] - (double)want[i];
            mean[corrects] += fabs(sum);
        }
        free(want);
        free(got);
        mo_edit_close(&e);
        mo_quantized_close(&q);
    }
    assert_true(mean[1] < mean[0]);
}

static void without_data_norms_tell_ranges(void **state) {
    struct quantize_case *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantization q;
    moire_error err = {0};
    quantize_case_write(p, case_residual, 13);
    o.by_norms = true;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(q.n_by_norms, 3);
    assert_true(q.whole.error < 0.1);
    mo_quantized_close(&q);
}

static void what_cannot_be_quantized_is_said(void **state) {
    struct quantize_case *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantization q;
    moire_error err = {0};
    quantize_case_write(p, case_best, 9);
    assert_int_equal(quantize(p, &o, &q, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "nothing to quantize"));
    mo_quantized_close(&q);
    quantize_case_write(p, case_residual, 13);
    const struct mo_model_samples none = {0};
    assert_int_equal(mo_quantize(&p->env, p->model, &none, &o, &q, &err), MOIRE_EINVAL);
}

struct sweep {
    struct quantize_case *p;
    struct fault_sys f;
};

static int quantize_once(void *ctx) {
    struct sweep *s = ctx;
    struct mo_quantize_options o = usual();
    struct mo_quantization q;
    moire_error err = {0};
    struct mo_env env = s->p->env;
    env.sys = &s->f.table;
    int rc = mo_quantize(&env, s->p->model, &s->p->samples, &o, &q, &err);
    mo_quantized_close(&q);
    return rc;
}

static void memory_may_run_out_anywhere(void **state) {
    struct sweep s = {.p = *state};
    fault_sys_init(&s.f);
    s.p->samples.n = 1;
    quantize_case_write(s.p, case_stepwise, 13);
    assert_true(fault_sys_sweep(&s.f, quantize_once, &s, 0) > 10);
    s.p->samples.n = CASE_SAMPLES;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_compute_in_bytes),
        cmocka_unit_test(what_was_asked_to_stay_stays),
        cmocka_unit_test(layers_beyond_the_tolerance_stay_floats),
        cmocka_unit_test(no_layer_is_left_out_in_vain),
        cmocka_unit_test(samples_from_all_over_are_judged),
        cmocka_unit_test(an_interrupted_one_goes_on),
        cmocka_unit_test(far_biases_fit),
        cmocka_unit_test(mean_errors_of_weights_are_taken_off),
        cmocka_unit_test(without_data_norms_tell_ranges),
        cmocka_unit_test(what_cannot_be_quantized_is_said),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, quantize_case_make, quantize_case_remove);
}
