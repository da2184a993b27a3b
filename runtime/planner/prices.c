/* SPDX-License-Identifier: Apache-2.0
 * prices.c - dual prices of the linear program "fewest GPUs, in fractions, whose types serve every rate", by
 * the revised simplex method with columns taken from the list of types; see exact.h.
 *
 * It is solved before any group with blocks is made, so the pool holds the types without blocks.
 * Rows are tenants.  The first basis has for each tenant the type that serves most of it (as if it served
 * nobody else), so it is feasible and its inverse is diagonal. */
#include <math.h>
#include <string.h>
#include "runtime/planner/exact.h"

enum { N = MO_EXACT_TENANTS, PIVOTS = 200 };

struct simplex {
    int n;
    double inverse[N][N], x[N], cost[N]; /* cost 1: a type; 0: a surplus */
};

static void begin(struct simplex *s, const struct mo_exact *e) {
    *s = (struct simplex){.n = e->n_tenants};
    for (int t = 0; t < s->n; t++) {
        double most = 0;
        for (int i = 0; i < e->n_pool; i++)
            most = fmax(most, e->pool[i].gain[t]);
        s->inverse[t][t] = most > 0 ? 1 / most : 0;
        s->x[t] = e->space->rate[t] * s->inverse[t][t];
        s->cost[t] = 1;
    }
}

static void multipliers(const struct simplex *s, double *w) {
    for (int t = 0; t < s->n; t++) {
        w[t] = 0;
        for (int i = 0; i < s->n; i++)
            w[t] += s->cost[i] * s->inverse[i][t];
    }
}

static double priced(const double *w, const double *gain, int n) {
    double sum = 0;
    for (int t = 0; t < n; t++)
        sum += w[t] * gain[t];
    return sum;
}

/* The column that gains most, as a vector; its cost, or -1: optimal. */
static int enter(const struct simplex *s, const struct mo_exact *e, const double *w, double *column) {
    double best = 1e-9;
    int cost = -1;
    for (int t = 0; t < s->n; t++)
        if (-w[t] > best) {
            best = -w[t];
            memset(column, 0, N * sizeof *column);
            column[t] = -1;
            cost = 0;
        }
    for (int i = 0; i < e->n_pool; i++) {
        double gains = priced(w, e->pool[i].gain, s->n) - 1;
        if (gains <= best) continue;
        best = gains;
        memcpy(column, e->pool[i].gain, N * sizeof *column);
        cost = 1;
    }
    return cost;
}

static bool pivot(struct simplex *s, const double *column, int cost) {
    double d[N], least = INFINITY;
    int out = -1;
    for (int i = 0; i < s->n; i++) {
        d[i] = priced(s->inverse[i], column, s->n);
        if (d[i] > 1e-12 && s->x[i] / d[i] < least) {
            least = s->x[i] / d[i];
            out = i;
        }
    }
    if (out < 0) return false;
    for (int t = 0; t < s->n; t++)
        s->inverse[out][t] /= d[out];
    s->x[out] = least;
    s->cost[out] = cost;
    for (int i = 0; i < s->n; i++) {
        if (i == out) continue;
        s->x[i] -= d[i] * least;
        for (int t = 0; t < s->n; t++)
            s->inverse[i][t] -= d[i] * s->inverse[out][t];
    }
    return true;
}

double mo_prices(const struct mo_exact *e, double *price) {
    struct simplex s;
    double column[N], most = 0;
    begin(&s, e);
    for (int i = 0; i < PIVOTS; i++) {
        multipliers(&s, price);
        int cost = enter(&s, e, price, column);
        if (cost < 0 || !pivot(&s, column, cost)) break;
    }
    multipliers(&s, price);
    for (int t = 0; t < s.n; t++)
        price[t] = fmax(price[t], 0);
    for (int i = 0; i < e->n_pool; i++)
        most = fmax(most, priced(price, e->pool[i].gain, s.n));
    for (int t = 0; most > 0 && t < s.n; t++)
        price[t] /= most;
    return priced(price, e->space->rate, s.n);
}
