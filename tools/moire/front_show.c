/* SPDX-License-Identifier: Apache-2.0
 * front_show.c - fronts as table, JSON and page; see front_show.h. */
#define _GNU_SOURCE
#include "tools/moire/front_show.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/report/plot.h"
#include "runtime/base/output.h"
#include "bench/report/report_page.h"

bool mo_front_shown(const struct mo_fronts *all, const struct mo_store_point *p) {
    return all->every_point || p->state == MO_POINT_VERSION;
}

/* Versions that were only kept for many cores know no pressure: it does nothing to them as far as they tell.
 */
static double time_at(const struct mo_store_point *p, double pressure) {
    return p->ns[1] > 0 ? mo_version_ns(p->ns, pressure) : p->ns[0];
}

double mo_front_from(const struct mo_store_front *f, int version) {
    for (int step = 0; step <= 100; step++) {
        double mine = time_at(&f->point[version], step / 100.0);
        bool fastest = f->point[version].state == MO_POINT_VERSION;
        for (int i = 0; fastest && i < f->n; i++)
            if (i != version && f->point[i].state == MO_POINT_VERSION)
                fastest = mine <= time_at(&f->point[i], step / 100.0);
        if (fastest) return step / 100.0;
    }
    return -1;
}

static void from_text(double from, char out[16]) {
    if (from < 0)
        snprintf(out, 16, "-");
    else
        snprintf(out, 16, "%.2f", from);
}

/* --- table --- */
static void print_point(const struct mo_store_front *f, int i) {
    const struct mo_store_point *p = &f->point[i];
    char from[16];
    from_text(mo_front_from(f, i), from);
    printf("  %-9s %5s %9.1f %6lld %8.0f %9.0f ", mo_point_state_name(p->state), from,
           (double)p->parallelism_milli * 1e-3, (long long)p->units, (double)p->block_bytes / 1024,
           (double)p->l3_bytes / 1024);
    if (f->cores > 2) printf(" %8.1f ", p->part_ns * 1e-3);
    for (int k = 0; k < MO_STORE_LEVELS; k++)
        if (p->ns[k] > 0)
            printf(" %8.1f", p->ns[k] * 1e-3);
        else
            printf(" %8s", "-");
    printf("  %s %s\n", p->family, p->knobs);
}

void mo_front_text(const struct mo_fronts *all) {
    int layers[MO_STORE_VERSIONS + 1] = {0}, uses = 0;
    for (int i = 0; i < all->n; i++) {
        const struct mo_store_front *f = &all->row[i].front;
        int versions = mo_front_versions(f);
        layers[versions < MO_STORE_VERSIONS ? versions : MO_STORE_VERSIONS] += all->row[i].uses;
        uses += all->row[i].uses;
        printf("%s  x%d, %d version%s, share %.1f us\n", f->signature, all->row[i].uses, versions,
               versions == 1 ? "" : "s", f->share_ns * 1e-3);
        printf("  %-9s %5s %9s %6s %8s %9s ", "state", "from", "parallel", "units", "block KB", "beyond KB");
        if (f->cores > 2) printf(" us on %-3d", f->cores);
        printf(" us on one core at pressure 0, 0.2, 0.4, 0.6, 0.8, 1\n");
        for (int k = 0; k < f->n; k++)
            if (mo_front_shown(all, &f->point[k])) print_point(f, k);
    }
    printf("\n%d layers:", uses);
    for (int i = 0; i <= MO_STORE_VERSIONS; i++)
        if (layers[i])
            printf(" %d with %d version%s (%.0f %%)", layers[i], i, i == 1 ? "" : "s",
                   100.0 * layers[i] / uses);
    printf("; %d without a front\n", all->untuned);
}

/* --- JSON --- */
static json_t *point_json(const struct mo_store_front *f, int i) {
    const struct mo_store_point *p = &f->point[i];
    json_t *ns = json_array();
    for (int k = 0; k < MO_STORE_LEVELS; k++)
        json_array_append_new(ns, p->ns[k] > 0 ? json_real(p->ns[k]) : json_null());
    return json_pack("{ss ss ss sI sf sI sI so sf sf}", "state", mo_point_state_name(p->state), "family",
                     p->family, "knobs", p->knobs, "units", (json_int_t)p->units, "parallelism",
                     (double)p->parallelism_milli * 1e-3, "block_bytes", (json_int_t)p->block_bytes,
                     "l3_bytes", (json_int_t)p->l3_bytes, "ns", ns, "fastest_from", mo_front_from(f, i),
                     "part_ns", p->part_ns);
}

