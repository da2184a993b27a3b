/* SPDX-License-Identifier: Apache-2.0
 * tables_show.c - the document of `moire tables` as text and as a page; see tables.h. */
#include <stdio.h>
#include <string.h>
#include "bench/report/plot.h"
#include "bench/report/report_page.h"
#include "bench/sim/tables.h"

/* What the paper says of its whole system against layer-wise scheduling (ASPLOS 2022, section 5), and, of all
 * mixes or of the largest, of its parts. */
static const struct {
    const char *scenario;
    double over_layerwise;
} claims[] = {
    {"veltair-light", 1.71}, {"veltair-medium", 1.62}, {"veltair-heavy", 1.45}, {"veltair-mix", 1.68}};
static const char parts[] = "its compilation alone 1.50 (mix); latency over solo 1.1 (whole), 1.6 "
                            "(scheduling alone), 1.17 (compilation "
                            "alone); core-use gap to layerwise below 10 %, of whole models 47 %, at three "
                            "quarters of the load; 220 us a "
                            "conflict; three versions suffice for 80 % of the layers";

/* Columns: {"mean", "ci95"} objects or plain numbers of a row. */
static const struct {
    const char *title, *key;
    int digits;
} columns[] = {{"load, all", "max_load_overall", 2},
               {"every tenant", "max_load_every_tenant", 2},
               {"of bound", "of_bound_overall", 2},
               {"(every)", "of_bound_every_tenant", 2},
               {"of offline", "of_offline_overall", 2},
               {"(every)", "of_offline_every_tenant", 2},
               {"x layerwise", "over_layerwise", 2},
               {"x veltair", "over_veltair_overall", 2},
               {"(every)", "over_veltair_every_tenant", 2},
               {"latency/solo", "latency_over_solo", 2},
               {"core-use gap", "core_use_gap", 2},
               {"conflicts", "conflicts_a_query", 2},
               {"us each", "conflict_us", 0}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void cell(const json_t *row, int column, char *out, size_t n) {
    const json_t *v = json_object_get(row, columns[column].key);
    const json_t *mean = json_is_object(v) ? json_object_get(v, "mean") : v;
    const json_t *ci = json_is_object(v) ? json_object_get(v, "ci95") : NULL;
    int digits = columns[column].digits;
    if (!json_is_number(mean))
        snprintf(out, n, "-");
    else if (json_is_number(ci))
        snprintf(out, n, "%.*f+-%.*f", digits, json_number_value(mean), digits, json_number_value(ci));
    else
        snprintf(out, n, "%.*f", digits, json_number_value(mean));
}

static double claim(const json_t *piece) {
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        if (!strcmp(claims[i].scenario, mo_json_text(piece, "scenario"))) return claims[i].over_layerwise;
    return 0;
}

void mo_bench_tables_print(const json_t *document) {
    size_t i, k;
    json_t *piece, *row;
    char text[48];
    json_array_foreach(json_object_get(document, "results"), i, piece) {
        printf("\n%s, arrivals %s: highest load with %.0f %% in time\n%-14s", mo_json_text(piece, "scenario"),
               mo_json_text(piece, "arrivals"), 100 * mo_json_number(piece, "goal"), "policy");
        for (int c = 0; c < COLUMNS; c++)
            printf(" %12s", columns[c].title);
        printf("\n");
        json_array_foreach(json_object_get(piece, "rows"), k, row) {
            printf("%-14.14s", mo_json_text(row, "policy"));
            for (int c = 0; c < COLUMNS; c++) {
                cell(row, c, text, sizeof text);
                printf(" %12s", text);
            }
            printf("\n");
        }
        printf("no more than three versions chosen anywhere: %.1f %% of the layers\n",
               100 * mo_json_number(piece, "three_versions_suffice"));
        if (claim(piece) > 0)
            printf("the paper claims %.2f x layerwise for its whole system; %s\n", claim(piece), parts);
    }
}

static void piece_page(FILE *out, const json_t *piece) {
    size_t k;
    json_t *row;
    char text[48];
    fprintf(out, "<h2>");
    mo_html_text(out, mo_json_text(piece, "scenario"));
    fprintf(out, ", arrivals ");
    mo_html_text(out, mo_json_text(piece, "arrivals"));
    fprintf(out, "</h2><div class=\"card\"><table><tr><th>policy</th>");
    for (int c = 0; c < COLUMNS; c++) {
        fprintf(out, "<th>");
        mo_html_text(out, columns[c].title);
        fprintf(out, "</th>");
    }
    fprintf(out, "</tr>\n");
    json_array_foreach(json_object_get(piece, "rows"), k, row) {
        fprintf(out, "<tr><td>");
        mo_html_text(out, mo_json_text(row, "policy"));
        fprintf(out, "</td>");
        for (int c = 0; c < COLUMNS; c++) {
            cell(row, c, text, sizeof text);
            fprintf(out, "<td>%s</td>", text);
        }
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</table></div>\n");
    if (claim(piece) > 0)
        fprintf(out, "<p>The paper claims %.2f &times; layerwise for its whole system; %s.</p>\n",
                claim(piece), parts);
}

static void page(FILE *out, const void *what) {
    const json_t *document = what;
    size_t i;
    json_t *piece;
    mo_page_begin(
        out, "policies on a simulated machine",
        "Highest load with the goal's share of all queries, and of every tenant's, in time; mean over seeds "
        "and half the 95 % confidence interval. Of bound: share of a proved limit for any scheduler; of "
        "offline: of the best schedule found with all arrivals known. Core-use gap: core time a query over "
        "that "
        "of layerwise, less one, each at three quarters of its own highest load. Conflicts a query, and by "
        "how "
        "much a block is predicted to take longer for one.");
    json_array_foreach(json_object_get(document, "results"), i, piece) piece_page(out, piece);
    mo_page_experiment(out, document);
    mo_page_end(out);
}

int mo_bench_tables_html(const struct mo_env *env, const json_t *document, const char *path,
                         moire_error *err) {
    return mo_page_write(env, page, document, path, err);
}
