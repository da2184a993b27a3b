/* SPDX-License-Identifier: Apache-2.0
 * winograd.c - the matrices of F(m x m, 3 x 3) from their interpolation points; see winograd.h. */
#include "variants/winograd.h"

#include <string.h>

/* Multiplies the polynomial p (degree n, lowest power first) by x - root. */
static void times_root(double *p, int n, double root) {
    p[n + 1] = p[n];
    for (int i = n; i > 0; i--)
        p[i] = p[i - 1] - root * p[i];
    p[0] *= -root;
}

/* n finite points; alpha of them, or one less and infinity. */
static void fill(struct mo_winograd *w, const double *point) {
    int n = w->alpha - w->infinity;
    for (int i = 0; i < n; i++) {
        double scale = 1, power = 1, row[MO_WINO_ALPHA + 1] = {1};
        for (int k = 0, degree = 0; k < n; k++) {
            if (k == i) continue;
            scale *= point[i] - point[k];
            times_root(row, degree++, point[k]);
        }
        memcpy(w->bt[i], row, sizeof w->bt[i]);
        for (int j = 0; j < w->m || j < 3; j++, power *= point[i]) {
            if (j < 3) w->g[i][j] = power / scale;
            if (j < w->m) w->at[j][i] = power;
        }
    }
    if (!w->infinity) return;
    double all[MO_WINO_ALPHA + 1] = {1};
    for (int k = 0; k < n; k++)
        times_root(all, k, point[k]);
    memcpy(w->bt[n], all, sizeof w->bt[n]);
    w->g[n][2] = w->at[w->m - 1][n] = 1;
}

/* By m: the packing, and the pairs +-p of its points. */
static const struct row {
    enum mo_packing packing;
    double pairs[MO_WINO_ALPHA / 2];
} rows[] = {
    [2] = {MO_PACK_WINO23, {1}},
    [3] = {MO_PACK_WINO33, {0.8125, 2.5}},
    [4] = {MO_PACK_WINO43, {0.70710678118654752440, 1.41421356237309504880}},
    [5] = {MO_PACK_WINO53, {0.5625, 1.1875, 3.375}},
    [6] = {MO_PACK_WINO63, {0.53125, 1, 1.9375}},
};

enum mo_packing mo_winograd_packing(int m) {
    return m >= MO_WINO_LEAST && m <= MO_WINO_M ? rows[m].packing : MO_PACK_NONE;
}

bool mo_winograd_of(enum mo_packing packing, struct mo_winograd *out) {
    double point[MO_WINO_ALPHA] = {0};
    memset(out, 0, sizeof *out);
    for (out->m = MO_WINO_LEAST; mo_winograd_packing(out->m) != packing; out->m++)
        if (out->m == MO_WINO_M) return false;
    out->alpha = out->m + 2;
    out->infinity = out->m % 2 == 0;
    for (int i = 1; i < out->alpha - out->infinity; i++)
        point[i] = (i % 2 ? 1 : -1) * rows[out->m].pairs[(i - 1) / 2];
    fill(out, point);
    return true;
}
