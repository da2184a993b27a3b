/* SPDX-License-Identifier: Apache-2.0
 * test_quantize_steps.c - what is done to a model of floats before it is quantized changes no result; ranges
 * are those of the values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/quantize/upgrade.h"
#include "codegen/quantize/value_tally.h"
#include "runtime/base/numbers.h"
#include "tests/unit/codegen/quantize_case.h"

/* --- preparing --- */

static void old_moves(struct mo_build *b) {
    const char *x = case_begin(b).name, *wide, *parts, *last;
    wide = mo_b_op1(b, "Clip", x);
    mo_b_float(b, "min", -0.5f);
    mo_b_float(b, "max", 0.75f);
    wide = mo_b_op1(b, "Pad", wide);
    mo_b_ints(b, "pads", (int64_t[]){0, 0, 1, 1, 0, 0, 1, 1}, 8);
    mo_b_float(b, "value", 0.25f);
    wide = mo_b_op1(b, "Slice", wide);
    mo_b_ints(b, "starts", (int64_t[]){1, 0}, 2);
    mo_b_ints(b, "ends", (int64_t[]){13, 12}, 2);
    mo_b_ints(b, "axes", (int64_t[]){2, 3}, 2);
    wide = mo_b_op1(b, "Dropout", wide);
    mo_b_float(b, "ratio", 0.5f);
    parts = mo_b_op1(b, "Split", wide);
    mo_b_ints(b, "split", (int64_t[]){1, 2}, 2);
    mo_b_int(b, "axis", 1);
    last = mo_b_another_output(b);
    parts = mo_b_op1(b, "Squeeze", parts);
    mo_b_ints(b, "axes", (int64_t[]){1}, 1);
    parts = mo_b_op1(b, "Unsqueeze", parts);
    mo_b_ints(b, "axes", (int64_t[]){1}, 1);
    last = mo_b_op2(b, "Mul", last, parts);
    last = mo_b_op1(b, "ReduceSum", last);
    mo_b_ints(b, "axes", (int64_t[]){1}, 1);
    mo_b_output(b, last, "y", MOIRE_F32, (int64_t[]){-1, 1, 12, 12}, 4);
}

static void old_softmax(struct mo_build *b) {
    const char *x = mo_b_op1(b, "Softmax", case_begin(b).name); /* over all but the first dimension */
    x = mo_b_op1(b, "LogSoftmax", x);
    mo_b_int(b, "axis", 3);
    mo_b_output(b, x, "y", MOIRE_F32, (int64_t[]){-1, 3, CASE_SIDE, CASE_SIDE}, 4);
}

static void upgrading_changes_no_result(void **state) {
    static const struct {
        quantize_case_fn *build;
        int64_t opset;
    } cases[] = {{old_moves, 9},    {old_softmax, 7},   {old_softmax, 12},
                 {case_best, 9},    {case_best, 7},     {case_residual, 9},
                 {case_joined, 11}, {case_excited, 12}, {case_residual, 13}};
    struct quantize_case *p = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mo_edit e;
        moire_error err = {0};
        int64_t n, m;
        quantize_case_write(p, cases[i].build, cases[i].opset);
        assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
        float *before = quantize_case_run(p, &e, &n);
        if (mo_upgrade(&e, NULL)) fail_msg("case %zu: %s", i, err.message);
        assert_true(e.model->opset_import[0]->version >= MO_QUANTIZE_OPSET);
        float *after = quantize_case_run(p, &e, &m);
        assert_int_equal(n, m);
        if (case_apart(before, after, n) > 1e-6)
            fail_msg("case %zu: %g apart", i, case_apart(before, after, n));
        free(before);
        free(after);
        mo_edit_close(&e);
    }
}

static void norms_go_into_filters(void **state) {
    struct quantize_case *p = *state;
    struct mo_edit e;
    struct mo_norm_list facts;
    moire_error err = {0};
    int64_t n, m;
    quantize_case_write(p, case_residual, 13);
    assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
    float *before = quantize_case_run(p, &e, &n);
    assert_int_equal(mo_fold_norms(&e, &facts), 0);
    float *after = quantize_case_run(p, &e, &m);
    assert_int_equal(facts.n, 3);
    for (size_t i = 0; i < e.graph->n_node; i++)
        assert_string_not_equal(e.graph->node[i]->op_type, "BatchNormalization");
    assert_true(case_apart(before, after, n) < 1e-5);
    free(before);
    free(after);
    mo_edit_close(&e);
}

