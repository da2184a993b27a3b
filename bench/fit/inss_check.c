/* SPDX-License-Identifier: Apache-2.0
 * inss_check.c - the test of InSS's latency model as a document, and its part on models alone; see
 * inss_check.h. */
#include "bench/fit/inss_check.h"

#include "bench/fit/inss_errors.h"

/* What the paper says of its own model: the worst single error in Tables 3 and 4, and its claim. */
static const double paper_worst_pct = 4.971, paper_claim_pct = 5;

/* --- alone ---------------------------------------------------------------------------------------------- */
enum { INSS, PRINTED, INTERPOLATION, PREDICTORS };
static const char *const predictors[PREDICTORS] = {"inss", "inss as printed", "interpolation"};

/* The profile that the 16 points alone make: what planners here would know of them without a regression. */
static struct mo_share_profile *sixteen(const struct mo_share_profile *p, const struct mo_inss_grid *g) {
    struct mo_share_profile *q = mo_share_create(p->env, MO_INSS_SIDE, g->batch, MO_INSS_SIDE, g->share);
    for (int i = 0; q && i < p->n_batches; i++)
        for (int j = 0; j < p->n_shares; j++)
            for (int k = 0; k < MO_INSS_POINTS; k++)
                if (g->batch[k / MO_INSS_SIDE] == p->batch[i] && g->share[k % MO_INSS_SIDE] == p->share[j])
                    mo_share_record(q, k / MO_INSS_SIDE, k % MO_INSS_SIDE, &p->cell[i * p->n_shares + j]);
    if (q && !mo_share_finish(q, NULL)) return q;
    mo_share_destroy(q);
    return NULL;
}

static bool among(const int list[MO_INSS_SIDE], int value) {
    for (int i = 0; i < MO_INSS_SIDE; i++)
        if (list[i] == value) return true;
    return false;
}

static int alone_points(struct mo_inss_test *t, int m, const struct mo_pair_side *at, double ms,
                        moire_error *err) {
    double predicted = mo_inss_alone_ms(&t->model[m], at->batch, at->share);
    bool power = !(at->batch & (at->batch - 1)) && at->batch <= 16;
    int code = MOIRE_OK;
    if (at->share == 500 && power)
        code = mo_inss_add_point(t, "alone, by batch", at, NULL, ms, predicted, err);
    if (!code && at->batch == 8) code = mo_inss_add_point(t, "alone, by share", at, NULL, ms, predicted, err);
    return code;
}

/* By predictor and model; all held out, and those that lie inside the grid. */
struct alone {
    struct mo_inss_errors all[PREDICTORS][MO_PAIR_MODELS], inside[PREDICTORS][MO_PAIR_MODELS];
};

static int alone_model(struct mo_inss_test *t, int m, const struct mo_share_profile *q, struct alone *out,
                       moire_error *err) {
    const struct mo_share_profile *p = t->pairs->model[m].table.profile;
    const struct mo_inss_grid *g = &t->o->grid;
    int code = MOIRE_OK;
    for (int i = 0; !code && i < p->n_batches * p->n_shares; i++) {
        struct mo_pair_side at = {m, p->batch[i / p->n_shares], p->share[i % p->n_shares], 0};
        double ms = (double)p->cell[i].ns * 1e-6;
        if (!(ms > 0) || (among(g->batch, at.batch) && among(g->share, at.share))) continue;
        bool in = at.batch >= g->batch[0] && at.batch <= g->batch[MO_INSS_SIDE - 1] &&
                  at.share >= g->share[0] && at.share <= g->share[MO_INSS_SIDE - 1];
        const double predicted[PREDICTORS] = {mo_inss_alone_ms(&t->model[m], at.batch, at.share),
                                              mo_inss_alone_ms(&t->printed[m], at.batch, at.share),
                                              (double)mo_share_latency(q, at.batch, at.share) * 1e-6};
        for (int k = 0; k < PREDICTORS; k++) {
            mo_inss_count(&out->all[k][m], predicted[k], ms);
            if (in) mo_inss_count(&out->inside[k][m], predicted[k], ms);
        }
        code = alone_points(t, m, &at, ms, err);
    }
    return code;
}

static int alone_rows(struct mo_inss_test *t, const char *what,
                      struct mo_inss_errors errors[PREDICTORS][MO_PAIR_MODELS], moire_error *err) {
    int code = MOIRE_OK;
    for (int k = 0; k < PREDICTORS; k++)
        for (int m = 0; !code && m < t->pairs->n_models; m++)
            code = mo_inss_add_row(t, t->pairs->model[m].name, what, predictors[k], &errors[k][m], NULL, err);
    return code;
}

