/* SPDX-License-Identifier: Apache-2.0
 * share_profile.c - filling the tables of share_profile.h and looking things up in them.
 *
 * The tables are dense over batch, where planners search, and hold the measured shares, between which one
 * look-up interpolates: at most 257 x 64 cells, whatever units a GPU has. */
#include "runtime/profile/share_profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool rises(const int *v, int n, int most) {
    if (n < 1 || n > MO_SHARE_GRID || v[0] < 1 || v[n - 1] > most) return false;
    for (int i = 1; i < n; i++)
        if (v[i] <= v[i - 1]) return false;
    return true;
}

struct mo_share_profile *mo_share_create(const struct mo_env *env, int n_batches, const int *batch,
                                         int n_shares, const int *share) {
    if (!rises(batch, n_batches, MO_SHARE_BATCH) || !rises(share, n_shares, MO_SHARE_WHOLE)) return NULL;
    struct mo_share_profile *p = mo_alloc(env, sizeof *p);
    if (!p) return NULL;
    const size_t grid = (size_t)n_batches * (size_t)n_shares;
    const int top = batch[n_batches - 1];
    const size_t dense = (size_t)(top + 1) * (size_t)n_shares;
    *p =
        (struct mo_share_profile){.env = env, .n_batches = n_batches, .n_shares = n_shares, .max_batch = top};
    p->batch = mo_alloc(env, (size_t)n_batches * sizeof *p->batch);
    p->share = mo_alloc(env, (size_t)n_shares * sizeof *p->share);
    p->cell = mo_alloc(env, grid * sizeof *p->cell);
    p->ns = mo_alloc(env, dense * sizeof *p->ns);
    p->use = mo_alloc(env, dense * sizeof *p->use);
    p->segment = mo_alloc(env, MO_SHARE_WHOLE + 1);
    if (!p->batch || !p->share || !p->cell || !p->ns || !p->use || !p->segment) {
        mo_share_destroy(p);
        return NULL;
    }
    memcpy(p->batch, batch, (size_t)n_batches * sizeof *batch);
    memcpy(p->share, share, (size_t)n_shares * sizeof *share);
    for (size_t i = 0; i < grid; i++)
        p->cell[i].use = (struct mo_share_use){-1, -1, -1};
    return p;
}

void mo_share_destroy(struct mo_share_profile *p) {
    if (!p) return;
    mo_free(p->env, p->batch);
    mo_free(p->env, p->share);
    mo_free(p->env, p->cell);
    mo_free(p->env, p->ns);
    mo_free(p->env, p->use);
    mo_free(p->env, p->segment);
    mo_free(p->env, p);
}

void mo_share_record(struct mo_share_profile *p, int at_batch, int at_share,
                     const struct mo_share_cell *cell) {
    if (at_batch < 0 || at_batch >= p->n_batches || at_share < 0 || at_share >= p->n_shares) return;
    p->cell[at_batch * p->n_shares + at_share] = *cell;
}

/* --- filling ------------------------------------------------------------------------------------------- */
static const struct mo_share_cell *cell_at(const struct mo_share_profile *p, int i, int j) {
    return &p->cell[i * p->n_shares + j];
}
static double *part(struct mo_share_use *use, int k) {
    return k == 0 ? &use->sm : k == 1 ? &use->l2 : &use->dram;
}
static double measured(const struct mo_share_cell *c, int k) {
    struct mo_share_use use = c->use;
    return k < 0 ? (double)c->ns : *part(&use, k);
}
/* k < 0: the time; else a part of the use. */
static bool known(const struct mo_share_cell *c, int k) {
    return k < 0 ? c->ns > 0 : measured(c, k) >= 0;
}

/* The measured share of row i that is nearest to share j by ratio, -1 when there is none. */
static int nearest(const struct mo_share_profile *p, int i, int j, int k) {
    int best = -1;
    double least = INFINITY;
    for (int s = 0; s < p->n_shares; s++) {
        double far = fabs(log((double)p->share[s] / p->share[j]));
        if (known(cell_at(p, i, s), k) && far < least) {
            least = far;
            best = s;
        }
    }
    return best;
}

static double on_line(double x, double x0, double y0, double x1, double y1) {
    return y0 + (x - x0) / (x1 - x0) * (y1 - y0);
}

