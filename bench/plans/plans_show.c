/* SPDX-License-Identifier: Apache-2.0
 * plans_show.c - the comparison of planners as tables and as a page; see plans.h. */
#include <stdio.h>
#include <string.h>
#include "bench/plans/plans.h"
#include "bench/report/headline.h"
#include "bench/report/plot.h"
#include "bench/report/series.h"
#include "runtime/base/text.h"

enum { MOST_POINTS = 16 };

/* What gpu-let (ATC 2022) claims, for the same columns; a member is missing where it says nothing. */
static const struct {
    const char *planner;
    double missed, over_ideal, over_sbp;
} paper[] = {{"gpulet-int", 18, 0.923, 2.026}, {"gpulet", -1, -1, 2.06}, {"gslice", -1, -1, 2.026 / 1.748}};

/* A member as percent or count, "-" when it is null. */
static const char *cell(char text[32], const json_t *row, const char *key, const char *format, double times) {
    const json_t *v = json_object_get(row, key);
    if (json_is_number(v))
        snprintf(text, 32, format, times * json_number_value(v));
    else
        snprintf(text, 32, "-");
    return text;
}

static const struct {
    const char *key, *title, *head, *format; /* title: in text; head: on the page */
    double times;
} columns[] = {
    {"placed", "placed", "loads<br>placed", "%.0f", 1},
    {"holding", "hold", "of these<br>hold", "%.0f", 1},
    {"missed_vs_ideal", "missed", "missed,<br>ideal holds", "%.0f", 1},
    {"violations", "violations", "late<br>queries", "%.2f %%", 100},
    {"throughput_vs_sbp", "over sbp", "highest rate,<br>times sbp", "%.2f", 1},
    {"claimed_vs_sbp", "claimed", "claimed rate,<br>times sbp", "%.2f", 1},
    {"rate_vs_ideal", "of ideal", "of ideal's<br>rate", "%.1f %%", 100},
    {"rate_vs_bound", "of bound", "of the bound<br>on any plan", "%.1f %%", 100},
    {"plan_ms_p50", "ms p50", "time of a plan,<br>p50, ms", "%.3f", 1},
    {"plan_ms_max", "ms max", "longest,<br>ms", "%.2f", 1},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* --- what the comparison says ------------------------------------------------------------------------- */
static double number_of(const json_t *row, const char *key) {
    const json_t *v = json_object_get(row, key);
    return json_is_number(v) ? json_number_value(v) : -1;
}

/* The planner of one machine with the highest rates; other: than moire's own. */
static const json_t *best_on(const json_t *document, const char *machine, bool other) {
    const json_t *row, *best = NULL;
    size_t i;
    json_array_foreach(json_object_get(document, "results"), i, row) {
        bool own = !strcmp(mo_json_text(row, "planner"), "moire-gpu");
        if (own == other || strcmp(mo_json_text(row, "profile"), machine) != 0 ||
            !strcmp(mo_json_text(row, "planner"), "ideal"))
            continue;
        if (!best || number_of(row, "rate_vs_bound") > number_of(best, "rate_vs_bound")) best = row;
    }
    return best;
}

static void sentence(const json_t *document, const char *machine, char out[MO_HEADLINE]) {
    const json_t *own = best_on(document, machine, false), *rival = best_on(document, machine, true);
    const json_t *first = own ? own : rival;
    struct mo_text t = mo_text_in(out, MO_HEADLINE);
    mo_text_put(&t, "%s: ", machine);
    if (!first) {
        mo_text_put(&t, "nothing was compared.");
        return;
    }
    mo_text_put(&t, "%s serves %.1f %% of the highest rates that any plan could serve",
                mo_json_text(first, "planner"), 100 * number_of(first, "rate_vs_bound"));
    if (own && number_of(own, "throughput_vs_sbp") >= 0)
        mo_text_put(&t, " (%.2f times squishy bin packing)", number_of(own, "throughput_vs_sbp"));
    if (own && rival)
        mo_text_put(&t, "; best of the others, %s %.1f %%", mo_json_text(rival, "planner"),
                    100 * number_of(rival, "rate_vs_bound"));
    mo_text_put(&t, ".");
}

json_t *mo_plans_headline(const json_t *document) {
    const json_t *row, *before;
    size_t i, k;
    json_t *lines = json_array(), *results = json_object_get(document, "results");
    char text[MO_HEADLINE];
    json_array_foreach(results, i, row) {
        const char *machine = mo_json_text(row, "profile");
        bool first = true;
        json_array_foreach(results, k, before) if (k < i) first &=
            strcmp(mo_json_text(before, "profile"), machine) != 0;
        if (!first) continue;
        sentence(document, machine, text);
        json_array_append_new(lines, json_string(text));
    }
    return lines;
}

/* --- text --------------------------------------------------------------------------------------------- */
static void print_rates(const json_t *document) {
    const json_t *row, *v;
    const char *key;
    size_t i;
    printf("\nhighest queries/s that hold:\n");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        printf("%-16s %-14s", mo_json_text(row, "planner"), mo_json_text(row, "profile"));
        json_object_foreach(json_object_get(row, "rates"), key, v)
            printf("  %s %.0f", key, json_number_value(v));
        printf("\n");
    }
}

