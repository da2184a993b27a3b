/* SPDX-License-Identifier: Apache-2.0
 * front_page.c - the page of `moire front --html`: first what the versions are worth to the whole model, then
 * layer by layer what was sampled and why it was kept or not. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/report/plot.h"
#include "bench/report/report_page.h"
#include "tools/moire/front/front_show.h"

static const char *const TABLE = "<div class=\"card\" style=\"margin-top:14px\">";
static const struct mo_plot CHART = {.width = 460, .height = 280};

static double most(double a, double b) {
    return a > b ? a : b;
}

/* --- the model ------------------------------------------------------------------------------------------ */
static void say_answer(FILE *out, const struct mo_fronts *all, const struct mo_front_model *m) {
    const int last = MO_STORE_LEVELS - 1;
    double alone = m->chosen_ns[0], single = m->single_ns[last], full = m->chosen_ns[last];
    char line[400];
    if (m->several && full < 0.9995 * single)
        snprintf(
            line, sizeof line,
            "Under full pressure the choice among versions saves %.1f %%: %.2f ms instead of %.2f ms on one "
            "core.",
            100 * (1 - full / single), full * 1e-6, single * 1e-6);
    else
        snprintf(line, sizeof line, "One version of each layer is enough: no pressure makes another faster.");
    mo_page_answer(out, line, true);
    snprintf(line, sizeof line,
             "%d of %d layer%s several versions. Without neighbours these layers take %.2f ms on one core; "
             "under full pressure, %.0f %% more.",
             m->several, m->layers, m->layers == 1 ? " has" : "s have", alone * 1e-6,
             alone > 0 ? 100 * (full / alone - 1) : 0);
    mo_page_answer(out, line, false);
    if (all->untuned) {
        snprintf(
            line, sizeof line,
            "%d layers of the model have no front and are in none of these sums: they were not tuned, or "
            "only built-in kernels run them.",
            all->untuned);
        mo_page_answer(out, line, false);
    }
}

static void draw_model_times(FILE *out, const struct mo_front_model *m) {
    struct mo_plot plot = CHART;
    double x[MO_STORE_LEVELS], chosen[MO_STORE_LEVELS], single[MO_STORE_LEVELS];
    plot.title = "time by pressure; dashed: one version";
    plot.x_label = "pressure";
    plot.y_label = "ms on one core";
    plot.x1 = 1;
    for (int k = 0; k < MO_STORE_LEVELS; k++) {
        x[k] = (double)k / (MO_STORE_LEVELS - 1);
        chosen[k] = m->chosen_ns[k] * 1e-6;
        single[k] = m->single_ns[k] * 1e-6;
        plot.y1 = most(plot.y1, 1.05 * single[k]);
    }
    mo_plot_begin(&plot, out);
    mo_plot_line(&plot, x, single, MO_STORE_LEVELS, mo_plot_colour(9), true, true, "one version a layer");
    mo_plot_line(&plot, x, chosen, MO_STORE_LEVELS, mo_plot_colour(0), false, true, "chosen by pressure");
    mo_plot_end(&plot);
}

static void draw_model_front(FILE *out, const struct mo_front_model *m) {
    struct mo_plot plot = CHART;
    double x[MO_STORE_LEVELS];
    plot.title = "front: versions chosen; blue: without pressure";
    plot.x_label = "blocking, KB (mean by time)";
    plot.y_label = "parallelism (mean by time)";
    plot.x0 = plot.y0 = INFINITY;
    for (int k = 0; k < MO_STORE_LEVELS; k++) {
        x[k] = m->block_bytes[k] / 1024;
        plot.x0 = fmin(plot.x0, 0.9 * x[k]);
        plot.y0 = fmin(plot.y0, 0.9 * m->parallelism[k]);
        plot.x1 = fmax(plot.x1, 1.1 * x[k] + 1);
        plot.y1 = fmax(plot.y1, 1.1 * m->parallelism[k] + 1);
    }
    mo_plot_begin(&plot, out);
    mo_plot_line(&plot, x, m->parallelism, MO_STORE_LEVELS, mo_plot_colour(9), true, false,
                 "as pressure rises");
    for (int k = 0; k < MO_STORE_LEVELS; k++) {
        char name[32];
        snprintf(name, sizeof name, "pressure %.1f", (double)k / (MO_STORE_LEVELS - 1));
        mo_plot_line(&plot, &x[k], &m->parallelism[k], 1, mo_plot_colour(k ? 0 : 1), false, true, name);
    }
    mo_plot_end(&plot);
}

