/* SPDX-License-Identifier: Apache-2.0
 * watt_show.c - the experiments as tables and as a page; see watt_bench.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/report/columns.h"
#include "bench/report/headline.h"
#include "bench/report/plot.h"
#include "bench/report/series.h"
#include "bench/wattwiser/watt_bench.h"
#include "bench/wattwiser/watt_run.h"
#include "runtime/base/text.h"

static const struct mo_column columns[] = {
    {"watts", "watts_ci", "watts", "watts", 1, 1, false},
    {"saved_vs_uniform_pct", "saved_ci", "saved, %", "saved,<br>%", 1, 1, false},
    {"p95_over_slo", NULL, "p95/SLO", "p95 / SLO", 2, 1, true},
    {"worst_step_over_slo", NULL, "worst step", "p95 / SLO,<br>worst step", 2, 1, true},
    {"violations_pct", "violations_ci", "late, %", "late, %", 2, 1, false},
    {"awake", NULL, "awake", "GPUs<br>awake", 2, 1, false},
    {"joules_per_query", NULL, "J/query", "J a query", 4, 1, false},
    {"bound_joules_per_query", NULL, "bound", "bound,<br>J a query", 4, 1, false},
    {"over_bound_pct", NULL, "over it, %", "over<br>bound, %", 0, 1, false},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Whether the row opens a pair: the one before is of another. */
static bool opens(const json_t *row, const json_t *before) {
    return !before || strcmp(mo_json_text(row, "pair"), mo_json_text(before, "pair")) != 0;
}

/* --- what they say -------------------------------------------------------------------------------------- */
json_t *mo_watt_bench_headline(const json_t *document) {
    const json_t *row;
    json_t *lines = json_array();
    size_t i;
    json_array_foreach(json_object_get(document, "means"), i, row) {
        char text[MO_HEADLINE];
        struct mo_text t = mo_text_in(text, sizeof text);
        const json_t *saved = json_object_get(row, "saved_vs_uniform_pct"),
                     *claim = json_object_get(row, "claimed_pct");
        if (!json_is_number(saved) || !strcmp(mo_json_text(row, "policy"), "wattwiser-uniform")) continue;
        mo_text_put(&t, "%s saves %.1f %% of uniform's power over %.0f pairs, with %.2f %% late",
                    mo_json_text(row, "policy"), json_number_value(saved), mo_json_number(row, "pairs"),
                    mo_json_number(row, "violations_pct"));
        if (json_is_number(claim)) mo_text_put(&t, "; the paper claims %.0f %%", json_number_value(claim));
        mo_text_put(&t, ".");
        json_array_append_new(lines, json_string(text));
    }
    return lines;
}

static const char *power_line(char text[512], const json_t *document) {
    const json_t *p = json_object_get(document, "power");
    snprintf(text, 512, "A GPU draws %g W parked, %g idle, %g busy (%s: %.300s).", mo_json_number(p, "off_w"),
             mo_json_number(p, "idle_w"), mo_json_number(p, "active_w"), mo_json_text(p, "basis"),
             mo_json_text(p, "source"));
    return text;
}

void mo_watt_bench_print(const json_t *document) {
    const json_t *row, *before = NULL;
    char text[512];
    size_t i;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (opens(row, before)) {
            printf("%s%s\n%-29s", i ? "\n" : "", mo_json_text(row, "pair"), "policy");
            mo_columns_print_titles(columns, COLUMNS, 12);
        }
        printf("%-29s", mo_json_text(row, "policy"));
        mo_columns_print(row, columns, COLUMNS, 12);
        before = row;
    }
    printf("\n%s\n", power_line(text, document));
    json_t *line, *lines = mo_watt_bench_headline(document);
    json_array_foreach(lines, i, line) printf("%s\n", json_string_value(line));
    json_decref(lines);
}

/* --- the page ------------------------------------------------------------------------------------------- */
static void page_results(FILE *out, const json_t *document) {
    const json_t *row, *before = NULL;
    size_t i;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (opens(row, before)) {
            fprintf(out, "%s<h2>", before ? "</table></div>\n" : "");
            mo_html_text(out, mo_json_text(row, "pair"));
            fprintf(out, "</h2><div class=\"card\"><table>\n<tr><th>policy</th>");
            mo_columns_page_heads(out, columns, COLUMNS);
        }
        fprintf(out, "<tr>");
        mo_page_system_cell(out, mo_json_text(row, "policy"));
        mo_columns_page(out, row, columns, COLUMNS);
        before = row;
    }
    if (before) fprintf(out, "</table></div>\n");
}

/* A list of the timeline by step, as a line. */
static void line_of(struct mo_plot *plot, const json_t *row, const char *key) {
    const json_t *list = json_object_get(json_object_get(row, "timeline"), key);
    const struct mo_series series = mo_series_of(mo_json_text(row, "policy"));
    double x[MO_WATT_STEPS], y[MO_WATT_STEPS];
    int n = 0;
    for (; n < (int)json_array_size(list) && n < MO_WATT_STEPS; n++) {
        x[n] = n;
        y[n] = json_number_value(json_array_get(list, (size_t)n));
    }
    if (n) mo_plot_line(plot, x, y, n, series.colour, series.dashed, false, mo_json_text(row, "policy"));
}

/* The first pair by step: the paper's Fig. 3. */
static void page_timeline(FILE *out, const json_t *document, const char *key, const char *title,
                          const char *label, double most) {
    const json_t *results = json_object_get(document, "results"), *row, *first = json_array_get(results, 0);
    const size_t steps = json_array_size(json_object_get(json_object_get(first, "timeline"), key));
    size_t i;
    struct mo_plot plot = {.title = title,
                           .x_label = "step",
                           .y_label = label,
                           .x1 = steps > 1 ? (double)(steps - 1) : 1,
                           .y1 = most,
                           .width = 640,
                           .height = 300};
    fprintf(out, "<div class=\"card\">");
    mo_plot_begin(&plot, out);
    if (!strcmp(label, "p95 / SLO")) mo_plot_horizontal(&plot, 1, "SLO");
    json_array_foreach((json_t *)results, i, row) if (!opens(row, first)) line_of(&plot, row, key);
    mo_plot_end(&plot);
    fprintf(out, "</div>\n");
}

static double most_watts(const json_t *document) {
    const json_t *power = json_object_get(document, "power");
    return 4 * mo_json_number(power, "active_w");
}

static void page(FILE *out, const void *what) {
    const json_t *document = what;
    char text[512];
    mo_page_begin(out, "WattWiser in simulation", "");
    mo_page_lines(out, mo_watt_bench_headline(document));
    fprintf(out,
            "<p>Every policy serves the same arrivals. Late are queries that were not answered within the "
            "SLO of their model; p95 is the 95th percentile of their latencies. ");
    mo_html_text(out, power_line(text, document));
    fprintf(out, " The bound is the least that any schedule on whole GPUs needs for these queries.</p>\n");
    if (json_array_size(json_object_get(document, "results"))) {
        page_timeline(out, document, "watts", "The first pair: power", "watts", most_watts(document));
        page_timeline(out, document, "awake", "GPUs awake", "GPUs", 4);
        page_timeline(out, document, "first", "Tail of its first model", "p95 / SLO", 3);
        page_timeline(out, document, "second", "Tail of its second model", "p95 / SLO", 3);
    }
    page_results(out, document);
    mo_page_experiment(out, document);
    mo_page_end(out);
}

int mo_watt_bench_report(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err) {
    return mo_page_write(env, page, document, path, err);
}
