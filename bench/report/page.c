/* SPDX-License-Identifier: Apache-2.0
 * page.c - what all pages share: style, head and foot, cells, the file; see report_page.h.
 *
 * A page is self-contained: no script, no font, no picture from elsewhere.  It fits itself to the width of
 * the window, and to light or dark as the reader's system is set. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "bench/report/plot.h"
#include "bench/report/report_page.h"
#include "bench/report/series.h"
#include "runtime/base/output.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>\n"
    ":root{--ink:#1c2430;--soft:#55637a;--grid:#e0e6ee;--card:#fff;--page:#f5f7fa;--bad:#b3261e;"
    "--bad-page:#fdecea;color-scheme:light dark}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6ebf2;--soft:#a3b0c2;--grid:#2c3542;--card:#1a212b;"
    "--page:#12171e;--bad:#ff8a80;--bad-page:#3a1d1b}}\n"
    "*{box-sizing:border-box}\n"
    "body{font:15px/1.45 system-ui,'DejaVu Sans',sans-serif;color:var(--ink);background:var(--page);"
    "margin:0 auto;max-width:1720px;padding:20px clamp(12px,2vw,32px)}\n"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:30px 0 8px}h3{font-size:14px;margin:2px 0 6px}"
    "p{margin:4px 0;color:var(--soft);overflow-wrap:anywhere}\n"
    ".answer{font-size:clamp(19px,1.9vw,27px);line-height:1.3;font-weight:600;color:var(--ink);"
    "margin:14px 0 6px}.also{font-size:16px;color:var(--ink)}\n"
    ".bad{color:var(--bad);background:var(--bad-page);border:1px solid var(--bad);border-radius:8px;"
    "padding:8px 12px;font-weight:600}\n"
    ".row{display:grid;gap:14px;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr))}\n"
    ".row.small{grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr))}\n"
    ".row.small svg{max-width:620px}\n"
    ".card{background:var(--card);border:1px solid var(--grid);border-radius:8px;padding:10px;"
    "overflow-x:auto;min-width:0}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}"
    "td,th{padding:3px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}\n"
    "td:first-child,th:first-child,.l{text-align:left}th{color:var(--soft);font-weight:600;font-size:13px;"
    "vertical-align:bottom}\n"
    ".wrap{white-space:normal;overflow-wrap:anywhere}.soft{color:var(--soft);font-size:13px}"
    "td.tenant{vertical-align:top;font-weight:600}tr.first td{border-top:2px solid var(--grid)}"
    "td.low{color:var(--bad)}\n"
    ".dense td,.dense th{padding:3px 7px;font-size:13.5px}.dense .soft{font-size:12px}\n"
    "details{margin-top:10px}summary{cursor:pointer;color:var(--soft);font-weight:600}\n"
    "svg{display:block;width:100%;height:auto}svg text{font:11px system-ui,'DejaVu Sans',sans-serif;"
    "fill:var(--soft)}svg .t{font-size:13px;font-weight:600;fill:var(--ink)}\n"
    ".g{stroke:var(--grid)}.m{stroke:var(--ink);stroke-dasharray:2 3}.f{fill:none;stroke:var(--grid)}\n"
    ".k{display:inline-block;width:18px;height:4px;border-radius:2px;margin:0 6px 3px 0}\n"
    ".legend span{margin-right:18px;white-space:nowrap;font-size:13px}.beyond{font-size:12px}"
    ".beyond span{margin-right:12px;display:inline-block}\n"
    "@media (max-width:640px){.about{display:none}.wide svg{min-width:480px}td,th{padding:3px "
    "6px}body{font-size:14px}}\n"
    "</style>\n";

void mo_page_begin(FILE *out, const char *title, const char *about) {
    fprintf(out, "%s<title>moire: ", head);
    mo_html_text(out, title);
    fprintf(out, "</title></head><body>\n<h1>");
    mo_html_text(out, title);
    fprintf(out, "</h1><p>");
    mo_html_text(out, about);
    fprintf(out, "</p>\n");
}

void mo_page_answer(FILE *out, const char *sentence, bool first) {
    fprintf(out, first ? "<p class=\"answer\">" : "<p class=\"also\">");
    mo_html_text(out, sentence);
    fprintf(out, "</p>\n");
}

void mo_page_lines(FILE *out, json_t *lines) {
    json_t *line;
    size_t i;
    json_array_foreach(lines, i, line) mo_page_answer(out, json_string_value(line), i == 0);
    json_decref(lines);
}

void mo_page_end(FILE *out) {
    fprintf(out, "</body></html>\n");
}

/* --- cells -------------------------------------------------------------------------------------------- */
void mo_page_swatch(FILE *out, const char *system) {
    struct mo_series s = mo_series_of(system);
    if (s.dashed)
        fprintf(out,
                "<i class=\"k\" style=\"background:linear-gradient(90deg,%s 7px,transparent 7px 11px,%s "
                "11px)\"></i>",
                s.colour, s.colour);
    else
        fprintf(out, "<i class=\"k\" style=\"background:%s\"></i>", s.colour);
}

void mo_page_system_cell(FILE *out, const char *system) {
    fprintf(out, "<td class=\"l\">");
    mo_page_swatch(out, system);
    mo_html_text(out, system);
    fprintf(out, "</td>");
}

void mo_page_legend(FILE *out, const struct mo_page_view *view, bool with_bounds) {
    fprintf(out, "<p class=\"legend\">");
    for (int i = 0; i < view->n_curves; i++) {
        if (!with_bounds && !mo_series_has_latency(view->curves[i].name)) continue;
        fprintf(out, "<span>");
        mo_page_swatch(out, view->curves[i].name);
        mo_html_text(out, view->curves[i].name);
        fprintf(out, "</span> ");
    }
    fprintf(out, "</p>\n");
}

void mo_page_number(FILE *out, double value, int digits) {
    if (value < 0)
        fprintf(out, "<td>&ndash;</td>");
    else
        fprintf(out, "<td>%.*f</td>", digits, value);
}

void mo_page_interval(FILE *out, const double interval[2]) {
    const int digits = interval[1] - interval[0] < 0.03;
    fprintf(out, "%.*f to %.*f", digits, 100 * interval[0], digits, 100 * interval[1]);
}

/* --- the file ----------------------------------------------------------------------------------------- */
int mo_page_write(const struct mo_env *env, void (*draw)(FILE *out, const void *what), const void *what,
                  const char *path, moire_error *err) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    int code = out ? MOIRE_OK : MOIRE_ENOMEM;
    if (out) {
        draw(out, what);
        bool bad = ferror(out) != 0;
        if (fclose(out) || bad) code = MOIRE_ENOMEM;
    }
    code = code ? mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path)
                : mo_output_write(env, path, text, n, err);
    free(text);
    return code;
}
