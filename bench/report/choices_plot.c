/* SPDX-License-Identifier: Apache-2.0
 * choices_plot.c - fronts, pressure and blocks as inline SVG; see choices_plot.h. */
#include "bench/report/choices_plot.h"

#include <string.h>
#include "bench/data/json_read.h"
#include "bench/report/plot.h"

enum { LEVELS = 6, SMALL_W = 360, SMALL_H = 240, WIDE = 1120, LEFT = 60, TOP = 26, BARS = 110, MARKS = 34 };

const char *mo_plot_version_colour(int version) {
    static const char *const colours[] = {"#5b7fa6", "#e08a00", "#159a5b", "#8a4fd0", "#0aa2b4"};
    return colours[(unsigned)version % (sizeof colours / sizeof *colours)];
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Place of a point among the versions kept; -1: it was not. */
static int version_of(const json_t *point) {
    const json_t *v = json_object_get(point, "version");
    return json_is_integer(v) ? (int)json_integer_value(v) : -1;
}

/* --- fronts ------------------------------------------------------------------------------------------- */
static void draw_points(const struct mo_plot *plot, const json_t *points, bool kept) {
    size_t i;
    json_t *p;
    json_array_foreach((json_t *)points, i, p) {
        int version = version_of(p);
        if ((version >= 0) != kept) continue;
        double x = mo_json_number(p, "block_kib"), y = mo_json_number(p, "parallelism");
        mo_plot_line(plot, &x, &y, 1, version < 0 ? "#a9b3c0" : mo_plot_version_colour(version), false, true,
                     mo_json_text(p, "kernel"));
    }
}

/* The versions joined, in order of their blocking: the front. */
static void draw_front(const struct mo_plot *plot, const json_t *points) {
    double x[LEVELS], y[LEVELS];
    int n = 0;
    size_t i;
    json_t *p;
    json_array_foreach((json_t *)points, i, p) {
        if (version_of(p) < 0 || n == LEVELS) continue;
        double px = mo_json_number(p, "block_kib");
        int at = n++;
        for (; at > 0 && x[at - 1] > px; at--) {
            x[at] = x[at - 1];
            y[at] = y[at - 1];
        }
        x[at] = px;
        y[at] = mo_json_number(p, "parallelism");
    }
    mo_plot_line(plot, x, y, n, "#a9b3c0", true, false, "versions kept");
}

void mo_plot_front(FILE *out, const json_t *layer, const char *title) {
    const json_t *points = json_object_get(layer, "points");
    struct mo_plot plot = {.title = title,
                           .x_label = "locality: KiB of a block",
                           .y_label = "parallelism",
                           .width = SMALL_W,
                           .height = SMALL_H};
    size_t i;
    json_t *p;
    json_array_foreach((json_t *)points, i, p) {
        plot.x1 = larger(plot.x1, 1.08 * mo_json_number(p, "block_kib"));
        plot.y1 = larger(plot.y1, 1.08 * mo_json_number(p, "parallelism"));
    }
    mo_plot_begin(&plot, out);
    draw_front(&plot, points);
    draw_points(&plot, points, false);
    draw_points(&plot, points, true);
    mo_plot_end(&plot);
}

void mo_plot_front_times(FILE *out, const json_t *layer, const char *title) {
    struct mo_plot plot = {.title = title,
                           .x_label = "pressure",
                           .y_label = "us on one core",
                           .x1 = 1,
                           .width = SMALL_W,
                           .height = SMALL_H};
    double x[LEVELS], y[LEVELS], least = 0;
    size_t i, k;
    json_t *p, *us;
    for (int draw = 0; draw < 2; draw++) {
        if (draw) {
            plot.y0 = least * 0.95;
            mo_plot_begin(&plot, out);
        }
        json_array_foreach(json_object_get(layer, "points"), i, p) {
            int n = 0;
            json_array_foreach(json_object_get(p, "us"), k, us) {
                if (!json_is_number(us) || n == LEVELS) continue;
                x[n] = (double)k / (LEVELS - 1);
                y[n++] = json_number_value(us);
            }
            if (version_of(p) < 0 || n < LEVELS) continue;
            for (int j = 0; j < n && !draw; j++) {
                plot.y1 = larger(plot.y1, 1.03 * y[j]);
                if (least == 0 || y[j] < least) least = y[j];
            }
            if (draw) mo_plot_line(&plot, x, y, n, mo_plot_version_colour(version_of(p)), false, true, "");
        }
    }
    mo_plot_end(&plot);
}

/* --- pressure ----------------------------------------------------------------------------------------- */
/* Layers of a row that ran another version than their first. */
static bool adapted(const json_t *ran) {
    for (size_t v = 1; v < json_array_size(ran); v++)
        if (json_integer_value(json_array_get(ran, v)) > 0) return true;
    return false;
}

void mo_plot_pressure(FILE *out, const json_t *choices) {
    struct mo_plot plot = {.title = "Every block with a choice",
                           .x_label = "time, s",
                           .y_label = "pressure it was chosen for",
                           .x1 = mo_json_number(choices, "seconds"),
                           .y1 = 1.02,
                           .width = 640,
                           .height = 300};
    size_t i;
    json_t *row;
    mo_plot_begin(&plot, out);
    for (int other = 0; other < 2; other++)
        json_array_foreach(json_object_get(choices, "blocks"), i, row) {
            double x = json_number_value(json_array_get(row, 0)) * 1e-3,
                   y = json_number_value(json_array_get(row, 5));
            if (adapted(json_array_get(row, 7)) != (other == 1)) continue;
            mo_plot_line(&plot, &x, &y, 1, mo_plot_version_colour(other), false, true, "");
        }
    mo_plot_end(&plot);
}

/* One bar for a bin: shares of its layers by version, from the bottom; the number of blocks above. */
static void draw_bin(FILE *out, const json_t *bin, double x, double width, double top, double height) {
    const json_t *layers = json_object_get(bin, "layers");
    double sum = 0, below = 0;
    for (size_t v = 0; v < json_array_size(layers); v++)
        sum += json_number_value(json_array_get(layers, v));
    for (size_t v = 0; v < json_array_size(layers) && sum > 0; v++) {
        double share = json_number_value(json_array_get(layers, v)) / sum;
        if (share <= 0) continue;
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>version %d: "
                "%.1f %% of %.0f layers</title></rect>\n",
                x, top + height * (1 - below - share), width, height * share, mo_plot_version_colour((int)v),
                (int)v + 1, 100 * share, sum);
        below += share;
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", x + width / 2, top - 4,
            mo_json_number(bin, "blocks"));
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.1f</text>\n", x + width / 2,
            top + height + 14, mo_json_number(bin, "from"));
}

