/* SPDX-License-Identifier: Apache-2.0
 * profile_table.c - reading, writing and using profile files; see profile_table.h. */
#define _GNU_SOURCE
#include "runtime/profile/profile_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/cells.h"
#include "runtime/base/cores.h"
#include "runtime/base/file.h"

static const char magic[] = "# moire-profile 1", lines_key[] = "# lines ";
static const char columns[] = "layer,name,variant,batch,pressure,kib";
static const char units_column[] = "units", locality_columns[] = "block_kib,l3_kib",
                  cold_column[] = "cold_us";
enum { FIXED = 10, MAX_LINES = 1 << 20 };
static const double least_us = 1e-3, most_us = 1e9, most_count = 1e12, grows_us = 20, rounding = 0.999;

/* Where the parser is. */
struct reader {
    const char *path;
    int line;
    struct mo_profile_table *t;
    double said;      /* how many lines of times the file says it has; 0 = it does not */
    int first, known; /* lines of the present variant begin at `first`; pressures that the first layer has */
    moire_error *err;
};

static int fail(const struct reader *r, const char *why) {
    return mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: %s", r->path, r->line, why);
}

static int read_remark(struct reader *r, char *line) {
    struct {
        const char *key, **to;
    } rows[] = {{"# model ", &r->t->model},
                {"# machine ", &r->t->machine},
                {"# source ", &r->t->source},
                {"# note ", &r->t->note}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strncmp(line, rows[i].key, strlen(rows[i].key))) *rows[i].to = line + strlen(rows[i].key);
    if (strncmp(line, lines_key, sizeof lines_key - 1) != 0) return MOIRE_OK;
    return mo_cell_number(line + sizeof lines_key - 1, 1, MAX_LINES, &r->said)
               ? MOIRE_OK
               : fail(r, "not a number of lines");
}

/* Steps over a column, or several, that may be missing. */
static bool optional(char **line, const char *names) {
    size_t n = strlen(names);
    if (!*line || strncmp(*line, names, n) != 0 || ((*line)[n] && (*line)[n] != ',')) return false;
    *line = (*line)[n] ? *line + n + 1 : NULL;
    return true;
}

static int read_header(struct reader *r, char *line) {
    struct mo_profile_table *t = r->t;
    size_t n = sizeof columns - 1;
    double v;
    if (strncmp(line, columns, n) != 0 || line[n] != ',') {
        mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: the header must begin with %s", r->path, r->line, columns);
        return MOIRE_EFORMAT;
    }
    line += n + 1;
    t->units = optional(&line, units_column);
    t->locality = optional(&line, locality_columns);
    t->cold = optional(&line, cold_column);
    for (char *cell; (cell = mo_cell_next(&line));) {
        if (!mo_cell_number(cell, 1, MO_MAX_CORES, &v) || v != floor(v))
            return fail(r,
                        "a column after kib, units, block_kib, l3_kib and cold_us must be a number of cores");
        if (t->n_counts == MO_PROFILE_COUNTS) return fail(r, "too many columns of core counts");
        if (t->n_counts && (int)v <= t->counts[t->n_counts - 1])
            return fail(r, "core counts must rise from column to column");
        t->counts[t->n_counts++] = (int)v;
    }
    return MOIRE_OK;
}

static int read_times(struct reader *r, char *line, double *us) {
    const struct mo_profile_table *t = r->t;
    double least = INFINITY;
    for (int i = 0; i < t->n_counts; i++) {
        const char *cell = mo_cell_next(&line);
        if (!cell || !*cell) {
            mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: no time at %d cores", r->path, r->line, t->counts[i]);
            return MOIRE_EFORMAT;
        }
        if (!mo_cell_number(cell, least_us, most_us, &us[i])) {
            mo_fail(r->err, MOIRE_EFORMAT, "%s:%d: '%.32s' at %d cores is not a time in microseconds",
                    r->path, r->line, cell, t->counts[i]);
            return MOIRE_EFORMAT;
        }
        if (us[i] > 2 * least && us[i] > least + grows_us) {
            mo_fail(r->err, MOIRE_EFORMAT,
                    "%s:%d: %g us at %d cores but %g us at fewer: measure again, or leave that column out",
                    r->path, r->line, us[i], t->counts[i], least);
            return MOIRE_EFORMAT;
        }
        if (us[i] < least) least = us[i];
    }
    return line ? fail(r, "more cells than columns") : MOIRE_OK;
}

