/* SPDX-License-Identifier: Apache-2.0
 * inss_fit_beside.c - the coefficients of InSS's interference from runs beside others; see inss_latency.h.
 *
 * A run says
 *
 *   time alone x (1 + alpha . u) = measured
 *
 * with u what its neighbours use, and 1 for the constant.  Divided by the measured time that is a row of a
 * least-squares problem in relative errors.  Rows are few (the paper takes three for two coefficients), so a
 * model may be drawn to the coefficients of all models.  The best coefficients >= 0 are found by trying every
 * set of them that is not zero: there are at most eight. */
#include <math.h>
#include <string.h>
#include "runtime/planner/inss/inss_impl.h"

enum { CACHE, DRAM, BESIDE, ALPHAS };

static const double weights[] = {0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
enum { WEIGHTS = sizeof weights / sizeof *weights };

/* Sums over rows of z y' with z = (x, right side), and how many rows there are. */
struct sums {
    double a[ALPHAS][ALPHAS], b[ALPHAS];
    int n;
};

struct row {
    double x[ALPHAS], right;
    int model;
};

struct coefficients {
    double v[ALPHAS];
};

static struct row row_of(const struct mo_inss_model *models, const struct mo_inss_run *run) {
    const struct mo_inss_load *self = &run->self;
    double alone = mo_inss_alone_ms(&models[self->model], self->batch, self->share) / run->ms;
    struct row r = {.x = {[BESIDE] = alone}, .right = 1 - alone, .model = self->model};
    for (int i = 0; i < run->n_others; i++) {
        const struct mo_inss_load *o = &run->other[i];
        const struct mo_inss_model *m = &models[o->model];
        struct mo_inss_use use = mo_inss_use_of(m, o->batch, mo_inss_alone_ms(m, o->batch, o->share));
        r.x[CACHE] += alone * use.l2;
        r.x[DRAM] += alone * use.dram;
    }
    return r;
}

static void add(struct sums *s, const struct row *r, double times) {
    for (int i = 0; i < ALPHAS; i++) {
        for (int j = 0; j < ALPHAS; j++)
            s->a[i][j] += times * r->x[i] * r->x[j];
        s->b[i] += times * r->x[i] * r->right;
    }
    s->n += times > 0 ? 1 : -1;
}

/* Half the gradient's worth of squares, up to a constant: c'Ac - 2 b'c + weight |c - to|^2. */
static double squares(const struct sums *s, const struct coefficients *c, const struct coefficients *to,
                      double weight) {
    double sum = 0;
    for (int i = 0; i < ALPHAS; i++) {
        sum += weight * (c->v[i] - to->v[i]) * (c->v[i] - to->v[i]) - 2 * s->b[i] * c->v[i];
        for (int j = 0; j < ALPHAS; j++)
            sum += c->v[i] * s->a[i][j] * c->v[j];
    }
    return sum;
}

/* Least squares plus weight times the squared distance to `to`, over the terms of the mask; false: these rows
 * do not determine them. */
static bool fit_terms(const struct sums *s, unsigned mask, const struct coefficients *to, double weight,
                      struct coefficients *out) {
    double a[MO_INSS_COLUMNS][MO_INSS_COLUMNS], b[MO_INSS_COLUMNS], x[MO_INSS_COLUMNS];
    int term[ALPHAS], n = 0;
    for (int k = 0; k < ALPHAS; k++)
        if (mask >> k & 1) term[n++] = k;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            a[i][j] = s->a[term[i]][term[j]] + (i == j ? weight : 0);
        b[i] = s->b[term[i]] + weight * to->v[term[i]];
    }
    *out = (struct coefficients){{0}};
    if (!mo_inss_solve(n, a, b, x)) return false;
    for (int i = 0; i < n; i++) {
        if (x[i] < 0) return false;
        out->v[term[i]] = x[i];
    }
    return true;
}

