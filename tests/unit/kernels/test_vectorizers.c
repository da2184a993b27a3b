/* SPDX-License-Identifier: Apache-2.0
 * test_vectorizers.c - TfIdfVectorizer: weights, skips, pools that contradict themselves; and the steps of
 * optimizers by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "tests/unit/kernels/op_case.h"

/* 1-grams 2, 3; 2-grams 5 4, 2 2; outputs in another order than the pool. */
static const char pool[] =
    "pool_int64s=2,3,5,4,2,2 ngram_counts=0,2 ngram_indexes=3,0,1,2 max_gram_length=2 ";

static void counts(const char *more, const char *shape, const double *x, const double *want, int64_t n) {
    struct op_case c;
    op_case_open(&c, "TfIdfVectorizer", 9);
    op_case_attrs(&c, pool);
    op_case_attrs(&c, more);
    op_case_input(&c, MOIRE_I64, shape, x);
    if (op_case_run(&c, 1)) fail_msg("%s", c.err.message);
    assert_int_equal(mo_shape_count(&c.out[0].shape), n);
    for (int64_t i = 0; i < n; i++)
        if (op_case_out(&c, 0, i) != want[i])
            fail_msg("%s: element %d is %g, not %g", more, (int)i, op_case_out(&c, 0, i), want[i]);
    op_case_close(&c);
}

static void ngrams_are_counted(void **state) {
    static const double x[] = {2, 2, 2, 5, 4, 3};
    (void)state;
    /* outputs: 3; 5 4; 2 2; 2 */
    counts("mode:TF min_gram_length=1", "6", x, (const double[]){1, 1, 2, 3}, 4);
    counts("mode:TF min_gram_length=2", "6", x, (const double[]){0, 1, 2, 0}, 4);
    counts("mode:TF min_gram_length=1 max_skip_count=1", "6", x, (const double[]){1, 1, 3, 3}, 4);
    counts("mode:IDF min_gram_length=1 weights~0.5,2,3,4", "6", x, (const double[]){2, 3, 4, 0.5}, 4);
    counts("mode:TFIDF min_gram_length=1 weights~0.5,2,3,4", "6", x, (const double[]){2, 3, 8, 1.5}, 4);
    counts("mode:TF min_gram_length=1 max_skip_count=9", "2x3", x, (const double[]){0, 0, 3, 3, 1, 1, 0, 0},
           8);
    counts("mode:TF min_gram_length=1", "0", NULL, (const double[]){0, 0, 0, 0}, 4);
}

static void pools_must_fit(void **state) {
    static const struct {
        const char *attrs, *says;
    } cases[] = {
        {"pool_int64s=1,2 ngram_counts=0,1 ngram_indexes=0,1", "do not fit"},
        {"pool_int64s=1,2,3 ngram_counts=0,1 ngram_indexes=0,1,2", "do not fit"},
        {"pool_int64s=1,2,3 ngram_counts=2,1 ngram_indexes=0,1", "do not fit"},
        {"pool_int64s=1,2,3 ngram_counts=0,9 ngram_indexes=0,1", "do not fit"},
        {"pool_int64s=1,2 ngram_counts=0,2 ngram_indexes=0,-1", "-1"},
        {"pool_int64s=1,2 ngram_counts=0,2 ngram_indexes=0,1 min_gram_length=2", "lengths from 2 to 1"},
        {"ngram_counts=0,2 ngram_indexes=0,1", "pool_int64s"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct op_case c;
        op_case_open(&c, "TfIdfVectorizer", 9);
        op_case_attrs(&c, cases[i].attrs);
        op_case_input(&c, MOIRE_I32, "4", NULL);
        assert_int_not_equal(op_case_infer(&c, 1), MOIRE_OK);
        if (!strstr(c.err.message, cases[i].says)) fail_msg("it says: %s", c.err.message);
        op_case_close(&c);
    }
}

/* Operator of the domain of optimizers, with R = 0.5, T, then one tensor of 1 element for each value. */
static void step(struct op_case *c, const char *op, const char *attrs, double t, const double *values,
                 int n) {
    op_case_open(c, "Identity", 13);
    c->node->op = mo_op_find(op, "ai.onnx.preview.training");
    c->node->op_type = op;
    assert_non_null(c->node->op);
    op_case_attrs(c, attrs);
    op_case_input(c, MOIRE_F32, "", (const double[]){0.5});
    op_case_input(c, MOIRE_I64, "", &t);
    for (int i = 0; i < n; i++)
        op_case_input(c, MOIRE_F32, "1", &values[i]);
}

static void near(const struct op_case *c, int output, double want) {
    const double got = op_case_out(c, output, 0);
    if (fabs(got - want) > 1e-6 * (1 + fabs(want)))
        fail_msg("output %d is %.9g, not %.9g", output, got, want);
}

static void optimizers_step(void **state) {
    struct op_case c;
    (void)state;
    step(&c, "Momentum", "alpha=0.5 beta=0.25 mode:nesterov norm_coefficient=0.0", 3,
         (const double[]){1, 2, 4}, 3);
    assert_int_equal(op_case_run(&c, 2), MOIRE_OK);
    near(&c, 1, 2.5);                  /* 0.5 4 + 0.25 2 */
    near(&c, 0, 1 - 0.5 * (2 + 1.25)); /* the gradient looks ahead */
    op_case_close(&c);
    step(&c, "Adagrad", "decay_factor=1.0 epsilon=1.0 norm_coefficient=2.0", 1, (const double[]){1, 1, 7}, 3);
    assert_int_equal(op_case_run(&c, 2), MOIRE_OK);
    near(&c, 1, 16); /* 7 + 3 3 */
    near(&c, 0, 1 - 0.25 * 3 / 5);
    op_case_close(&c);
    step(&c, "Adam", "alpha=0.5 beta=0.75 epsilon=1.0 norm_coefficient_post=0.5", 1,
         (const double[]){1, 2, 4, 12}, 4);
    assert_int_equal(op_case_run(&c, 3), MOIRE_OK);
    near(&c, 1, 3);
    near(&c, 2, 10);
    near(&c, 0, 0.5 * (1 - 0.5 * (0.5 / 0.5) * 3 / (sqrt(10) + 1)));
    op_case_close(&c);
    step(&c, "Adam", "", 1, (const double[]){1, 2, 4}, 3);
    assert_int_not_equal(op_case_infer(&c, 3), MOIRE_OK);
    op_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ngrams_are_counted),
        cmocka_unit_test(pools_must_fit),
        cmocka_unit_test(optimizers_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
