/* SPDX-License-Identifier: Apache-2.0
 * profile_table.c - reading, writing and using profile files; see profile_table.h. */
#define _GNU_SOURCE
#include "runtime/profile/profile_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/cores.h"
#include "runtime/base/file.h"
#include "runtime/base/numbers.h"
#include "runtime/profile/labels.h"

static const char magic[] = "# moire-profile 1", lines_key[] = "lines";
static const char columns[] = "layer,name,variant,batch,pressure,kib";
static const char units_column[] = "units", locality_columns[] = "block_kib,l3_kib",
                  cold_column[] = "cold_us", mops_column[] = "mops";
enum { MAX_LINES = 1 << 20 };
static const double least_us = 1e-3, most_us = 1e9, most_count = 1e12, grows_us = 20, rounding = 0.999;

/* Where the parser is. */
struct reader {
    struct mo_profile_table *t;
    double said;      /* how many lines of times the file says it has; 0 = it does not */
    int first, known; /* lines of the present variant begin at `first`; pressures that the first layer has */
};

static int read_remark(struct mo_csv *c, void *self) {
    struct reader *r = self;
    struct mo_csv_label labels[MO_PROFILE_LABELS];
    size_t n;
    const char *lines = mo_csv_remark(c, lines_key, &n);
    if (lines && !mo_csv_is_number(lines, n, 1, MAX_LINES, &r->said))
        return mo_csv_fail(c, "not a number of lines");
    mo_profile_labels(&r->t->model, &r->t->machine, &r->t->source, &r->t->note, labels);
    return mo_csv_label(c, labels, MO_PROFILE_LABELS, r->t->region);
}

static int read_header(struct mo_csv *c, void *self) {
    struct mo_profile_table *t = ((struct reader *)self)->t;
    double v;
    if (!mo_csv_skip(c, columns) || !mo_csv_more(c))
        return mo_csv_fail(c, "the header must begin with %s, and core counts follow", columns);
    t->units = mo_csv_skip(c, units_column);
    t->locality = mo_csv_skip(c, locality_columns);
    t->cold = mo_csv_skip(c, cold_column);
    t->mops = mo_csv_skip(c, mops_column);
    while (mo_csv_more(c)) {
        if (!mo_csv_number(c, 1, MO_MAX_CORES, &v) || v != floor(v))
            return mo_csv_fail_cell(c,
                                    "a column after kib, units, block_kib, l3_kib, cold_us and mops must "
                                    "be a number of cores, not '%s'",
                                    c->shown);
        if (t->n_counts == MO_PROFILE_COUNTS) return mo_csv_fail_cell(c, "too many columns of core counts");
        if (t->n_counts && (int)v <= t->counts[t->n_counts - 1])
            return mo_csv_fail_cell(c, "core counts must rise from column to column");
        t->counts[t->n_counts++] = (int)v;
    }
    return t->n_counts ? MOIRE_OK : mo_csv_fail(c, "no column with a number of cores");
}

static int read_times(struct mo_csv *c, const struct mo_profile_table *t, double *us) {
    double least = INFINITY;
    for (int i = 0; i < t->n_counts; i++) {
        bool good = mo_csv_number(c, least_us, most_us, &us[i]);
        if (!good && !*c->shown) return mo_csv_fail_cell(c, "no time at %d cores", t->counts[i]);
        if (!good)
            return mo_csv_fail_cell(c, "'%s' at %d cores is not a time in microseconds", c->shown,
                                    t->counts[i]);
        if (us[i] > 2 * least && us[i] > least + grows_us)
            return mo_csv_fail_cell(
                c, "%g us at %d cores but %g us at fewer: measure again, or leave that column out", us[i],
                t->counts[i], least);
        if (us[i] < least) least = us[i];
    }
    return mo_csv_more(c) ? mo_csv_fail(c, "more cells than columns") : MOIRE_OK;
}