int mo_inss_test_alone(struct mo_inss_test *t, moire_error *err) {
    struct alone *found = mo_alloc(t->pairs->env, sizeof *found);
    int code = found ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int m = 0; !code && m < t->pairs->n_models; m++) {
        struct mo_share_profile *q = sixteen(t->pairs->model[m].table.profile, &t->o->grid);
        code = q ? alone_model(t, m, q, found, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
        mo_share_destroy(q);
    }
    if (!code) code = alone_rows(t, "solo", found->all, err);
    if (!code) code = alone_rows(t, "solo, inside the grid", found->inside, err);
    mo_free(t->pairs->env, found);
    return code;
}

/* --- the document --------------------------------------------------------------------------------------- */
static const char *const terms[MO_INSS_TERMS] = {"1, b, s", "1, b, 1/s", "1, b, 1/s, b/s"};

static json_t *model_json(const char *name, const struct mo_inss_model *m) {
    return json_pack("{s:s, s:s, s:f, s:f, s:{s:f,s:f}, s:{s:f,s:f}, s:{s:f,s:f}, s:{s:f,s:f,s:f}}", "model",
                     name, "terms", terms[m->shape.terms], "width", m->shape.width, "left_out_error_pct",
                     100 * m->shape_error, "use_slope", "l2", m->slope.l2, "dram", m->slope.dram, "use_base",
                     "l2", m->base.l2, "dram", m->base.dram, "use_explained", "l2", m->use_explained.l2,
                     "dram", m->use_explained.dram, "alpha", "cache", m->alpha.cache, "dram", m->alpha.dram,
                     "beside", m->alpha.beside);
}

static int fit_all(struct mo_inss_test *t, moire_error *err) {
    const struct mo_inss_shape printed = {MO_INSS_LINEAR, 0};
    for (int m = 0; m < t->pairs->n_models; m++) {
        const struct mo_share_profile *p = t->pairs->model[m].table.profile;
        moire_error why = {0};
        int code = mo_inss_fit_alone(p, &t->o->grid, NULL, &t->model[m], &why);
        if (!code) code = mo_inss_fit_alone(p, &t->o->grid, &printed, &t->printed[m], &why);
        if (code) return mo_fail(err, code, "%s.csv beside it: %s", t->pairs->model[m].name, why.message);
    }
    return MOIRE_OK;
}

/* The parts in order, and the models as the first half left them. */
static int fill(struct mo_inss_test *t, json_t *models, moire_error *err) {
    int code = fit_all(t, err);
    if (!code) code = mo_inss_test_alone(t, err);
    if (!code) code = mo_inss_test_beside(t, err);
    if (!code) code = mo_inss_test_several(t, err);
    if (!code) code = mo_inss_test_queue(t, err);
    for (int m = 0; !code && m < t->pairs->n_models; m++)
        if (json_array_append_new(models, model_json(t->pairs->model[m].name, &t->model[m])))
            code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return code;
}

static json_t *grid_json(const int side[MO_INSS_SIDE]) {
    return json_pack("[i,i,i,i]", side[0], side[1], side[2], side[3]);
}

int mo_inss_document(const struct mo_pairs *pairs, const struct mo_inss_options *o, json_t **out,
                     moire_error *err) {
    const struct mo_env *env = pairs->env;
    struct mo_inss_test t = {.pairs = pairs, .o = o, .rows = json_array(), .points = json_array()};
    json_t *models = json_array();
    int n = pairs->n / 2, code = MOIRE_OK;
    *out = NULL;
    t.model = mo_alloc(env, (size_t)pairs->n_models * sizeof *t.model);
    t.printed = mo_alloc(env, (size_t)pairs->n_models * sizeof *t.printed);
    if (n < 8)
        code = mo_fail(err, MOIRE_EINVAL, "%d pairs are too few to fit and to test", n);
    else if (!t.model || !t.printed || !t.rows || !t.points || !models)
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory for %d models", pairs->n_models);
    if (!code) code = fill(&t, models, err);
    mo_free(env, t.model);
    mo_free(env, t.printed);
    if (!code) {
        *out = json_pack("{s:{s:s, s:i, s:i, s:i, s:I, s:i, s:i, s:o, s:o, s:f, s:f}, s:O, s:O, s:O}",
                         "experiment", "kind", "inss-latency", "pairs", n, "fitted_from", n / 2, "tested",
                         n - n / 2, "seed", (json_int_t)o->seed, "splits", o->splits, "runs_a_model",
                         MO_INSS_RUNS, "grid_batches", grid_json(o->grid.batch), "grid_shares",
                         grid_json(o->grid.share), "paper_worst_pct", paper_worst_pct, "paper_claim_pct",
                         paper_claim_pct, "models", models, "latency_model", t.rows, "points", t.points);
        if (!*out) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    json_decref(models);
    json_decref(t.rows);
    json_decref(t.points);
    return code;
}
