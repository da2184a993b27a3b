/* SPDX-License-Identifier: Apache-2.0
 * interference_fit.c - see interference_fit.h. */
#define _GNU_SOURCE
#include "bench/fit/interference_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/report/plot.h"
#include "runtime/base/output.h"
#include "bench/report/report_page.h"

enum { QUANTILES = 101 };

/* What the paper claims, for 90 % and 95 % of its validation data. */
static const double paper_p90 = 0.1026, paper_p95 = 0.1398;

/* The error that a share of n rising errors stays within. */
static double quantile(const double *error, int n, double share) {
    int at = (int)ceil(share * n) - 1;
    return error[at < 0 ? 0 : at];
}

struct work {
    const struct mo_pairs *pairs;
    const struct mo_interference_options *o;
    bool *chosen;
    double *error;
};

static json_t *constants_json(const struct mo_interference *m) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "l2_self", m->l2_self, "l2_other", m->l2_other, "dram_self",
                     m->dram_self, "dram_other", m->dram_other, "constant", m->constant);
}

/* Tests a model, or with NULL the one that each split fits, on the halves that the fits did not see. */
static int add_row(struct work *w, const char *name, const struct mo_interference *given, json_t *rows,
                   moire_error *err) {
    double least[2] = {INFINITY, INFINITY}, most[2] = {0};
    json_t *row = NULL;
    for (int s = w->o->splits - 1; s >= 0; s--) { /* the first split last: its errors are the row's */
        struct mo_interference model = {0};
        mo_pairs_split(w->pairs, w->o->seed + (uint64_t)s, w->chosen);
        int code = given ? MOIRE_OK : mo_pairs_fit(w->pairs, w->chosen, true, &model, err);
        if (code) return code;
        if (given) model = *given;
        int n = mo_pairs_errors(w->pairs, w->chosen, false, &model, w->error);
        for (int k = 0; k < 2; k++) {
            double e = quantile(w->error, n, k ? 0.95 : 0.9);
            least[k] = fmin(least[k], e);
            most[k] = fmax(most[k], e);
        }
        if (s) continue;
        double sum = 0;
        json_t *distribution = json_array();
        for (int i = 0; i < n; i++)
            sum += w->error[i];
        for (int q = 0; q < QUANTILES; q++)
            json_array_append_new(distribution, json_real(quantile(w->error, n, q / (QUANTILES - 1.0))));
        row = json_pack("{s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:{s:[f,f], s:[f,f]}, s:o}", "model", name,
                        "constants", constants_json(&model), "mean", sum / n, "p50",
                        quantile(w->error, n, 0.5), "p90", quantile(w->error, n, 0.9), "p95",
                        quantile(w->error, n, 0.95), "worst", w->error[n - 1], "splits", "p90", least[0],
                        most[0], "p95", least[1], most[1], "error", distribution);
    }
    return json_array_append_new(rows, row) ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}

static int fill(struct work *w, json_t *rows, json_t **all, moire_error *err) {
    const struct mo_interference none = {0};
    struct mo_interference model = {0};
    int code = mo_pairs_fit(w->pairs, NULL, true, &model, err);
    *all = constants_json(&model);
    if (!code) code = add_row(w, "fitted", NULL, rows, err);
    for (int i = 0; !code && i < w->o->n_others; i++)
        code = add_row(w, w->o->other[i].name, &w->o->other[i].model, rows, err);
    return code ? code : add_row(w, "none", &none, rows, err);
}

