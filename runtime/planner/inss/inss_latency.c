/* SPDX-License-Identifier: Apache-2.0
 * inss_latency.c - predictions by InSS's latency model; see inss_latency.h.
 *
 * The regression fits its plane around the point that is asked for: the terms are distances from there, so
 * that the constant of the plane is the answer and the normal equations stay well conditioned.  Errors are
 * relative (weights over the squared time), since times lie two orders of magnitude apart on one grid.  The
 * weights have a floor: where the width is narrow the plane becomes one through all points in place of none.
 * They are products of a part by batch and one by share: eight exponentials for 16 points. */
#include "runtime/planner/inss/inss_latency.h"

#include <math.h>
#include "runtime/planner/inss/inss_impl.h"

static const double weight_floor = 1e-9, ridge = 1e-9;

struct mo_inss_grid mo_inss_grid(void) {
    return (struct mo_inss_grid){{1, 4, 16, 32}, {200, 400, 600, 800}};
}

bool mo_inss_solve(int n, double a[MO_INSS_COLUMNS][MO_INSS_COLUMNS], double b[MO_INSS_COLUMNS],
                   double x[MO_INSS_COLUMNS]) {
    const double dependent = 1e-14;
    for (int k = 0; k < n; k++) { /* elimination without pivots: the matrix is positive definite */
        double was = a[k][k];
        for (int j = 0; j < k; j++)
            was += a[j][k] * a[j][k] / a[j][j];
        if (!(a[k][k] > dependent * was)) return false;
        for (int i = k + 1; i < n; i++) {
            double f = a[k][i] / a[k][k];
            for (int j = i; j < n; j++)
                a[i][j] -= f * a[k][j];
            b[i] -= f * b[k];
        }
    }
    for (int k = n - 1; k >= 0; k--) {
        x[k] = b[k];
        for (int j = k + 1; j < n; j++)
            x[k] -= a[k][j] * x[j];
        x[k] /= a[k][k];
    }
    return true;
}

double mo_inss_share_term(enum mo_inss_terms terms, double share) {
    double s = share / MO_SHARE_WHOLE;
    return terms == MO_INSS_LINEAR ? s : 1 / s;
}

/* --- time alone ----------------------------------------------------------------------------------------- */
struct normal {
    int n;
    double a[MO_INSS_COLUMNS][MO_INSS_COLUMNS], b[MO_INSS_COLUMNS];
};

static void add_point(struct normal *e, double weight, const double x[MO_INSS_COLUMNS], double y) {
    for (int i = 0; i < e->n; i++) {
        for (int j = i; j < e->n; j++)
            e->a[i][j] += weight * x[i] * x[j];
        e->b[i] += weight * x[i] * y;
    }
}

/* The Gaussian parts of the weights of four batches or shares. */
static void nearness(const double at[MO_INSS_SIDE], double asked, double width, double out[MO_INSS_SIDE]) {
    for (int i = 0; i < MO_INSS_SIDE; i++) {
        double far = (at[i] - asked) / width;
        out[i] = exp(-far * far / 2);
    }
}

double mo_inss_alone_without(const struct mo_inss_model *m, int batch, int share, int without) {
    double near_b[MO_INSS_SIDE], near_s[MO_INSS_SIDE], x[MO_INSS_COLUMNS] = {1}, plane[MO_INSS_COLUMNS];
    batch = batch < 1 ? 1 : batch;
    share = share < 1 ? 1 : share > MO_SHARE_WHOLE ? MO_SHARE_WHOLE : share;
    const double u = mo_inss_share_term(m->shape.terms, share);
    const double wide_b = m->grid.batch[MO_INSS_SIDE - 1], wide_u = fabs(m->u[0] - m->u[MO_INSS_SIDE - 1]);
    struct normal e = {.n = m->shape.terms == MO_INSS_AMDAHL ? 4 : 3};
    nearness(m->log_b, log(batch) * m->per_log_b, m->shape.width, near_b);
    nearness(m->log_s, log(share) * m->per_log_s, m->shape.width, near_s);
    for (int p = 0; p < MO_INSS_POINTS; p++) {
        const int i = p / MO_INSS_SIDE, j = p % MO_INSS_SIDE;
        if (p == without) continue;
        x[1] = (m->grid.batch[i] - batch) / wide_b;
        x[2] = (m->u[j] - u) / wide_u;
        x[3] = x[1] * x[2];
        add_point(&e, fmax(near_b[i] * near_s[j], weight_floor) / (m->ms[p] * m->ms[p]), x, m->ms[p]);
    }
    for (int i = 1; i < e.n; i++) /* far below what points say, but never nothing */
        e.a[i][i] += ridge * e.a[0][0];
    return mo_inss_solve(e.n, e.a, e.b, plane) ? fmax(plane[0], m->floor_ms) : m->floor_ms;
}