/* Time at share j over time at share s, at batch row i, from the rows that have both. */
static double ratio(const struct mo_share_profile *p, int i, int j, int s) {
    int row[2] = {-1, -1}; /* the nearest below and above */
    for (int r = 0; r < p->n_batches; r++) {
        if (!known(cell_at(p, r, j), -1) || !known(cell_at(p, r, s), -1)) continue;
        if (r <= i) row[0] = r;
        if (r >= i && row[1] < 0) row[1] = r;
    }
    double v[2] = {0, 0};
    for (int e = 0; e < 2; e++)
        if (row[e] >= 0) v[e] = (double)cell_at(p, row[e], j)->ns / (double)cell_at(p, row[e], s)->ns;
    if (row[0] < 0 && row[1] < 0) return (double)p->share[s] / p->share[j];
    if (row[0] < 0 || row[0] == row[1]) return v[1];
    if (row[1] < 0) return v[0];
    return on_line(p->batch[i], p->batch[row[0]], v[0], p->batch[row[1]], v[1]);
}

static int64_t rounded(double ns) {
    return ns < 1 ? 1 : ns < (double)MO_SHARE_NEVER ? (int64_t)(ns + 0.5) : MO_SHARE_NEVER;
}

/* Rows of measured batches, holes filled. */
static int fill_times(struct mo_share_profile *p, moire_error *err) {
    for (int i = 0; i < p->n_batches; i++) {
        int64_t *row = p->ns + (size_t)p->batch[i] * (size_t)p->n_shares;
        for (int j = 0; j < p->n_shares; j++) {
            int s = nearest(p, i, j, -1);
            if (s < 0) return mo_fail(err, MOIRE_EINVAL, "batch %d has no time at any share", p->batch[i]);
            double t = (double)cell_at(p, i, s)->ns;
            row[j] = rounded(s == j ? t : t * ratio(p, i, j, s));
        }
    }
    return MOIRE_OK;
}

/* Use in those rows: bytes a query are the same on every share, so use goes with throughput. */
static void fill_use(struct mo_share_profile *p) {
    for (int i = 0; i < p->n_batches; i++) {
        size_t row = (size_t)p->batch[i] * (size_t)p->n_shares;
        for (int j = 0; j < p->n_shares; j++)
            for (int k = 0; k < 3; k++) {
                int s = nearest(p, i, j, k);
                double v = s < 0 ? 0 : measured(cell_at(p, i, s), k);
                if (s >= 0 && s != j) v *= (double)p->ns[row + (size_t)s] / (double)p->ns[row + (size_t)j];
                *part(&p->use[row + (size_t)j], k) = fmin(1, v);
            }
    }
}

/* The rows between measured batches, and those below the first. */
static void fill_between(struct mo_share_profile *p) {
    const size_t n = (size_t)p->n_shares;
    for (int b = 1, hi = 0; b <= p->max_batch; b++) {
        while (p->batch[hi] < b)
            hi++;
        if (p->batch[hi] == b) continue;
        int lo = hi > 0 ? hi - 1 : hi, b0 = p->batch[lo], b1 = p->batch[hi];
        for (size_t j = 0; j < n; j++) {
            size_t at = (size_t)b * n + j, from = (size_t)b0 * n + j, to = (size_t)b1 * n + j;
            double x = b1 > b0 ? (double)(b - b0) / (b1 - b0) : 0;
            p->ns[at] = rounded((double)p->ns[from] * (1 - x) + (double)p->ns[to] * x);
            for (int k = 0; k < 3; k++)
                *part(&p->use[at], k) = *part(&p->use[from], k) * (1 - x) + *part(&p->use[to], k) * x;
        }
    }
}

static void make_monotone(struct mo_share_profile *p) {
    for (int b = 1; b <= p->max_batch; b++)
        for (int j = p->n_shares - 1; j >= 0; j--) {
            int64_t *at = p->ns + (size_t)b * (size_t)p->n_shares + j;
            if (*at < at[-p->n_shares]) *at = at[-p->n_shares];
            if (j + 1 < p->n_shares && *at < at[1]) *at = at[1];
        }
}

int mo_share_finish(struct mo_share_profile *p, moire_error *err) {
    int code = fill_times(p, err);
    if (code) return code;
    fill_use(p);
    fill_between(p);
    make_monotone(p);
    for (int s = 0, j = 0; s <= MO_SHARE_WHOLE; s++) {
        while (j + 1 < p->n_shares && p->share[j + 1] <= s)
            j++;
        p->segment[s] = (unsigned char)j;
    }
    return MOIRE_OK;
}