int mo_interference_document(const struct mo_pairs *pairs, const struct mo_interference_options *o,
                             json_t **out, moire_error *err) {
    const struct mo_env *env = pairs->env;
    struct work w = {.pairs = pairs, .o = o};
    json_t *rows = json_array(), *all = NULL;
    int n = pairs->n / 2, code;
    *out = NULL;
    w.chosen = mo_alloc(env, (size_t)n);
    w.error = mo_alloc(env, (size_t)pairs->n * sizeof *w.error);
    if (n < 8)
        code = mo_fail(err, MOIRE_EINVAL, "%d pairs are too few to fit and to test", n);
    else
        code = w.chosen && w.error && rows ? fill(&w, rows, &all, err)
                                           : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d pairs", n);
    mo_free(env, w.chosen);
    mo_free(env, w.error);
    if (!code) {
        *out = json_pack("{s:{s:s, s:i, s:i, s:i, s:I, s:i, s:f, s:f, s:O}, s:O}", "experiment", "kind",
                         "interference", "pairs", n, "fitted", n / 2, "tested", n - n / 2, "seed",
                         (json_int_t)o->seed, "splits", o->splits, "paper_p90", paper_p90, "paper_p95",
                         paper_p95, "constants_all", all, "results", rows);
        if (!*out) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    json_decref(all);
    json_decref(rows);
    return code;
}

static void print_constants(const json_t *c) {
    printf("%+.4f %+.4f %+.4f %+.4f %+.4f", mo_json_number(c, "l2_self"), mo_json_number(c, "l2_other"),
           mo_json_number(c, "dram_self"), mo_json_number(c, "dram_other"), mo_json_number(c, "constant"));
}

static double percent(const json_t *row, const char *key) {
    return 100 * mo_json_number(row, key);
}

void mo_interference_print(const json_t *d) {
    const json_t *e = json_object_get(d, "experiment"), *row;
    size_t i;
    printf("%.0f pairs, fitted to %.0f and tested on the other %.0f (seed %.0f; ranges over %.0f splits)\n\n",
           mo_json_number(e, "pairs"), mo_json_number(e, "fitted"), mo_json_number(e, "tested"),
           mo_json_number(e, "seed"), mo_json_number(e, "splits"));
    printf(
        "model              mean %%  90 %% within          95 %% within          worst %%  l2 self, other, "
        "memory self, other, constant\n");
    json_array_foreach(json_object_get(d, "results"), i, row) {
        const json_t *s = json_object_get(row, "splits");
        const json_t *p90 = json_object_get(s, "p90"), *p95 = json_object_get(s, "p95");
        printf("%-18.18s %6.2f  %5.2f %% (%.2f-%.2f)  %5.2f %% (%.2f-%.2f)  %7.2f  ",
               mo_json_text(row, "model"), percent(row, "mean"), percent(row, "p90"),
               100 * json_number_value(json_array_get(p90, 0)),
               100 * json_number_value(json_array_get(p90, 1)), percent(row, "p95"),
               100 * json_number_value(json_array_get(p95, 0)),
               100 * json_number_value(json_array_get(p95, 1)), percent(row, "worst"));
        print_constants(json_object_get(row, "constants"));
        printf("\n");
    }
    printf("%-18s         %5.2f %%                %5.2f %%\n", "gpu-let's paper", percent(e, "paper_p90"),
           percent(e, "paper_p95"));
    printf("\nfitted to all pairs, for a machine file: ");
    print_constants(json_object_get(e, "constants_all"));
    printf("\n");
}

/* What a chart inside a page gets from it: the name space, colours, names of the lines. */
static void begin_file(FILE *out, const struct mo_plot *plot, const json_t *rows) {
    const json_t *row;
    size_t i;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n<style>text{font:11px "
            "sans-serif;fill:#555}.t{font-size:13px;font-weight:600;fill:#111}.g,.f{stroke:#ddd;fill:none}"
            ".m{stroke:#111;stroke-dasharray:2 3}</style>\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#fff\"/>\n",
            plot->width, plot->height);
    json_array_foreach((json_t *)rows, i, row) {
        int y = plot->height - 60 - 18 * (int)(json_array_size(rows) - 1 - i);
        fprintf(out,
                "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"4\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">",
                plot->width - 150, y - 6, mo_plot_colour((int)i), plot->width - 130, y);
        mo_html_text(out, mo_json_text(row, "model"));
        fprintf(out, "</text>\n");
    }
}

int mo_interference_plot(const struct mo_env *env, const json_t *d, const char *path, moire_error *err) {
    struct mo_plot plot = {.title = "interference model: relative error of pairs that the fit did not see",
                           .x_label = "relative error, %",
                           .y_label = "share of the tested samples",
                           .x1 = 25,
                           .y1 = 1,
                           .width = 720,
                           .height = 400,
                           .percent_y = true};
    char *text = NULL;
    size_t n = 0, i;
    const json_t *row;
    FILE *out = open_memstream(&text, &n);
    if (!out) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    begin_file(out, &plot, json_object_get(d, "results"));
    mo_plot_begin(&plot, out);
    mo_plot_vertical(&plot, 100 * paper_p90, "paper, 90 %");
    mo_plot_vertical(&plot, 100 * paper_p95, "paper, 95 %");
    json_array_foreach(json_object_get(d, "results"), i, row) {
        double x[QUANTILES], y[QUANTILES];
        for (int q = 0; q < QUANTILES; q++) {
            x[q] = 100 * json_number_value(json_array_get(json_object_get(row, "error"), (size_t)q));
            y[q] = q / (QUANTILES - 1.0);
        }
        mo_plot_line(&plot, x, y, QUANTILES, mo_plot_colour((int)i), i > 0, false,
                     mo_json_text(row, "model"));
    }
    mo_plot_end(&plot);
    fprintf(out, "</svg>\n");
    bool bad = ferror(out) != 0;
    int code = fclose(out) || bad ? mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path)
                                  : mo_output_write(env, path, text, n, err);
    free(text);
    return code;
}
