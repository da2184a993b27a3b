/* SPDX-License-Identifier: Apache-2.0
 * plot.h - line charts as inline SVG, and text that is safe inside HTML.
 *
 * Output goes to a stream (open_memstream); the caller checks it once at the end. */
#ifndef MO_BENCH_PLOT_H
#define MO_BENCH_PLOT_H
#include <stdbool.h>
#include <stdio.h>

struct mo_plot {
    const char *title, *x_label, *y_label;
    double x0, x1, y0, y1;
    int width, height; /* pixels of the whole chart */
    bool percent_y;    /* y ticks as percent */
    FILE *out;         /* set by mo_plot_begin */
};

/* Text with <, >, &, quotes and control characters made harmless. */
void mo_html_text(FILE *out, const char *text);
/* Colour of the i-th of things that have no name of their own (series.h has those of systems), fit for light
 * and dark pages. */
const char *mo_plot_colour(int i);

void mo_plot_begin(struct mo_plot *plot, FILE *out);
/* n points (x, y); values outside the frame are clipped to it. */
void mo_plot_line(const struct mo_plot *plot, const double *x, const double *y, int n, const char *colour,
                  bool dashed, bool dots, const char *name);
/* An error bar: from y0 to y1 at x. */
void mo_plot_bar(const struct mo_plot *plot, double x, double y0, double y1, const char *colour);
/* A vertical line with a word beside it, or a horizontal one. */
void mo_plot_vertical(const struct mo_plot *plot, double x, const char *text);
void mo_plot_horizontal(const struct mo_plot *plot, double y, const char *text);
void mo_plot_end(const struct mo_plot *plot);
#endif