/* The pressures of a variant at batch 1 are those of the first. */
static int end_variant(struct reader *r) {
    const struct mo_profile_table *t = r->t;
    const struct mo_profile_line *l = &t->lines[r->first];
    bool same = true;
    int n = 0;
    for (; r->first + n < t->n_lines && l[n].batch == 1; n++)
        same = same && (!r->known || (n < r->known && l[n].pressure == t->lines[n].pressure));
    if (r->known && (!same || n != r->known))
        return mo_fail(
            r->err, MOIRE_EFORMAT,
            "%s:%d: variant %d of layer %d ends here without the pressures that the first layer has", r->path,
            r->line, l->variant, l->layer);
    r->known = n;
    r->first = t->n_lines;
    return MOIRE_OK;
}

/* Whether a line may follow those before it. */
static int check_order(struct reader *r, const struct mo_profile_line *l) {
    struct mo_profile_table *t = r->t;
    const struct mo_profile_line *last = t->n_lines ? &t->lines[t->n_lines - 1] : NULL;
    bool same = last && last->layer == l->layer, next = same && last->variant == l->variant;
    if (l->layer > t->n_layers || (last && l->layer < last->layer))
        return fail(r, "layers must count from 0 without a gap");
    if (!same && (l->variant || l->batch != 1 || l->pressure > 0))
        return fail(r, "the first line of a layer must be variant 0, batch 1, pressure 0");
    if (same && !next && (l->variant != last->variant + 1 || l->batch != 1 || l->pressure > 0))
        return fail(r, "variants must count from 0, each beginning with batch 1, pressure 0");
    if (next && (l->batch < last->batch || (l->batch == last->batch && l->pressure <= last->pressure)))
        return fail(r, "the lines of a variant must come in order of batch and pressure, each once");
    if (!same) t->n_layers++;
    return last && !next ? end_variant(r) : MOIRE_OK;
}

/* More pressure makes nothing faster. */
static int check_pressure(const struct reader *r, int at) {
    const struct mo_profile_table *t = r->t;
    const struct mo_profile_line *l = &t->lines[at], *before = l - 1;
    if (at == r->first || before->batch != l->batch) return MOIRE_OK;
    for (int i = 0; i < t->n_counts; i++)
        if (l->us[i] < rounding * before->us[i])
            return mo_fail(r->err, MOIRE_EFORMAT,
                           "%s:%d: %g us at %d cores under pressure %g but %g us under %g: measure again",
                           r->path, r->line, l->us[i], t->counts[i], l->pressure, before->us[i],
                           before->pressure);
    return MOIRE_OK;
}

static int read_line(struct reader *r, char *line) {
    struct mo_profile_table *t = r->t;
    struct mo_profile_line *out = &t->lines[t->n_lines];
    double v[FIXED] = {0};
    static const double most[FIXED] = {1e6,        0,          1e3,        1e5,        1,
                                       most_count, most_count, most_count, most_count, most_us};
    for (int i = 0; i < FIXED; i++) {
        if (i == 6 ? !t->units : i == 9 ? !t->cold : i > 6 && !t->locality) continue;
        const char *cell = mo_cell_next(&line);
        if (i == 1)
            snprintf(out->name, sizeof out->name, "%s", cell ? cell : "");
        else if (!mo_cell_number(cell, 0, most[i], &v[i]))
            return fail(r,
                        "layer, variant, batch, pressure, kib, units, block_kib, l3_kib and cold_us must be "
                        "numbers from 0 on, pressure at most 1");
    }
    out->layer = (int)v[0];
    out->variant = (int)v[2];
    out->batch = (int)v[3];
    out->pressure = v[4];
    out->kib = v[5];
    out->units = v[6];
    out->block_kib = v[7];
    out->l3_kib = v[8];
    out->cold_us = v[9];
    int code = check_order(r, out);
    if (code) return code;
    double *us = mo_region_array(t->region, (size_t)t->n_counts, sizeof *us);
    if (!us) return mo_fail(r->err, MOIRE_ENOMEM, "%s: out of memory", r->path);
    out->us = us;
    t->n_lines++;
    code = read_times(r, line, us);
    return code ? code : check_pressure(r, t->n_lines - 1);
}

static int read_lines(struct reader *r, char *text) {
    int code = MOIRE_OK;
    for (char *line = text; !code && line && *line;) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        r->line++;
        if (!end && r->said > 0)
            code = fail(r, "the last line is cut off");
        else if (r->line == 1)
            code = strcmp(line, magic) ? fail(r, "not a profile: the first line must be '# moire-profile 1'")
                                       : MOIRE_OK;
        else if (*line == '#')
            code = read_remark(r, line);
        else if (!r->t->n_counts)
            code = read_header(r, line);
        else
            code = read_line(r, line);
        line = end ? end + 1 : NULL;
    }
    r->line++;
    if (code) return code;
    if (!r->t->n_layers) return fail(r, "the file ends before the first layer");
    if (r->said > 0 && r->said != r->t->n_lines)
        return mo_fail(r->err, MOIRE_EFORMAT,
                       "%s:%d: the file ends after %d lines of times, '# lines' says %.0f", r->path, r->line,
                       r->t->n_lines, r->said);
    return end_variant(r);
}

