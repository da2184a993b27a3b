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

static void fill(struct mo_winograd *w, const double *point) {
    int n = w->alpha - 1;
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
    double all[MO_WINO_ALPHA + 1] = {1};
    for (int k = 0; k < n; k++)
        times_root(all, k, point[k]);
    memcpy(w->bt[n], all, sizeof w->bt[n]);
    w->g[n][2] = w->at[w->m - 1][n] = 1;
}

bool mo_winograd_of(enum mo_packing packing, struct mo_winograd *out) {
    static const double small = 0.70710678118654752440, large = 1.41421356237309504880;
    memset(out, 0, sizeof *out);
    if (packing != MO_PACK_WINO43 && packing != MO_PACK_WINO23) return false;
    out->m = packing == MO_PACK_WINO43 ? 4 : 2;
    out->alpha = out->m + 2;
    if (out->m == 4)
        fill(out, (const double[]){0, small, -small, large, -large});
    else
        fill(out, (const double[]){0, 1, -1});
    return true;
}