static void print_scaling(const json_t *document) {
    const json_t *row;
    size_t i;
    if (!json_array_size(json_object_get(document, "scaling"))) return;
    printf("\ntime of a plan, ms (median of draws):\n");
    json_array_foreach(json_object_get(document, "scaling"), i, row)
        printf("%-16s %3.0f GPUs %3.0f models  %10.3f  %.0f of %.0f complete\n", mo_json_text(row, "planner"),
               mo_json_number(row, "gpus"), mo_json_number(row, "models"), mo_json_number(row, "plan_ms_p50"),
               mo_json_number(row, "complete"), mo_json_number(row, "draws"));
}

void mo_plans_print(const json_t *document) {
    const json_t *row;
    size_t i;
    char text[32];
    json_t *line, *lines = mo_plans_headline(document);
    json_array_foreach(lines, i, line) printf("%s\n", json_string_value(line));
    json_decref(lines);
    printf("\n");
    printf("%-16s %-14s", "planner", "machine");
    for (int c = 0; c < COLUMNS; c++)
        printf(" %10s", columns[c].title);
    printf("\n");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        printf("%-16s %-14s", mo_json_text(row, "planner"), mo_json_text(row, "profile"));
        for (int c = 0; c < COLUMNS; c++)
            printf(" %10s", cell(text, row, columns[c].key, columns[c].format, columns[c].times));
        printf("\n");
    }
    print_rates(document);
    print_scaling(document);
}

/* --- page --------------------------------------------------------------------------------------------- */
static void page_row(FILE *out, const json_t *row) {
    char text[32];
    fprintf(out, "<tr>");
    mo_page_system_cell(out, mo_json_text(row, "planner"));
    fprintf(out, "<td class=\"l\">");
    mo_html_text(out, mo_json_text(row, "profile"));
    for (int c = 0; c < COLUMNS; c++)
        fprintf(out, "</td><td>%s", cell(text, row, columns[c].key, columns[c].format, columns[c].times));
    fprintf(out, "</td></tr>\n");
}

static void page_results(FILE *out, const json_t *document) {
    const json_t *row;
    size_t i;
    fprintf(out,
            "<h2>Planners</h2><div class=\"card\"><table>\n<tr><th>planner</th><th class=\"l\">machine</th>");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(out, "<th>%s</th>", columns[c].head);
    fprintf(out, "</tr>\n");
    json_array_foreach(json_object_get(document, "results"), i, row) page_row(out, row);
    fprintf(out, "</table><p>gpu-let's paper, on four RTX 2080 Ti:");
    for (size_t k = 0; k < sizeof paper / sizeof *paper; k++) {
        fprintf(out, " %s %.2f times sbp", paper[k].planner, paper[k].over_sbp);
        if (paper[k].missed >= 0)
            fprintf(out, ", %.1f %% of ideal, %.0f loads missed", 100 * paper[k].over_ideal, paper[k].missed);
        fprintf(out, k + 1 < sizeof paper / sizeof *paper ? ";" : ".</p></div>\n");
    }
}

/* Points of one planner along one axis, the other at its largest that the planner did. */
static int curve(const json_t *document, const char *planner, const char *along, const char *fixed, double at,
                 double x[MOST_POINTS], double y[MOST_POINTS]) {
    const json_t *row;
    size_t i;
    int n = 0;
    json_array_foreach(json_object_get(document, "scaling"), i, row) {
        double v = mo_json_number(row, along), ms = mo_json_number(row, "plan_ms_p50");
        if (strcmp(mo_json_text(row, "planner"), planner) != 0 || mo_json_number(row, fixed) != at) continue;
        if (n == MOST_POINTS) break;
        x[n] = v;
        y[n++] = ms;
    }
    return n;
}

