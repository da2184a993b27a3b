/* SPDX-License-Identifier: Apache-2.0
 * fit.c - principal components and least squares of a handful of columns; see fit.h.
 *
 * Columns are standardised.  The regression goes through the components, and those that carry no variance are
 * left out of it: columns that say the same share the weight instead of blowing it up. */
#include "bench/fit/fit.h"

#include <math.h>
#include <string.h>

enum { FOLDS = 5, LEAST_ROWS = 10, ROWS_A_COLUMN = 5, MOST = 16, SWEEPS = 60 };
static const double negligible = 1e-9;

/* --- eigenvalues ---------------------------------------------------------------------------------------- */
/* Turns rows and columns p, q so that a[p][q] becomes 0. */
static void rotate(int n, double *a, double *v, int p, int q) {
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < n; k++) {
        double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (int k = 0; k < n; k++) {
        double x = a[p * n + k], y = a[q * n + k], vx = v[k * n + p], vy = v[k * n + q];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
        v[k * n + p] = c * vx - s * vy;
        v[k * n + q] = s * vx + c * vy;
    }
}

static void swap_columns(int n, double *value, double *v, int i, int j) {
    double x = value[i];
    value[i] = value[j];
    value[j] = x;
    for (int k = 0; k < n; k++) {
        x = v[k * n + i];
        v[k * n + i] = v[k * n + j];
        v[k * n + j] = x;
    }
}

void mo_eigen(int n, double *a, double *value, double *v) {
    double scale = 0;
    for (int i = 0; i < n * n; i++) {
        v[i] = i % (n + 1) == 0;
        scale = fmax(scale, fabs(a[i]));
    }
    for (int sweep = 0, turned = 1; turned && sweep < SWEEPS; sweep++) {
        turned = 0;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++)
                if (fabs(a[p * n + q]) > 1e-15 * scale) {
                    rotate(n, a, v, p, q);
                    turned = 1;
                }
    }
    for (int i = 0; i < n; i++)
        value[i] = a[i * n + i];
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            if (value[j] > value[i]) swap_columns(n, value, v, i, j);
}

/* --- moments -------------------------------------------------------------------------------------------- */
/* Rows that count: all but those of one fold, or only those. */
struct rows {
    const struct mo_samples *s;
    int fold; /* -1 = all rows */
    bool only;
};

static bool counts(const struct rows *r, int i) {
    return r->fold < 0 || (i % FOLDS == r->fold) == r->only;
}

static double mean(const struct rows *r, int column) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < r->s->n; i++)
        if (counts(r, i)) {
            sum += r->s->row[i].cell[column];
            n++;
        }
    return n ? sum / n : 0;
}

/* Sum of products of deviations from the means. */
static double joint(const struct rows *r, int a, int b) {
    double ma = mean(r, a), mb = mean(r, b), sum = 0;
    for (int i = 0; i < r->s->n; i++)
        if (counts(r, i)) sum += (r->s->row[i].cell[a] - ma) * (r->s->row[i].cell[b] - mb);
    return sum;
}

static bool is_constant(const struct rows *r, int column) {
    double m = mean(r, column);
    return joint(r, column, column) <= negligible * negligible * (m * m + 1e-12) * r->s->n;
}

static double correlation(const struct rows *r, int a, int b) {
    return is_constant(r, a) || is_constant(r, b) ? 0
                                                  : joint(r, a, b) / sqrt(joint(r, a, a) * joint(r, b, b));
}