int mo_front_json(const struct mo_fronts *all, moire_error *err) {
    json_t *layers = json_array();
    for (int i = 0; i < all->n; i++) {
        const struct mo_store_front *f = &all->row[i].front;
        json_t *points = json_array();
        for (int k = 0; k < f->n; k++)
            if (mo_front_shown(all, &f->point[k])) json_array_append_new(points, point_json(f, k));
        json_array_append_new(layers,
                              json_pack("{ss si sf si so}", "layer", f->signature, "uses", all->row[i].uses,
                                        "share_ns", f->share_ns, "cores", f->cores, "points", points));
    }
    json_t *doc = json_pack("{ss si so}", "model", all->model, "untuned", all->untuned, "layers", layers);
    int rc = doc ? json_dumpf(doc, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(doc);
    putchar('\n');
    return rc ? mo_fail(err, MOIRE_EIO, "cannot write JSON") : MOIRE_OK;
}

/* --- page --- */
static double most(double a, double b) {
    return a > b ? a : b;
}

/* Blocking against parallelism: every sampled point small, versions joined. */
static void draw_front(FILE *out, const struct mo_store_front *f) {
    struct mo_plot plot = {.title = "sampled implementations; versions joined",
                           .x_label = "blocking, KB",
                           .y_label = "parallelism",
                           .width = 420,
                           .height = 260};
    double x[MO_FRONT_POINTS], y[MO_FRONT_POINTS];
    int n = 0;
    for (int i = 0; i < f->n; i++) {
        plot.x1 = most(plot.x1, (double)f->point[i].block_bytes / 1024 * 1.05);
        plot.y1 = most(plot.y1, (double)f->point[i].parallelism_milli * 1.05e-3);
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

/* Time by pressure of everything measured at all levels; versions solid, a line where the next one wins. */
static void draw_times(FILE *out, const struct mo_store_front *f) {
    struct mo_plot plot = {.title = "time on one core",
                           .x_label = "pressure",
                           .y_label = "us",
                           .x1 = 1,
                           .width = 420,
                           .height = 260};
    double x[MO_STORE_LEVELS], y[MO_STORE_LEVELS];
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < MO_STORE_LEVELS && f->point[i].ns[MO_STORE_LEVELS - 1] > 0; k++)
            plot.y1 = most(plot.y1, f->point[i].ns[k] * 1.05e-3);
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

static void draw_page(FILE *out, const struct mo_fronts *all) {
    char title[256];
    snprintf(title, sizeof title, "versions of the layers of %s", all->model);
    mo_page_begin(
        out, title,
        "Left: what the search sampled. Right: time under a calibrated neighbour; dashed: covered by "
        "the versions within 90 %; a vertical line: from there on that version is the fastest.");
    for (int i = 0; i < all->n; i++) {
        const struct mo_store_front *f = &all->row[i].front;
        fprintf(out, "<h2>");
        mo_html_text(out, f->signature);
        fprintf(out, "</h2>\n<p>%d layer%s, %d version%s</p><div class=\"row\"><div class=\"card\">",
                all->row[i].uses, all->row[i].uses == 1 ? "" : "s", mo_front_versions(f),
                mo_front_versions(f) == 1 ? "" : "s");
        draw_front(out, f);
        fprintf(out, "</div><div class=\"card\">");
        draw_times(out, f);
        fprintf(out, "</div></div>\n");
    }
    fprintf(out, "</body></html>\n");
}

int mo_front_html(const struct mo_env *env, const struct mo_fronts *all, const char *path, moire_error *err) {
    char *page = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&page, &bytes);
    if (!out) return mo_fail(err, MOIRE_ENOMEM, "out of memory drawing a page");
    draw_page(out, all);
    bool bad = ferror(out);
    bad |= fclose(out) != 0;
    int rc = bad ? mo_fail(err, MOIRE_ENOMEM, "out of memory drawing a page")
                 : mo_output_write(env, path, page, bytes, err);
    free(page);
    return rc;
}