/* --- looking up ----------------------------------------------------------------------------------------- */
static int clamp(int v, int lo, int hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

int64_t mo_share_latency(const struct mo_share_profile *p, int batch, int share) {
    if (batch < 1) return 0;
    if (batch > p->max_batch || share < 1) return MO_SHARE_NEVER;
    share = clamp(share, 1, MO_SHARE_WHOLE);
    const int64_t *row = p->ns + (size_t)batch * (size_t)p->n_shares;
    int j = p->segment[share], s0 = p->share[j];
    if (share < s0) return rounded((double)row[j] * s0 / share);
    if (share == s0 || j + 1 == p->n_shares) return row[j];
    int s1 = p->share[j + 1];
    double x = (double)s0 * (s1 - share) / ((double)share * (s1 - s0));
    return rounded((double)row[j + 1] + x * (double)(row[j] - row[j + 1]));
}

struct mo_share_use mo_share_use_at(const struct mo_share_profile *p, int batch, int share) {
    share = clamp(share, 0, MO_SHARE_WHOLE);
    const struct mo_share_use *row = p->use + (size_t)clamp(batch, 1, p->max_batch) * (size_t)p->n_shares;
    int j = p->segment[share], s0 = p->share[j];
    bool below = share < s0, last = j + 1 == p->n_shares;
    double x = below ? (double)share / s0 : last ? 0 : (double)(share - s0) / (p->share[j + 1] - s0);
    struct mo_share_use use, a = row[j], b = below || last ? a : row[j + 1];
    for (int k = 0; k < 3; k++)
        *part(&use, k) = below ? x * *part(&a, k) : *part(&a, k) * (1 - x) + *part(&b, k) * x;
    return use;
}

int64_t mo_share_copy(const struct mo_share_profile *p, int batch) {
    if (batch < 1 || !(p->copy_bytes_ns > 0)) return 0;
    return rounded((double)batch * (double)(p->in_bytes + p->out_bytes) / p->copy_bytes_ns);
}

/* When a batch is answered, with neighbours. */
static double answered(const struct mo_share_profile *p, int batch, int share, double slowdown) {
    return (double)mo_share_latency(p, batch, share) * fmax(1, slowdown) + (double)mo_share_copy(p, batch);
}

int mo_share_batch(const struct mo_share_profile *p, int share, double slowdown, int64_t limit_ns) {
    int lo = 0, hi = p->max_batch; /* the answer lies in [lo, hi] */
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (answered(p, mid, share, slowdown) <= (double)limit_ns)
            lo = mid;
        else
            hi = mid - 1;
    }
    return share < 1 ? 0 : lo;
}

double mo_share_rate(const struct mo_share_profile *p, int share, double slowdown, int64_t limit_ns) {
    double best = 0;
    for (int b = mo_share_batch(p, share, slowdown, limit_ns); b > 0; b--) {
        double busy =
            fmax((double)mo_share_latency(p, b, share) * fmax(1, slowdown), (double)mo_share_copy(p, b));
        best = fmax(best, b * 1e9 / busy);
    }
    return best;
}

int mo_share_knee(const struct mo_share_profile *p, const int *share, int n, int64_t limit_ns) {
    const double flat = 1e-6; /* of the unit square: times are whole ns */
    double rate[MO_SHARE_WHOLE], most = 0, greatest = flat;
    int knee = n - 1;
    if (n < 3 || n > MO_SHARE_WHOLE) return knee;
    for (int i = 0; i < n; i++) {
        rate[i] = mo_share_rate(p, share[i], 1, limit_ns);
        most = fmax(most, rate[i]);
    }
    double width = share[n - 1] - share[0];
    for (int i = 1; i + 1 < n && most > 0 && width > 0; i++) {
        /* the parabola through three points; only a curve that bends down has a knee */
        double x0 = share[i - 1] / width, x1 = share[i] / width, x2 = share[i + 1] / width;
        double left = (rate[i] - rate[i - 1]) / most / (x1 - x0);
        double right = (rate[i + 1] - rate[i]) / most / (x2 - x1);
        double slope = (left * (x2 - x1) + right * (x1 - x0)) / (x2 - x0);
        double bend = -2 * (right - left) / (x2 - x0);
        double curvature = bend / pow(1 + slope * slope, 1.5);
        if (curvature > greatest * (1 + flat)) {
            greatest = curvature;
            knee = i;
        }
    }
    return knee;
}

void mo_share_limit(struct mo_share_profile *p, int batch) {
    if (batch >= 1 && batch < p->max_batch) p->max_batch = batch;
}

int mo_share_segments(const struct mo_share_profile *p, int share, int64_t limit_ns) {
    int64_t longest = mo_share_latency(p, p->max_batch, share);
    if (limit_ns > 0 && longest > limit_ns) longest = limit_ns;
    int64_t n = (longest - 1) / MO_SHARE_SEGMENT_NS + 1;
    return (int)(n < 1 ? 1 : n > MO_SHARE_SEGMENTS ? MO_SHARE_SEGMENTS : n);
}

double mo_share_cost(const struct mo_share_profile *p, int share, int64_t limit_ns) {
    share = clamp(share, 0, MO_SHARE_WHOLE);
    double least = INFINITY;
    for (int b = mo_share_batch(p, share, 1, limit_ns); b > 0; b--)
        least = fmin(least, (double)mo_share_latency(p, b, share) / b);
    return isinf(least) ? least : least * share / MO_SHARE_WHOLE * 1e-9;
}
