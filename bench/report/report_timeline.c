/* SPDX-License-Identifier: Apache-2.0
 * report_timeline.c - which core ran which block when: as SVG for the page, as a Chrome trace for Perfetto.
 *
 * A result of moire carries "timeline": {"cores": N, "blocks": [[core, tenant, query, start_us, end_us, first
 * layer, last layer, layers in another version than their first], ...], "pressure": [[us, value], ...],
 * "lanes": ["core 0", ..., "GPU 0.0", ...]} in order of time; units of GPUs are numbered behind the cores.
 * Older documents lack the last number of a block, the pressure, and the names. */
#include <stdlib.h>
#include <string.h>
#include "bench/report/plot.h"
#include "bench/report/report.h"
#include "bench/report/report_page.h"

enum { TRACK = 34, GAP = 8, TOP = 26, LEFT = 66, WIDTH = 1120 };
static const double shown_us = 400e3; /* the page shows this much of the end; the trace has all */

struct block {
    int core, tenant;
    double query, start, end, first, last, adapted;
};

static bool read_block(const json_t *row, struct block *b) {
    double v[8] = {0};
    size_t n = json_array_size(row);
    if (n != 7 && n != 8) return false;
    for (size_t i = 0; i < n; i++)
        v[i] = json_number_value(json_array_get(row, i));
    *b = (struct block){(int)v[0], (int)v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
    return b->core >= 0 && b->core < 1024 && b->tenant >= 0 && b->end >= b->start;
}

static const char *tenant_name(const json_t *document, int i) {
    const json_t *list = json_object_get(json_object_get(document, "calibration"), "tenants");
    return mo_json_text(json_array_get(list, (size_t)i), "name");
}

static double last_end(const json_t *blocks) {
    double end = 0;
    size_t i;
    json_t *row;
    struct block b;
    json_array_foreach((json_t *)blocks, i, row) if (read_block(row, &b) && b.end > end) end = b.end;
    return end;
}

static void draw_block(FILE *out, const struct mo_page_view *view, const struct block *b, double from) {
    double scale = (WIDTH - LEFT - 10) / shown_us, x = LEFT + (b->start - from) * scale;
    double w = (b->end - b->start) * scale;
    fprintf(out,
            "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"var(--card)\" "
            "stroke-width=\".4\"><title>",
            x, TOP + b->core * (TRACK + GAP), w < 0.4 ? 0.4 : w, TRACK, mo_plot_colour(b->tenant));
    mo_html_text(out, tenant_name(view->document, b->tenant));
    fprintf(out, ", query %.0f, layers %.0f-%.0f, %.0f us", b->query, b->first, b->last, b->end - b->start);
    if (b->adapted > 0) fprintf(out, ", %.0f in another version than their first", b->adapted);
    fprintf(out, "</title></rect>\n");
}

/* "core 3", or what the document calls that track. */
static const char *track_name(const json_t *timeline, int track, char out[32]) {
    const char *given = json_string_value(json_array_get(json_object_get(timeline, "lanes"), (size_t)track));
    if (given)
        snprintf(out, 32, "%s", given);
    else
        snprintf(out, 32, "core %d", track);
    return out;
}

/* Steps between 0 at the bottom of a track and 1 at its top. */
static void draw_pressure(FILE *out, const json_t *pressure, double from, double end, int y) {
    double scale = (WIDTH - LEFT - 10) / shown_us, x = LEFT, level = y + TRACK;
    size_t i;
    json_t *row;
    fprintf(out,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">pressure</text>\n<polyline fill=\"none\" "
            "stroke=\"currentColor\" points=\"",
            LEFT - 6, y + TRACK / 2 + 4);
    json_array_foreach((json_t *)pressure, i, row) {
        double at = json_number_value(json_array_get(row, 0)), p = json_number_value(json_array_get(row, 1));
        if (at > end) break;
        if (at > from) fprintf(out, "%.2f,%.1f ", x = LEFT + (at - from) * scale, level);
        level = y + TRACK * (1 - (p > 0 ? p < 1 ? p : 1 : 0));
        fprintf(out, "%.2f,%.1f ", x, level);
    }
    fprintf(out, "%.2f,%.1f\"/>\n", LEFT + (end - from) * scale, level);
}

static void draw(FILE *out, const struct mo_page_view *view, const json_t *result, const json_t *timeline) {
    const json_t *blocks = json_object_get(timeline, "blocks"),
                 *pressure = json_object_get(timeline, "pressure");
    int cores = (int)mo_json_number(timeline, "cores"), tracks = cores + (json_array_size(pressure) > 0);
    double end = last_end(blocks), from = end > shown_us ? end - shown_us : 0;
    if (cores < 1 || cores > 64 || json_array_size(blocks) == 0) return;
    fprintf(
        out,
        "<div class=\"card wide\"><svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><text class=\"t\" "
        "x=\"%d\" y=\"16\">",
        WIDTH, TOP + tracks * (TRACK + GAP) + 18, WIDTH, TOP + tracks * (TRACK + GAP) + 18, LEFT);
    mo_html_text(out, mo_json_text(result, "name"));
    fprintf(out, ", load %.2f: %.0f ms of cores and blocks</text>\n", mo_json_number(timeline, "load"),
            (end - from) * 1e-3);
    for (int c = 0; c < cores; c++) {
        char name[32];
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 6,
                TOP + c * (TRACK + GAP) + TRACK / 2 + 4);
        mo_html_text(out, track_name(timeline, c, name));
        fprintf(out, "</text>\n");
    }
    for (int ms = 0; ms <= (int)(shown_us * 1e-3); ms += 50)
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%d ms</text>\n",
                LEFT + ms * 1e3 * (WIDTH - LEFT - 10) / shown_us, TOP + tracks * (TRACK + GAP) + 10,
                ms < (int)(shown_us * 1e-3) ? "middle" : "end", ms);
    if (tracks > cores) draw_pressure(out, pressure, from, end, TOP + cores * (TRACK + GAP));
    size_t i;
    json_t *row;
    struct block b;
    json_array_foreach((json_t *)blocks, i, row) if (read_block(row, &b) && b.start >= from && b.core < cores)
        draw_block(out, view, &b, from);
    fprintf(out, "</svg></div>\n");
}

