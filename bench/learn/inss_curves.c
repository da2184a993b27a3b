/* SPDX-License-Identifier: Apache-2.0
 * inss_curves.c - see inss_curves.h. */
#define _GNU_SOURCE
#include "bench/learn/inss_curves.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "bench/report/plot.h"
#include "runtime/base/output.h"

enum { WIDTH = 640, HEIGHT = 220, GAP = 16 };

static void put_csv(FILE *out, const struct mo_inss_point *points, int n) {
    fprintf(out, "episode,reward,served_pct,late_pct,temperature\n");
    for (int i = 0; i < n; i++)
        fprintf(out, "%d,%.9g,%.9g,%.9g,%.9g\n", i + 1, points[i].reward, points[i].served_pct,
                points[i].late_pct, points[i].temperature);
}

static const struct chart {
    const char *title, *label;
    size_t offset; /* of its double in struct mo_inss_point */
} charts[] = {{"reward of a model and step", "reward", offsetof(struct mo_inss_point, reward)},
              {"queries served", "%", offsetof(struct mo_inss_point, served_pct)},
              {"queries late or lost", "%", offsetof(struct mo_inss_point, late_pct)},
              {"temperature", "tau", offsetof(struct mo_inss_point, temperature)}};
enum { CHARTS = sizeof charts / sizeof *charts };

static double value(const struct chart *chart, const struct mo_inss_point *point) {
    double v;
    memcpy(&v, (const char *)point + chart->offset, sizeof v);
    return v;
}

/* Each point with as many before it as there are, MO_INSS_SMOOTH at most: their mean. */
static void smooth(const struct chart *chart, const struct mo_inss_point *points, int n, double *y) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const int of = i + 1 < MO_INSS_SMOOTH ? i + 1 : MO_INSS_SMOOTH;
        sum += value(chart, &points[i]);
        if (i >= MO_INSS_SMOOTH) sum -= value(chart, &points[i - MO_INSS_SMOOTH]);
        y[i] = sum / of;
    }
}

static void put_chart(FILE *out, int at, const double *x, const double *y, int n) {
    struct mo_plot p = {.title = charts[at].title,
                        .x_label = "episode",
                        .y_label = charts[at].label,
                        .x0 = 0,
                        .x1 = n,
                        .width = WIDTH,
                        .height = HEIGHT};
    p.y0 = p.y1 = y[0];
    for (int i = 0; i < n; i++) {
        p.y0 = fmin(p.y0, y[i]);
        p.y1 = fmax(p.y1, y[i]);
    }
    fprintf(out, "<g transform=\"translate(0,%d)\">\n", at * (HEIGHT + GAP));
    mo_plot_begin(&p, out);
    mo_plot_line(&p, x, y, n, mo_plot_colour(at), false, false, p.title);
    mo_plot_end(&p);
    fprintf(out, "</g>\n");
}

static void put_svg(FILE *out, const struct mo_inss_point *points, int n, double *x, double *y) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<style>.g{stroke:#8884}.t{font-weight:bold}</style>\n",
            WIDTH, CHARTS * (HEIGHT + GAP));
    for (int i = 0; i < n; i++)
        x[i] = i + 1;
    for (int c = 0; c < CHARTS; c++) {
        smooth(&charts[c], points, n, y);
        put_chart(out, c, x, y, n);
    }
    fprintf(out, "</svg>\n");
}

static int put_file(const struct mo_env *env, const char *policy, const char *suffix, const char *text,
                    size_t n, moire_error *err) {
    char path[MO_OUTPUT_PATH];
    if (snprintf(path, sizeof path, "%s%s", policy, suffix) >= (int)sizeof path)
        return mo_fail(err, MOIRE_EINVAL, "'%.300s': too long a path", policy);
    return mo_output_write(env, path, text, n, err);
}

int mo_inss_curves_write(const struct mo_env *env, const char *policy, const struct mo_inss_point *points,
                         int n, moire_error *err) {
    static const char *const suffix[] = {".csv", ".svg"};
    int code = MOIRE_OK;
    if (n < 1) return MOIRE_OK;
    double *xy = mo_alloc(env, 2 * (size_t)n * sizeof *xy);
    for (int i = 0; !code && i < 2; i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = xy ? open_memstream(&text, &size) : NULL;
        if (!out) {
            code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
            break;
        }
        if (i)
            put_svg(out, points, n, xy, xy + n);
        else
            put_csv(out, points, n);
        const bool failed = ferror(out);
        code = fclose(out) || failed ? mo_fail(err, MOIRE_ENOMEM, "out of memory")
                                     : put_file(env, policy, suffix[i], text, size, err);
        free(text);
    }
    mo_free(env, xy);
    return code;
}