double mo_inss_alone_ms(const struct mo_inss_model *model, int batch, int share) {
    return mo_inss_alone_without(model, batch, share, -1);
}

/* --- beside others -------------------------------------------------------------------------------------- */
static double fraction(double v) {
    return v > 0 ? fmin(v, 1) : 0;
}

struct mo_inss_use mo_inss_use_of(const struct mo_inss_model *m, int batch, double alone_ms) {
    double rate = alone_ms > 0 ? batch / alone_ms : 0;
    return (struct mo_inss_use){fraction(m->slope.l2 * rate + m->base.l2),
                                fraction(m->slope.dram * rate + m->base.dram)};
}

double mo_inss_slowdown(const struct mo_inss_model *m, const struct mo_inss_use *others, int n) {
    double slowdown = 1 + (n > 0 ? m->alpha.beside : 0);
    for (int i = 0; i < n; i++)
        slowdown += m->alpha.cache * others[i].l2 + m->alpha.dram * others[i].dram;
    return slowdown;
}

double mo_inss_copy_ms(const struct mo_inss_model *m, int batch) {
    return (m->upload.per_query + m->download.per_query) * batch + m->upload.fixed + m->download.fixed;
}

double mo_inss_batch_ms(const struct mo_inss_model *m, int batch, int share, const struct mo_inss_use *others,
                        int n) {
    return mo_inss_alone_ms(m, batch, share) * mo_inss_slowdown(m, others, n) + mo_inss_copy_ms(m, batch);
}

/* --- waiting -------------------------------------------------------------------------------------------- */
double mo_inss_task_ms(int batch, double waiting, double rate, double left_ms, double batch_ms) {
    if (waiting >= batch) return left_ms + ceil(waiting / batch) * batch_ms;
    return fmax(left_ms, rate > 0 ? (batch - waiting) / rate * 1e3 : INFINITY) + batch_ms;
}

/* What a full batch waits for those before it: not at all, or, with `some`, mean_ms on average. */
struct backlog {
    double some, mean_ms;
};

/* Queues of evenly long services whose arrivals are more even than a Poisson process, as full batches are:
 * the squared variation of their distances is 1/batch.  Kingman's mean wait with the correction of Kraemer
 * and Langenbach-Belz, and their chance of waiting at all; exact for batches of one.  INFINITY when batches
 * come faster than they run. */
static struct backlog backlog_of(int batch, double per_ms, double batch_ms) {
    double load = per_ms * batch_ms / batch, even = 1.0 / batch;
    if (!(load > 0)) return (struct backlog){0, 0};
    if (load >= 1) return (struct backlog){1, INFINITY};
    double less = exp(-2 * (1 - load) * (1 - even) * (1 - even) / (3 * load * even));
    double some = load * (1 - (1 - load) * (1 - even * even) / (1 - load + 4 * load * load * even));
    return (struct backlog){fmax(some, 0), batch_ms * load / (1 - load) * even / 2 * less};
}

double mo_inss_mean_ms(int batch, double rate, double batch_ms) {
    double per_ms = rate > 0 ? rate / 1e3 : 0;
    if (batch < 1 || (batch > 1 && !(per_ms > 0))) return INFINITY;
    double filling = batch > 1 ? (batch - 1) / (2 * per_ms) : 0;
    return filling + backlog_of(batch, per_ms, batch_ms).mean_ms + batch_ms;
}

/* The query that is w-th of its batch waits for batch - w more, and is late when fewer than these come while
 * it can wait: the mean over w of a Poisson distribution's lower tail. */
static double too_few(int batch, double per_ms, double spare_ms) {
    double p = exp(-per_ms * spare_ms), below = 0, late = 0;
    if (!(spare_ms >= 0)) return 1;
    for (int k = 0; k < batch; k++) { /* below: that fewer than k come */
        late += below;
        below += p;
        p *= per_ms * spare_ms / (k + 1);
    }
    return fmin(1, late / batch);
}

double mo_inss_late(int batch, double rate, double batch_ms, double limit_ms) {
    /* -ln of what is left of an exponential distribution in the middle of each of eight equal parts */
    static const double parts[] = {0.064538521137571, 0.207639364778244, 0.374693449441411,
                                   0.575364144903562, 0.826678573184468, 1.163150809805681,
                                   1.673976433571672, 2.772588722239781};
    enum { PARTS = sizeof parts / sizeof *parts };
    double per_ms = rate > 0 ? rate / 1e3 : 0, spare = limit_ms - batch_ms;
    if (batch < 1) return 1;
    struct backlog before = backlog_of(batch, per_ms, batch_ms);
    if (isinf(before.mean_ms)) return 1;
    double late = (1 - before.some) * too_few(batch, per_ms, spare);
    for (int k = 0; k < PARTS && before.some > 0; k++)
        late += before.some / PARTS * too_few(batch, per_ms, spare - parts[k] * before.mean_ms / before.some);
    return late;
}