/* The pressures of a variant at batch 1 are those of the first. */
static int end_variant(struct mo_csv *c, struct reader *r) {
    const struct mo_profile_table *t = r->t;
    const struct mo_profile_line *l = &t->lines[r->first];
    bool same = true;
    int n = 0;
    for (; r->first + n < t->n_lines && l[n].batch == 1; n++)
        same = same && (!r->known || (n < r->known && l[n].pressure == t->lines[n].pressure));
    if (r->known && (!same || n != r->known))
        return mo_csv_fail(c,
                           "variant %d of layer %d ends here without the pressures that the first layer has",
                           l->variant, l->layer);
    r->known = n;
    r->first = t->n_lines;
    return MOIRE_OK;
}

/* Whether a line may follow those before it. */
static int check_order(struct mo_csv *c, struct reader *r, const struct mo_profile_line *l) {
    struct mo_profile_table *t = r->t;
    const struct mo_profile_line *last = t->n_lines ? &t->lines[t->n_lines - 1] : NULL;
    bool same = last && last->layer == l->layer, next = same && last->variant == l->variant;
    if (l->layer > t->n_layers || (last && l->layer < last->layer))
        return mo_csv_fail(c, "layers must count from 0 without a gap");
    if (!same && (l->variant || l->batch != 1 || l->pressure > 0))
        return mo_csv_fail(c, "the first line of a layer must be variant 0, batch 1, pressure 0");
    if (same && !next && (l->variant != last->variant + 1 || l->batch != 1 || l->pressure > 0))
        return mo_csv_fail(c, "variants must count from 0, each beginning with batch 1, pressure 0");
    if (next && (l->batch < last->batch || (l->batch == last->batch && l->pressure <= last->pressure)))
        return mo_csv_fail(c, "the lines of a variant must come in order of batch and pressure, each once");
    if (!same) t->n_layers++;
    return last && !next ? end_variant(c, r) : MOIRE_OK;
}

/* More pressure makes nothing faster. */
static int check_pressure(const struct mo_csv *c, const struct reader *r, int at) {
    const struct mo_profile_table *t = r->t;
    const struct mo_profile_line *l = &t->lines[at], *before = l - 1;
    if (at == r->first || before->batch != l->batch) return MOIRE_OK;
    for (int i = 0; i < t->n_counts; i++)
        if (l->us[i] < rounding * before->us[i])
            return mo_csv_fail(c, "%g us at %d cores under pressure %g but %g us under %g: measure again",
                               l->us[i], t->counts[i], l->pressure, before->us[i], before->pressure);
    return MOIRE_OK;
}

static bool counts(double v) {
    return v == floor(v);
}

/* The cells before the times. */
static int read_layer(struct mo_csv *c, const struct mo_profile_table *t, struct mo_profile_line *out) {
    double layer = 0, variant = 0, batch = 0;
    bool good = mo_csv_number(c, 0, 1e6, &layer) && counts(layer);
    good = good && mo_csv_cell(c, out->name, sizeof out->name) >= 0;
    good = good && mo_csv_number(c, 0, 1e3, &variant) && counts(variant);
    good = good && mo_csv_number(c, 0, 1e5, &batch) && counts(batch);
    good = good && mo_csv_number(c, 0, 1, &out->pressure) && mo_csv_number(c, 0, most_count, &out->kib);
    if (t->units) good = good && mo_csv_number(c, 0, most_count, &out->units);
    if (t->locality)
        good = good && mo_csv_number(c, 0, most_count, &out->block_kib) &&
               mo_csv_number(c, 0, most_count, &out->l3_kib);
    if (t->cold) good = good && mo_csv_number(c, 0, most_us, &out->cold_us);
    if (t->mops) good = good && mo_csv_number(c, 0, most_count, &out->mops);
    if (!good)
        return mo_csv_fail_cell(c,
                                "layer, variant, batch, pressure, kib, units, block_kib, l3_kib, cold_us "
                                "and mops must be numbers from 0 on, pressure at most 1, not '%s'",
                                c->shown);
    out->layer = (int)layer;
    out->variant = (int)variant;
    out->batch = (int)batch;
    return MOIRE_OK;
}

