/* SPDX-License-Identifier: Apache-2.0
 * report_frontier.c - a frontier as a table and as charts; see frontier.h. */
#include <math.h>
#include <string.h>
#include "bench/report/frontier.h"
#include "bench/report/plot.h"
#include "bench/report/series.h"

static const double same = 1e-6;

static const json_t *points(const json_t *document) {
    return json_object_get(document, "frontier");
}

static double end_of(const json_t *point, const char *key, size_t at) {
    return json_number_value(json_array_get(json_object_get(point, key), at));
}

/* --- the terminal ------------------------------------------------------------------------------------- */
/* A share in percent, and between the seeds where there are several. */
static void share(FILE *out, const json_t *point, const char *key, const char *range) {
    fprintf(out, " %6.1f %%", 100 * mo_json_number(point, key));
    if (mo_json_number(point, "seeds") > 1)
        fprintf(out, " (%5.1f to %5.1f)", 100 * end_of(point, range, 0), 100 * end_of(point, range, 1));
    else
        fprintf(out, " %16s", "");
}

void mo_text_frontier(FILE *out, const json_t *document) {
    size_t i;
    json_t *p;
    if (!json_array_size(points(document))) return;
    fprintf(out, "\n%-5s %-28s %-25s %10s %13s %-25s %9s\n", "load", "system", " critical in time (seeds)",
            "worst", "best-effort/s", " of what it gets alone", "by itself");
    json_array_foreach(points(document), i, p) {
        fprintf(out, "%-5.2f %-28.28s", mo_json_number(p, "load"), mo_json_text(p, "system"));
        share(out, p, "critical", "critical_range");
        fprintf(out, " %8.1f %% %13.2f", 100 * mo_json_number(p, "worst_critical"), mo_json_number(p, "qps"));
        share(out, p, "of_alone", "of_alone_range");
        fprintf(out, " %7.1f %%%s\n", 100 * mo_json_number(p, "of_own_alone"),
                json_is_true(json_object_get(p, "best")) ? " *" : "");
    }
    fprintf(
        out,
        "* no other system has at this load as much of both, and more of one; alone: on the fastest system "
        "that was measured, by itself: on this one\n");
}

/* --- the page ----------------------------------------------------------------------------------------- */
static double most_throughput(const json_t *document) {
    size_t i;
    json_t *p;
    double most = 1;
    json_array_foreach(points(document), i, p) most = fmax(most, mo_json_number(p, "of_alone"));
    return most;
}

/* The points of one system, of all loads or of one (load >= 0); with error bars over the seeds. */
static void draw_system(const struct mo_plot *plot, const json_t *document, const char *system, double load) {
    double x[MO_CURVE_POINTS], y[MO_CURVE_POINTS];
    int n = 0;
    size_t i;
    json_t *p;
    const struct mo_series s = mo_series_of(system);
    json_array_foreach(points(document), i, p) {
        if (strcmp(mo_json_text(p, "system"), system) != 0 || n == MO_CURVE_POINTS) continue;
        if (load >= 0 && fabs(mo_json_number(p, "load") - load) > same) continue;
        x[n] = mo_json_number(p, "of_alone");
        y[n] = mo_json_number(p, "critical");
        mo_plot_bar(plot, x[n], end_of(p, "critical_range", 0), end_of(p, "critical_range", 1), s.colour);
        n++;
    }
    mo_plot_line(plot, x, y, n, s.colour, s.dashed, true, system);
}

/* load < 0: all of them. */
static void chart(FILE *out, const struct mo_page_view *view, double load) {
    char title[64] = "All loads";
    if (load >= 0) snprintf(title, sizeof title, "Load %.2f", load);
    struct mo_plot plot = {.title = title,
                           .x_label = "best-effort throughput (1 = alone on the machine)",
                           .y_label = "latency-critical, in time",
                           .x1 = 1.03 * most_throughput(view->document),
                           .y1 = 1.02,
                           .width = load < 0 ? 900 : 400,
                           .height = load < 0 ? 420 : 280,
                           .percent_y = true};
    fprintf(out, load < 0 ? "<div class=\"card wide\">" : "<div class=\"card\">");
    mo_plot_begin(&plot, out);
    for (int c = view->n_curves - 1; c >= 0; c--)
        draw_system(&plot, view->document, view->curves[c].name, load);
    mo_plot_end(&plot);
    fprintf(out, "</div>\n");
}

static void row(FILE *out, const json_t *p) {
    const double critical[2] = {end_of(p, "critical_range", 0), end_of(p, "critical_range", 1)};
    const double alone[2] = {end_of(p, "of_alone_range", 0), end_of(p, "of_alone_range", 1)};
    const bool best = json_is_true(json_object_get(p, "best"));
    fprintf(out, "<tr><td>%.2f</td>", mo_json_number(p, "load"));
    mo_page_system_cell(out, mo_json_text(p, "system"));
    fprintf(out, "<td>%.1f %% <span class=\"soft\">", 100 * mo_json_number(p, "critical"));
    mo_page_interval(out, critical);
    fprintf(out, "</span></td><td>%.1f %%</td><td>%.2f</td><td>%.1f %% <span class=\"soft\">",
            100 * mo_json_number(p, "worst_critical"), mo_json_number(p, "qps"),
            100 * mo_json_number(p, "of_alone"));
    mo_page_interval(out, alone);
    fprintf(out, "</span></td><td>%.1f %%</td><td>%s</td></tr>\n", 100 * mo_json_number(p, "of_own_alone"),
            best ? "yes" : "");
}

void mo_page_frontier(FILE *out, const struct mo_page_view *view) {
    const json_t *list = points(view->document);
    double last = -1;
    size_t i;
    json_t *p;
    if (!json_array_size(list)) return;
    fprintf(out, "<h2>Frontier: latency-critical tenants against best-effort throughput</h2>\n");
    mo_page_legend(out, view, true);
    fprintf(out, "<div class=\"row\">\n");
    chart(out, view, -1);
    fprintf(out, "</div>\n<div class=\"row small\">\n");
    json_array_foreach(list, i, p) {
        if (mo_json_number(p, "load") <= last + same) continue;
        chart(out, view, last = mo_json_number(p, "load"));
    }
    fprintf(out,
            "</div>\n<p class=\"soft\">A point for each system and load of the latency-critical tenants, all "
            "seeds together; upright lines and small figures: from the lowest to the highest seed. Right and "
            "up is better.</p>\n<details><summary>The points</summary><div class=\"card\"><table "
            "class=\"dense\"><tr><th>load</th><th class=\"l\">system</th><th>critical, in time</th><th>worst "
            "critical tenant</th><th>best-effort,<br>answers a second</th><th>of what it gets "
            "alone,<br>fastest system</th><th>alone on<br>this one</th>"
            "<th>on the frontier<br>of its load</th></tr>\n");
    json_array_foreach(list, i, p) row(out, p);
    fprintf(out, "</table></div></details>\n");
}
