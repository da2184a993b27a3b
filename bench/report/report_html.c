/* SPDX-License-Identifier: Apache-2.0
 * report_html.c - the self-contained page: no script, no font, no picture from elsewhere. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/report/plot.h"
#include "runtime/base/output.h"
#include "bench/report/report.h"
#include "bench/report/report_page.h"

enum { CDF_POINTS = 64 };

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>\n"
    ":root{--ink:#1c2430;--soft:#5c6b80;--grid:#e3e8ef;--card:#fff;--page:#f5f7fa;color-scheme:light dark}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6ebf2;--soft:#98a6ba;--grid:#2c3542;--card:#1a212b;"
    "--page:#12171e}}\n"
    "body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);margin:0 auto;"
    "max-width:1180px;padding:24px}\n"
    "h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:30px 0 8px}p{margin:4px 0;color:var(--soft)}\n"
    ".row{display:flex;flex-wrap:wrap;gap:14px}.card{background:var(--card);border:1px solid var(--grid);"
    "border-radius:8px;padding:10px;overflow-x:auto}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:4px "
    "12px;text-align:right;"
    "border-bottom:1px solid var(--grid)}\n"
    "td:first-child,th:first-child{text-align:left}th{color:var(--soft);font-weight:600;font-size:13px}\n"
    "svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}"
    "svg .t{font-size:13px;font-weight:600;fill:var(--ink)}\n"
    ".g{stroke:var(--grid)}.m{stroke:var(--ink);stroke-dasharray:2 3}.f{fill:none;stroke:var(--grid)}\n"
    ".big{font-size:30px}.k{display:inline-block;width:18px;height:4px;border-radius:2px;margin:0 6px 3px 0}"
    ".legend span{margin-right:18px;white-space:nowrap;font-size:13px}\n</style>\n";

static void legend(FILE *out, const struct mo_curve *curves, int n) {
    fprintf(out, "<p class=\"legend\">");
    for (int i = 0; i < n; i++) {
        fprintf(out, "<span><i class=\"k\" style=\"background:%s\"></i>", mo_plot_colour(i));
        mo_html_text(out, curves[i].name);
        fprintf(out, "</span>");
    }
    fprintf(out, "</p>\n");
}

static void load_cell(FILE *out, double v) {
    if (v < 0)
        fprintf(out, "<td>-</td>");
    else
        fprintf(out, "<td>%.2f</td>", v);
}

/* "4.5x": moire's policy against the best peer, the page's first number. */
static void headline(FILE *out, const struct mo_curve *curves, int n) {
    static const char *const texts[] = {"of all queries in time", "of every tenant's queries in time"};
    fprintf(out, "<div class=\"row\">\n");
    for (int every = 0; every < 2; every++) {
        double own = mo_doc_of(curves, n, "moire/moire", every), peer = mo_doc_best(curves, n, 0, every);
        if (!(own > 0) || !(peer > 0)) continue;
        fprintf(out,
                "<div class=\"card\"><b class=\"big\">%.1f&times;</b> the best peer's load<br>"
                "<p>with the goal share %s: %.2f against %.2f</p></div>\n",
                own / peer, texts[every], own, peer);
    }
    fprintf(out, "</div>\n");
}

static void max_table(FILE *out, const json_t *document, const struct mo_curve *curves, int n) {
    double goal = mo_json_number(document, "goal");
    if (!(goal > 0)) return;
    fprintf(out,
            "<h2>Highest load with %.0f %% within QoS</h2><div class=\"card\"><table><tr><th>system</th>"
            "<th>of all queries</th><th>of every tenant's</th></tr>\n",
            100 * goal);
    for (int i = 0; i < n; i++) {
        fprintf(out, "<tr><td><i class=\"k\" style=\"background:%s\"></i>", mo_plot_colour(i));
        mo_html_text(out, curves[i].name);
        fprintf(out, "</td>");
        load_cell(out, curves[i].max_overall);
        load_cell(out, curves[i].max_every);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</table></div>\n");
}

static void load_chart(FILE *out, const json_t *document, const struct mo_curve *curves, int n, bool every) {
    double most = 0.1, goal = mo_json_number(document, "goal");
    for (int i = 0; i < n; i++)
        if (curves[i].n && curves[i].load[curves[i].n - 1] > most) most = curves[i].load[curves[i].n - 1];
    struct mo_plot plot = {.title = every ? "Worst tenant" : "All queries",
                           .x_label = "load (1 = all cores busy at the fastest system's speed)",
                           .y_label = "within QoS",
                           .x1 = most * 1.03,
                           .y1 = 1.02,
                           .width = 556,
                           .height = 330,
                           .percent_y = true};
    fprintf(out, "<div class=\"card\">");
    mo_plot_begin(&plot, out);
    if (goal > 0) mo_plot_horizontal(&plot, goal, "");
    for (int i = n - 1; i >= 0; i--)
        mo_plot_line(&plot, curves[i].load, every ? curves[i].worst : curves[i].overall, curves[i].n,
                     mo_plot_colour(i), !curves[i].moire, true, curves[i].name);
    mo_plot_end(&plot);
    fprintf(out, "</div>\n");
}

/* --- latency distributions ---------------------------------------------------------------------------- */
static const json_t *tenant_of(const json_t *point, const char *name) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(point, "tenants"), i,
                       t) if (!strcmp(mo_json_text(t, "name"), name)) return t;
    return NULL;
}

