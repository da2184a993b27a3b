/* SPDX-License-Identifier: Apache-2.0
 * inss_beside.c - models beside one other: which runs InSS's model is fitted to, and its errors on the other
 * half of the pairs, next to gpu-let's linear model on the same; see inss_check.h. */
#include <math.h>
#include <string.h>
#include "bench/fit/inss_errors.h"

/* --- the runs ------------------------------------------------------------------------------------------- */
static const double centre_batch = 8, centre_share = 500;

static double from_centre(const struct mo_pair_side *s) {
    return fabs(log(s->batch / centre_batch)) + fabs(log(s->share / centre_share));
}

int mo_inss_pick_runs(const struct mo_pairs *pairs, const bool *chosen, bool want, int self, int without,
                      int out[MO_INSS_RUNS]) {
    int beside[MO_PAIR_MODELS] = {0}, n = 0; /* runs beside each model so far */
    while (n < MO_INSS_RUNS) {
        int best = -1;
        double least = INFINITY;
        for (int i = 0; i < pairs->n; i++) {
            const struct mo_pair_side *s = &pairs->side[i], *other = &pairs->side[i ^ 1];
            bool taken = false;
            for (int k = 0; k < n; k++)
                taken |= out[k] == i;
            if (taken || s->model != self || other->model == without || (chosen && chosen[i / 2] != want))
                continue;
            double far = from_centre(s) + from_centre(other) + 1e3 * beside[other->model];
            if (far < least) {
                least = far;
                best = i;
            }
        }
        if (best < 0) break;
        beside[pairs->side[best ^ 1].model]++;
        out[n++] = best;
    }
    return n;
}

struct mo_inss_run mo_inss_run_of(const struct mo_pairs *pairs, int sample) {
    const struct mo_pair_side *s = &pairs->side[sample], *o = &pairs->side[sample ^ 1];
    return (struct mo_inss_run){.self = {s->model, s->batch, s->share},
                                .other = {{o->model, o->batch, o->share}},
                                .n_others = 1,
                                .ms = s->us * 1e-3};
}

double mo_inss_predict(const struct mo_pairs *pairs, const struct mo_inss_model *models, int sample) {
    const struct mo_pair_side *s = &pairs->side[sample], *o = &pairs->side[sample ^ 1];
    const struct mo_inss_model *other = &models[o->model];
    struct mo_inss_use use = mo_inss_use_of(other, o->batch, mo_inss_alone_ms(other, o->batch, o->share));
    return mo_inss_alone_ms(&models[s->model], s->batch, s->share) *
           mo_inss_slowdown(&models[s->model], &use, 1);
}

/* --- the errors ----------------------------------------------------------------------------------------- */
enum { CHOSEN, PRINTED, WHOLE_HALF, FACTORS, UNSEEN, GPULET, GPULET_FEW, NONE, PREDICTORS };

static const struct {
    const char *what, *predictor;
} rows[PREDICTORS] = {
    [CHOSEN] = {"beside one", "inss"},
    [PRINTED] = {"beside one", "inss as printed"},
    [WHOLE_HALF] = {"beside one", "inss, the whole half"},
    [FACTORS] = {"beside one", "a factor a neighbour"},
    [UNSEEN] = {"beside a model never seen", "inss"},
    [GPULET] = {"beside one", "gpu-let"},
    [GPULET_FEW] = {"beside one", "gpu-let, same pairs"},
    [NONE] = {"beside one", "none"},
};

struct by_model {
    struct mo_inss_errors of[MO_PAIR_MODELS];
};

struct halves {
    struct mo_inss_test *test;
    bool *chosen, *few;      /* by pair: the half of the fits; the pairs that the runs belong to */
    struct mo_inss_run *run; /* [pairs->n] */
    struct by_model error[PREDICTORS];
    struct mo_inss_spread spread[PREDICTORS][MO_PAIR_MODELS];
};

