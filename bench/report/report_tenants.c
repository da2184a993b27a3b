/* SPDX-License-Identifier: Apache-2.0
 * report_tenants.c - a table for each load: every tenant on every system, all seeds together. */
#include <math.h>
#include <string.h>
#include "bench/load/score.h"
#include "bench/report/headline.h"
#include "bench/report/plot.h"
#include "bench/report/series.h"

static bool answers(const struct mo_curve *c) {
    return mo_series_has_latency(c->name);
}

/* How many systems saw a load, of those that answer queries. */
static int systems_at(const struct mo_page_view *view, double load) {
    int n = 0;
    for (int k = 0; k < view->n_curves; k++)
        n += answers(&view->curves[k]) && mo_curve_at(&view->curves[k], load) >= 0;
    return n;
}

static bool comparable(const struct mo_page_view *view, double load) {
    return systems_at(view, load) > (view->n_curves > 1);
}

/* The highest load below `below` that can be compared; 0 = none. */
static double next_load(const struct mo_page_view *view, double below) {
    double next = 0;
    for (int c = 0; c < view->n_curves; c++)
        for (int i = 0; i < view->curves[c].n; i++) {
            double load = view->curves[c].load[i];
            if (load < below - 1e-6 && load > next && comparable(view, load)) next = load;
        }
    return next;
}

/* The load that the headline names, where others saw it too; else the one that most systems saw. */
static double main_load(const struct mo_page_view *view) {
    const struct mo_curve *lead = mo_headline_lead(view->curves, view->n_curves);
    const double held = lead ? lead->max_every : 0;
    const bool seen = held > 0 && mo_curve_at(lead, held) >= 0 && comparable(view, held);
    return seen ? held : mo_doc_common_load(view->document);
}

int mo_page_loads_shown(const struct mo_page_view *view, double loads[MO_SHOWN_LOADS]) {
    int n = 0;
    double first = main_load(view), below = INFINITY;
    if (first > 0) loads[n++] = first;
    while (n < MO_SHOWN_LOADS && (below = next_load(view, below)) > 0)
        if (fabs(below - first) > 1e-6) loads[n++] = below;
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
    const double seeds_span[2] = {m->least, m->most};
    fprintf(out, "<td>%.1f %% <span class=\"soft\">", 100 * mo_merged_share(m));
    mo_page_interval(out, span);
    if (seeds > 1) {
        fprintf(out, "<br>by seed ");
        mo_page_interval(out, seeds_span);
    }
    fprintf(out, "</span></td>");
}