/* --- the fit -------------------------------------------------------------------------------------------- */
/* Least squares of the pressure on the columns of `f`, over these rows. */
static void regress(const struct rows *r, struct mo_fit *f) {
    double a[MOST * MOST] = {0}, v[MOST * MOST] = {0}, value[MOST] = {0}, with[MOST];
    const int k = f->k;
    for (int i = 0; i < k; i++) {
        with[i] = correlation(r, f->column[i], MO_SAMPLE_PRESSURE);
        for (int j = 0; j < k; j++)
            a[i * k + j] = i == j ? 1 : correlation(r, f->column[i], f->column[j]);
    }
    mo_eigen(k, a, value, v);
    double sd_y = sqrt(joint(r, MO_SAMPLE_PRESSURE, MO_SAMPLE_PRESSURE));
    memset(f->coefficient, 0, sizeof f->coefficient);
    for (int c = 0; c < k; c++) {
        double along = 0;
        for (int i = 0; i < k; i++)
            along += v[i * k + c] * with[i];
        bool carries = value[c] > negligible;
        f->share[c] = value[c] / k;
        f->tells[c] = carries ? along / sqrt(value[c]) : 0;
        for (int i = 0; i < k; i++) {
            f->loading[c][i] = v[i * k + c];
            if (carries && !is_constant(r, f->column[i]))
                f->coefficient[i] +=
                    v[i * k + c] * along / value[c] * sd_y / sqrt(joint(r, f->column[i], f->column[i]));
        }
    }
    f->intercept = mean(r, MO_SAMPLE_PRESSURE);
    for (int i = 0; i < k; i++) {
        f->intercept -= f->coefficient[i] * mean(r, f->column[i]);
        f->alone[i] = with[i];
    }
}

static double predict(const struct mo_fit *f, const struct mo_sample *row) {
    double p = f->intercept;
    for (int i = 0; i < f->k; i++)
        p += f->coefficient[i] * row->cell[f->column[i]];
    return p;
}

/* Squared errors of a fit over these rows. */
static double squares(const struct rows *r, const struct mo_fit *f) {
    double sum = 0;
    for (int i = 0; i < r->s->n; i++)
        if (counts(r, i)) {
            double e = predict(f, &r->s->row[i]) - r->s->row[i].cell[MO_SAMPLE_PRESSURE];
            sum += e * e;
        }
    return sum;
}

static void judge(const struct rows *all, struct mo_fit *f) {
    double whole = joint(all, MO_SAMPLE_PRESSURE, MO_SAMPLE_PRESSURE), left = 0;
    f->r2 = 1 - squares(all, f) / whole;
    for (int fold = 0; fold < FOLDS; fold++) {
        struct mo_fit part = *f;
        regress(&(struct rows){all->s, fold, false}, &part);
        left += squares(&(struct rows){all->s, fold, true}, &part);
    }
    f->r2_left_out = 1 - left / whole;
    for (int i = 0; i < f->n; i++) {
        double p = fmin(1, fmax(0, predict(f, &all->s->row[i])));
        double e = fabs(p - all->s->row[i].cell[MO_SAMPLE_PRESSURE]);
        f->mean_error += e / f->n;
        f->worst_error = fmax(f->worst_error, e);
    }
}

int mo_fit_samples(const struct mo_samples *s, const bool use[MO_SAMPLE_CELLS], struct mo_fit *out,
                   moire_error *err) {
    const struct rows all = {s, -1, false};
    const int columns = mo_samples_columns(s->source);
    *out = (struct mo_fit){.n = s->n};
    for (int c = s->source->n ? MO_SAMPLE_FIRST : MO_SAMPLE_SLOWDOWN; c < columns; c++)
        if (use[c] && !is_constant(&all, c)) out->column[out->k++] = c;
    int least = LEAST_ROWS + ROWS_A_COLUMN * out->k;
    if (s->n < least)
        return mo_fail(err, MOIRE_EINVAL, "%d rows; a fit of %d columns needs %d: measure longer", s->n,
                       out->k, least);
    if (is_constant(&all, MO_SAMPLE_PRESSURE))
        return mo_fail(err, MOIRE_EINVAL, "the pressure never changes: measure under several levels");
    if (!out->k)
        return mo_fail(err, MOIRE_EINVAL, "none of the columns ever changes: nothing tells the pressure");
    out->slowdown = correlation(&all, MO_SAMPLE_SLOWDOWN, MO_SAMPLE_PRESSURE);
    regress(&all, out);
    judge(&all, out);
    return MOIRE_OK;
}