static int read_row(struct mo_csv *c, void *self) {
    struct reader *r = self;
    struct mo_profile_table *t = r->t;
    struct mo_profile_line *out = &t->lines[t->n_lines];
    if (c->cut && r->said > 0) return mo_csv_fail(c, "the last line is cut off");
    int code = read_layer(c, t, out);
    if (!code) code = check_order(c, r, out);
    if (code) return code;
    double *us = mo_region_array(t->region, (size_t)t->n_counts, sizeof *us);
    if (!us) return mo_fail(c->err, MOIRE_ENOMEM, "%s: out of memory", c->path);
    out->us = us;
    t->n_lines++;
    code = read_times(c, t, us);
    return code ? code : check_pressure(c, r, t->n_lines - 1);
}

static int read_end(struct mo_csv *c, void *self) {
    struct reader *r = self;
    if (r->said > 0 && r->said != r->t->n_lines)
        return mo_csv_fail(c, "the file ends after %d lines of times, '# lines' says %.0f", r->t->n_lines,
                           r->said);
    return end_variant(c, r);
}

static const struct mo_csv_form form = {.magic = magic,
                                        .what = "a profile",
                                        .unit = "layer",
                                        .remark = read_remark,
                                        .header = read_header,
                                        .row = read_row,
                                        .end = read_end};

int mo_profile_table_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                           struct mo_profile_table *out, moire_error *err) {
    struct reader r = {.t = out};
    const size_t lines = mo_csv_lines(text, n);
    *out = (struct mo_profile_table){.model = "", .machine = "", .source = "", .note = ""};
    if (lines > MAX_LINES) return mo_fail(err, MOIRE_EFORMAT, "%s: not a profile: too long", path);
    out->region = mo_region_create(env);
    if (out->region) out->lines = mo_region_array(out->region, lines, sizeof *out->lines);
    int code = out->lines ? mo_csv_read(&form, path, text, n, &r, err)
                          : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    if (code) mo_profile_table_free(out);
    return code;
}

int mo_profile_table_read(const struct mo_env *env, const char *path, struct mo_profile_table *out,
                          moire_error *err) {
    char *text;
    size_t n;
    int code = mo_file_read(env, path, env->limits.json_bytes, "json_bytes", &text, &n, err);
    if (!code) code = mo_profile_table_parse(env, path, text, n, out, err);
    mo_free(env, text);
    return code;
}

void mo_profile_table_free(struct mo_profile_table *table) {
    mo_region_destroy(table->region);
    *table = (struct mo_profile_table){0};
}

int mo_profile_settle(double *us, const double *before, int n) {
    double least = INFINITY;
    int changed = 0;
    for (int i = 0; i < n; i++) {
        double was = us[i], most = fmax(2 * least, least + grows_us) * rounding;
        us[i] = mo_within(least_us, most_us, us[i]);
        if (before && us[i] < before[i]) us[i] = before[i];
        if (us[i] > most) us[i] = most;
        if (us[i] < least) least = us[i];
        changed += us[i] != was;
    }
    return changed;
}

/* Every number stays in the range that the reader takes. */
static void write_line(FILE *f, const struct mo_profile_table *t, const struct mo_profile_line *l) {
    fprintf(f, "%d,", l->layer);
    mo_csv_put(f, l->name);
    fprintf(f, ",%d,%d,%g,%.6g", l->variant, l->batch, l->pressure, mo_within(0, most_count, l->kib));
    if (t->units) fprintf(f, ",%.12g", mo_within(0, most_count, l->units));
    if (t->locality)
        fprintf(f, ",%.6g,%.6g", mo_within(0, most_count, l->block_kib), mo_within(0, most_count, l->l3_kib));
    if (t->cold) fprintf(f, ",%.5g", mo_within(0, most_us, l->cold_us));
    if (t->mops) fprintf(f, ",%.6g", mo_within(0, most_count, l->mops));
    for (int c = 0; c < t->n_counts; c++)
        fprintf(f, ",%.5g", mo_within(least_us, most_us, l->us[c]));
    fprintf(f, "\n");
}