static void table_model(FILE *out, const struct mo_front_model *m) {
    fprintf(out,
            "%s<table><tr><th>pressure</th><th>chosen, ms</th><th>one version a layer, ms</th><th>saved</th>"
            "<th>layers in another</th><th>parallelism</th><th>blocking, KB</th>"
            "<th>beyond the private cache, KB</th></tr>\n",
            TABLE);
    for (int k = 0; k < MO_STORE_LEVELS; k++)
        fprintf(out,
                "<tr><td>%.1f</td><td>%.3f</td><td>%.3f</td><td>%.1f %%</td><td>%d of %d</td><td>%.1f</td>"
                "<td>%.0f</td><td>%.0f</td></tr>\n",
                (double)k / (MO_STORE_LEVELS - 1), m->chosen_ns[k] * 1e-6, m->single_ns[k] * 1e-6,
                100 * (1 - m->chosen_ns[k] / m->single_ns[k]), m->changed[k], m->layers, m->parallelism[k],
                m->block_bytes[k] / 1024, m->l3_bytes[k] / 1024);
    fprintf(out, "</table></div>\n");
}

static void draw_model(FILE *out, const struct mo_fronts *all) {
    struct mo_front_model m = mo_front_model_of(all);
    if (!m.layers) return;
    say_answer(out, all, &m);
    fprintf(out, "<h2>The model</h2>\n<div class=\"row\"><div class=\"card\">");
    draw_model_times(out, &m);
    fprintf(out, "</div><div class=\"card\">");
    draw_model_front(out, &m);
    fprintf(out, "</div></div>\n");
    table_model(out, &m);
}

/* --- a layer -------------------------------------------------------------------------------------------- */
/* Blocking against parallelism: every sampled point small, versions joined. */
static void draw_front(FILE *out, const struct mo_store_front *f) {
    struct mo_plot plot = CHART;
    double x[MO_FRONT_POINTS], y[MO_FRONT_POINTS];
    int n = 0;
    plot.title = "sampled implementations; versions joined";
    plot.x_label = "blocking, KB";
    plot.y_label = "parallelism";
    for (int i = 0; i < f->n; i++) {
        plot.x1 = most(plot.x1, (double)f->point[i].block_bytes / 1024 * 1.1);
        plot.y1 = most(plot.y1, (double)f->point[i].parallelism_milli * 1.1e-3);
    }
    mo_plot_begin(&plot, out);
    for (int i = 0; i < f->n; i++) {
        const struct mo_store_point *p = &f->point[i];
        double px = (double)p->block_bytes / 1024, py = (double)p->parallelism_milli * 1e-3;
        mo_plot_line(&plot, &px, &py, 1, mo_plot_colour(p->state == MO_POINT_VERSION ? 0 : 9), false, true,
                     p->knobs);
        if (p->state != MO_POINT_VERSION) continue;
        int at = n++;
        for (; at > 0 && x[at - 1] > px; at--)
            x[at] = x[at - 1], y[at] = y[at - 1];
        x[at] = px, y[at] = py;
    }
    mo_plot_line(&plot, x, y, n, mo_plot_colour(0), false, true, "versions");
    mo_plot_end(&plot);
}

/* Time by pressure of everything measured at all levels; a vertical line where the next version wins. */
static void draw_times(FILE *out, const struct mo_store_front *f) {
    struct mo_plot plot = CHART;
    double x[MO_STORE_LEVELS], y[MO_STORE_LEVELS];
    plot.title = "time by pressure; dashed: covered";
    plot.x_label = "pressure";
    plot.y_label = "us on one core";
    plot.x1 = 1;
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < MO_STORE_LEVELS && f->point[i].ns[MO_STORE_LEVELS - 1] > 0; k++)
            plot.y1 = most(plot.y1, f->point[i].ns[k] * 1.05e-3);
    if (!(plot.y1 > 0)) return; /* kept for many cores only: no pressure was measured */
    mo_plot_begin(&plot, out);
    for (int i = 0, colour = 0; i < f->n; i++) {
        const struct mo_store_point *p = &f->point[i];
        bool version = p->state == MO_POINT_VERSION;
        if (!(p->ns[MO_STORE_LEVELS - 1] > 0)) continue;
        for (int k = 0; k < MO_STORE_LEVELS; k++)
            x[k] = (double)k / (MO_STORE_LEVELS - 1), y[k] = p->ns[k] * 1e-3;
        mo_plot_line(&plot, x, y, MO_STORE_LEVELS, mo_plot_colour(version ? colour++ : 9), !version, version,
                     p->knobs);
        double from = mo_front_from(f, i);
        if (version && from > 0) mo_plot_vertical(&plot, from, p->family);
    }
    mo_plot_end(&plot);
}