/* Points of the distribution up to x_max; the last one lies on the edge of the frame. */
static int cdf(const json_t *tenant, double x_max, double *x, double *y) {
    double n = mo_json_number(tenant, "n"),
           lost = mo_json_number(tenant, "shed") + mo_json_number(tenant, "failed");
    double share = n > 0 ? (n - lost) / n : 0; /* a lost query never arrives at any latency */
    int count = 0;
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(tenant, "quantiles"), i, pair) {
        if (count == CDF_POINTS || (count && x[count - 1] >= x_max)) break;
        x[count] = json_number_value(json_array_get(pair, 1));
        y[count] = json_number_value(json_array_get(pair, 0)) * 0.01 * share;
        if (x[count] > x_max) {
            if (!count) break;
            y[count] =
                y[count - 1] + (y[count] - y[count - 1]) * (x_max - x[count - 1]) / (x[count] - x[count - 1]);
            x[count] = x_max;
        }
        count++;
    }
    return count;
}

static const json_t *first_result(const json_t *document, const char *name, double load,
                                  const json_t **point) {
    size_t i;
    json_t *result;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        if (strcmp(mo_json_text(result, "name"), name) != 0) continue;
        *point = mo_doc_point(result, load);
        if (*point) return result;
    }
    return NULL;
}

static void cdf_chart(FILE *out, const json_t *document, const json_t *target, double load,
                      const struct mo_curve *curves, int n) {
    const char *name = mo_json_text(target, "name");
    double qos = mo_json_number(target, "qos_ms"), x[CDF_POINTS], y[CDF_POINTS];
    struct mo_plot plot = {.title = name,
                           .x_label = "latency, ms",
                           .y_label = "share of queries",
                           .x1 = 2.5 * qos,
                           .y1 = 1,
                           .width = 366,
                           .height = 250,
                           .percent_y = true};
    fprintf(out, "<div class=\"card\">");
    mo_plot_begin(&plot, out);
    mo_plot_vertical(&plot, qos, "QoS");
    for (int i = n - 1; i >= 0; i--) {
        const json_t *point, *tenant;
        if (!first_result(document, curves[i].name, load, &point) || !(tenant = tenant_of(point, name)))
            continue;
        mo_plot_line(&plot, x, y, cdf(tenant, plot.x1, x, y), mo_plot_colour(i), !curves[i].moire, false,
                     curves[i].name);
    }
    mo_plot_end(&plot);
    fprintf(out, "</div>\n");
}

static void cdf_charts(FILE *out, const json_t *document, const struct mo_curve *curves, int n) {
    double load = mo_doc_common_load(document);
    size_t i;
    json_t *target;
    fprintf(out, "<h2>Latency from the scheduled arrival, at load %.2f</h2>\n", load);
    legend(out, curves, n);
    fprintf(out, "<div class=\"row\">\n");
    json_array_foreach(json_object_get(json_object_get(document, "calibration"), "tenants"), i, target)
        cdf_chart(out, document, target, load, curves, n);
    fprintf(out, "</div>\n");
}

/* --- tables ------------------------------------------------------------------------------------------- */
static void tenants_table(FILE *out, const json_t *document) {
    size_t i;
    json_t *t;
    const bool gpus = json_is_true(json_object_get(json_object_get(document, "calibration"), "gpus"));
    fprintf(out,
            "<h2>Tenants</h2><div class=\"card\"><table><tr><th>tenant</th><th>QoS, ms</th>"
            "<th>%s, ms</th></tr>\n",
            gpus ? "least time on a whole GPU or its share" : "solo on one core");
    json_array_foreach(json_object_get(json_object_get(document, "calibration"), "tenants"), i, t) {
        fprintf(out, "<tr><td>");
        mo_html_text(out, mo_json_text(t, "name"));
        fprintf(out, "</td><td>%.1f</td><td>%.2f</td></tr>\n", mo_json_number(t, "qos_ms"),
                mo_json_number(t, "solo_ms"));
    }
    fprintf(out, "</table></div>\n");
}

