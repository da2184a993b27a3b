/* SPDX-License-Identifier: Apache-2.0
 * plot.c - line charts as inline SVG; see plot.h. */
#include <math.h>
#include "bench/report/plot.h"

enum { LEFT = 52, RIGHT = 22, TOP = 26, BOTTOM = 38, TICKS = 6 };

void mo_html_text(FILE *out, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '<' || *p == '>' || *p == '&' || *p == '"' || *p == '\'')
            fprintf(out, "&#%d;", *p);
        else
            fputc(*p < 32 || *p == 127 ? ' ' : *p, out);
    }
}

const char *mo_plot_colour(int i) {
    static const char *const colours[] = {"#d62f4b", "#1f7ae0", "#159a5b", "#e08a00", "#8a4fd0", "#0aa2b4",
                                          "#c2519c", "#7a8a12", "#8b5a3c", "#5c6b80", "#3f51b5", "#b0413e"};
    return colours[(unsigned)i % (sizeof colours / sizeof colours[0])];
}

static double clip(double v, double lo, double hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

static double at_x(const struct mo_plot *p, double x) {
    return LEFT + (clip(x, p->x0, p->x1) - p->x0) / (p->x1 - p->x0) * (p->width - LEFT - RIGHT);
}

static double at_y(const struct mo_plot *p, double y) {
    return p->height - BOTTOM -
           (clip(y, p->y0, p->y1) - p->y0) / (p->y1 - p->y0) * (p->height - TOP - BOTTOM);
}

/* A round distance that cuts `range` into about TICKS parts: 1, 2 or 5 times a power of ten. */
static double tick_step(double range) {
    double raw = range / TICKS, power = pow(10, floor(log10(raw))), f = raw / power;
    return power * (f <= 1 ? 1 : f <= 2 ? 2 : f <= 5 ? 5 : 10);
}

static void ticks(const struct mo_plot *p, bool horizontal) {
    double lo = horizontal ? p->x0 : p->y0, hi = horizontal ? p->x1 : p->y1, step = tick_step(hi - lo);
    for (int i = 0; i < 4 * TICKS; i++) {
        double v = (ceil(lo / step - 1e-9) + i) * step;
        if (v > hi + step * 1e-6) return;
        char label[32];
        if (!horizontal && p->percent_y)
            snprintf(label, sizeof label, "%.0f %%", v * 100);
        else
            snprintf(label, sizeof label, "%.6g", fabs(v) < step * 1e-6 ? 0 : v);
        if (horizontal)
            fprintf(p->out,
                    "<line class=\"g\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                    "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                    at_x(p, v), at_x(p, v), TOP, p->height - BOTTOM, at_x(p, v), p->height - BOTTOM + 14,
                    label);
        else
            fprintf(p->out,
                    "<line class=\"g\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                    LEFT, p->width - RIGHT, at_y(p, v), at_y(p, v), LEFT - 5, at_y(p, v) + 4, label);
    }
}

void mo_plot_begin(struct mo_plot *p, FILE *out) {
    p->out = out;
    if (!(p->x1 > p->x0)) p->x1 = p->x0 + 1;
    if (!(p->y1 > p->y0)) p->y1 = p->y0 + 1;
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n", p->width, p->height,
            p->width, p->height);
    fprintf(out, "<text class=\"t\" x=\"%d\" y=\"16\">", LEFT);
    mo_html_text(out, p->title);
    fprintf(out, "</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + p->width - RIGHT) / 2,
            p->height - 6);
    mo_html_text(out, p->x_label);
    fprintf(out, "</text>\n<text transform=\"translate(12,%d) rotate(-90)\" text-anchor=\"middle\">",
            (TOP + p->height - BOTTOM) / 2);
    mo_html_text(out, p->y_label);
    fprintf(out, "</text>\n");
    ticks(p, true);
    ticks(p, false);
}

void mo_plot_line(const struct mo_plot *p, const double *x, const double *y, int n, const char *colour,
                  bool dashed, bool dots, const char *name) {
    if (n <= 0) return;
    fprintf(p->out, "<g><title>");
    mo_html_text(p->out, name);
    fprintf(p->out, "</title><polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s points=\"", colour,
            dashed ? "1.4" : "2.2", dashed ? " stroke-dasharray=\"5 3\"" : "");
    for (int i = 0; i < n; i++)
        fprintf(p->out, "%.1f,%.1f ", at_x(p, x[i]), at_y(p, y[i]));
    fprintf(p->out, "\"/>");
    for (int i = 0; dots && i < n; i++)
        fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"/>", at_x(p, x[i]),
                at_y(p, y[i]), colour);
    fprintf(p->out, "</g>\n");
}

void mo_plot_bar(const struct mo_plot *p, double x, double y0, double y1, const char *colour) {
    fprintf(p->out,
            "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-opacity=\".45\"/>\n",
            at_x(p, x), at_x(p, x), at_y(p, y0), at_y(p, y1), colour);
}

/* A word beside a line goes to the side that has room for it. */
static bool right_half(const struct mo_plot *p, double x) {
    return x - p->x0 > 0.7 * (p->x1 - p->x0);
}

void mo_plot_vertical(const struct mo_plot *p, double x, const char *text) {
    if (x < p->x0 || x > p->x1) return;
    fprintf(p->out,
            "<line class=\"m\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text x=\"%.1f\" y=\"%d\"%s>",
            at_x(p, x), at_x(p, x), TOP, p->height - BOTTOM, at_x(p, x) + (right_half(p, x) ? -3 : 3),
            p->height - BOTTOM - 5, right_half(p, x) ? " text-anchor=\"end\"" : "");
    mo_html_text(p->out, text);
    fprintf(p->out, "</text>\n");
}

void mo_plot_horizontal(const struct mo_plot *p, double y, const char *text) {
    if (y < p->y0 || y > p->y1) return;
    fprintf(p->out,
            "<line class=\"m\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\">", LEFT,
            p->width - RIGHT, at_y(p, y), at_y(p, y), LEFT + 4, at_y(p, y) + 12);
    mo_html_text(p->out, text);
    fprintf(p->out, "</text>\n");
}

void mo_plot_end(const struct mo_plot *p) {
    fprintf(p->out, "<rect class=\"f\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n</svg>\n", LEFT, TOP,
            p->width - LEFT - RIGHT, p->height - TOP - BOTTOM);
}
