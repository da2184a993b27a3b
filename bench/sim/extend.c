/* SPDX-License-Identifier: Apache-2.0
 * extend.c - the model of extend.h and its fit.
 *
 * Three unknowns, so the normal equations are solved for each of the sets of unknowns that may be other than
 * zero; the best set without a negative value is the constrained optimum. */
#include "bench/sim/extend.h"
#include "runtime/base/numbers.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { UNKNOWNS = 3, SETS = 1 << UNKNOWNS, FINE = 64, STEP = 8 };

static bool is_convolution(const struct mo_profile_line *l) {
    return !l->variant && l->batch == 1 && !(l->pressure > 0) && !strncasecmp(l->name, "conv", 4);
}

/* What the unknowns are multiplied with: t = ratio f[0] + sync f[1] + sync_core f[2]. */
static void features(const struct mo_profile_line *l, int cores, double f[UNKNOWNS]) {
    bool shared = cores > 1 && !(l->units > 0 && l->units < 2);
    f[0] = l->us[0] / (shared ? cores : 1);
    f[1] = shared;
    f[2] = shared ? cores : 0;
}

double mo_extend_time(const struct mo_extend_model *m, const struct mo_profile_line *line, int cores) {
    double f[UNKNOWNS];
    features(line, cores, f);
    double t = m->ratio * f[0] + m->sync_us * f[1] + m->sync_core_us * f[2];
    double floor = m->bytes_us > 0 ? line->kib * 1024 / m->bytes_us : 0;
    return t > floor ? t : floor;
}

static int check(const struct mo_extend_tie *tie, moire_error *err) {
    int here = 0, there = 0;
    for (int i = 0; i < tie->here->n_lines; i++)
        here += is_convolution(&tie->here->lines[i]);
    for (int i = 0; i < tie->there->n_lines; i++)
        there += is_convolution(&tie->there->lines[i]);
    if (tie->here->counts[0] != 1)
        return mo_fail(err, MOIRE_EINVAL, "the profile of '%s' has no times on one core", tie->here->model);
    if (here != there || !here)
        return mo_fail(err, MOIRE_EINVAL,
                       "'%s' cannot tie the machines together: %d convolutions here, %d there",
                       tie->here->model, here, there);
    return MOIRE_OK;
}

static double published(const struct mo_profile_table *t, int at) {
    double sum = 0;
    for (int i = 0; i < t->n_lines; i++)
        if (is_convolution(&t->lines[i])) sum += t->lines[i].us[at];
    return sum;
}

void mo_extend_curve(const struct mo_extend_model *m, const struct mo_extend_tie *tie, int at,
                     double *predicted, double *known) {
    *predicted = 0;
    *known = published(tie->there, at);
    for (int i = 0; i < tie->here->n_lines; i++)
        if (is_convolution(&tie->here->lines[i]))
            *predicted += mo_extend_time(m, &tie->here->lines[i], tie->there->counts[at]);
}

struct mo_extend_error mo_extend_validate(const struct mo_extend_model *m, const struct mo_extend_tie *tie) {
    struct mo_extend_error e = {0};
    for (int k = 0; k < tie->there->n_counts; k++) {
        double guess, truth;
        mo_extend_curve(m, tie, k, &guess, &truth);
        double off = fabs(guess / truth - 1);
        e.mean += off / tie->there->n_counts;
        if (off < e.worst) continue;
        e.worst = off;
        e.worst_cores = tie->there->counts[k];
    }
    return e;
}

/* --- fit ------------------------------------------------------------------------------------------------ */
/* Sums of a least-squares problem: a x = b, and the sum of squares of what is to be explained. */
struct normal {
    double a[UNKNOWNS][UNKNOWNS], b[UNKNOWNS], n;
};

