/* SPDX-License-Identifier: Apache-2.0
 * report_tenants.c - a table for each load: every tenant on every system, all seeds together. */
#include <math.h>
#include <string.h>
#include "bench/load/score.h"
#include "bench/report/plot.h"
#include "bench/report/report_page.h"
#include "bench/report/series.h"

static bool answers(const struct mo_curve *c) {
    return mo_series_has_latency(c->name);
}

/* The highest load below `below` that more than one system has seen; 0 = none. */
static double next_load(const struct mo_page_view *view, double below) {
    double next = 0;
    for (int c = 0; c < view->n_curves; c++)
        for (int i = 0; i < view->curves[c].n; i++) {
            double load = view->curves[c].load[i];
            int systems = 0;
            for (int k = 0; k < view->n_curves; k++)
                systems += answers(&view->curves[k]) && mo_curve_at(&view->curves[k], load) >= 0;
            if (load < below - 1e-6 && load > next && (systems > 1 || view->n_curves == 1)) next = load;
        }
    return next;
}

int mo_page_loads_shown(const struct mo_page_view *view, double loads[MO_SHOWN_LOADS]) {
    int n = 0;
    double common = mo_doc_common_load(view->document), below = INFINITY;
    if (common > 0) loads[n++] = common;
    while (n < MO_SHOWN_LOADS && (below = next_load(view, below)) > 0)
        if (fabs(below - common) > 1e-6) loads[n++] = below;
    return n;
}

/* --- a row -------------------------------------------------------------------------------------------- */
static void share_cell(FILE *out, const struct mo_merged *m, int seeds) {
    double span[2];
    if (!(m->n > 0)) {
        fprintf(out, "<td>&ndash;</td>");
        return;
    }
    mo_bench_wilson((int)m->met, (int)m->n, span);
    fprintf(out, "<td>%.1f %% <span class=\"soft\">%.0f to %.0f", 100 * mo_merged_share(m), 100 * span[0],
            100 * span[1]);
    if (seeds > 1) fprintf(out, "; seeds %.0f to %.0f", 100 * m->least, 100 * m->most);
    fprintf(out, "</span></td>");
}

static void milliseconds(FILE *out, double ms) {
    mo_page_number(out, ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

static void cells(FILE *out, const struct mo_merged *m, const struct mo_merged_load *at) {
    fprintf(out, "<td>%.0f</td>", m->n);
    share_cell(out, m, at->seeds);
    milliseconds(out, m->p50);
    milliseconds(out, m->p95);
    milliseconds(out, m->p99);
    mo_page_number(out, m->n > 0 ? m->answered_s : -1, 1);
    fprintf(out, "<td>%.0f</td><td>%.0f</td><td>%.0f</td>", m->shed, m->failed, m->unanswered);
    milliseconds(out, m->wait_p50);
    milliseconds(out, m->wait_p99);
}

/* One system's row of a tenant; the first of `rows` has the tenant's name before it. */
static void row(FILE *out, const struct mo_page_view *view, int tenant, const char *system, double load,
                int rows) {
    static const struct mo_merged none = {.p50 = -1, .p95 = -1, .p99 = -1, .wait_p50 = -1, .wait_p99 = -1};
    const struct mo_merged *m = &none;
    struct mo_merged_load at;
    mo_merge_load(view->document, system, load, &at);
    for (int i = 0; i < at.n_tenants; i++)
        if (!strcmp(at.tenants[i].name, view->tenant[tenant])) m = &at.tenants[i];
    fprintf(out, rows ? "<tr class=\"first\">" : "<tr>");
    if (rows) {
        fprintf(out, "<td class=\"tenant\" rowspan=\"%d\" title=\"", rows);
        mo_html_text(out, view->tenant[tenant]);
        fprintf(out, "\">");
        mo_html_text(out, view->shown[tenant]);
        fprintf(out, "</td>");
    }
    mo_page_system_cell(out, system);
    cells(out, m, &at);
    fprintf(out, "</tr>\n");
}

/* --- a table ------------------------------------------------------------------------------------------ */
/* Systems that saw a load and answer queries; a bound does not. */
static int systems_at(const struct mo_page_view *view, double load, const char *names[MO_CURVES]) {
    int n = 0;
    for (int c = 0; c < view->n_curves; c++) {
        const char *name = view->curves[c].name;
        if (mo_curve_at(&view->curves[c], load) >= 0 && answers(&view->curves[c])) names[n++] = name;
    }
    return n;
}

static void table(FILE *out, const struct mo_page_view *view, double load, const char *const *systems,
                  int n) {
    fprintf(out, "<div class=\"card\"><table class=\"dense\">\n<tr><th>tenant</th><th class=\"l\">system</th>"
                 "<th>queries</th><th>in time, 95 %% interval</th><th>p50,<br>ms</th><th>p95,<br>ms</th>"
                 "<th>p99,<br>ms</th><th>answers<br>a second</th><th>shed</th><th>failed</th>"
                 "<th>unanswered</th><th>queueing delay<br>p50, ms</th>"
                 "<th>queueing delay<br>p99, ms</th></tr>\n");
    for (int t = 0; t < view->n_tenants; t++)
        for (int s = 0; s < n; s++)
            row(out, view, t, systems[s], load, s ? 0 : n);
    fprintf(out, "</table></div>\n");
}

/* Who stopped early there, and who was not measured. */
static void remarks(FILE *out, const struct mo_page_view *view, double load) {
    struct mo_merged_load at;
    for (int pass = 0, any = 0; pass < 2; pass++, any = 0) {
        for (int c = 0; c < view->n_curves; c++) {
            const char *name = view->curves[c].name;
            if (!mo_series_has_latency(name)) continue;
            bool there = mo_merge_load(view->document, name, load, &at) > 0;
            if (pass ? there : !there || !at.stopped) continue;
            fprintf(out, any++  ? ", "
                         : pass ? "<p class=\"soft\">Not measured at this load: "
                                : "<p class=\"soft\">Stopped early, when the goal was out of reach: ");
            mo_html_text(out, name);
        }
        if (any) fprintf(out, ".</p>\n");
    }
}

void mo_page_tenants(FILE *out, const struct mo_page_view *view) {
    double loads[MO_SHOWN_LOADS];
    const char *systems[MO_CURVES];
    int n = mo_page_loads_shown(view, loads);
    for (int i = 0; i < n; i++) {
        int there = systems_at(view, loads[i], systems);
        if (!there) continue;
        if (i)
            fprintf(out, "<details><summary>Tenants at load %.2f</summary>\n", loads[i]);
        else
            fprintf(out, "<h2>Tenants at load %.2f</h2>\n", loads[i]);
        table(out, view, loads[i], systems, there);
        remarks(out, view, loads[i]);
        if (i) fprintf(out, "</details>\n");
    }
}