static void legend(FILE *out, const struct mo_page_view *view) {
    size_t i;
    json_t *tenant;
    fprintf(
        out,
        "<h2>Timeline</h2>\n<p>Which core ran which model when; a block's name and layers appear under the "
        "pointer. --trace writes all of it for Perfetto.</p><p class=\"legend\">");
    json_array_foreach(mo_page_tenant_list(view), i, tenant) {
        fprintf(out, "<span><i class=\"k\" style=\"background:%s\"></i>", mo_plot_colour((int)i));
        mo_html_text(out, mo_json_text(tenant, "name"));
        fprintf(out, "</span> ");
    }
    fprintf(out, "</p>\n");
}

void mo_page_timeline(FILE *out, const struct mo_page_view *view) {
    size_t i;
    json_t *result;
    bool any = false;
    json_array_foreach(json_object_get(view->document, "results"), i, result) {
        const json_t *timeline = json_object_get(result, "timeline");
        if (!timeline) continue;
        if (!any) legend(out, view);
        any = true;
        draw(out, view, result, timeline);
    }
}

/* --- Chrome trace ------------------------------------------------------------------------------------- */
static void name_threads(json_t *events, const char *process, int pid, const json_t *timeline) {
    int cores = (int)mo_json_number(timeline, "cores");
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:{s:s}}", "ph", "M", "name", "process_name",
                                            "pid", pid, "args", "name", process));
    for (int c = 0; c < cores && c < 1024; c++) {
        char name[32];
        json_array_append_new(events,
                              json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", "thread_name",
                                        "pid", pid, "tid", c, "args", "name", track_name(timeline, c, name)));
    }
}

int mo_bench_write_trace(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err) {
    json_t *events = json_array(), *result, *row;
    size_t i, k;
    json_array_foreach(json_object_get(document, "results"), i, result) {
        const json_t *timeline = json_object_get(result, "timeline");
        if (!timeline) continue;
        int pid = (int)i + 1;
        struct block b;
        name_threads(events, mo_json_text(result, "name"), pid, timeline);
        json_array_foreach(json_object_get(timeline, "blocks"), k, row) {
            if (!read_block(row, &b)) continue;
            json_array_append_new(
                events, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:I, s:I, s:I, s:I}}", "ph", "X",
                                  "name", tenant_name(document, b.tenant), "cat", "block", "pid", pid, "tid",
                                  b.core, "ts", b.start, "dur", b.end - b.start, "args", "query",
                                  (json_int_t)b.query, "first_layer", (json_int_t)b.first, "last_layer",
                                  (json_int_t)b.last, "other_versions", (json_int_t)b.adapted));
        }
        json_array_foreach(json_object_get(timeline, "pressure"), k, row) json_array_append_new(
            events, json_pack("{s:s, s:s, s:i, s:O, s:{s:O}}", "ph", "C", "name", "pressure", "pid", pid,
                              "ts", json_array_get(row, 0), "args", "pressure", json_array_get(row, 1)));
    }
    json_t *trace = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
    int code =
        trace ? mo_bench_write_json(env, trace, path, err) : mo_fail(err, MOIRE_ENOMEM, "%s: memory", path);
    json_decref(trace);
    return code;
}