/* Fits to three runs a model, of which `self` has none beside `without`. */
static int fit_runs(struct halves *h, struct mo_inss_model *models, int self, int without,
                    const struct mo_inss_pull *pull, moire_error *err) {
    const struct mo_pairs *pairs = h->test->pairs;
    int n = 0, at[MO_INSS_RUNS];
    memset(h->few, 0, (size_t)pairs->n / 2 * sizeof *h->few);
    for (int m = 0; m < pairs->n_models; m++) {
        int k = mo_inss_pick_runs(pairs, h->chosen, true, m, m == self ? without : -1, at);
        for (int i = 0; i < k; i++) {
            h->few[at[i] / 2] = true;
            h->run[n++] = mo_inss_run_of(pairs, at[i]);
        }
    }
    return mo_inss_fit_beside(models, pairs->n_models, h->run, n, pull, NULL, err);
}

/* Errors of the samples of the other half, of one model beside one other (-1: of any). */
static void test_inss(struct halves *h, const struct mo_inss_model *models, int self, int other,
                      struct by_model *out) {
    const struct mo_pairs *pairs = h->test->pairs;
    for (int i = 0; i < pairs->n; i++) {
        int m = pairs->side[i].model;
        if (h->chosen[i / 2] || (self >= 0 && m != self) || (other >= 0 && pairs->side[i ^ 1].model != other))
            continue;
        mo_inss_count(&out->of[m], mo_inss_predict(pairs, models, i), pairs->side[i].us * 1e-3);
    }
}

static void test_linear(struct halves *h, const struct mo_interference *model, struct by_model *out) {
    const struct mo_pairs *pairs = h->test->pairs;
    for (int i = 0; i < pairs->n; i++) {
        const struct mo_pair_sample *s = &pairs->sample[i];
        if (!h->chosen[i / 2])
            mo_inss_count(&out->of[pairs->side[i].model], mo_interference(model, &s->self, &s->other, 1),
                          s->slowdown);
    }
}

/* What the paper's formula could do at best: the coefficients of each model fitted to all of the half. */
static int test_whole_half(struct halves *h, moire_error *err) {
    const struct mo_inss_pull printed = {0};
    const struct mo_inss_test *t = h->test;
    int n = 0;
    for (int i = 0; i < t->pairs->n; i++)
        if (h->chosen[i / 2]) h->run[n++] = mo_inss_run_of(t->pairs, i);
    int code = mo_inss_fit_beside(t->model, t->pairs->n_models, h->run, n, &printed, NULL, err);
    if (!code) test_inss(h, t->model, -1, -1, &h->error[WHOLE_HALF]);
    return code;
}

/* What knowing the neighbour's name alone would do: the mean slowdown of each model beside each other. */
static void test_factors(struct halves *h) {
    const struct mo_inss_test *t = h->test;
    const struct mo_pairs *pairs = t->pairs;
    for (int self = 0; self < pairs->n_models; self++)
        for (int other = 0; other < pairs->n_models; other++) {
            double sum = 0;
            int n = 0;
            for (int pass = 0; pass < 2; pass++)
                for (int i = 0; i < pairs->n; i++) {
                    const struct mo_pair_side *s = &pairs->side[i];
                    if (s->model != self || pairs->side[i ^ 1].model != other) continue;
                    double alone = mo_inss_alone_ms(&t->model[self], s->batch, s->share), ms = s->us * 1e-3;
                    if (!pass && h->chosen[i / 2]) {
                        sum += ms / alone;
                        n++;
                    } else if (pass && !h->chosen[i / 2] && n) {
                        mo_inss_count(&h->error[FACTORS].of[self], alone * sum / n, ms);
                    }
                }
        }
}

static int test_unseen(struct halves *h, moire_error *err) {
    const struct mo_inss_test *t = h->test;
    int n = t->pairs->n_models, code = MOIRE_OK;
    for (int self = 0; !code && self < n; self++)
        for (int other = 0; !code && other < n; other++) {
            code = fit_runs(h, t->model, self, other, NULL, err);
            if (!code) test_inss(h, t->model, self, other, &h->error[UNSEEN]);
        }
    return code;
}

