/* SPDX-License-Identifier: Apache-2.0
 * pairs.c - reading measured pairs, and fitting the interference model to them; see pairs.h. */
#include "bench/data/pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/fit/lapack.h"
#include "bench/data/process.h"
#include "runtime/base/csv.h"
#include "runtime/base/file.h"
#include "runtime/base/numbers.h"

enum { MOST_LINES = 1 << 20 };
enum { L2_OTHER = 1, DRAM_OTHER = 3, CONSTANT, TERMS }; /* columns of the fit, see term() */
static const double most_us = 1e9;

struct reader {
    const char *path;
    struct mo_pairs *out;
};

/* The index of the model that the next cell names; its profile is read when it is the first time. */
static int read_model(struct mo_csv *c, struct reader *r, int *out) {
    char path[1200], name[MO_PAIR_NAME];
    const char *slash = strrchr(r->path, '/');
    int n = mo_csv_cell(c, name, sizeof name);
    struct mo_pair_model *model = &r->out->model[r->out->n_models];
    for (int i = 0; n > 0 && i < r->out->n_models; i++)
        if (!strcmp(r->out->model[i].name, name)) {
            *out = i;
            return MOIRE_OK;
        }
    if (n <= 0 || n >= MO_PAIR_NAME || strchr(name, '/'))
        return mo_csv_fail_cell(c, "not the name of a model");
    if (r->out->n_models == MO_PAIR_MODELS) return mo_csv_fail_cell(c, "more than 64 models");
    snprintf(path, sizeof path, "%.*s%s.csv", slash ? (int)(slash - r->path + 1) : 0, r->path, name);
    int code = mo_share_table_read(r->out->env, path, &model->table, c->err);
    if (code) return code;
    memcpy(model->name, name, sizeof name);
    *out = r->out->n_models++;
    return MOIRE_OK;
}

static int read_row(struct mo_csv *c, void *self) {
    struct reader *r = self;
    const double most[6] = {MO_SHARE_BATCH, MO_SHARE_BATCH, MO_SHARE_WHOLE, MO_SHARE_WHOLE, most_us, most_us};
    struct mo_pair_sample *s = &r->out->sample[r->out->n];
    struct mo_pair_side *side = &r->out->side[r->out->n];
    double v[6];
    int code = MOIRE_OK;
    for (int i = 0; !code && i < 2; i++)
        code = read_model(c, r, &side[i].model);
    for (int i = 0; !code && i < 6; i++)
        if (!mo_csv_number(c, i < 4 ? 1 : 1e-3, most[i], &v[i]))
            return mo_csv_fail_cell(
                c, "batches, shares in permille and microseconds must be numbers in range, not '%s'",
                c->shown);
    if (code) return code;
    if (mo_csv_more(c)) return mo_csv_fail(c, "more cells than columns");
    if (v[2] + v[3] > MO_SHARE_WHOLE) return mo_csv_fail(c, "the two shares exceed the GPU");
    for (int i = 0; i < 2; i++) {
        const struct mo_share_profile *p = r->out->model[side[i].model].table.profile;
        int batch = side[i].batch = (int)v[i], share = side[i].share = (int)v[2 + i];
        side[i].us = v[4 + i];
        if (batch > p->max_batch) return mo_csv_fail(c, "a batch larger than the model's profile has");
        s[i].slowdown = v[4 + i] * 1e3 / (double)mo_share_latency(p, batch, share);
        s[i].self = s[1 - i].other = mo_share_use_at(p, batch, share);
    }
    r->out->n += 2;
    return MOIRE_OK;
}

static int read_header(struct mo_csv *c, void *self) {
    static const char header[] = "a,b,batch_a,batch_b,share_a,share_b,us_a,us_b";
    (void)self;
    return mo_csv_is(c, header) ? MOIRE_OK : mo_csv_fail(c, "the header must be %s", header);
}

int mo_pairs_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                   struct mo_pairs *out, moire_error *err) {
    static const struct mo_csv_form form = {.magic = "# moire-pairs 1",
                                            .what = "pairs of models",
                                            .unit = "pair",
                                            .header = read_header,
                                            .row = read_row};
    const size_t lines = mo_csv_lines(text, n);
    *out = (struct mo_pairs){.env = env};
    if (lines > MOST_LINES) return mo_fail(err, MOIRE_EFORMAT, "%s:1: no pairs: too long", path);
    struct reader r = {path, out};
    out->sample = mo_alloc(env, 2 * lines * sizeof *out->sample);
    out->side = mo_alloc(env, 2 * lines * sizeof *out->side);
    out->model = mo_alloc(env, (MO_PAIR_MODELS + 1) * sizeof *out->model); /* one is being read */
    int code = out->sample && out->side && out->model ? mo_csv_read(&form, path, text, n, &r, err)
                                                      : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    if (code) mo_pairs_free(out);
    return code;
}