/* Every point weighs the same in relative terms: both sides are divided by the published time. */
static void add_point(struct normal *s, const struct mo_extend_tie *tie, int at) {
    double row[UNKNOWNS] = {0}, truth = published(tie->there, at);
    for (int i = 0; i < tie->here->n_lines; i++) {
        double f[UNKNOWNS];
        if (!is_convolution(&tie->here->lines[i])) continue;
        features(&tie->here->lines[i], tie->there->counts[at], f);
        for (int k = 0; k < UNKNOWNS; k++)
            row[k] += f[k] / truth;
    }
    for (int i = 0; i < UNKNOWNS; i++) {
        for (int k = 0; k < UNKNOWNS; k++)
            s->a[i][k] += row[i] * row[k];
        s->b[i] += row[i];
    }
    s->n += 1;
}

/* Solves for the unknowns in `set`, the others zero; false: they do not determine them. */
static bool solve(const struct normal *s, int set, double x[UNKNOWNS]) {
    double m[UNKNOWNS][UNKNOWNS + 1];
    for (int i = 0; i < UNKNOWNS; i++) {
        bool free_i = set >> i & 1;
        for (int k = 0; k < UNKNOWNS; k++)
            m[i][k] = free_i && set >> k & 1 ? s->a[i][k] : i == k;
        m[i][UNKNOWNS] = free_i ? s->b[i] : 0;
    }
    for (int i = 0; i < UNKNOWNS; i++) { /* symmetric and positive definite: no pivoting needed */
        if (!(m[i][i] > 1e-12 * (s->a[i][i] + 1))) return false;
        for (int r = 0; r < UNKNOWNS; r++) {
            double f = m[r][i] / m[i][i];
            for (int k = i; r != i && k <= UNKNOWNS; k++)
                m[r][k] -= f * m[i][k];
        }
    }
    for (int i = 0; i < UNKNOWNS; i++)
        x[i] = m[i][UNKNOWNS] / m[i][i];
    return true;
}

static double residual(const struct normal *s, const double x[UNKNOWNS]) {
    double sum = s->n;
    for (int i = 0; i < UNKNOWNS; i++) {
        sum -= 2 * x[i] * s->b[i];
        for (int k = 0; k < UNKNOWNS; k++)
            sum += x[i] * s->a[i][k] * x[k];
    }
    return sum;
}

int mo_extend_fit(const struct mo_extend_tie *ties, int n, double bytes_us, struct mo_extend_model *out,
                  moire_error *err) {
    struct normal sums = {0};
    double best[UNKNOWNS] = {0}, least = INFINITY;
    for (int i = 0; i < n; i++) {
        int code = check(&ties[i], err);
        if (code) return code;
        for (int k = 0; k < ties[i].there->n_counts; k++)
            add_point(&sums, &ties[i], k);
    }
    for (int set = 1; set < SETS; set++) {
        double x[UNKNOWNS];
        if (!solve(&sums, set, x) || x[0] < 0 || x[1] < 0 || x[2] < 0 || residual(&sums, x) >= least)
            continue;
        least = residual(&sums, x);
        memcpy(best, x, sizeof best);
    }
    if (!(best[0] > 0)) return mo_fail(err, MOIRE_EINVAL, "no model fits the profiles of the two machines");
    *out = (struct mo_extend_model){best[0], best[1], best[2], bytes_us};
    return MOIRE_OK;
}

/* --- tables --------------------------------------------------------------------------------------------- */
/* 1, 2, 4, then every 8 cores, and all: as fine as what was published. */
static int counts_of(int cores, int counts[MO_PROFILE_COUNTS]) {
    int n = 0, step = (int)mo_ceil_div(cores, FINE) * STEP;
    for (int c = 1; c < cores && n < MO_PROFILE_COUNTS - 1; c = c < step ? 2 * c : c + step)
        counts[n++] = c;
    counts[n++] = cores;
    return n;
}

