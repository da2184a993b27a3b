/* SPDX-License-Identifier: Apache-2.0
 * winograd_matrices.c - the matrices of F(m x m, r x r) from their interpolation points; see
 * winograd_matrices.h. */
#include "variants/winograd_matrices.h"

#include <string.h>

/* Multiplies the polynomial p (degree n, lowest power first) by x - root. */
static void times_root(double *p, int n, double root) {
    p[n + 1] = p[n];
    for (int i = n; i > 0; i--)
        p[i] = p[i - 1] - root * p[i];
    p[0] *= -root;
}

/* Coefficients of a point go to every `stride`-th column. */
static void fill(struct mo_winograd *w) {
    const double *point = w->point;
    int n = w->points - w->infinity, taps = (w->taps + w->stride - 1) / w->stride;
    for (int i = 0; i < w->points; i++) {
        double scale = 1, power = 1, row[MO_WINO_ALPHA + 1] = {1};
        for (int k = 0, degree = 0; k < n; k++) {
            if (k == i) continue;
            scale *= point[i] - point[k];
            times_root(row, degree++, point[k]);
        }
        for (int j = 0; j < w->points; j++)
            w->bt[i][j * w->stride] = row[j];
        if (i == n) break; /* infinity */
        for (int j = 0; j < w->m || j < taps; j++, power *= point[i]) {
            if (j < taps) w->g[i][j * w->stride] = w->half ? power : power / scale;
            if (j < w->m) w->at[j][i] = w->half ? power / scale : power;
        }
    }
    if (w->infinity) w->g[n][w->taps - 1] = w->at[w->m - 1][n] = 1;
    for (int k = 0, row = w->points; row < w->alpha; k++, row++)
        w->bt[row][2 * k + 1] = w->g[row][1] = w->at[k][row] = 1;
}

/* By number of points: their pairs +-p. */
static const double pairs[][5] = {
    [3] = {1},
    [4] = {1},
    [5] = {0.8125, 2.5},
    [6] = {0.70710678118654752440, 1.41421356237309504880},
    [7] = {0.5625, 1.1875, 3.375},
    [8] = {0.53125, 1, 1.9375},
    [10] = {0.4375, 0.8125, 1.3125, 2.5625},
    [12] = {0.34375, 0.65625, 1.03125, 1.375, 2.96875},
};

enum form { WHOLE, HALF, LINE };

/* By packing; m = 0: it is none of Winograd's.  A number that is given is not given again. */
static const struct {
    int m, taps, stride;
    enum form form;
} packed[MO_PACK_COUNT] = {
    [5] = {4, 3, 1, WHOLE},  [6] = {2, 3, 1, WHOLE},  [8] = {3, 3, 1, WHOLE},  [9] = {5, 3, 1, WHOLE},
    [10] = {6, 3, 1, WHOLE}, [11] = {2, 5, 1, WHOLE}, [12] = {3, 5, 1, WHOLE}, [13] = {4, 5, 1, WHOLE},
    [14] = {2, 3, 2, WHOLE}, [15] = {3, 3, 2, WHOLE}, [16] = {4, 3, 2, WHOLE}, [17] = {5, 3, 2, WHOLE},
    [18] = {3, 3, 1, HALF},  [19] = {4, 3, 1, HALF},  [20] = {5, 3, 1, HALF},  [21] = {6, 3, 1, HALF},
    [33] = {2, 3, 1, LINE},  [34] = {4, 3, 1, LINE},  [35] = {6, 3, 1, LINE},  [36] = {8, 3, 1, LINE},
    [37] = {2, 5, 1, LINE},  [38] = {4, 5, 1, LINE},  [39] = {6, 5, 1, LINE},  [40] = {2, 7, 1, LINE},
    [41] = {4, 7, 1, LINE},  [42] = {6, 7, 1, LINE},
};

static enum mo_packing find(int m, int taps, int stride, enum form form) {
    for (int i = 0; i < MO_PACK_COUNT; i++)
        if (packed[i].m == m && packed[i].taps == taps && packed[i].stride == stride &&
            packed[i].form == form && m)
            return (enum mo_packing)i;
    return MO_PACK_NONE;
}

enum mo_packing mo_winograd_packing(int m, int taps, int stride, bool half) {
    return find(m, taps, stride, half ? HALF : WHOLE);
}

enum mo_packing mo_winograd_line(int m, int taps) {
    return find(m, taps, 1, LINE);
}

void mo_winograd_identity(struct mo_winograd *out) {
    memset(out, 0, sizeof *out);
    out->m = out->taps = out->stride = out->alpha = out->points = out->lines = 1;
    out->g[0][0] = out->bt[0][0] = out->at[0][0] = 1;
}

bool mo_winograd_of(enum mo_packing packing, struct mo_winograd *out) {
    memset(out, 0, sizeof *out);
    if (packing <= MO_PACK_NONE || packing >= MO_PACK_COUNT || !packed[packing].m) return false;
    out->half = packed[packing].form == HALF, out->line = packed[packing].form == LINE;
    out->m = packed[packing].m, out->taps = packed[packing].taps, out->stride = packed[packing].stride;
    out->alpha = (out->m - 1) * out->stride + out->taps;
    out->points = out->m - 1 + (out->taps + out->stride - 1) / out->stride;
    out->lines = out->stride > 1 ? out->points + 1 : out->alpha;
    out->infinity = out->points % 2 == 0;
    for (int i = 1; i < out->points - out->infinity; i++)
        out->point[i] = (i % 2 ? 1 : -1) * pairs[out->points][(i - 1) / 2];
    for (int i = 0; i < out->alpha; i++)
        out->of[i] = i;
    fill(out);
    return true;
}

/* The n of the pairs of `full` whose product is nearest to 1: bit k for pair k. */
static int best_pairs(const struct mo_winograd *full, int n) {
    int all = (full->points - full->infinity - 1) / 2, best = 0;
    double least = 0;
    for (int set = 0; set < 1 << all; set++) {
        double product = 1;
        int count = 0;
        for (int k = 0; k < all; k++)
            if (set >> k & 1) count++, product *= full->point[2 * k + 1];
        if (product < 1) product = 1 / product;
        if (count == n && (least <= 0 || product < least)) best = set, least = product;
    }
    return best;
}

bool mo_winograd_tail(const struct mo_winograd *full, int m, struct mo_winograd *out) {
    memset(out, 0, sizeof *out);
    if (m < 1 || m >= full->m) return false;
    out->m = m, out->taps = full->taps, out->stride = full->stride;
    out->points = full->points - (full->m - m);
    out->alpha = (m - 1) * out->stride + out->taps;
    out->lines = out->stride > 1 ? out->points + 1 : out->alpha;
    out->infinity = out->points % 2 == 0;
    if (out->infinity && !full->infinity) return false;
    int n = out->points - out->infinity, set = best_pairs(full, (n - 1) / 2), i = 1;
    for (int k = 1; k < full->points - full->infinity; k++)
        if (set >> (k - 1) / 2 & 1) out->point[i] = full->point[k], out->of[i++] = k;
    if (out->infinity) out->of[n] = full->points - 1;
    for (int k = out->points; k < out->alpha; k++)
        out->of[k] = full->points + k - out->points;
    fill(out);
    out->half = full->half, out->line = full->line;
    for (i = 0; i < n; i++) {
        double ratio = out->g[i][0] / full->g[out->of[i]][0];
        for (int k = 0; k < m; k++)
            out->at[k][i] *= ratio;
    }
    for (i = 0; i < out->alpha; i++)
        memcpy(out->g[i], full->g[out->of[i]], sizeof out->g[i]);
    return true;
}