/* "winograd: m=6, blocks=1, ...", which may be broken between knobs. */
static void put_kernel(FILE *out, const char *family, const char *knobs) {
    fprintf(out, "<td class=\"l wrap\" style=\"width:36%%\">");
    mo_html_text(out, family);
    fprintf(out, " <span class=\"soft\">");
    for (; *knobs; knobs++) {
        char one[2] = {*knobs, 0};
        mo_html_text(out, one);
        if (*knobs == ',') fputc(' ', out);
    }
    fprintf(out, "</span></td>");
}

/* A number, or a dash when it is not known. */
static void put_number(FILE *out, bool known, double value, int digits) {
    if (known)
        fprintf(out, "<td>%.*f</td>", digits, value);
    else
        fprintf(out, "<td>&#8211;</td>");
}

static void put_why(FILE *out, const char *text) {
    fprintf(out, "<td class=\"l wrap\">");
    mo_html_text(out, text);
    fprintf(out, "</td></tr>\n");
}

static void put_refused(FILE *out, const struct mo_front_row *row) {
    for (int i = 0; i < row->n_refused && i < MO_FRONT_REFUSED; i++) {
        const struct mo_front_refused *r = &row->refused[i];
        char verdict[100];
        snprintf(verdict, sizeof verdict, "never used: %s", r->verdict);
        fprintf(out, "<tr><td>&#8211;</td>");
        put_kernel(out, r->family, r->knobs);
        for (int k = 0; k < 3; k++)
            put_number(out, false, 0, 0);
        put_why(out, verdict);
    }
    fprintf(out, "</table>");
    if (row->n_refused > MO_FRONT_REFUSED)
        fprintf(out, "<p>%d more were never used: they did not compile or computed something else.</p>",
                row->n_refused - MO_FRONT_REFUSED);
}

/* Everything that was sampled: the first version, then the others by their times without pressure. */
static void table_why(FILE *out, const struct mo_front_row *row) {
    const struct mo_store_front *f = &row->front;
    const int last = MO_STORE_LEVELS - 1;
    char why[MO_FRONT_WHY];
    fprintf(out,
            "%s<table class=\"dense\"><tr><th>#</th><th class=\"l\">kernel</th><th>us alone</th><th>us, full "
            "pressure</th><th>packed, MB</th><th class=\"l\">why it was kept or not</th></tr>\n",
            TABLE);
    for (int i = 0; i < f->n; i++) {
        const struct mo_store_point *p = &f->point[i];
        mo_front_why(row, i, why);
        fprintf(out, "<tr><td>%d</td>", i + 1);
        put_kernel(out, p->family, p->knobs);
        put_number(out, true, p->ns[0] * 1e-3, 1);
        put_number(out, p->ns[last] > 0, p->ns[last] * 1e-3, 1);
        put_number(out, row->packed_bytes[i] >= 0, (double)row->packed_bytes[i] * 1e-6, 2);
        put_why(out, why);
    }
    put_refused(out, row);
    fprintf(out, "</div>\n");
}

static void draw_layer(FILE *out, const struct mo_front_row *row) {
    int versions = mo_front_versions(&row->front);
    fprintf(out, "<h2>");
    mo_html_text(out, row->layer);
    fprintf(out, "</h2>\n<p>");
    mo_html_text(out, row->front.signature);
    fprintf(
        out,
        ": %d time%s in the model; %d kernel%s sampled, %d kept</p><div class=\"row\"><div class=\"card\">",
        row->uses, row->uses == 1 ? "" : "s", row->front.n, row->front.n == 1 ? "" : "s", versions);
    draw_front(out, &row->front);
    fprintf(out, "</div><div class=\"card\">");
    draw_times(out, &row->front);
    fprintf(out, "</div></div>\n");
    table_why(out, row);
}

static void draw_page(FILE *out, const void *what) {
    const struct mo_fronts *all = what;
    char title[256];
    const char *slash = strrchr(all->model, '/');
    snprintf(title, sizeof title, "versions of %.200s", slash ? slash + 1 : all->model);
    mo_page_begin(out, title,
                  "Pressure is what neighbours do to the shared caches: 0 alone, 1 the strongest calibrated "
                  "neighbour. moire keeps several kernels of a layer, its versions, and runs the one that is "
                  "fastest at the pressure of the moment.");
    draw_model(out, all);
    for (int i = 0; i < all->n; i++)
        draw_layer(out, &all->row[i]);
    mo_page_end(out);
}

int mo_front_html(const struct mo_env *env, const struct mo_fronts *all, const char *path, moire_error *err) {
    return mo_page_write(env, draw_page, all, path, err);
}