static void write_table(FILE *f, const struct mo_profile_table *t) {
    struct mo_profile_table texts = *t;
    struct mo_csv_label labels[MO_PROFILE_LABELS];
    mo_profile_labels(&texts.model, &texts.machine, &texts.source, &texts.note, labels);
    fprintf(f, "%s\n", magic);
    mo_csv_put_labels(f, labels, MO_PROFILE_LABELS);
    fprintf(f, "# %s %d\n", lines_key, t->n_lines);
    const struct {
        bool has;
        const char *name;
    } optional[] = {{t->units, units_column},
                    {t->locality, locality_columns},
                    {t->cold, cold_column},
                    {t->mops, mops_column}};
    fprintf(f, "%s", columns);
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (optional[i].has) fprintf(f, ",%s", optional[i].name);
    for (int i = 0; i < t->n_counts; i++)
        fprintf(f, ",%d", t->counts[i]);
    fprintf(f, "\n");
    for (int i = 0; i < t->n_lines; i++)
        write_line(f, t, &t->lines[i]);
}

char *mo_profile_table_text(const struct mo_profile_table *t, size_t *n) {
    char *text = NULL, *copy = NULL;
    FILE *f = open_memstream(&text, n);
    if (!f) return NULL;
    write_table(f, t);
    bool bad = ferror(f) != 0;
    if (!fclose(f) && !bad) copy = mo_region_string(t->region, text, *n);
    free(text);
    return copy;
}

/* Times of one variant's layers at one column; false when a layer lacks that variant. */
static bool column(const struct mo_profile_table *t, int variant, int at, int64_t *ns) {
    int n = 0;
    for (int i = 0; i < t->n_lines; i++) {
        const struct mo_profile_line *l = &t->lines[i];
        if (l->variant != variant || l->batch != 1 || l->pressure > 0) continue;
        ns[l->layer] = (int64_t)(l->us[at] * 1e3 + 0.5);
        n++;
    }
    return n == t->n_layers;
}

/* What a line says of its layer besides times: bytes, ns more when caches are cold, operations. */
static int64_t bytes_of(const struct mo_profile_line *l) {
    return (int64_t)(l->kib * 1024);
}
static int64_t cold_of(const struct mo_profile_line *l) {
    return (int64_t)(l->cold_us * 1e3);
}
static int64_t ops_of(const struct mo_profile_line *l) {
    return (int64_t)(l->mops * 1e6 + 0.5);
}

/* One of these for every layer of a variant. */
static const int64_t *plain(const struct mo_profile_table *t, int variant,
                            int64_t (*of)(const struct mo_profile_line *), int64_t *out) {
    for (int i = 0; i < t->n_lines; i++) {
        const struct mo_profile_line *l = &t->lines[i];
        if (l->variant == variant && l->batch == 1 && !(l->pressure > 0)) out[l->layer] = of(l);
    }
    return out;
}

int mo_profile_table_profile(const struct mo_env *env, const struct mo_profile_table *t, int variant,
                             int max_cores, struct mo_profile **out, moire_error *err) {
    struct mo_profile *p = mo_profile_create(env, t->n_layers, max_cores);
    int64_t *ns = mo_alloc(env, (size_t)t->n_layers * sizeof *ns);
    bool any = false, whole = true;
    int code = MOIRE_OK;
    if (!p || !ns) code = mo_fail(err, MOIRE_ENOMEM, "out of memory for the profile of '%s'", t->model);
    for (int i = 0; !code && i < t->n_counts; i++) {
        int cores = t->counts[i];
        if (cores > max_cores && any) break;
        whole &= column(t, variant, i, ns);
        /* a machine smaller than any that was measured: at best the same core time */
        for (int k = 0; cores > max_cores && k < t->n_layers; k++)
            ns[k] = ns[k] * cores / max_cores;
        mo_profile_record(p, cores < max_cores ? cores : max_cores, ns);
        any = true;
    }
    if (!code && !whole)
        code =
            mo_fail(err, MOIRE_EINVAL, "the profile of '%s' lacks variant %d of a layer", t->model, variant);
    if (!code) {
        mo_profile_traffic(p, plain(t, variant, bytes_of, ns));
        mo_profile_cold(p, plain(t, variant, cold_of, ns));
        mo_profile_operations(p, plain(t, variant, ops_of, ns));
        mo_profile_finish(p);
    }
    mo_free(env, ns);
    if (code)
        mo_profile_destroy(p);
    else
        *out = p;
    return code;
}