/* Names the planners whose curves leave the picture. */
static void beyond(FILE *out, const json_t *document, const struct mo_plot *plot, const char *along,
                   const char *fixed, double at) {
    const json_t *row, *results = json_object_get(document, "results");
    const char *first = mo_json_text(json_array_get(results, 0), "profile");
    double x[MOST_POINTS], y[MOST_POINTS];
    size_t i;
    int named = 0;
    json_array_foreach((json_t *)results, i, row) {
        const char *planner = mo_json_text(row, "planner");
        if (strcmp(mo_json_text(row, "profile"), first) != 0) continue;
        int n = curve(document, planner, along, fixed, at, x, y), most = 0;
        for (int k = 1; k < n; k++)
            if (y[k] > y[most]) most = k;
        if (!n || !(y[most] > plot->y1)) continue;
        if (!named++) fprintf(out, "<p class=\"beyond\">Beyond the axis: ");
        fprintf(out, "<span>");
        mo_page_swatch(out, planner);
        mo_html_text(out, planner);
        fprintf(out, " %.0f ms at %.0f %s</span> ", y[most], x[most], along);
    }
    if (named) fprintf(out, "</p>");
}

static void chart(FILE *out, const json_t *document, const char *along, const char *fixed, double at,
                  double most) {
    char title[64];
    snprintf(title, sizeof title, "by %s, with %.0f %s", along, at, fixed);
    struct mo_plot plot = {.title = title,
                           .x_label = along,
                           .y_label = "ms a plan",
                           .x1 = most,
                           .y1 = 10,
                           .width = 556,
                           .height = 330};
    const json_t *row, *results = json_object_get(document, "results");
    const char *first = mo_json_text(json_array_get(results, 0), "profile");
    double x[MOST_POINTS], y[MOST_POINTS];
    size_t i;
    fprintf(out, "<div class=\"card\">");
    mo_plot_begin(&plot, out);
    mo_plot_horizontal(&plot, 1, "1 ms");
    json_array_foreach((json_t *)results, i, row) {
        if (strcmp(mo_json_text(row, "profile"), first) != 0) continue;
        const char *planner = mo_json_text(row, "planner");
        const struct mo_series series = mo_series_of(planner);
        int n = curve(document, planner, along, fixed, at, x, y);
        if (n) mo_plot_line(&plot, x, y, n, series.colour, series.dashed, true, planner);
    }
    mo_plot_end(&plot);
    beyond(out, document, &plot, along, fixed, at);
    fprintf(out, "</div>\n");
}

static void page_scaling(FILE *out, const json_t *document) {
    const json_t *row, *results = json_object_get(document, "results");
    const char *first = mo_json_text(json_array_get(results, 0), "profile");
    size_t i;
    if (!json_array_size(json_object_get(document, "scaling"))) return;
    fprintf(out, "<h2>Time of a plan</h2><p class=\"legend\">");
    json_array_foreach((json_t *)results, i, row) {
        if (strcmp(mo_json_text(row, "profile"), first) != 0) continue;
        fprintf(out, "<span>");
        mo_page_swatch(out, mo_json_text(row, "planner"));
        mo_html_text(out, mo_json_text(row, "planner"));
        fprintf(out, "</span> ");
    }
    fprintf(out, "</p><div class=\"row\">\n");
    chart(out, document, "gpus", "models", 100, 64);
    chart(out, document, "models", "gpus", 64, 100);
    fprintf(out, "</div>\n");
}

static void page(FILE *out, const void *what) {
    const json_t *document = what;
    mo_page_begin(out, "planners of lets", "");
    mo_page_lines(out, mo_plans_headline(document));
    fprintf(
        out,
        "<p>Placed are the loads of the grid that a planner says it serves; a plan holds when the checker's "
        "model finds every worst latency within its target. Late are queries in plans that were called "
        "complete. Highest rates are means over the scenarios; sbp is squishy bin packing.</p>\n");
    page_results(out, document);
    page_scaling(out, document);
    mo_page_experiment(out, document);
    mo_page_end(out);
}

int mo_plans_report(const struct mo_env *env, const json_t *document, const char *path, moire_error *err) {
    return mo_page_write(env, page, document, path, err);
}
