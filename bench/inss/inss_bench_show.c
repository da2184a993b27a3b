/* SPDX-License-Identifier: Apache-2.0
 * inss_bench_show.c - the experiments as tables and as a page; see inss_bench.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/inss/inss_bench.h"
#include "bench/report/columns.h"
#include "bench/report/headline.h"
#include "bench/report/plot.h"
#include "bench/report/series.h"
#include "runtime/base/text.h"

enum { MOST_POINTS = 16 };

static const struct mo_column columns[] = {
    {"arrivals", NULL, "came/s", "came,<br>queries/s", 1, 1, false},
    {"throughput", "throughput_ci", "in time/s", "in time,<br>queries/s", 1, 1, false},
    {"violations_pct", "violations_ci", "late, %", "late or<br>dropped, %", 2, 1, false},
    {"late_pct", NULL, "answered late", "late of those<br>answered, %", 2, 1, false},
    {"fragments_pct", NULL, "fragments, %", "fragments,<br>%", 1, 1, false},
    {"plans", NULL, "plans", "plans<br>a run", 1, 1, false},
    {"decision_ms_p50", NULL, "ms p50", "a decision,<br>ms", 3, 1, false},
    {"decision_ms_max", NULL, "ms max", "the longest,<br>ms", 2, 1, false},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Whether the row opens a case: the one before is of another. */
static bool opens(const json_t *row, const json_t *before) {
    return !before || strcmp(mo_json_text(row, "case"), mo_json_text(before, "case")) != 0 ||
           mo_json_number(row, "load") != mo_json_number(before, "load") ||
           mo_json_number(row, "models") != mo_json_number(before, "models");
}

static const char *heading(char text[128], const json_t *row) {
    snprintf(text, 128, "%s: %.0f GPUs, %.0f models, each %g of a GPU in the mean", mo_json_text(row, "case"),
             mo_json_number(row, "gpus"), mo_json_number(row, "models"), mo_json_number(row, "load"));
    return text;
}

/* --- what they say ---------------------------------------------------------------------------------------
 */
json_t *mo_inss_bench_headline(const json_t *document) {
    const json_t *row;
    json_t *lines = json_array();
    size_t i;
    json_array_foreach(json_object_get(document, "comparison"), i, row) {
        char text[MO_HEADLINE];
        struct mo_text t = mo_text_in(text, sizeof text);
        const json_t *claim = json_object_get(row, "claimed_pct"), *ci = json_object_get(row, "gain_ci");
        if (!json_is_number(claim) || strcmp(mo_json_text(row, "case"), "steps") != 0) continue;
        mo_text_put(&t, "%.0f GPUs, %.0f models, load %g: inss serves %+.1f", mo_json_number(row, "gpus"),
                    mo_json_number(row, "models"), mo_json_number(row, "load"),
                    mo_json_number(row, "gain_pct"));
        if (json_is_number(ci)) mo_text_put(&t, "+-%.1f", json_number_value(ci));
        mo_text_put(&t, " %% over %s; the paper claims %+.1f %%.", mo_json_text(row, "over"),
                    json_number_value(claim));
        json_array_append_new(lines, json_string(text));
    }
    return lines;
}

void mo_inss_bench_print(const json_t *document) {
    const json_t *row, *before = NULL;
    char text[128];
    size_t i;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (opens(row, before)) {
            printf("%s%s\n%-12s", i ? "\n" : "", heading(text, row), "system");
            mo_columns_print_titles(columns, COLUMNS, 15);
        }
        printf("%-12s", mo_json_text(row, "system"));
        mo_columns_print(row, columns, COLUMNS, 15);
        before = row;
    }
    json_t *line, *lines = mo_inss_bench_headline(document);
    printf("\n");
    json_array_foreach(lines, i, line) printf("%s\n", json_string_value(line));
    json_decref(lines);
}

/* --- the page --------------------------------------------------------------------------------------------
 */
static void page_results(FILE *out, const json_t *document) {
    const json_t *row, *before = NULL;
    char text[128];
    size_t i;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (opens(row, before)) {
            fprintf(out, "%s<h2>", before ? "</table></div>\n" : "");
            mo_html_text(out, heading(text, row));
            fprintf(out, "</h2><div class=\"card\"><table>\n<tr><th>system</th>");
            mo_columns_page_heads(out, columns, COLUMNS);
        }
        fprintf(out, "<tr>");
        mo_page_system_cell(out, mo_json_text(row, "system"));
        mo_columns_page(out, row, columns, COLUMNS);
        before = row;
    }
    if (before) fprintf(out, "</table></div>\n");
}

/* Violations of a system by load, or by the number of models where there is one load. */
static int curve(const json_t *document, const char *system, const char *along, double x[MOST_POINTS],
                 double y[MOST_POINTS]) {
    const json_t *row;
    size_t i;
    int n = 0;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (strcmp(mo_json_text(row, "system"), system) != 0 ||
            strcmp(mo_json_text(row, "case"), "steps") != 0 || n == MOST_POINTS)
            continue;
        x[n] = mo_json_number(row, along);
        y[n++] = mo_json_number(row, "violations_pct") / 100;
    }
    return n;
}

static void page_chart(FILE *out, const json_t *document) {
    const json_t *results = json_object_get(document, "results"), *row, *first = json_array_get(results, 0);
    const bool by_models = mo_json_number(first, "gpus") > 4;
    double x[MOST_POINTS], y[MOST_POINTS], most = 0;
    size_t i;
    json_array_foreach((json_t *)results, i, row) most =
        fmax(most, mo_json_number(row, by_models ? "models" : "load"));
    struct mo_plot plot = {.title = "late or dropped",
                           .x_label = by_models ? "models" : "GPUs that a model needs",
                           .y_label = "of the queries that came",
                           .x1 = most,
                           .y1 = 1,
                           .percent_y = true,
                           .width = 640,
                           .height = 360};
    fprintf(out, "<div class=\"card\">");
    mo_plot_begin(&plot, out);
    json_array_foreach((json_t *)results, i, row) {
        if (opens(row, first) && row != first) continue;
        const char *system = mo_json_text(row, "system");
        const struct mo_series series = mo_series_of(system);
        const int n = curve(document, system, by_models ? "models" : "load", x, y);
        if (n) mo_plot_line(&plot, x, y, n, series.colour, series.dashed, true, system);
    }
    mo_plot_end(&plot);
    fprintf(out, "</div>\n");
}

static void page(FILE *out, const void *what) {
    const json_t *document = what;
    mo_page_begin(out, "InSS in simulation", "");
    mo_page_lines(out, mo_inss_bench_headline(document));
    fprintf(out,
            "<p>Every system serves the same arrivals. Late or dropped are queries that came and were not "
            "answered within their target; fragments are the share of used GPUs that is in no let; a "
            "decision is the processor time of a plan.</p>\n");
    if (json_array_size(json_object_get(document, "results"))) page_chart(out, document);
    page_results(out, document);
    mo_page_experiment(out, document);
    mo_page_end(out);
}

int mo_inss_bench_report(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err) {
    return mo_page_write(env, page, document, path, err);
}