int mo_pairs_load(const struct mo_env *env, const char *path, struct mo_pairs *out, moire_error *err) {
    char *text;
    size_t n;
    *out = (struct mo_pairs){.env = env};
    int code = mo_file_read(env, path, env->limits.json_bytes, "json_bytes", &text, &n, err);
    if (!code) code = mo_pairs_parse(env, path, text, n, out, err);
    mo_free(env, text);
    return code;
}

void mo_pairs_free(struct mo_pairs *pairs) {
    for (int i = 0; i < pairs->n_models; i++)
        mo_share_table_free(&pairs->model[i].table);
    if (pairs->env) {
        mo_free(pairs->env, pairs->sample);
        mo_free(pairs->env, pairs->side);
        mo_free(pairs->env, pairs->model);
    }
    *pairs = (struct mo_pairs){0};
}

/* --- the fit -------------------------------------------------------------------------------------------- */
void mo_pairs_split(const struct mo_pairs *pairs, uint64_t seed, bool *chosen) {
    struct mo_rng rng;
    int left = pairs->n / 2, want = left / 2;
    mo_rng_seed(&rng, seed, 0);
    for (int i = 0; left > 0; i++, left--) {
        chosen[i] = mo_rng_uniform(&rng) * left < want;
        want -= chosen[i];
    }
}

static bool counts(const bool *chosen, bool want, int sample) {
    return !chosen || chosen[sample / 2] == want;
}

static double term(const struct mo_pair_sample *s, int k) {
    const double terms[TERMS] = {s->self.l2, s->other.l2, s->self.dram, s->other.dram, 1};
    return terms[k];
}

/* The coefficients of these columns, zero elsewhere. */
static int fit_columns(const struct mo_pairs *pairs, const bool *chosen, bool want, const bool use[TERMS],
                       double *a, double *b, double x[TERMS], moire_error *err) {
    double found[TERMS];
    int m = 0, n = 0;
    for (int k = 0; k < TERMS; k++)
        n += use[k];
    for (int i = 0; i < pairs->n; i++) {
        if (!counts(chosen, want, i)) continue;
        for (int k = 0, c = 0; k < TERMS; k++)
            if (use[k]) a[(size_t)m * (size_t)n + (size_t)c++] = term(&pairs->sample[i], k);
        b[m++] = pairs->sample[i].slowdown;
    }
    int code = mo_least_squares(pairs->env, m, n, a, b, found, err);
    for (int k = 0, c = 0; k < TERMS; k++)
        x[k] = use[k] && !code ? found[c++] : 0;
    return code;
}

/* Columns that change: what was not measured (a use that is zero everywhere) says nothing. */
static void changing(const struct mo_pairs *pairs, const bool *chosen, bool want, bool use[TERMS]) {
    double least[TERMS], most[TERMS];
    for (int k = 0; k < TERMS; k++) {
        least[k] = INFINITY;
        most[k] = -INFINITY;
    }
    for (int i = 0; i < pairs->n; i++)
        for (int k = 0; k < TERMS && counts(chosen, want, i); k++) {
            least[k] = fmin(least[k], term(&pairs->sample[i], k));
            most[k] = fmax(most[k], term(&pairs->sample[i], k));
        }
    for (int k = 0; k < TERMS; k++)
        use[k] = k == CONSTANT || most[k] - least[k] > 1e-9;
}

int mo_pairs_fit(const struct mo_pairs *pairs, const bool *chosen, bool want, struct mo_interference *out,
                 moire_error *err) {
    bool use[TERMS];
    double x[TERMS] = {0}, *a = mo_alloc(pairs->env, (size_t)pairs->n * TERMS * sizeof *a);
    double *b = mo_alloc(pairs->env, (size_t)pairs->n * sizeof *b);
    int code = a && b ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d samples", pairs->n);
    if (!code) changing(pairs, chosen, want, use);
    while (!code) {
        code = fit_columns(pairs, chosen, want, use, a, b, x, err);
        int worst = x[L2_OTHER] < x[DRAM_OTHER] ? L2_OTHER : DRAM_OTHER;
        if (code || x[worst] >= 0) break;
        use[worst] = false;
    }
    mo_free(pairs->env, a);
    mo_free(pairs->env, b);
    *out = (struct mo_interference){x[0], x[1], x[2], x[3], x[4]};
    return code;
}

int mo_pairs_errors(const struct mo_pairs *pairs, const bool *chosen, bool want,
                    const struct mo_interference *model, double *error) {
    int n = 0;
    for (int i = 0; i < pairs->n; i++) {
        const struct mo_pair_sample *s = &pairs->sample[i];
        if (counts(chosen, want, i))
            error[n++] = fabs(mo_interference(model, &s->self, &s->other, 1) / s->slowdown - 1);
    }
    qsort(error, (size_t)n, sizeof *error, mo_rising);
    return n;
}
