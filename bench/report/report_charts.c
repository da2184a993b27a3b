/* SPDX-License-Identifier: Apache-2.0
 * report_charts.c - shares against load, and distributions of latency; see report_page.h. */
#include <string.h>
#include "bench/report/plot.h"
#include "bench/report/report_page.h"
#include "bench/report/series.h"

enum { STEPS = 120 };

/* --- against load ------------------------------------------------------------------------------------- */
static void load_chart(FILE *out, const struct mo_page_view *view, bool every) {
    double most = 0.1, goal = mo_json_number(view->document, "goal");
    for (int i = 0; i < view->n_curves; i++) {
        const struct mo_curve *c = &view->curves[i];
        if (c->n && c->load[c->n - 1] > most) most = c->load[c->n - 1];
    }
    char load_label[80], mark[32];
    snprintf(load_label, sizeof load_label, "load (1 = %s)", mo_doc_load_one(view->document));
    struct mo_plot plot = {.title = every ? "Worst tenant" : "All queries",
                           .x_label = load_label,
                           .y_label = "answered in time",
                           .x1 = most * 1.03,
                           .y1 = 1.02,
                           .width = 660,
                           .height = 340,
                           .percent_y = true};
    snprintf(mark, sizeof mark, "goal %.4g %%", 100 * goal);
    fprintf(out, "<div class=\"card wide\">");
    mo_plot_begin(&plot, out);
    if (goal > 0) mo_plot_horizontal(&plot, goal, mark);
    for (int i = view->n_curves - 1; i >= 0; i--) {
        const struct mo_curve *c = &view->curves[i];
        const struct mo_series s = mo_series_of(c->name);
        const double *range = every ? c->worst_range : c->overall_range;
        for (int k = 0; k < c->n; k++)
            mo_plot_bar(&plot, c->load[k], range[2 * k], range[2 * k + 1], s.colour);
        mo_plot_line(&plot, c->load, every ? c->worst : c->overall, c->n, s.colour, s.dashed || c->limit,
                     true, c->name);
    }
    mo_plot_end(&plot);
    fprintf(out, "</div>\n");
}

void mo_page_loads(FILE *out, const struct mo_page_view *view) {
    bool curve = false;
    for (int i = 0; i < view->n_curves; i++)
        curve |= view->curves[i].n > 1;
    if (!curve) return;
    fprintf(out, "<h2>Answered in time, by load</h2>\n");
    mo_page_legend(out, view, true);
    fprintf(out, "<div class=\"row\">\n");
    load_chart(out, view, false);
    if (!mo_doc_one_tenant(view->document)) load_chart(out, view, true);
    fprintf(
        out,
        "</div>\n<p class=\"soft\">Dashed: not a policy of moire. Upright lines: %s. A curve ends where the "
        "system was measured no further.</p>\n",
        json_array_size(json_object_get(view->document, "seeds")) > 1
            ? "from the lowest to the highest seed"
            : "95 % intervals by the number of queries");
}

/* --- latency ------------------------------------------------------------------------------------------ */
static const struct mo_merged *tenant_of(const struct mo_merged_load *at, const char *name) {
    for (int i = 0; i < at->n_tenants; i++)
        if (!strcmp(at->tenants[i].name, name)) return at->tenants[i].n > 0 ? &at->tenants[i] : NULL;
    return NULL;
}

/* Names a curve that leaves the picture on the right, and says where it goes. */
static void beyond(FILE *out, const struct mo_merged *m, const char *system, double share, double edge,
                   int *named) {
    const struct {
        const char *name;
        double ms;
    } marks[] = {{"p50", m->p50}, {"p95", m->p95}, {"p99", m->p99}};
    if (share > 0.995) return;
    if (!(*named)++) fprintf(out, "<p class=\"beyond\">Later than %.4g ms, or never: ", edge);
    fprintf(out, "<span>");
    mo_page_swatch(out, system);
    mo_html_text(out, system);
    fprintf(out, " %.1f %%", 100 * (1 - share));
    for (int i = 0; i < 3; i++) {
        if (!(marks[i].ms > edge)) continue;
        fprintf(out, " (%s %.0f ms)", marks[i].name, marks[i].ms);
        break;
    }
    fprintf(out, "</span> ");
}

static void latency_chart(FILE *out, const struct mo_page_view *view, const json_t *target, double load) {
    const char *name = mo_json_text(target, "name");
    double qos = mo_json_number(target, "qos_ms"), x[STEPS + 1], y[STEPS + 1];
    struct mo_plot plot = {.title = name,
                           .x_label = "latency, ms",
                           .y_label = "share of queries",
                           .x1 = 2.5 * qos,
                           .y1 = 1,
                           .width = 400,
                           .height = 250,
                           .percent_y = true};
    struct mo_merged_load at;
    int named = 0;
    fprintf(out, "<div class=\"card\">");
    mo_plot_begin(&plot, out);
    mo_plot_vertical(&plot, qos, "target");
    for (int pass = 0; pass < 2; pass++) { /* the curves, and below the picture those that leave it */
        for (int i = 0; i < view->n_curves; i++) {
            const char *system = view->curves[pass ? i : view->n_curves - 1 - i].name;
            const struct mo_series s = mo_series_of(system);
            if (!mo_series_has_latency(system) || !mo_merge_load(view->document, system, load, &at)) continue;
            const struct mo_merged *m = tenant_of(&at, name);
            if (!m) continue;
            for (int k = 0; k <= STEPS; k++) {
                x[k] = plot.x1 * k / STEPS;
                y[k] = mo_merged_within(view->document, system, load, name, x[k]);
            }
            if (pass)
                beyond(out, m, system, y[STEPS], plot.x1, &named);
            else
                mo_plot_line(&plot, x, y, STEPS + 1, s.colour, s.dashed, false, system);
        }
        if (!pass) mo_plot_end(&plot);
    }
    fprintf(out, named ? "</p></div>\n" : "</div>\n");
}

void mo_page_latency(FILE *out, const struct mo_page_view *view) {
    double loads[MO_SHOWN_LOADS];
    size_t i;
    json_t *target;
    if (!mo_page_loads_shown(view, loads)) return;
    fprintf(out, "<h2>Latency from the scheduled arrival, at load %.2f</h2>\n", loads[0]);
    mo_page_legend(out, view, false);
    fprintf(out, "<div class=\"row small\">\n");
    json_array_foreach(mo_page_tenant_list(view), i, target) {
        if (mo_doc_has_target(view->document, mo_json_text(target, "name")))
            latency_chart(out, view, target, loads[0]);
    }
    fprintf(out, "</div>\n");
}
