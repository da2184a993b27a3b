/* SPDX-License-Identifier: Apache-2.0
 * energy_by_load.c - watts by load as a table and as a chart; see energy_by_load.h. */
#include "bench/report/energy_by_load.h"

#include <math.h>
#include <string.h>
#include "bench/data/mean.h"
#include "bench/report/plot.h"
#include "bench/report/series.h"

/* Of a system at a load, over the seeds. */
struct at_load {
    struct mo_mean watts, joules, in_time;
};

static struct at_load look(const json_t *document, const char *system, double load) {
    struct at_load out = {0};
    size_t i;
    json_t *result;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        const json_t *point = mo_doc_point(result, load);
        if (!point || strcmp(mo_json_text(result, "name"), system) != 0) continue;
        const double watts = mo_json_number_or_nan(point, "watts");
        if (!(watts > 0)) continue;
        mo_mean_add_known(&out.watts, watts);
        mo_mean_add_known(&out.joules, mo_json_number_or_nan(point, "joules_query"));
        mo_mean_add_known(&out.in_time, mo_json_number_or_nan(point, "overall"));
    }
    return out;
}

/* Watts a load of 1 would take on a proportional machine; 0 = no watts are known. */
static double proportional(const json_t *document, const struct mo_curve *curves, int n) {
    for (int i = 0; i < n; i++) {
        const struct mo_curve *c = &curves[i];
        const struct at_load top = c->n ? look(document, c->name, c->load[c->n - 1]) : (struct at_load){0};
        if (top.watts.n && c->load[c->n - 1] > 0) return top.watts.mean / c->load[c->n - 1];
    }
    return 0;
}

/* --- the terminal --------------------------------------------------------------------------------------- */
static void text_curve(FILE *out, const json_t *document, const struct mo_curve *c, double whole) {
    for (int k = 0; k < c->n; k++) {
        const struct at_load at = look(document, c->name, c->load[k]);
        if (!at.watts.n) continue;
        fprintf(out, "%-5.2f %-28.28s %10.1f %12.4g %12.1f %+22.1f\n", c->load[k], c->name, at.watts.mean,
                at.joules.mean, 100 * at.in_time.mean,
                100 * (at.watts.mean / (whole * fmax(c->load[k], 1e-9)) - 1));
    }
}

void mo_text_energy(FILE *out, const struct mo_page_view *view) {
    const double whole = proportional(view->document, view->curves, view->n_curves);
    if (!(whole > 0)) return;
    fprintf(out, "\n%-5s %-28s %10s %12s %12s %22s\n", "load", "system", "watts", "J a query", "in time, %",
            "over proportional, %");
    for (int i = 0; i < view->n_curves; i++)
        text_curve(out, view->document, &view->curves[i], whole);
    fprintf(out, "watts are modelled, by the machine file; proportional: from 0 W to what the first system "
                 "draws at its highest load\n");
}

/* --- the page ------------------------------------------------------------------------------------------- */
static void draw(const struct mo_plot *plot, const json_t *document, const struct mo_curve *c) {
    const struct mo_series s = mo_series_of(c->name);
    double x[MO_CURVE_POINTS], y[MO_CURVE_POINTS];
    int n = 0;
    for (int k = 0; k < c->n; k++) {
        const struct at_load at = look(document, c->name, c->load[k]);
        if (!at.watts.n) continue;
        x[n] = c->load[k];
        y[n++] = at.watts.mean;
    }
    mo_plot_line(plot, x, y, n, s.colour, s.dashed, true, c->name);
}

static void chart(FILE *out, const struct mo_page_view *view, double whole) {
    double most = 0.1, watts = 0;
    for (int i = 0; i < view->n_curves; i++)
        for (int k = 0; k < view->curves[i].n; k++) {
            const double load = view->curves[i].load[k];
            most = fmax(most, load);
            watts = fmax(watts, look(view->document, view->curves[i].name, load).watts.mean);
        }
    struct mo_plot plot = {.title = "Energy-proportionality curve",
                           .x_label = "load",
                           .y_label = "watts, modelled",
                           .x1 = 1.03 * most,
                           .y1 = 1.05 * watts,
                           .width = 660,
                           .height = 340};
    fprintf(out, "<div class=\"card wide\">");
    mo_plot_begin(&plot, out);
    mo_plot_line(&plot, (double[]){0, most}, (double[]){0, whole * most}, 2, "#999", true, false,
                 "proportional");
    for (int i = view->n_curves - 1; i >= 0; i--)
        draw(&plot, view->document, &view->curves[i]);
    mo_plot_end(&plot);
    fprintf(out, "</div>\n");
}

static void rows(FILE *out, const struct mo_page_view *view, const struct mo_curve *c) {
    for (int k = 0; k < c->n; k++) {
        const struct at_load at = look(view->document, c->name, c->load[k]);
        if (!at.watts.n) continue;
        fprintf(out, "<tr><td>%.2f</td>", c->load[k]);
        mo_page_system_cell(out, c->name);
        fprintf(out, "<td>%.1f</td><td>%.4g</td><td>%.1f %%</td></tr>\n", at.watts.mean, at.joules.mean,
                100 * at.in_time.mean);
    }
}

void mo_page_energy(FILE *out, const struct mo_page_view *view) {
    const double whole = proportional(view->document, view->curves, view->n_curves);
    if (!(whole > 0)) return;
    fprintf(out, "<h2>Energy, by load</h2>\n");
    mo_page_legend(out, view, true);
    fprintf(out, "<div class=\"row\">\n");
    chart(out, view, whole);
    fprintf(out, "<div class=\"card\"><table class=\"dense\"><tr><th>load</th><th class=\"l\">system</th>"
                 "<th>watts</th><th>J a query</th><th>in time</th></tr>\n");
    for (int i = 0; i < view->n_curves; i++)
        rows(out, view, &view->curves[i]);
    fprintf(out, "</table></div></div>\n<p class=\"soft\">Modelled, by the power that the machine file "
                 "says.</p>\n");
}