static void cost_table(FILE *out, const json_t *document) {
    size_t i;
    json_t *r;
    fprintf(
        out,
        "<h2>Cost</h2><div class=\"card\"><table><tr><th>system</th><th>memory, MiB</th><th>peak, MiB</th>"
        "<th>decisions</th><th>mean, &micro;s</th><th>p99, &micro;s</th><th>a query, &micro;s</th>"
        "<th>CPU outside kernels</th></tr>\n");
    json_array_foreach(json_object_get(document, "results"), i, r) {
        const json_t *m = json_object_get(r, "memory"), *d = json_object_get(r, "scheduling");
        if (!m && !d) continue;
        fprintf(out, "<tr><td>");
        mo_html_text(out, mo_json_text(r, "name"));
        fprintf(out, "</td><td>%.0f</td><td>%.0f</td>", mo_json_number(m, "rss_mib"),
                mo_json_number(m, "peak_mib"));
        if (d)
            fprintf(out, "<td>%.0f</td><td>%.2f</td><td>%.2f</td><td>%.1f</td><td>%.1f %%</td></tr>\n",
                    mo_json_number(d, "decisions"), mo_json_number(d, "mean_us"), mo_json_number(d, "p99_us"),
                    mo_json_number(d, "query_us"), 100 * mo_json_number(d, "outside_kernels"));
        else
            fprintf(out, "<td></td><td></td><td></td><td></td><td></td></tr>\n");
    }
    fprintf(out, "</table></div>\n");
}

void mo_page_begin(FILE *out, const char *title, const char *about) {
    fprintf(out, "%s<title>moire: ", head);
    mo_html_text(out, title);
    fprintf(out, "</title></head><body>\n<h1>");
    mo_html_text(out, title);
    fprintf(out, "</h1><p>");
    mo_html_text(out, about);
    fprintf(out, "</p>");
}

void mo_page_experiment(FILE *out, const json_t *document) {
    const char *key;
    json_t *v;
    fprintf(out, "<h2>Experiment</h2><div class=\"card\"><table>\n");
    json_object_foreach(json_object_get(document, "experiment"), key, v) {
        char *text =
            json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        fprintf(out, "<tr><td>");
        mo_html_text(out, key);
        fprintf(out, "</td><td style=\"text-align:left\">");
        mo_html_text(out, text ? text : json_is_string(v) ? json_string_value(v) : "");
        fprintf(out, "</td></tr>\n");
        free(text);
    }
    fprintf(out, "</table></div>\n");
}

static void page(FILE *out, const json_t *document, struct mo_curve *curves) {
    int n = mo_doc_curves(document, curves);
    mo_page_begin(out, mo_json_text(document, "scenario"), mo_json_text(document, "about"));
    mo_page_trust(out, document);
    fprintf(out,
            "<p>Open-loop arrivals, the same for every system; latency from the scheduled arrival; shed and "
            "unfinished queries are misses.</p>\n");
    headline(out, curves, n);
    max_table(out, document, curves, n);
    fprintf(out, "<h2>Within QoS against load</h2>\n");
    legend(out, curves, n);
    fprintf(out, "<div class=\"row\">\n");
    load_chart(out, document, curves, n, false);
    load_chart(out, document, curves, n, true);
    fprintf(out, "</div>\n");
    cdf_charts(out, document, curves, n);
    mo_page_choices(out, document);
    mo_page_timeline(out, document);
    tenants_table(out, document);
    cost_table(out, document);
    mo_page_experiment(out, document);
    fprintf(out, "</body></html>\n");
}

int mo_bench_write_html(const struct mo_env *env, const json_t *document, const char *path,
                        moire_error *err) {
    struct mo_curve *curves = mo_alloc(env, MO_CURVES * sizeof *curves);
    int code = curves ? mo_page_write(env, document, curves, page, path, err)
                      : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    mo_free(env, curves);
    return code;
}

int mo_page_write(const struct mo_env *env, const json_t *document, struct mo_curve *curves,
                  void (*draw)(FILE *out, const json_t *document, struct mo_curve *curves), const char *path,
                  moire_error *err) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    int code = out ? MOIRE_OK : MOIRE_ENOMEM;
    if (out) {
        draw(out, document, curves);
        bool bad = ferror(out) != 0;
        if (fclose(out) || bad) code = MOIRE_ENOMEM;
    }
    code = code ? mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path)
                : mo_output_write(env, path, text, n, err);
    free(text);
    return code;
}