static void milliseconds(FILE *out, double ms) {
    mo_page_number(out, ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

static void cells(FILE *out, const struct mo_merged *m, const struct mo_merged_load *at, bool failures) {
    const int digits = m->wait_p99 < 10 ? 2 : m->wait_p99 < 100 ? 1 : 0;
    fprintf(out, "<td>%.0f</td>", m->n);
    share_cell(out, m, at->seeds);
    milliseconds(out, m->p50);
    milliseconds(out, m->p95);
    milliseconds(out, m->p99);
    mo_page_number(out, m->n > 0 ? m->answered_s : -1, 1);
    fprintf(out, "<td>%.0f</td>", m->shed);
    if (failures) fprintf(out, "<td>%.0f</td>", m->failed);
    fprintf(out, "<td>%.0f</td>", m->unanswered);
    if (m->wait_p99 < 0)
        fprintf(out, "<td>&ndash;</td>");
    else
        fprintf(out, "<td>%.*f, %.*f</td>", digits, m->wait_p50, digits, m->wait_p99);
}

/* --- a table ------------------------------------------------------------------------------------------ */
struct table {
    const struct mo_page_view *view;
    double load;
    const char *systems[MO_CURVES]; /* that saw the load and answer queries; a bound does not */
    int n;
    bool failures;   /* a column for them */
    bool unanswered; /* by some system */
};

static void open_table(const struct mo_page_view *view, double load, struct table *t) {
    struct mo_merged_load at;
    *t = (struct table){.view = view, .load = load};
    for (int c = 0; c < view->n_curves; c++) {
        const struct mo_curve *one = &view->curves[c];
        if (!answers(one) || !mo_merge_load(view->document, one->name, load, &at)) continue;
        t->systems[t->n++] = one->name;
        t->failures |= at.all.failed > 0;
        t->unanswered |= at.all.unanswered > 0;
    }
}

/* One system's row of a tenant; the first has the tenant's name before it. */
static void row(FILE *out, const struct table *t, const json_t *tenant, int system) {
    static const struct mo_merged none = {.p50 = -1, .p95 = -1, .p99 = -1, .wait_p50 = -1, .wait_p99 = -1};
    const char *name = mo_json_text(tenant, "name");
    const struct mo_merged *m = &none;
    struct mo_merged_load at;
    mo_merge_load(t->view->document, t->systems[system], t->load, &at);
    for (int i = 0; i < at.n_tenants; i++)
        if (!strcmp(at.tenants[i].name, name)) m = &at.tenants[i];
    fprintf(out, system ? "<tr>" : "<tr class=\"first\">");
    if (!system) {
        fprintf(out, "<td class=\"tenant\" rowspan=\"%d\" title=\"", t->n);
        mo_html_text(out, mo_json_text(tenant, "given_name"));
        fprintf(out, "\">");
        mo_html_text(out, name);
        fprintf(out, "</td>");
    }
    mo_page_system_cell(out, t->systems[system]);
    cells(out, m, &at, t->failures);
    fprintf(out, "</tr>\n");
}

static void draw_table(FILE *out, const struct table *t) {
    size_t i;
    json_t *tenant;
    fprintf(out,
            "<div class=\"card\"><table class=\"dense\">\n<tr><th>tenant</th><th class=\"l\">system</th>"
            "<th>queries</th><th>in time,<br>95 %% interval</th><th>p50,<br>ms</th><th>p95,<br>ms</th>"
            "<th>p99,<br>ms</th><th>answers<br>a second</th><th>shed</th>%s<th>unanswered</th>"
            "<th>queueing delay,<br>p50, p99, ms</th></tr>\n",
            t->failures ? "<th>failed</th>" : "");
    json_array_foreach(mo_page_tenant_list(t->view), i, tenant) {
        const bool scored = mo_doc_has_target(t->view->document, mo_json_text(tenant, "name"));
        for (int s = 0; scored && s < t->n; s++)
            row(out, t, tenant, s);
    }
    fprintf(out, "</table></div>\n");
}

/* Tenants that no query came for: nothing is known of them, and "every tenant" cannot be said. */
static void silent(FILE *out, const struct table *t) {
    struct mo_merged_load at;
    int named = 0;
    if (!t->n || !mo_merge_load(t->view->document, t->systems[0], t->load, &at)) return;
    for (int i = 0; i < at.n_tenants; i++) {
        if (at.tenants[i].n > 0 || !mo_doc_has_target(t->view->document, at.tenants[i].name)) continue;
        fprintf(out,
                named++ ? ", " : "<p class=\"soft\">No query came in this time (a longer --seconds helps): ");
        mo_html_text(out, at.tenants[i].name);
    }
    if (named) fprintf(out, ".</p>\n");
}

/* Who stopped early there, fell behind, and was not measured. */
static void remarks(FILE *out, const struct mo_page_view *view, double load) {
    enum { STOPPED, BEHIND, ABSENT, REMARKS };
    static const char *const heads[REMARKS] = {
        [STOPPED] = "Stopped early, when the goal was out of reach: ",
        [BEHIND] = "Fell behind, with overdue queries unanswered at the end: ",
        [ABSENT] = "Not measured at this load: "};
    struct mo_merged_load at;
    for (int remark = 0; remark < REMARKS; remark++) {
        int named = 0;
        for (int c = 0; c < view->n_curves; c++) {
            if (!answers(&view->curves[c])) continue;
            bool there = mo_merge_load(view->document, view->curves[c].name, load, &at) > 0;
            const bool holds[REMARKS] = {there && at.stopped, there && at.behind, !there};
            if (!holds[remark]) continue;
            fprintf(out, "%s%s", named ? ", " : "<p class=\"soft\">", named ? "" : heads[remark]);
            named++;
            mo_html_text(out, view->curves[c].name);
        }
        if (named) fprintf(out, ".</p>\n");
    }
}

void mo_page_tenants(FILE *out, const struct mo_page_view *view) {
    double loads[MO_SHOWN_LOADS];
    struct table t;
    int n = mo_page_loads_shown(view, loads);
    for (int i = 0; i < n; i++) {
        open_table(view, loads[i], &t);
        if (!t.n) continue;
        if (i)
            fprintf(out, "<details><summary>Tenants at load %.2f</summary>\n", loads[i]);
        else
            fprintf(out, "<h2>Tenants at load %.2f</h2>\n", loads[i]);
        draw_table(out, &t);
        if (t.unanswered)
            fprintf(out,
                    "<p class=\"soft\">An unanswered query enters the percentiles with the time that it had "
                    "waited when the run ended.</p>\n");
        silent(out, &t);
        remarks(out, view, loads[i]);
        if (i) fprintf(out, "</details>\n");
    }
}
