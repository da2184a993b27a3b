/* SPDX-License-Identifier: Apache-2.0
 * inss_errors.h - errors of predictors by model, as rows of a document, between the files of the tests of
 * InSS's latency model (inss_check.h). */
#ifndef MO_BENCH_INSS_ERRORS_H
#define MO_BENCH_INSS_ERRORS_H
#include <math.h>
#include "bench/fit/inss_check.h"

/* Relative errors of one model's predictions. */
struct mo_inss_errors {
    int n;
    double sum, worst;
};

static inline void mo_inss_count(struct mo_inss_errors *e, double predicted, double measured) {
    double error = fabs(predicted / measured - 1);
    e->n++;
    e->sum += error;
    e->worst = fmax(e->worst, error);
}
static inline double mo_inss_mean_error(const struct mo_inss_errors *e) {
    return e->n ? e->sum / e->n : 0;
}

/* Their means over several draws of what is fitted. */
struct mo_inss_spread {
    int n;
    double least, most, sum;
};

/* What the parts of the test share. */
struct mo_inss_test {
    const struct mo_pairs *pairs;
    const struct mo_inss_options *o;
    struct mo_inss_model *model, *printed; /* [pairs->n_models]: as chosen, and as the paper prints it */
    json_t *rows, *points;
};

/* The predictor of rows that no measurement stands behind; all others are held out. */
#define MO_INSS_MODEL_ONLY "inss, against gpu-let"

/* One row; spread NULL: not drawn more than once. */
int mo_inss_add_row(struct mo_inss_test *test, const char *model, const char *what, const char *predictor,
                    const struct mo_inss_errors *errors, const struct mo_inss_spread *spread,
                    moire_error *err);
/* One prediction to look at; beside NULL: alone. */
int mo_inss_add_point(struct mo_inss_test *test, const char *what, const struct mo_pair_side *self,
                      const char *beside, double observed_ms, double predicted_ms, moire_error *err);

/* The parts, each of which adds rows and points. */
int mo_inss_test_alone(struct mo_inss_test *test, moire_error *err);
int mo_inss_test_beside(struct mo_inss_test *test, moire_error *err);
int mo_inss_test_several(struct mo_inss_test *test, moire_error *err);
int mo_inss_test_queue(struct mo_inss_test *test, moire_error *err);

/* The runs of model `self` among the pairs with chosen[i] == want, none beside `without` (-1: any neighbour):
 * indices of samples into out[MO_INSS_RUNS]; how many there are. */
int mo_inss_pick_runs(const struct mo_pairs *pairs, const bool *chosen, bool want, int self, int without,
                      int out[MO_INSS_RUNS]);
struct mo_inss_run mo_inss_run_of(const struct mo_pairs *pairs, int sample);
/* ms on the GPU of a sample as a model predicts it. */
double mo_inss_predict(const struct mo_pairs *pairs, const struct mo_inss_model *models, int sample);
#endif