static struct coefficients best(const struct sums *s, bool beside, const struct coefficients *to,
                                double weight) {
    struct coefficients c, found = {{0}};
    double least = INFINITY;
    for (unsigned mask = 0; mask < (beside ? 1u << ALPHAS : 1u << BESIDE); mask++) {
        if (!fit_terms(s, mask, to, weight, &c)) continue;
        double left = squares(s, &c, to, weight);
        if (left < least) {
            least = left;
            found = c;
        }
    }
    return found;
}

/* The coefficients of one model from its sums and those of all. */
static struct coefficients fit_one(const struct sums *own, const struct sums *all,
                                   const struct mo_inss_pull *pull) {
    const struct coefficients none = {{0}};
    if (own->n && !(pull->weight > 0)) return best(own, pull->beside, &none, 0);
    struct coefficients to = best(all, pull->beside, &none, 0);
    return own->n ? best(own, pull->beside, &to, pull->weight) : to;
}

/* Mean relative error of the runs, each left out of the fit that predicts it. */
static double pull_error(struct sums *own, struct sums *all, const struct mo_inss_model *models,
                         const struct mo_inss_run *runs, int n_runs, const struct mo_inss_pull *pull) {
    double sum = 0;
    for (int i = 0; i < n_runs; i++) {
        struct row r = row_of(models, &runs[i]);
        struct sums kept = own[r.model], kept_all = *all;
        add(&kept, &r, -1);
        add(&kept_all, &r, -1);
        struct coefficients c = fit_one(&kept, &kept_all, pull);
        double predicted = -r.right;
        for (int k = 0; k < ALPHAS; k++)
            predicted += c.v[k] * r.x[k];
        sum += fabs(predicted);
    }
    return n_runs ? sum / n_runs : 0;
}

static int check_run(const struct mo_inss_run *run, int n, int at, moire_error *err) {
    bool bad =
        run->self.model < 0 || run->self.model >= n || run->n_others < 1 || run->n_others > MO_INSS_BESIDE;
    for (int i = 0; !bad && i < run->n_others; i++)
        bad = run->other[i].model < 0 || run->other[i].model >= n;
    if (bad) return mo_fail(err, MOIRE_EINVAL, "run %d: models 0 to %d, 1 to 4 neighbours", at, n - 1);
    if (!(run->ms > 0) || isinf(run->ms)) return mo_fail(err, MOIRE_EINVAL, "run %d has no time", at);
    return MOIRE_OK;
}

int mo_inss_fit_beside(struct mo_inss_model *models, int n, const struct mo_inss_run *runs, int n_runs,
                       const struct mo_inss_pull *pull, struct mo_inss_pull *chosen, moire_error *err) {
    struct sums own[MO_INSS_MODELS] = {0}, all = {0};
    if (n < 1 || n > MO_INSS_MODELS || n_runs < 0)
        return mo_fail(err, MOIRE_EINVAL, "%d models: 1 to %d can be fitted", n, MO_INSS_MODELS);
    for (int i = 0; i < n_runs; i++) {
        int code = check_run(&runs[i], n, i, err);
        if (code) return code;
        struct row r = row_of(models, &runs[i]);
        add(&own[r.model], &r, 1);
        add(&all, &r, 1);
    }
    struct mo_inss_pull taken = {.error = INFINITY};
    for (int k = 0; k < (pull ? 1 : 2 * WEIGHTS); k++) {
        struct mo_inss_pull p = pull ? *pull : (struct mo_inss_pull){k >= WEIGHTS, weights[k % WEIGHTS], 0};
        p.error = pull_error(own, &all, models, runs, n_runs, &p);
        if (p.error < taken.error) taken = p;
    }
    if (pull) taken.beside = pull->beside, taken.weight = pull->weight;
    for (int i = 0; i < n; i++) {
        struct coefficients c = fit_one(&own[i], &all, &taken);
        models[i].alpha.cache = c.v[CACHE];
        models[i].alpha.dram = c.v[DRAM];
        models[i].alpha.beside = c.v[BESIDE];
    }
    if (chosen) *chosen = taken;
    return MOIRE_OK;
}