/* An empty table with the counts of *out and room for so many lines. */
static int make_table(const struct mo_env *env, const char *model, int lines, struct mo_profile_table *out,
                      double **us, moire_error *err) {
    out->region = mo_region_create(env);
    out->units = out->locality = true;
    out->machine = out->source = out->note = "";
    if (out->region) out->lines = mo_region_array(out->region, (size_t)lines, sizeof *out->lines);
    if (out->lines) *us = mo_region_array(out->region, (size_t)lines * (size_t)out->n_counts, sizeof **us);
    if (*us) out->model = mo_region_string(out->region, model, strlen(model));
    if (*us && out->model) return MOIRE_OK;
    mo_profile_table_free(out);
    return mo_fail(err, MOIRE_ENOMEM, "out of memory for the profile of '%s'", model);
}

static bool counts(const struct mo_profile_line *l) {
    return l->batch == 1 && !(l->pressure > 0);
}

int mo_extend_table(const struct mo_env *env, const struct mo_extend_model *model,
                    const struct mo_profile_table *here, int cores, struct mo_profile_table *out,
                    moire_error *err) {
    double *us = NULL;
    if (here->counts[0] != 1)
        return mo_fail(err, MOIRE_EINVAL, "the profile of '%s' has no times on one core", here->model);
    *out = (struct mo_profile_table){.mops = here->mops};
    out->n_counts = counts_of(cores, out->counts);
    int code = make_table(env, here->model, here->n_lines, out, &us, err);
    for (int i = 0; !code && i < here->n_lines; i++) {
        const struct mo_profile_line *from = &here->lines[i];
        if (!counts(from)) continue;
        struct mo_profile_line *to = &out->lines[out->n_lines++];
        *to = *from;
        to->us = us;
        for (int k = 0; k < out->n_counts; k++)
            *us++ = mo_extend_time(model, from, out->counts[k]);
    }
    out->n_layers = code ? 0 : here->n_layers;
    return code;
}

/* A published line, or the version `from` of its layer whose first is `first`; all NULL but `old`: as it was.
 */
static void carry(const struct mo_extend_model *m, const struct mo_profile_line *old,
                  const struct mo_profile_line *first, const struct mo_profile_line *from,
                  struct mo_profile_table *out, double **us) {
    struct mo_profile_line *to = &out->lines[out->n_lines++];
    *to = *old;
    to->us = *us;
    if (from) {
        to->variant = from->variant;
        to->units = from->units;
        to->block_kib = from->block_kib;
        to->l3_kib = from->l3_kib;
    }
    for (int k = 0; k < out->n_counts; k++) {
        double ratio =
            from ? mo_extend_time(m, from, out->counts[k]) / mo_extend_time(m, first, out->counts[k]) : 1;
        *(*us)++ = old->us[k] * ratio;
    }
}

int mo_extend_versions(const struct mo_env *env, const struct mo_extend_model *m,
                       const struct mo_extend_tie *tie, struct mo_profile_table *out, moire_error *err) {
    const struct mo_profile_table *here = tie->here, *there = tie->there;
    double *us = NULL;
    int next = 0, code = check(tie, err);
    if (code) return code;
    *out = (struct mo_profile_table){.n_counts = there->n_counts, .mops = there->mops};
    memcpy(out->counts, there->counts, sizeof out->counts);
    code = make_table(env, there->model, here->n_lines + there->n_lines, out, &us, err);
    for (int i = 0; !code && i < there->n_lines; i++) {
        const struct mo_profile_line *old = &there->lines[i];
        if (old->variant || !counts(old)) continue;
        if (!is_convolution(old)) {
            carry(m, old, NULL, NULL, out, &us);
            continue;
        }
        while (!is_convolution(&here->lines[next]))
            next++;
        const struct mo_profile_line *first = &here->lines[next++];
        for (const struct mo_profile_line *l = first;
             l < here->lines + here->n_lines && l->layer == first->layer; l++)
            if (counts(l)) carry(m, old, first, l, out, &us);
    }
    out->n_layers = code ? 0 : there->n_layers;
    return code;
}
