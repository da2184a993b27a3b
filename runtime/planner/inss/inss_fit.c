/* SPDX-License-Identifier: Apache-2.0
 * inss_fit.c - fitting InSS's latency model to one model's solo runs, and to runs beside others; see
 * inss_latency.h. */
#include <math.h>
#include <string.h>
#include "runtime/planner/inss/inss_impl.h"

static const double widths[] = {0.3, 0.5, 0.7, 1, 1.5, 3};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* --- alone ---------------------------------------------------------------------------------------------- */
/* Index of a value of a rising list, -1: not there. */
static int index_of(const int *list, int n, int value) {
    for (int i = 0; i < n; i++)
        if (list[i] == value) return i;
    return -1;
}

static bool measured(const struct mo_share_profile *p, int at, bool l2) {
    for (int j = 0; j < p->n_shares; j++) {
        const struct mo_share_use *use = &p->cell[at * p->n_shares + j].use;
        if ((l2 ? use->l2 : use->dram) >= 0) return true;
    }
    return false;
}

static int check_grid(const struct mo_share_profile *p, const struct mo_inss_grid *g, moire_error *err) {
    int at[MO_INSS_SIDE], to[MO_INSS_SIDE];
    for (int i = 0; i < MO_INSS_SIDE; i++) {
        if (g->batch[i] < 1 || g->share[i] < 1 || g->share[i] > MO_SHARE_WHOLE ||
            (i && (g->batch[i] <= g->batch[i - 1] || g->share[i] <= g->share[i - 1])))
            return mo_fail(err, MOIRE_EINVAL, "a grid is four rising batches and four rising shares");
        at[i] = index_of(p->batch, p->n_batches, g->batch[i]);
        to[i] = index_of(p->share, p->n_shares, g->share[i]);
    }
    for (int i = 0; i < MO_INSS_SIDE; i++) {
        if (at[i] < 0)
            return mo_fail(err, MOIRE_EINVAL, "no batch %d, which the grid of solo runs needs", g->batch[i]);
        if (to[i] < 0)
            return mo_fail(err, MOIRE_EINVAL, "no share %d, which the grid of solo runs needs", g->share[i]);
    }
    for (int i = 0; i < 2 * MO_INSS_SIDE; i++)
        if (!measured(p, at[i / 2], i % 2 == 0))
            return mo_fail(err, MOIRE_EINVAL, "batch %d has no use of %s at any share", g->batch[i / 2],
                           i % 2 ? "memory" : "L2");
    for (int i = 0; i < MO_INSS_POINTS; i++) {
        int b = i / MO_INSS_SIDE, s = i % MO_INSS_SIDE;
        if (p->cell[at[b] * p->n_shares + to[s]].ns <= 0)
            return mo_fail(err, MOIRE_EINVAL, "batch %d has no time at share %d, which the grid needs",
                           g->batch[b], g->share[s]);
    }
    return MOIRE_OK;
}

/* Four logarithms in deviations, and how many of these a natural logarithm has. */
static double in_deviations(const int at[MO_INSS_SIDE], double out[MO_INSS_SIDE]) {
    double mean = 0, square = 0;
    for (int i = 0; i < MO_INSS_SIDE; i++)
        mean += log(at[i]) / MO_INSS_SIDE;
    for (int i = 0; i < MO_INSS_SIDE; i++)
        square += (log(at[i]) - mean) * (log(at[i]) - mean) / MO_INSS_SIDE;
    for (int i = 0; i < MO_INSS_SIDE; i++)
        out[i] = log(at[i]) / sqrt(square);
    return 1 / sqrt(square);
}

/* Takes a form of the plane and says what leaving out one point after another shows of it. */
static double shape_error(struct mo_inss_model *m, struct mo_inss_shape shape) {
    double sum = 0;
    m->shape = shape;
    for (int j = 0; j < MO_INSS_SIDE; j++)
        m->u[j] = mo_inss_share_term(shape.terms, m->grid.share[j]);
    for (int p = 0; p < MO_INSS_POINTS; p++) {
        int batch = m->grid.batch[p / MO_INSS_SIDE], share = m->grid.share[p % MO_INSS_SIDE];
        sum += fabs(mo_inss_alone_without(m, batch, share, p) / m->ms[p] - 1);
    }
    return sum / MO_INSS_POINTS;
}