/* How unlike the largest weights of a layer's outputs are: the largest over the smallest. */
static double unlike(struct mo_edit *e, int layer) {
    int at = 0;
    for (size_t i = 0; i < e->graph->n_node; i++) {
        const Onnx__NodeProto *node = e->graph->node[i];
        if (strcmp(node->op_type, "Conv") || at++ != layer) continue;
        int64_t n;
        const float *w = mo_edit_floats(e, node->input[1], &n);
        double least = INFINITY, most = 0;
        for (int64_t o = 0; o < CASE_CHANNELS; o++) {
            double largest = 0;
            for (int64_t k = 0; k < n / CASE_CHANNELS; k++)
                largest = fmax(largest, fabs((double)w[o * (n / CASE_CHANNELS) + k]));
            least = fmin(least, largest), most = fmax(most, largest);
        }
        return most / least;
    }
    return 0;
}

static void equalizing_changes_no_result(void **state) {
    struct quantize_case *p = *state;
    struct mo_edit e;
    moire_error err = {0};
    int64_t n, m;
    quantize_case_write(p, case_narrow_chain, 13);
    assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
    /* filters that are very unlike, as those of networks with depthwise convolutions are */
    for (size_t i = 0; i < e.graph->n_node; i++) {
        float *w = strcmp(e.graph->node[i]->op_type, "Conv")
                       ? NULL
                       : mo_edit_floats(&e, e.graph->node[i]->input[1], &n);
        for (int64_t o = 0; w && n == 9 * CASE_CHANNELS && o < CASE_CHANNELS; o++)
            for (int k = 0; k < 9; k++)
                w[o * 9 + k] *= (float)(1 << (o % 8));
    }
    const double was = unlike(&e, 1);
    float *before = quantize_case_run(p, &e, &n);
    assert_int_equal(mo_equalize(&e), 2);
    float *after = quantize_case_run(p, &e, &m);
    assert_true(case_apart(before, after, n) < 1e-5);
    assert_true(unlike(&e, 1) < was / 4);
    free(before);
    free(after);
    mo_edit_close(&e);
}

/* --- ranges --- */

static void ranges_are_those_of_the_values(void **state) {
    (void)state;
    enum { N = 400000 };
    struct mo_tally *t = calloc(1, sizeof *t);
    float *x = malloc(N * sizeof *x), lo, hi;
    uint64_t random = 3;
    assert_non_null(t);
    assert_non_null(x);
    for (int i = 0; i < N; i++)
        x[i] = (float)(mo_splitmix(&random) >> 40) * 0x1p-24f; /* 0 to 1 */
    mo_tally_add(t, x, 1000);                                  /* bins widen after that */
    x[N - 1] = 1000, x[N - 2] = -3, x[N - 3] = NAN;
    mo_tally_add(t, x + 1000, N - 1000);
    assert_int_equal(t->n, N - 1);
    assert_int_equal(t->n_bad, 1);
    int64_t sum = 0;
    for (int i = 0; i < MO_TALLY_BINS; i++)
        sum += t->bin[i];
    assert_int_equal(sum, N - 1);
    mo_tally_range(t, MO_RANGE_MINMAX, &lo, &hi);
    assert_true(lo == -3 && hi == 1000);
    mo_tally_range(t, MO_RANGE_PERCENTILE, &lo, &hi);
    assert_true(hi < 3 && lo >= -1);
    mo_tally_range(t, MO_RANGE_ENTROPY, &lo, &hi);
    assert_true(hi >= 1 && hi <= 1000 && lo <= 0);
    memset(t, 0, sizeof *t);
    mo_tally_range(t, MO_RANGE_ENTROPY, &lo, &hi);
    assert_true(lo == 0 && hi == 0);
    free(t);
    free(x);
}

static void zero_is_a_step_of_every_range(void **state) {
    static const float ranges[][2] = {{0, 6}, {-1, 1}, {-3, 0}, {-0.01f, 100}, {0, 0}, {-1e30f, 1e30f}};
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        float scale;
        uint8_t zero;
        mo_qrange_steps(ranges[i][0], ranges[i][1], &scale, &zero);
        assert_true(scale > 0 && isfinite(scale));
        assert_true((255 - zero) * scale >= ranges[i][1] - 0.51f * scale);
        assert_true(-zero * scale <= ranges[i][0] + 0.51f * scale);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(upgrading_changes_no_result),   cmocka_unit_test(norms_go_into_filters),
        cmocka_unit_test(equalizing_changes_no_result),  cmocka_unit_test(ranges_are_those_of_the_values),
        cmocka_unit_test(zero_is_a_step_of_every_range),
    };
    return cmocka_run_group_tests(tests, quantize_case_make, quantize_case_remove);
}