int mo_profile_table_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                           struct mo_profile_table *out, moire_error *err) {
    struct reader r = {.path = path, .t = out, .err = err};
    size_t lines = 1;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    *out = (struct mo_profile_table){.model = "", .machine = "", .source = "", .note = ""};
    if (lines > MAX_LINES || memchr(text, 0, n))
        return mo_fail(err, MOIRE_EFORMAT, "%s: not a profile", path);
    out->region = mo_region_create(env);
    char *copy = out->region ? mo_region_string(out->region, text, n) : NULL;
    if (copy) out->lines = mo_region_array(out->region, lines, sizeof *out->lines);
    int code = out->lines ? read_lines(&r, copy) : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
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

/* What is no number is the least. */
static double within(double least, double most, double v) {
    return fmin(fmax(v, least), most);
}

int mo_profile_settle(double *us, const double *before, int n) {
    double least = INFINITY;
    int changed = 0;
    for (int i = 0; i < n; i++) {
        double was = us[i], most = fmax(2 * least, least + grows_us) * rounding;
        us[i] = within(least_us, most_us, us[i]);
        if (before && us[i] < before[i]) us[i] = before[i];
        if (us[i] > most) us[i] = most;
        if (us[i] < least) least = us[i];
        changed += us[i] != was;
    }
    return changed;
}

/* A text without what ends a line, or a cell when `cell`. */
static void write_text(FILE *f, const char *text, bool cell) {
    for (const char *c = text; *c; c++)
        fputc((*c == ',' && cell) || (unsigned char)*c < ' ' ? '_' : *c, f);
}

static void write_remarks(FILE *f, const struct mo_profile_table *t) {
    const struct {
        const char *key, *text;
    } rows[] = {{"model", t->model}, {"machine", t->machine}, {"source", t->source}, {"note", t->note}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].text || !*rows[i].text) continue;
        fprintf(f, "# %s ", rows[i].key);
        write_text(f, rows[i].text, false);
        fputc('\n', f);
    }
}

/* Every number stays in the range that the reader takes. */
static void write_line(FILE *f, const struct mo_profile_table *t, const struct mo_profile_line *l) {
    fprintf(f, "%d,", l->layer);
    write_text(f, l->name, true);
    fprintf(f, ",%d,%d,%g,%.6g", l->variant, l->batch, l->pressure, within(0, most_count, l->kib));
    if (t->units) fprintf(f, ",%.12g", within(0, most_count, l->units));
    if (t->locality)
        fprintf(f, ",%.6g,%.6g", within(0, most_count, l->block_kib), within(0, most_count, l->l3_kib));
    if (t->cold) fprintf(f, ",%.5g", within(0, most_us, l->cold_us));
    for (int c = 0; c < t->n_counts; c++)
        fprintf(f, ",%.5g", within(least_us, most_us, l->us[c]));
    fprintf(f, "\n");
}

static void write_table(FILE *f, const struct mo_profile_table *t) {
    fprintf(f, "%s\n", magic);
    write_remarks(f, t);
    fprintf(f, "%s%d\n", lines_key, t->n_lines);
    fprintf(f, "%s%s%s%s%s%s%s", columns, t->units ? "," : "", t->units ? units_column : "",
            t->locality ? "," : "", t->locality ? locality_columns : "", t->cold ? "," : "",
            t->cold ? cold_column : "");
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

/* Bytes of a variant's layers, or what they take besides when caches are cold, ns. */
static void plain(const struct mo_profile_table *t, int variant, bool cold, int64_t *out) {
    for (int i = 0; i < t->n_lines; i++) {
        const struct mo_profile_line *l = &t->lines[i];
        if (l->variant == variant && l->batch == 1 && !(l->pressure > 0))
            out[l->layer] = (int64_t)(cold ? l->cold_us * 1e3 : l->kib * 1024);
    }
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
        plain(t, variant, false, ns);
        mo_profile_traffic(p, ns);
        plain(t, variant, true, ns);
        mo_profile_cold(p, ns);
        mo_profile_finish(p);
    }
    mo_free(env, ns);
    if (code)
        mo_profile_destroy(p);
    else
        *out = p;
    return code;
}
