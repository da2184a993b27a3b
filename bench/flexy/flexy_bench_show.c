/* SPDX-License-Identifier: Apache-2.0
 * flexy_bench_show.c - the experiments as tables and as a page; see flexy_bench.h. */
#include <stdio.h>
#include <string.h>
#include "bench/flexy/flexy_bench.h"
#include "bench/report/columns.h"
#include "bench/report/headline.h"
#include "bench/report/plot.h"
#include "bench/report/series.h"
#include "runtime/base/text.h"

enum { MOST_POINTS = 32, CELL = 48 };

static const struct mo_column columns[] = {
    {"utilisation", "utilisation_ci", "busy, %", "busy, %", 1, 100, false},
    {"within_sla_pct", "within_sla_pct_ci", "in time, %", "user-facing tasks<br>in time, %", 1, 1, false},
    {"resets", "resets_ci", "resets", "resets", 1, 1, false},
    {"lost_ms", "lost_ms_ci", "lost, s", "work thrown<br>away, s", 1, 1e-3, false},
    {"batch_slowdown", "batch_slowdown_ci", "batch slower", "batch tasks,<br>times their own time", 2, 1,
     false},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* "97.9", or a dash. */
static const char *number(char text[CELL], const json_t *row, const char *key, double scale) {
    const json_t *v = json_object_get(row, key);
    if (json_is_number(v))
        snprintf(text, CELL, "%.1f", scale * json_number_value(v));
    else
        snprintf(text, CELL, "-");
    return text;
}

static bool same(const json_t *a, const json_t *b, const char *key) {
    return a && b && !strcmp(mo_json_text(a, key), mo_json_text(b, key));
}

static const json_t *summary(const json_t *document, const char *list) {
    return json_object_get(json_object_get(document, "summary"), list);
}

/* --- what they say ---------------------------------------------------------------------------------------
 */
static const json_t *policy_row(const json_t *document, const char *workload, const char *policy) {
    const json_t *row;
    size_t i;
    json_array_foreach((json_t *)summary(document, "policies"), i, row) {
        if (!strcmp(mo_json_text(row, "workload"), workload) && !strcmp(mo_json_text(row, "policy"), policy))
            return row;
    }
    return NULL;
}

/* The workload's sentence of moire-classes beside flexy-1; false: one of them is not there. */
static bool compare(const json_t *document, const char *workload, char text[MO_HEADLINE]) {
    const json_t *own = policy_row(document, workload, "moire-classes"),
                 *theirs = policy_row(document, workload, "flexy-1");
    char share[2][CELL], busy[2][CELL];
    if (!own || !theirs || !json_is_number(json_object_get(own, "utilisation_as_flexy_1"))) return false;
    snprintf(
        text, MO_HEADLINE,
        "%s: at 70 %% utilisation %s %% of user-facing tasks are in time by moire-classes, %s %% by flexy-1; "
        "that share moire-classes keeps up to %s %%, flexy-1 up to %s %%.",
        workload, number(share[0], own, "within_sla_pct_at_70", 1),
        number(share[1], theirs, "within_sla_pct_at_70", 1),
        number(busy[0], own, "utilisation_as_flexy_1", 100),
        number(busy[1], theirs, "utilisation_as_flexy_1", 100));
    return true;
}

json_t *mo_flexy_bench_headline(const json_t *document) {
    const json_t *row, *before = NULL;
    json_t *lines = json_array();
    size_t i;
    json_array_foreach((json_t *)summary(document, "policies"), i, row) {
        char text[MO_HEADLINE];
        if (!same(row, before, "workload") && compare(document, mo_json_text(row, "workload"), text))
            json_array_append_new(lines, json_string(text));
        before = row;
    }
    return lines;
}

static void print_summary(const json_t *document) {
    const json_t *row;
    char text[3][CELL];
    size_t i;
    printf("\n%-8s %-20s %20s %22s\n", "", "policy", "in time at 70 %, %", "busy as flexy-1, %");
    json_array_foreach((json_t *)summary(document, "policies"), i, row) printf(
        "%-8s %-20s %20s %22s\n", mo_json_text(row, "workload"), mo_json_text(row, "policy"),
        number(text[0], row, "within_sla_pct_at_70", 1), number(text[1], row, "utilisation_as_flexy_1", 100));
    printf("\n%-8s %6s %18s %18s %8s\n", "resets", "f", "priority-reset", "flexy-reset", "ratio");
    json_array_foreach((json_t *)summary(document, "resets"), i, row)
        printf("%-8s %6g %18s %18s %8s\n", mo_json_text(row, "workload"), mo_json_number(row, "f"),
               number(text[0], row, "priority", 1), number(text[1], row, "flexy", 1),
               number(text[2], row, "ratio", 1));
    printf("\n%-60s %8s %8s\n", "the paper", "claimed", "here");
    json_array_foreach((json_t *)summary(document, "claims"), i, row)
        printf("%-60s %8s %8s\n", mo_json_text(row, "what"), number(text[0], row, "claimed", 1),
               number(text[1], row, "reached", 1));
}

void mo_flexy_bench_print(const json_t *document) {
    const json_t *row, *before = NULL;
    size_t i;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (!same(row, before, "workload") || !same(row, before, "policy")) {
            printf("%s%s, %s\n%8s", i ? "\n" : "", mo_json_text(row, "workload"), mo_json_text(row, "policy"),
                   "f");
            mo_columns_print_titles(columns, COLUMNS, 15);
        }
        printf("%8g", mo_json_number(row, "f"));
        mo_columns_print(row, columns, COLUMNS, 15);
        before = row;
    }
    print_summary(document);
    json_t *line, *lines = mo_flexy_bench_headline(document);
    printf("\n");
    json_array_foreach(lines, i, line) printf("%s\n", json_string_value(line));
    json_decref(lines);
}