void mo_plot_bins(FILE *out, const json_t *choices) {
    const json_t *bins = json_object_get(choices, "bins");
    enum { W = 640, H = 300, X = 40, Y = 44, TALL = 210 };
    double step = (double)(W - X - 10) / (double)(json_array_size(bins) ? json_array_size(bins) : 1);
    size_t i;
    json_t *bin;
    fprintf(out,
            "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\"><text class=\"t\" x=\"%d\" "
            "y=\"16\">Versions of layers by pressure; blocks above</text>\n",
            W, H, W, H, X);
    for (int percent = 0; percent <= 100; percent += 50)
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n", X - 4,
                Y + TALL * (1 - percent * 0.01) + 4, percent);
    json_array_foreach((json_t *)bins, i, bin)
        draw_bin(out, bin, X + (double)i * step + 2, step - 4, Y, TALL);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">pressure, from</text>\n</svg>\n", W / 2,
            Y + TALL + 34);
}

/* --- blocks ------------------------------------------------------------------------------------------- */
static double at(const json_t *list, size_t i) {
    return json_number_value(json_array_get(list, i));
}

void mo_plot_blocks(FILE *out, const json_t *tenant, const char *name, double bound_ms) {
    const json_t *us = json_object_get(tenant, "one_core_us"), *begins = json_object_get(tenant, "begins"),
                 *labels = json_object_get(tenant, "labels");
    size_t n = json_array_size(us);
    double most = bound_ms * 1e3, often = 1;
    for (size_t i = 0; i < n; i++) {
        most = larger(most, at(us, i));
        often = larger(often, at(begins, i));
    }
    if (!n || !(most > 0)) return;
    double step = (double)(WIDE - LEFT - 10) / (double)n, limit = TOP + BARS * (1 - bound_ms * 1e3 / most);
    fprintf(out,
            "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\"><text class=\"t\" x=\"%d\" "
            "y=\"16\">",
            WIDE, TOP + BARS + MARKS + 20, WIDE, TOP + BARS + MARKS + 20, LEFT);
    mo_html_text(out, name);
    fprintf(out, ": its %zu layers, time on one core</text>\n", n);
    for (size_t i = 0; i < n; i++) {
        double tall = BARS * at(us, i) / most, x = LEFT + (double)i * step,
               mark = MARKS * at(begins, i) / often;
        fprintf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"#7f93ad\"><title>",
                x + 0.5, TOP + BARS - tall, larger(step - 1, 0.5), tall);
        mo_html_text(out, json_string_value(json_array_get(labels, i)));
        fprintf(out, ", layer %zu: %.0f us; %.0f blocks begin here</title></rect>\n", i, at(us, i),
                at(begins, i));
        if (mark > 0)
            fprintf(
                out,
                "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%.2f\" stroke=\"%s\" stroke-width=\"2\"/>\n", x,
                x, TOP + BARS + 2, TOP + BARS + 2 + mark, mo_plot_version_colour(1));
    }
    fprintf(out,
            "<line class=\"m\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
            "text-anchor=\"end\">%.2f ms</text>\n",
            LEFT, WIDE - 10, limit, limit, LEFT - 4, limit + 4, bound_ms);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">begins</text>\n</svg>\n", LEFT - 4,
            TOP + BARS + 16);
}
