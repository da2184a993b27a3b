/* SPDX-License-Identifier: Apache-2.0
 * plans_show.c - the comparison of planners as tables and as a page; see plans.h. */
#include <stdio.h>
#include <string.h>
#include "bench/plans/plans.h"
#include "bench/report/plot.h"
#include "bench/report/report_page.h"

enum { MOST_POINTS = 16 };

/* What gpu-let (ATC 2022) claims, for the same columns; a member is missing where it says nothing. */
static const struct {
    const char *planner;
    double missed, over_ideal, over_sbp;
} paper[] = {{"gpulet-int", 18, 0.923, 2.026}, {"gpulet", -1, -1, 2.06}, {"selftune", -1, -1, 2.026 / 1.748}};

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
    const char *key, *head, *format;
    double times;
} columns[] = {
    {"placed", "placed", "%.0f", 1},
    {"holding", "hold", "%.0f", 1},
    {"missed_vs_ideal", "missed", "%.0f", 1},
    {"violations", "violations", "%.2f %%", 100},
    {"throughput_vs_sbp", "over sbp", "%.2f", 1},
    {"claimed_vs_sbp", "claimed", "%.2f", 1},
    {"rate_vs_ideal", "of ideal", "%.1f %%", 100},
    {"rate_vs_bound", "of bound", "%.1f %%", 100},
    {"plan_ms_p50", "ms p50", "%.3f", 1},
    {"plan_ms_max", "ms max", "%.2f", 1},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void print_rates(const json_t *document) {
    const json_t *row, *v;
    const char *key;
    size_t i;
    printf("\nhighest queries/s that hold:\n");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        printf("%-12s %-14s", mo_json_text(row, "planner"), mo_json_text(row, "profile"));
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
        printf("%-12s %3.0f GPUs %3.0f models  %10.3f  %.0f of %.0f complete\n", mo_json_text(row, "planner"),
               mo_json_number(row, "gpus"), mo_json_number(row, "models"), mo_json_number(row, "plan_ms_p50"),
               mo_json_number(row, "complete"), mo_json_number(row, "draws"));
}

void mo_plans_print(const json_t *document) {
    const json_t *row;
    size_t i;
    char text[32];
    printf("%-12s %-14s", "planner", "machine");
    for (int c = 0; c < COLUMNS; c++)
        printf(" %10s", columns[c].head);
    printf("\n");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        printf("%-12s %-14s", mo_json_text(row, "planner"), mo_json_text(row, "profile"));
        for (int c = 0; c < COLUMNS; c++)
            printf(" %10s", cell(text, row, columns[c].key, columns[c].format, columns[c].times));
        printf("\n");
    }
    print_rates(document);
    print_scaling(document);
}

static void page_results(FILE *out, const json_t *document) {
    const json_t *row;
    size_t i;
    char text[32];
    fprintf(out, "<h2>Planners</h2><div class=\"card\"><table>\n<tr><th>planner</th><th>machine</th>");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(out, "<th>%s</th>", columns[c].head);
    fprintf(out, "</tr>\n");
    json_array_foreach(json_object_get(document, "results"), i, row) {
        fprintf(out, "<tr><td>");
        mo_html_text(out, mo_json_text(row, "planner"));
        fprintf(out, "</td><td>");
        mo_html_text(out, mo_json_text(row, "profile"));
        for (int c = 0; c < COLUMNS; c++)
            fprintf(out, "</td><td>%s", cell(text, row, columns[c].key, columns[c].format, columns[c].times));
        fprintf(out, "</td></tr>\n");
    }
    fprintf(out, "</table><p>gpu-let's paper, on four RTX 2080 Ti:");
    for (size_t k = 0; k < sizeof paper / sizeof *paper; k++) {
        fprintf(out, " %s %.2f over sbp", paper[k].planner, paper[k].over_sbp);
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

static void chart(FILE *out, const json_t *document, const char *along, const char *fixed, double at,
                  double most) {
    struct mo_plot plot = {.title = along,
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
        int n = curve(document, mo_json_text(row, "planner"), along, fixed, at, x, y);
        if (n)
            mo_plot_line(&plot, x, y, n, mo_plot_colour((int)i), i % 2, true, mo_json_text(row, "planner"));
    }
    mo_plot_end(&plot);
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
        fprintf(out, "<span><i class=\"k\" style=\"background:%s\"></i>", mo_plot_colour((int)i));
        mo_html_text(out, mo_json_text(row, "planner"));
        fprintf(out, "</span> ");
    }
    fprintf(out, "</p><p>By GPUs with 100 models, by models on 64 GPUs.</p><div class=\"row\">\n");
    chart(out, document, "gpus", "models", 100, 64);
    chart(out, document, "models", "gpus", 64, 100);
    fprintf(out, "</div>\n");
}

static void page(FILE *out, const void *what) {
    const json_t *document = what;
    mo_page_begin(
        out, "planners of lets",
        "Placed: loads of the grid that the planner says it serves; hold: of these, by the checker's "
        "model; missed: loads that ideal places and that do not hold here. Violations: queries in "
        "plans that were called complete whose worst latency misses the target. Over sbp, of ideal, "
        "of bound: the highest rate that holds, mean over five loads; the bound is on any plan "
        "whatsoever.");
    page_results(out, document);
    page_scaling(out, document);
    mo_page_experiment(out, document);
    mo_page_end(out);
}

int mo_plans_report(const struct mo_env *env, const json_t *document, const char *path, moire_error *err) {
    return mo_page_write(env, page, document, path, err);
}