/* --- the page --------------------------------------------------------------------------------------------
 */
struct figure {
    const char *title;
    const char *policy[8];
};
static const struct figure figures[] = {
    {"as figure 5",
     {"round-robin", "priority", "priority-1", "priority-reset", "flexy-0", "flexy-1", "flexy-reset"}},
    {"as figure 6", {"flexy-0", "flexy-1", "flexy-2", "flexy-3"}},
    {"beyond",
     {"flexy-1", "flexy-1-packed", "priority-cut", "reef", "moire", "moire-classes", "moire-classes-parts"}},
};
enum { FIGURES = sizeof figures / sizeof *figures };

static int curve(const json_t *document, const char *workload, const char *policy, double x[MOST_POINTS],
                 double y[MOST_POINTS]) {
    const json_t *row;
    size_t i;
    int n = 0;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (strcmp(mo_json_text(row, "workload"), workload) != 0 ||
            strcmp(mo_json_text(row, "policy"), policy) != 0 || n == MOST_POINTS)
            continue;
        x[n] = mo_json_number(row, "within_sla_pct");
        y[n++] = mo_json_number(row, "utilisation");
    }
    return n;
}

static void page_figure(FILE *out, const json_t *document, const char *workload, const struct figure *f) {
    double x[MOST_POINTS], y[MOST_POINTS];
    char title[100];
    snprintf(title, sizeof title, "%s, %s", workload, f->title);
    struct mo_plot plot = {.title = title,
                           .x_label = "user-facing tasks in time, %",
                           .y_label = "devices busy",
                           .x0 = 0,
                           .x1 = 100,
                           .y1 = 1,
                           .percent_y = true,
                           .width = 640,
                           .height = 360};
    fprintf(out, "<div class=\"card\">");
    mo_plot_begin(&plot, out);
    for (int i = 0; i < 8 && f->policy[i]; i++) {
        const struct mo_series series = mo_series_of(f->policy[i]);
        const int n = curve(document, workload, f->policy[i], x, y);
        if (n) mo_plot_line(&plot, x, y, n, series.colour, series.dashed, true, f->policy[i]);
    }
    mo_plot_end(&plot);
    fprintf(out, "</div>\n");
}

static void page_claims(FILE *out, const json_t *document) {
    const json_t *row;
    char text[2][CELL];
    size_t i;
    fprintf(out, "<h2>What the paper says</h2><div class=\"card\"><table>\n"
                 "<tr><th></th><th>claimed</th><th>here</th></tr>\n");
    json_array_foreach((json_t *)summary(document, "claims"), i, row) {
        fprintf(out, "<tr><td>");
        mo_html_text(out, mo_json_text(row, "what"));
        fprintf(out, "</td><td>%s</td><td>%s</td></tr>\n", number(text[0], row, "claimed", 1),
                number(text[1], row, "reached", 1));
    }
    fprintf(out, "</table></div>\n");
}

static void page_rows(FILE *out, const json_t *document, const char *workload) {
    const json_t *row;
    size_t i;
    fprintf(out, "<div class=\"card\"><table>\n<tr><th>policy</th><th>f</th>");
    mo_columns_page_heads(out, columns, COLUMNS);
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (strcmp(mo_json_text(row, "workload"), workload) != 0) continue;
        fprintf(out, "<tr>");
        mo_page_system_cell(out, mo_json_text(row, "policy"));
        fprintf(out, "<td>%g</td>", mo_json_number(row, "f"));
        mo_columns_page(out, row, columns, COLUMNS);
    }
    fprintf(out, "</table></div>\n");
}

static void page(FILE *out, const void *what) {
    const json_t *document = what, *row, *before = NULL;
    size_t i;
    mo_page_begin(out, "Flexy in simulation", "");
    mo_page_lines(out, mo_flexy_bench_headline(document));
    fprintf(
        out,
        "<p>Every policy serves the same jobs. Loads rise along a line; busy is the time in which devices "
        "run tasks, from the first job to the last; a device that is reset is idle.</p>\n");
    page_claims(out, document);
    json_array_foreach(json_object_get(document, "results"), i, row) {
        if (same(row, before, "workload")) continue;
        const char *workload = mo_json_text(row, "workload");
        fprintf(out, "<h2>");
        mo_html_text(out, workload);
        fprintf(out, "</h2>\n");
        for (int f = 0; f < FIGURES; f++)
            page_figure(out, document, workload, &figures[f]);
        page_rows(out, document, workload);
        before = row;
    }
    mo_page_experiment(out, document);
    mo_page_end(out);
}

int mo_flexy_bench_report(const struct mo_env *env, const json_t *document, const char *path,
                          moire_error *err) {
    return mo_page_write(env, page, document, path, err);
}