/* All predictors by the half that h->chosen says. */
static int test_half(struct halves *h, moire_error *err) {
    const struct mo_inss_pull printed = {0};
    const struct mo_interference none = {0};
    struct mo_interference linear;
    const struct mo_inss_test *t = h->test;
    memset(h->error, 0, sizeof h->error);
    int code = test_unseen(h, err);
    test_factors(h);
    if (!code) code = test_whole_half(h, err);
    if (!code) code = fit_runs(h, t->printed, -1, -1, &printed, err);
    if (!code) test_inss(h, t->printed, -1, -1, &h->error[PRINTED]);
    if (!code) code = fit_runs(h, t->model, -1, -1, NULL, err);
    if (!code) test_inss(h, t->model, -1, -1, &h->error[CHOSEN]);
    if (!code) code = mo_pairs_fit(t->pairs, h->chosen, true, &linear, err);
    if (!code) test_linear(h, &linear, &h->error[GPULET]);
    if (!code) code = mo_pairs_fit(t->pairs, h->few, true, &linear, err);
    if (!code) test_linear(h, &linear, &h->error[GPULET_FEW]);
    if (!code) test_linear(h, &none, &h->error[NONE]);
    for (int p = 0; !code && p < PREDICTORS; p++)
        for (int m = 0; m < t->pairs->n_models; m++) {
            double mean = mo_inss_mean_error(&h->error[p].of[m]);
            struct mo_inss_spread *spread = &h->spread[p][m];
            spread->least = spread->n ? fmin(spread->least, mean) : mean;
            spread->most = fmax(spread->most, mean);
            spread->sum += mean;
            spread->n++;
        }
    return code;
}

/* Predictions to look at, as the paper's Tables 3 and 4 have them: each model beside the next at a batch of
 * 8, shares equal and the batch rising, or the batch 8 and the share rising. */
static int add_points(struct halves *h, moire_error *err) {
    struct mo_inss_test *t = h->test;
    int code = MOIRE_OK;
    for (int i = 0; !code && i < t->pairs->n; i++) {
        const struct mo_pair_side *s = &t->pairs->side[i], *o = &t->pairs->side[i ^ 1];
        bool equal = s->share == o->share, eight = s->batch == 8;
        bool next = o->model == (s->model + 1) % t->pairs->n_models;
        if (h->chosen[i / 2] || !next || o->batch != 8 || (!equal && !eight)) continue;
        code = mo_inss_add_point(t, equal ? "beside, by batch" : "beside, by share", s,
                                 t->pairs->model[o->model].name, s->us * 1e-3,
                                 mo_inss_predict(t->pairs, t->model, i), err);
    }
    return code;
}

static int all_halves(struct halves *h, moire_error *err) {
    struct mo_inss_test *t = h->test;
    int code = MOIRE_OK;
    for (int s = t->o->splits - 1; !code && s >= 0; s--) { /* the first last: its errors are the rows' */
        mo_pairs_split(t->pairs, t->o->seed + (uint64_t)s, h->chosen);
        code = test_half(h, err);
    }
    for (int p = 0; !code && p < PREDICTORS; p++)
        for (int m = 0; !code && m < t->pairs->n_models; m++)
            code = mo_inss_add_row(t, t->pairs->model[m].name, rows[p].what, rows[p].predictor,
                                   &h->error[p].of[m], &h->spread[p][m], err);
    return code ? code : add_points(h, err);
}

int mo_inss_test_beside(struct mo_inss_test *test, moire_error *err) {
    const struct mo_env *env = test->pairs->env;
    struct halves *h = mo_alloc(env, sizeof *h);
    size_t n = (size_t)test->pairs->n / 2;
    int code = MOIRE_OK;
    if (h) {
        h->test = test;
        h->chosen = mo_alloc(env, n * sizeof *h->chosen);
        h->few = mo_alloc(env, n * sizeof *h->few);
        h->run = mo_alloc(env, 2 * n * sizeof *h->run);
    }
    if (!h || !h->chosen || !h->few || !h->run)
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory for %zu pairs", n);
    if (!code) code = all_halves(h, err);
    if (h) {
        mo_free(env, h->chosen);
        mo_free(env, h->few);
        mo_free(env, h->run);
    }
    mo_free(env, h);
    return code;
}
