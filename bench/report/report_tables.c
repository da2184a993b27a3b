/* SPDX-License-Identifier: Apache-2.0
 * report_tables.c - targets of the tenants, and what systems cost; see report_page.h. */
#include <string.h>
#include "bench/report/plot.h"
#include "bench/report/report_page.h"

void mo_page_targets(FILE *out, const struct mo_page_view *view) {
    const json_t *calibration = json_object_get(view->document, "calibration");
    const bool gpus = json_is_true(json_object_get(calibration, "gpus"));
    size_t i;
    json_t *t;
    if (!json_array_size(json_object_get(calibration, "tenants"))) return;
    fprintf(out,
            "<h2>Targets</h2><div class=\"card\"><table><tr><th>tenant</th><th>target, ms</th>"
            "<th>%s, ms</th><th class=\"l\">model</th></tr>\n",
            gpus ? "least time on a whole GPU or its share" : "alone on one core");
    json_array_foreach(json_object_get(calibration, "tenants"), i, t) {
        fprintf(out, "<tr><td>");
        mo_html_text(out, mo_json_text(t, "name"));
        fprintf(out, "</td>");
        mo_page_number(out, mo_json_number(t, "qos_ms") > 0 ? mo_json_number(t, "qos_ms") : -1, 1);
        mo_page_number(out, mo_json_number(t, "solo_ms"), 2);
        fprintf(out, "<td class=\"l wrap soft\">");
        mo_html_text(out, mo_json_text(t, "given_name"));
        fprintf(out, "</td></tr>\n");
    }
    fprintf(out, "</table></div>\n");
}

/* --- cost --------------------------------------------------------------------------------------------- */
static const struct {
    const char *part, *key, *head;
    double times;
    int digits;
} columns[] = {{"memory", "rss_mib", "memory, MiB", 1, 0},
               {"memory", "peak_mib", "at its peak, MiB", 1, 0},
               {"scheduling", "decisions", "decisions", 1, 0},
               {"scheduling", "mean_us", "a decision, mean &micro;s", 1, 2},
               {"scheduling", "p99_us", "p99, &micro;s", 1, 2},
               {"scheduling", "query_us", "decisions of a query, &micro;s", 1, 1},
               {"scheduling", "outside_kernels", "CPU time outside kernels, %", 100, 1}};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* What the last result of a system says; 0 = not measured, as in simulations. */
static double cost_of(const json_t *document, const char *system, int column) {
    double value = 0;
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(document, "results"), i, r) {
        if (strcmp(mo_json_text(r, "name"), system) != 0) continue;
        const json_t *v = json_object_get(json_object_get(r, columns[column].part), columns[column].key);
        if (json_is_number(v)) value = columns[column].times * json_number_value(v);
    }
    return value;
}

static void cost_row(FILE *out, const json_t *document, const char *system, const bool *used) {
    bool any = false;
    for (int c = 0; c < COLUMNS; c++)
        any |= cost_of(document, system, c) > 0;
    if (!any) return;
    fprintf(out, "<tr>");
    mo_page_system_cell(out, system);
    for (int c = 0; c < COLUMNS; c++) {
        double v = cost_of(document, system, c);
        if (used[c]) mo_page_number(out, v > 0 ? v : -1, columns[c].digits);
    }
    fprintf(out, "</tr>\n");
}

void mo_page_cost(FILE *out, const struct mo_page_view *view) {
    bool used[COLUMNS] = {0}, any = false;
    for (int c = 0; c < COLUMNS; c++) {
        for (int i = 0; i < view->n_curves; i++)
            used[c] |= cost_of(view->document, view->curves[i].name, c) > 0;
        any |= used[c];
    }
    if (!any) return;
    fprintf(out, "<h2>Cost</h2><div class=\"card\"><table><tr><th>system</th>");
    for (int c = 0; c < COLUMNS; c++)
        if (used[c]) fprintf(out, "<th>%s</th>", columns[c].head);
    fprintf(out, "</tr>\n");
    for (int i = 0; i < view->n_curves; i++)
        cost_row(out, view->document, view->curves[i].name, used);
    fprintf(out, "</table></div>\n");
}