/* The shape with the least error among these terms (MO_INSS_TERMS: all) and, for 0, all widths. */
static void choose_shape(struct mo_inss_model *m, enum mo_inss_terms terms, double width) {
    struct mo_inss_shape best = {.width = 1};
    double least = INFINITY;
    for (int t = 0; t < MO_INSS_TERMS; t++)
        for (int w = 0; w < WIDTHS; w++) {
            struct mo_inss_shape shape = {(enum mo_inss_terms)t, width > 0 ? width : widths[w]};
            if (terms != MO_INSS_TERMS && shape.terms != terms) continue;
            double error = shape_error(m, shape);
            if (error < least) {
                least = error;
                best = shape;
            }
        }
    m->shape_error = shape_error(m, best);
}

/* y = slope x + base by least squares; the share of the variance of y that it explains. */
static double line(const double *x, const double *y, double *slope, double *base) {
    double mx = 0, my = 0, xx = 0, xy = 0, yy = 0;
    for (int i = 0; i < MO_INSS_POINTS; i++) {
        mx += x[i] / MO_INSS_POINTS;
        my += y[i] / MO_INSS_POINTS;
    }
    for (int i = 0; i < MO_INSS_POINTS; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        xy += (x[i] - mx) * (y[i] - my);
        yy += (y[i] - my) * (y[i] - my);
    }
    *slope = xx > 0 ? xy / xx : 0;
    *base = my - *slope * mx;
    return xx > 0 && yy > 0 ? xy * xy / (xx * yy) : 1;
}

static void fit_use(const struct mo_share_profile *p, struct mo_inss_model *m) {
    double rate[MO_INSS_POINTS], l2[MO_INSS_POINTS], dram[MO_INSS_POINTS];
    for (int i = 0; i < MO_INSS_POINTS; i++) {
        int batch = m->grid.batch[i / MO_INSS_SIDE], share = m->grid.share[i % MO_INSS_SIDE];
        int at = index_of(p->batch, p->n_batches, batch), to = index_of(p->share, p->n_shares, share);
        const struct mo_share_use *cell = &p->cell[at * p->n_shares + to].use;
        struct mo_share_use use = mo_share_use_at(p, batch, share);
        m->use_filled += cell->l2 < 0 || cell->dram < 0;
        rate[i] = batch / m->ms[i];
        l2[i] = cell->l2 < 0 ? use.l2 : cell->l2;
        dram[i] = cell->dram < 0 ? use.dram : cell->dram;
    }
    m->use_explained.l2 = line(rate, l2, &m->slope.l2, &m->base.l2);
    m->use_explained.dram = line(rate, dram, &m->slope.dram, &m->base.dram);
}

int mo_inss_fit_alone(const struct mo_share_profile *p, const struct mo_inss_grid *grid,
                      const struct mo_inss_shape *shape, struct mo_inss_model *out, moire_error *err) {
    int code = check_grid(p, grid, err);
    if (code) return code;
    if (shape && (!(shape->width >= 0) || (int)shape->terms < 0 || shape->terms >= MO_INSS_TERMS))
        return mo_fail(err, MOIRE_EINVAL, "no such shape of the regression");
    *out = (struct mo_inss_model){.grid = *grid, .floor_ms = INFINITY};
    if (p->copy_bytes_ns > 0) {
        out->upload.per_query = (double)p->in_bytes / p->copy_bytes_ns * 1e-6;
        out->download.per_query = (double)p->out_bytes / p->copy_bytes_ns * 1e-6;
    }
    for (int i = 0; i < MO_INSS_POINTS; i++) {
        int at = index_of(p->batch, p->n_batches, grid->batch[i / MO_INSS_SIDE]);
        int to = index_of(p->share, p->n_shares, grid->share[i % MO_INSS_SIDE]);
        out->ms[i] = (double)p->cell[at * p->n_shares + to].ns * 1e-6;
        out->floor_ms = fmin(out->floor_ms, out->ms[i] / 2);
    }
    out->per_log_b = in_deviations(grid->batch, out->log_b);
    out->per_log_s = in_deviations(grid->share, out->log_s);
    choose_shape(out, shape ? shape->terms : MO_INSS_TERMS, shape ? shape->width : 0);
    fit_use(p, out);
    return MOIRE_OK;
}
